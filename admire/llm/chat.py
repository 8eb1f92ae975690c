"""What a chat model is, and how many questions are put to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from admire.errors import UserError
from admire.progress import show_progress

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


class ChatModel(Protocol):
    """A model that answers one prompt at a time.

    Attributes:
        name: what the user calls it.
        identity: everything that its replies depend on: server, weights.
        parallel: how many prompts may be asked at the same time.
    """

    name: str
    identity: str
    parallel: int

    def ask(
        self, prompt: str, *, temperature: float = 0.0, max_tokens: int = 64, seed: int = 0
    ) -> str:
        """Answer the prompt.

        Raises:
            UserError: the model cannot be reached, does not exist, or keeps failing.
        """
        ...


def ask_each(
    question: Callable[[Thing], Answer],
    things: Sequence[Thing],
    llm: ChatModel,
    what: str,
    *,
    called: Callable[[Thing], str],
) -> list[Answer]:
    """Ask a question about each thing, several at a time if the model allows it.

    Args:
        what: what is asked for, to show the progress: "meanings".
        called: what a message calls a thing.

    Returns:
        The answers, in the things' order.

    Raises:
        UserError: a question raised one; the message names the thing.
    """

    def named(thing: Thing) -> Answer:
        try:
            return question(thing)
        except UserError as error:
            raise UserError(
                f"'{called(thing)}': {error} The answers so far are kept: run the same "
                "command again to go on.",
                *error.settings,
            ) from error

    pool = ThreadPoolExecutor(llm.parallel)
    try:
        answers = pool.map(named, things)
        return list(show_progress(answers, f"Asking {llm.name} for {what}", len(things)))
    finally:  # after an error or Ctrl-C, what has not begun is dropped
        pool.shutdown(cancel_futures=True)
