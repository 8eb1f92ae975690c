"""What admire does with data, each task in one shape: see :mod:`admire.tasks.task`."""
