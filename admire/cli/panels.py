"""The help of commands with many options."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from admire.cli.options import option

DAILY = (
    "out",
    "report",
    "profile",
    "config",
    "llm",
    "encoder",
    "lang",
    "sense",
    "dry_run",
    "budget",
    "help_all",
)
"""Options that ``--help`` shows; ``--help-all`` shows the others too."""

PANELS = {
    "Data and output": ("out", "report", "json", "lang", "images", "gold", "skip_bad"),
    "All settings at once": ("profile", "config", "like", "seed"),
    "Models": ("encoder", "caption_encoder", "head", "device", "precision"),
    "Senses and meanings": (
        "sense",
        "votes",
        "abstain_below",
        "detector",
        "meanings",
        "dictionary",
        "prompts",
    ),
    "Scoring": (
        "query",
        "track",
        "texts",
        "gate",
        "contrast",
        "standardise",
        "image_weight",
        "caption_weight",
    ),
    "Chat models and costs": (
        "llm",
        "llm_url",
        "ranker",
        "shuffles",
        "image_side",
        "dry_run",
        "budget",
        "parallel",
    ),
    "Scale": ("workers", "ray_address"),
}
"""What people decide, and the options that say it; one that is in no panel stands before them."""

PANEL_OF = {option: panel for panel, options in PANELS.items() for option in options}
EVERYTHING = "admire.everything"


class Panelled(TyperCommand):
    """A command whose ``--help`` shows the options for every day, and ``--help-all`` all."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        places = {name: place for place, name in enumerate(PANEL_OF)}
        self.params.sort(key=lambda one: places.get(one.name or "", len(places)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the options that are wanted."""
        everything = ctx.meta.get(EVERYTHING)
        for one in self.params:
            if isinstance(one, TyperOption):
                one.hidden = not everything and one.name not in DAILY
                one.rich_help_panel = PANEL_OF.get(one.name or "") if everything else None
        super().format_help(ctx, formatter)


def _show_everything(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[EVERYTHING] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    option(
        "Show all options, in groups, and exit.",
        "--help-all",
        callback=_show_everything,
        is_eager=True,
    ),
]
