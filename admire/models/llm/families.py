"""The families of chat models, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.base.choices import nearest
from admire.base.errors import UserError

if TYPE_CHECKING:
    from admire.models.llm.chat import ChatModel


def _openai(source: str, url: str | None, timeout: float, parallel: int | None) -> ChatModel:
    from admire.models.llm.openai import PARALLEL, OpenAIChat

    return OpenAIChat(source, url=url, timeout=timeout, parallel=parallel or PARALLEL)


def _gguf(source: str, url: str | None, timeout: float, parallel: int | None) -> ChatModel:
    from admire.models.llm.local import LocalChat

    return LocalChat(Path(source).expanduser())


def _embedded(source: str, url: str | None, timeout: float, parallel: int | None) -> ChatModel:
    from admire.models.llm.local import embedded_chat

    return embedded_chat()


def _recorded(source: str, url: str | None, timeout: float, parallel: int | None) -> list[Any]:
    from admire.senses.recorded import open_replies

    return [open_replies(Path(source).expanduser())]


def _run(source: str, url: str | None, timeout: float, parallel: int | None) -> list[Any]:
    from admire.runs.past_runs import open_run_replies

    return [*open_run_replies(Path(source).expanduser())]


@dataclass(frozen=True)
class Family:
    """A family of chat models.

    Attributes:
        written: how one of them is named, with a placeholder after the colon.
        open: opens it by what stands after the colon, a server's address, a time limit and how
            many questions to ask it at the same time. Recorded replies are a list, because a run
            may have asked several models; they need no cache.
    """

    written: str
    open: Callable[[str, str | None, float, int | None], ChatModel | list[ChatModel]]


FAMILIES = {
    "openai": Family("openai:MODEL", _openai),
    "gguf": Family("gguf:PATH", _gguf),
    "embedded": Family("embedded", _embedded),
    "recorded": Family("recorded:FILE", _recorded),
    "run": Family("run:FOLDER", _run),
}


def open_llm(
    name: str, *, url: str | None = None, timeout: float = 60.0, parallel: int | None = None
) -> ChatModel:
    """Open the chat model of that name, see :func:`open_llms`.

    Raises:
        UserError: it is a run that asked several; and as for :func:`open_llms`.
    """
    first, *others = open_llms(name, url=url, timeout=timeout, parallel=parallel)
    if others:
        raise UserError(
            f"'{name}' holds the replies of {1 + len(others)} chat models; here it can be one.",
            "llms",
        )
    return first


def open_llms(
    name: str, *, url: str | None = None, timeout: float = 60.0, parallel: int | None = None
) -> list[ChatModel]:
    """Open the chat models of that name: one, but for the replies of a run that asked several.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a file that llama.cpp reads, in this process;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded.open_replies`;
    - ``run:FOLDER``: what the chat models of a run said.

    Nothing is loaded or asked before the first question that is not cached; every reply is cached
    on disk. Recorded replies are read at once.

    Args:
        url: the address of a server, for ``openai:`` models.
        timeout: how many seconds a server may take for a reply.
        parallel: how many questions to ask a server at the same time; None is 8.

    Raises:
        UserError: no chat model has that name, or a file or key is missing.
    """
    from admire.models.llm.cached import CachedChat

    family, colon, source = name.partition(":")
    known = FAMILIES.get(family)
    if known and (source if ":" in known.written else not colon):
        opened = known.open(source, url, timeout, parallel)
        return opened if isinstance(opened, list) else [CachedChat(opened)]
    raise UserError(
        f"'{name}' names no chat model.{nearest(family, list(FAMILIES))} There are: "
        f"{', '.join(one.written for one in FAMILIES.values())}.",
        "llms",
    )
