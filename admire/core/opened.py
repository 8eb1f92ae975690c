"""What a process opens once and uses again: networks, servers, databases."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Opened(Generic[Thing]):
    """The things that were used last, by key. Threads may use it at the same time.

    A thing that is no longer among them ends once nobody refers to it. A forked process does not
    use what it inherits, whose threads are missing, and does not end it either.

    Args:
        most: how many things stay open.
        works: whether a thing can still be used; otherwise it is opened again.
    """

    def __init__(self, most: int, works: Callable[[Thing], bool] = lambda thing: True):
        self._most, self._works = most, works
        self._things: OrderedDict[Hashable, Thing] = OrderedDict()
        self._process, self._inherited = os.getpid(), dict[Hashable, Thing]()
        self._lock = threading.Lock()

    def get(self, key: Hashable, open_thing: Callable[[], Thing]) -> Thing:
        """Return the thing with this key; open it if it is not open."""
        with self._lock:
            if self._process != os.getpid():
                self._inherited, self._things = self._things, OrderedDict()
                self._process = os.getpid()
            thing = self._things.pop(key, None)
            if thing is None or not self._works(thing):
                while len(self._things) >= self._most:
                    self._things.popitem(last=False)
                thing = open_thing()
            self._things[key] = thing
            return thing

    def clear(self) -> None:
        """Drop all things, so that others can use their memory."""
        with self._lock:
            self._things.clear()
