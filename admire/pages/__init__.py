"""What a browser shows: reports, and the local page."""
