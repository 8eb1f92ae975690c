"""Errors, files, storage, cache, progress and workers, used by all other packages."""
