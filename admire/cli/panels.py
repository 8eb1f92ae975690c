"""The help of commands with many options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from admire.cli.options import option

DAILY = (
    *("out", "report", "profile", "config", "llm", "encoder", "lang", "sense"),
    *("dry_run", "budget", "help_all"),
)
"""Options that ``--help`` shows; ``--help-all`` shows the others too."""

PANELS = {
    "Data and output": ("out", "report", "json", "lang", "images", "gold", "skip_bad"),
    "All settings at once": ("profile", "config", "like", "seed"),
    "Models": ("encoder", "caption_encoder", "head", "device", "precision"),
    "Senses and meanings": (
        *("sense", "votes", "abstain_below", "detector", "meanings", "dictionary", "prompts"),
    ),
    "Scoring": (
        *("query", "track", "texts", "gate", "contrast", "standardise"),
        *("image_weight", "caption_weight"),
    ),
    "Chat models and costs": (
        *("llm", "llm_url", "ranker", "shuffles", "image_side", "dry_run", "budget", "parallel"),
    ),
    "Scale": ("workers", "ray_address"),
}
"""What people decide, and the options that say it; one that is in no panel stands before them."""

TRAINING_DAILY = (
    *("out", "config", "encoder", "llm", "lang", "track", "objective", "query", "sts"),
    *("validation", "validation_gold", "mwe_tokens", "epochs", "folds", "help_all"),
)

TRAINING_PANELS = {
    "Data and output": (
        *("out", "json", "lang", "track", "images", "captions", "sts", "leave_out"),
        *("validation", "validation_gold", "folds", "seeds"),
    ),
    "All settings at once": ("config",),
    "Models": ("encoder", "llm", "llm_url", "device", "precision", "prompts"),
    "What is learned": (
        *("objective", "query", "instruction_format", "residual", "glosses_only", "mwe_tokens"),
        *("hidden", "output", "dropout", "last_layers", "max_length"),
    ),
    "Loss": (
        *("soft_negatives", "hard_negatives", "positive_in_denominator", "temperature"),
        *("margin", "miner_margin", "repeat", "sts_weight"),
    ),
    "Optimiser": (
        *("batch_size", "learning_rate", "token_rate", "weight_decay", "epochs", "patience"),
        "seed",
    ),
}

EVERYTHING = "admire.everything"


class Panelled(TyperCommand):
    """A command whose ``--help`` shows the options for every day, and ``--help-all`` all."""

    daily: Sequence[str] = DAILY
    panels: Mapping[str, Sequence[str]] = PANELS

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.panel_of = {name: panel for panel, names in self.panels.items() for name in names}
        places = {name: place for place, name in enumerate(self.panel_of)}
        self.params.sort(key=lambda one: places.get(one.name or "", len(places)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the options that are wanted."""
        everything = ctx.meta.get(EVERYTHING)
        for one in self.params:
            if isinstance(one, TyperOption):
                one.hidden = not everything and one.name not in self.daily
                one.rich_help_panel = self.panel_of.get(one.name or "") if everything else None
        super().format_help(ctx, formatter)


class PanelledTraining(Panelled):
    """As :class:`Panelled`, of a training."""

    daily = TRAINING_DAILY
    panels = TRAINING_PANELS


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
