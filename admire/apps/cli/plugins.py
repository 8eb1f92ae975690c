"""The command that lists plug-ins."""

from __future__ import annotations

from admire.apps.cli import options as opt
from admire.apps.cli.output import print_json, print_rows
from admire.core import registry
from admire.core.registry import Kind, Plugin


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
        print_json([_record(plugin) for plugin in listed])
        return
    rows = [(p.kind, p.written, p.about, "admire" if p.ships else p.distribution) for p in listed]
    print_rows(("Kind", "Name", "What it is", "From"), rows, "")


def _record(plugin: Plugin) -> dict[str, object]:
    fields = getattr(plugin.settings, "__pydantic_fields__", {})
    keys = ("kind", "name", "written", "about", "needs", "size", "licence", "languages", "citation")
    return {key: getattr(plugin, key) for key in keys} | {
        "distribution": plugin.distribution,
        "settings": {name: field.description for name, field in fields.items()},
    }
