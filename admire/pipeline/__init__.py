"""One run, to disk and back."""
