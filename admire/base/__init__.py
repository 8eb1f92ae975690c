"""What every room stands on: errors, files, storage, cache, progress, workers."""
