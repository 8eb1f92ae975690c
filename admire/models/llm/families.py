"""The families of chat models, and how one is opened by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from admire.base.choices import nearest
from admire.base.errors import UserError

if TYPE_CHECKING:
    from admire.models.llm.chat import ChatModel

FAMILIES = {"openai": "openai:MODEL", "gguf": "gguf:PATH", "embedded": "embedded"}
"""How the chat models of each family are named, by what their names begin with."""


def open_llm(
    name: str,
    *,
    url: str | None = None,
    timeout: float = 60.0,
    parallel: int | None = None,
    fresh: bool = False,
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
        fresh: whether to ask anew, and to replace the replies that were kept before.

    Raises:
        UserError: no chat model has that name, or a file or key is missing.
    """
    from admire.models.llm.cached import CachedChat
    from admire.models.llm.local import LocalChat, embedded_chat
    from admire.models.llm.openai import PARALLEL, OpenAIChat

    family, _, source = name.partition(":")
    if family == "openai" and source:
        server = OpenAIChat(source, url=url, timeout=timeout, parallel=parallel or PARALLEL)
        return CachedChat(server, fresh=fresh)
    if family == "gguf" and source:
        return CachedChat(LocalChat(Path(source).expanduser()), fresh=fresh)
    if name == "embedded":
        return CachedChat(embedded_chat(), fresh=fresh)
    raise misnamed(name, FAMILIES)


def misnamed(
    name: str, forms: Mapping[str, str], kind: str = "chat model", setting: str = "llms"
) -> UserError:
    """Return the error about a name that has none of these forms."""
    close = nearest(name.partition(":")[0], list(forms))
    return UserError(
        f"'{name}' names no {kind}.{close} There are: {', '.join(forms.values())}.", setting
    )
