"""The families of chat models, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class Family:
    """A family of chat models.

    Attributes:
        written: how one of them is named, with a placeholder after the colon.
        open: opens it by what stands after the colon, a server's address, a time limit and how
            many questions to ask it at the same time.
    """

    written: str
    open: Callable[[str, str | None, float, int | None], ChatModel]


FAMILIES = {
    "openai": Family("openai:MODEL", _openai),
    "gguf": Family("gguf:PATH", _gguf),
    "embedded": Family("embedded", _embedded),
}
"""The families of chat models, by what their names begin with."""


def open_llm(
    name: str, *, url: str | None = None, timeout: float = 60.0, parallel: int | None = None
) -> ChatModel:
    """Open the chat model of that name.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a file that llama.cpp reads, on this machine;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``.

    Nothing is loaded or asked before the first question that is not cached; every reply is cached
    on disk.

    Args:
        url: the address of a server, for ``openai:`` models.
        timeout: how many seconds a server may take for a reply.
        parallel: how many questions to ask a server at the same time; None is 8.

    Raises:
        UserError: no chat model has that name, or a file or key is missing.
    """
    from admire.models.llm.cached import CachedChat

    family, colon, source = name.partition(":")
    opener = FAMILIES.get(family)
    if opener and (source if ":" in opener.written else not colon):
        return CachedChat(opener.open(source, url, timeout, parallel))
    raise misnamed(name, {family: one.written for family, one in FAMILIES.items()})


def misnamed(
    name: str, forms: Mapping[str, str], kind: str = "chat model", setting: str = "llms"
) -> UserError:
    """Return the error about a name that has none of these forms."""
    close = nearest(name.partition(":")[0], list(forms))
    return UserError(
        f"'{name}' names no {kind}.{close} There are: {', '.join(forms.values())}.", setting
    )
