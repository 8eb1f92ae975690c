"""Items in, submissions out, and what sets share."""
