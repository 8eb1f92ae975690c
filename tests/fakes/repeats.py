"""Texts that repeat themselves, which make careless code take for ever, and a limit of time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import strategies as st


def repeating(*pieces: str, parts: int = 8, times: int = 300) -> st.SearchStrategy[str]:
    """Texts of a few of these pieces, each of them repeated up to so often."""
    counts = st.integers(1, 3) | st.integers(1, times)
    part = st.builds(str.__mul__, st.sampled_from(pieces), counts)
    return st.lists(part, max_size=parts).map("".join)


@contextmanager
def quickly(seconds: float = 1) -> Iterator[None]:
    """Fail where the processor works for longer on this; other processes do not count."""

    def stop(*_: object) -> None:
        raise AssertionError(f"takes more than {seconds} s of the processor")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
