"""Texts that mean the same: IdioLink's data, scores, training, and search in collections."""
