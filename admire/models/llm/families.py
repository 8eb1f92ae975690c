"""The families of chat models, and how one is opened by its name."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from admire.base.choices import nearest
from admire.base.errors import UserError

if TYPE_CHECKING:
    from admire.models.llm.chat import ChatModel

log = logging.getLogger("admire")

FAMILIES = {"openai": "openai:MODEL", "gguf": "gguf:PATH", "embedded": "embedded"}
"""How the chat models of each family are named, by what their names begin with."""

RETIRED = {
    "2026-02-17": ("chatgpt-4o-latest",),
    "2026-07-23": ("gpt-5-chat-latest", "gpt-5.1-chat-latest"),
    "2026-08-10": ("gpt-5.2-chat-latest", "gpt-5.3-chat-latest"),
    "2026-10-23": (
        *("gpt-3.5-turbo", "gpt-3.5-turbo-0125", "gpt-4", "gpt-4-0613", "gpt-4-1106-preview"),
        *("gpt-4-turbo", "gpt-4o-2024-05-13", "gpt-4.1-nano", "o1", "o1-pro", "o3-mini", "o4-mini"),
    ),
    "2026-12-11": ("gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro", "o3", "o3-pro"),
    "2027-01-14": ("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini"),
    "2027-04-01": ("gpt-5.1", "gpt-5.4-nano"),
}
"""Chat models that OpenAI's API ends, by the day, as known in November 2026. A name stands for its
dated versions, too. From https://developers.openai.com/api/docs/deprecations"""


def retired(name: str, today: date | None = None) -> str:
    """Return when OpenAI retires a chat model: "retired on 2026-10-23", "will be retired on …".

    Empty for a model that is not in :data:`RETIRED`.

    Args:
        name: as for :func:`open_llm`.
    """
    family, _, model = name.partition(":")
    if family != "openai":
        return ""
    names = {model, re.sub(r"-\d{4}-\d\d-\d\d$", "", model)}
    day = next((day for day, models in RETIRED.items() if names & {*models}), None)
    if day is None:
        return ""
    return f"{'retired' if day <= str(today or date.today()) else 'will be retired'} on {day}"


def open_llm(
    name: str,
    *,
    url: str | None = None,
    timeout: float | None = None,
    parallel: int | None = None,
    fresh: bool = False,
    asked: bool = True,
) -> ChatModel:
    """Open the chat model of that name.

    - ``embedded``: the model that comes with the extra ``embedded``;
    - ``gguf:PATH``: a file that llama.cpp reads, on this machine;
    - ``openai:MODEL``: the official API, or the compatible server at ``url`` or
      ``OPENAI_BASE_URL``.

    Nothing is loaded or asked before the first question that is not cached; every reply is cached
    on disk. A warning names a model that the official API retires.

    Args:
        url: the address of a server, for ``openai:`` models.
        timeout: how many seconds a server may take for a whole answer; None is 60.
        parallel: how many questions to ask a server at the same time; None is 8.
        fresh: whether to ask anew, and to replace the replies that were kept before.
        asked: whether it is to be asked at all; else a server's key may be missing.

    Raises:
        UserError: no chat model has that name, or a file or key is missing.
    """
    from admire.models.llm.cached import CachedChat
    from admire.models.llm.local import LocalChat, embedded_chat
    from admire.models.llm.openai import PARALLEL, TIMEOUT, OpenAIChat

    family, _, source = name.partition(":")
    if family == "openai" and source:
        server = OpenAIChat(
            source,
            url=url,
            key=None if asked else "none",
            timeout=timeout or TIMEOUT,
            parallel=parallel or PARALLEL,
        )
        when = retired(name)
        if when and server.address.official:
            log.warning(
                "%s: %s by OpenAI. Name another model, or a server that still has this one.",
                name,
                when,
            )
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
