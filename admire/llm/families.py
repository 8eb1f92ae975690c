"""Opens chat models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from admire.core import registry
from admire.core.errors import UserError

if TYPE_CHECKING:
    from admire.llm.chat import ChatModel
    from admire.llm.session import Session


def open_llm(name: str, **options: Any) -> ChatModel:
    """Open the chat model of that name, a plug-in.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a local file, run by llama.cpp;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``.

    No model is loaded before the first question that is not cached; every reply is cached on
    disk. A warning is logged for a model that the official API retires.

    Args:
        options: see :func:`open_source`.

    Raises:
        UserError: no chat model has that name, or a file or key is missing.
    """
    opened = open_source(name, **options)
    if not hasattr(opened, "ask"):
        raise UserError(f"'{name}' cannot be asked: it is not a chat model.", "llms")
    model: ChatModel = opened
    return model


def open_source(
    name: str,
    *,
    url: str | None = None,
    timeout: float | None = None,
    parallel: int | None = None,
    session: Session | None = None,
    asked: bool = True,
    dictionaries: tuple[str, ...] = ("wordnet",),
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Open a chat model by name, with a cache, or other sources of senses.

    Args:
        url: the address of a server, for ``openai:`` models.
        timeout: seconds that a server may take for a whole answer; None is 60.
        parallel: how many questions to ask a server at the same time; None is 8.
        session: asks the model; None creates one for it.
        asked: whether it will be asked at all; if not, a server's key may be missing.
        dictionaries: the names of those that ``dictionary`` looks up.
        plugins: see :attr:`admire.Settings.plugins`.
    """
    from admire.llm.session import Session

    plugin, source = registry.resolve("chat", name)
    options = {"url": url, "timeout": timeout, "parallel": parallel, "asked": asked}
    opened = plugin.open(source, dictionaries=dictionaries, plugins=plugins or {}, **options)
    return (session or Session()).bind(opened) if hasattr(opened, "ask") else opened
