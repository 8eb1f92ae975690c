"""Chat models: one protocol, one client for every OpenAI-compatible server, one embedded model."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from admire.errors import UserError
from admire.progress import track

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


class ChatModel(Protocol):
    """A model that answers one prompt at a time.

    ``name`` is the model's name as the user gives it, ``identity`` everything that its replies
    depend on (server, weights), and ``parallel`` how many asks may be under way at once.
    """

    name: str
    identity: str
    parallel: int

    def ask(
        self, prompt: str, *, temperature: float = 0.0, max_tokens: int = 64, seed: int = 0
    ) -> str:
        """Answer the prompt.

        Raises:
            UserError: the model cannot be reached, is not known, or keeps failing.
        """
        ...


def open_llm(name: str, *, url: str | None = None, timeout: float = 60.0) -> ChatModel:
    """The chat model of that name, with every reply cached on disk.

    ``openai:MODEL`` asks the official API, or the compatible server at ``url`` or
    ``OPENAI_BASE_URL``; ``gguf:PATH`` serves a file inside this process, ``embedded`` the model
    that comes with the ``embedded`` extra. Nothing is loaded or asked before the first prompt.

    Raises:
        UserError: the name is of no known family, or a file or key is missing.
    """
    from admire.llm.cached import CachedChat
    from admire.llm.local import LocalChat, embedded_chat
    from admire.llm.openai import OpenAIChat

    family, _, rest = name.partition(":")
    model: ChatModel
    if family == "openai" and rest:
        model = OpenAIChat(rest, url=url, timeout=timeout)
    elif family == "gguf" and rest:
        model = LocalChat(Path(rest).expanduser())
    elif name == "embedded":
        model = embedded_chat()
    else:
        close = difflib.get_close_matches(family, ["openai", "gguf", "embedded"], n=1)
        hint = f" Did you mean '{close[0]}'?" if close and close[0] != family else ""
        raise UserError(
            f"'{name}' names no chat model.{hint} Use openai:MODEL, gguf:PATH or embedded."
        )
    return CachedChat(model)


def ask_each(
    question: Callable[[Thing], Answer],
    things: Sequence[Thing],
    llm: ChatModel,
    what: str,
    *,
    called: Callable[[Thing], str],
) -> list[Answer]:
    """The answers in the things' order, several asked for at a time where the model allows it.

    Raises:
        UserError: the question about a thing, which is ``called`` so, raised one.
    """

    def named(thing: Thing) -> Answer:
        try:
            return question(thing)
        except UserError as error:
            raise UserError(
                f"'{called(thing)}': {error} What was answered so far is kept: run the same "
                "command again to go on."
            ) from error

    pool = ThreadPoolExecutor(llm.parallel)
    try:
        answers = pool.map(named, things)
        return list(track(answers, f"Asking {llm.name} for {what}", len(things)))
    finally:  # at an error or Ctrl-C what has not begun is dropped
        pool.shutdown(cancel_futures=True)
