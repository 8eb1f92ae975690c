"""Tables of papers, row by row."""
