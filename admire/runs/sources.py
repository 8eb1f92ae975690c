"""Opening whatever a user may name as a chat model: one that is asked, a recording or a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admire.base.errors import UserError
from admire.models.llm.families import FAMILIES, misnamed, open_llm
from admire.runs.past_runs import open_run_replies
from admire.senses.dictionaries import open_dictionaries
from admire.senses.dictionary_source import DictionarySource
from admire.senses.recorded import open_replies
from admire.senses.source import ChatSource, Source

FORMS = {name: family.written for name, family in FAMILIES.items()} | {
    "recorded": "recorded:FILE",
    "run": "run:FOLDER",
    "dictionary": "dictionary",
}


def open_source(
    name: str, *, url: str | None = None, dictionaries: Sequence[str] = ("wordnet",)
) -> Source:
    """Open the one source that a name stands for; see :func:`open_sources`.

    Raises:
        UserError: it is a run of several chat models; and as for :func:`open_sources`.
    """
    first, *others = open_sources(name, url=url, dictionaries=dictionaries)
    if others:
        raise UserError(
            f"'{name}' holds the replies of {1 + len(others)} chat models; here it can be one.",
            "llms",
        )
    return first


def open_sources(
    name: str,
    *,
    url: str | None = None,
    parallel: int | None = None,
    dictionaries: Sequence[str] = ("wordnet",),
) -> list[Source]:
    """Open what the user names: one source, or one for each chat model of an earlier run.

    - a chat model, see :func:`admire.models.llm.open_llm`;
    - ``recorded:FILE``: replies in a file, see :func:`admire.senses.recorded.open_replies`;
    - ``run:FOLDER``: what the chat models of a run said;
    - ``dictionary``: the dictionaries alone.

    Args:
        url: the address of a server, for ``openai:`` models.
        parallel: how many questions to ask a server at the same time; None is 8.

    Raises:
        UserError: nothing has that name, or a file or key is missing.
    """
    family, _, source = name.partition(":")
    if name == "dictionary":
        return [DictionarySource(name, open_dictionaries(dictionaries))]
    if family not in FORMS or (family not in FAMILIES and not source):
        raise misnamed(name, FORMS)
    if family == "recorded":
        return [open_replies(Path(source).expanduser())]
    if family == "run":
        return [*open_run_replies(Path(source).expanduser())]
    return [ChatSource(open_llm(name, url=url, parallel=parallel))]
