"""Other tasks on the same parts: collections, retrieval, sentence similarity."""
