"""What this machine has."""

import os
from functools import cache
from importlib import metadata


@cache  # reading it takes milliseconds
def installed_version(package: str) -> str:
    """Return the version of a package; a PackageNotFoundError if it is not installed."""
    return metadata.version(package)


def cores() -> int:
    """Return how many processors this process may use; ``ADMIRE_THREADS`` makes it fewer."""
    affinity = getattr(os, "sched_getaffinity", None)
    there = len(affinity(0)) if affinity else os.cpu_count() or 1
    threads = os.environ.get("ADMIRE_THREADS", "")
    return min(int(threads), there) if threads.isdecimal() and int(threads) else there
