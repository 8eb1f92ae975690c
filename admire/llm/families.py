"""Opens chat models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admire.core import registry
from admire.core.errors import UserError
from admire.llm.chat import ChatModel
from admire.llm.session import BoundModel, Session


def open_llm(name: str, **options: Any) -> ChatModel:
    """Open the chat model of that name, a plug-in, asked through a session of its own.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a local file, run by llama.cpp;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded.open_replies`;
    - ``run:FOLDER``: the replies of a run's chat model;
    - ``dictionary``: the dictionaries only.

    No model is loaded before the first question that is not cached; every reply is cached on
    disk.

    Args:
        options: see :func:`open_models`.

    Raises:
        UserError: no chat model has that name, a file or key is missing, or it is a run of several
            chat models.
    """
    model, *others = open_models(name, **options)
    if others:
        raise UserError(f"'{name}' contains the replies of {1 + len(others)} chat models.", "llms")
    return model


def open_models(
    name: str,
    *,
    url: str | None = None,
    timeout: float | None = None,
    parallel: int | None = None,
    session: Session | None = None,
    asked: bool = True,
    dictionaries: tuple[str, ...] = ("wordnet",),
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[BoundModel]:
    """Open the chat models of a name: one, or as many as an earlier run had.

    Args:
        url: the address of a server, for ``openai:`` models.
        timeout: seconds that a server may take for a whole answer; None is 60.
        parallel: how many questions to ask a server at the same time; None is 8.
        session: asks the models; None creates one for them.
        asked: whether they will be asked at all; if not, a server's key may be missing.
        dictionaries: the names of those that ``dictionary`` looks up.
        plugins: see :attr:`admire.Settings.plugins`.
    """
    plugin, source = registry.resolve("chat", name)
    session = session or Session()
    options = {"url": url, "timeout": timeout, "parallel": parallel}
    options["asked"] = asked and not session.imagines
    opened = plugin.open(source, dictionaries=dictionaries, plugins=plugins or {}, **options)
    return [session.bind(model) for model in (opened if isinstance(opened, list) else [opened])]
