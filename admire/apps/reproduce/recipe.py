"""Recipes: a table of a paper as rows of settings, with the figures that the paper has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from admire.core import registry
from admire.core.choices import nearest, not_among
from admire.core.errors import UserError
from admire.core.files import read_toml
from admire.core.schema import read_as

RECIPES = Path(__file__).with_name("recipes")
"""The folder of the recipes that come with admire: one folder a paper, one file a table."""


def task_of(command: str) -> registry.Plugin:
    """Return the task that a command runs, or trains for; a ValueError if there is none."""
    commands = {plugin.name: plugin for plugin in registry.plugins("task")}
    for plugin in [*commands.values()]:
        if learns := getattr(plugin.make, "learns", ""):
            commands[f"train {learns}"] = plugin
    if command not in commands:
        raise ValueError(not_among(command, list(commands)))
    return commands[command]


Command = Annotated[str, AfterValidator(lambda command: task_of(command) and command)]
"""What a row runs: a task, or a training, after which its task measures what was made."""


class Part(BaseModel):
    """A part of a recipe; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class DataSet(Part):
    """Data that rows are measured on: a group of columns in the paper's table.

    Attributes:
        files: ends of paths below the data's folder; the items of several are scored together.
        train: the same for what a training learns from.
        settings: of the task that measures, such as lang, gold, split and query.
    """

    files: tuple[Path, ...] = ()
    train: tuple[Path, ...] = ()
    settings: dict[str, Any] = {}


class Row(Part):
    """A row of a table; its name and command are by default its parts' and the recipe's.

    Attributes:
        parts: names of groups of settings; a later group counts more.
        settings: its own settings, which count most.
        published: the paper's figures by set, in the order of the recipe's metrics.
        run: False for a system that admire cannot run, whose figures are only shown.
        why: why it cannot.
    """

    parts: tuple[str, ...] = ()
    name: str = ""
    command: Command | None = None
    settings: dict[str, Any] = {}
    published: dict[str, tuple[float, ...]] = {}
    run: bool = True
    why: str = ""


class Recipe(Part):
    """A table of a paper, or one of your own.

    Attributes:
        metrics: names of figures as the commands print them; a group other than all items stands
            before a colon, as in ``idiomatic:top1``.
        differs: where this knowingly differs from the paper, and why.
        picture: what the page draws: losses and accuracy by epoch of each head, the accuracy of
            heads whose last part varies one setting, or the figures of rows by set.
        settings: of all rows.
        parts: groups of settings by name.
    """

    paper: str
    table: str
    title: str
    command: Command
    metrics: tuple[str, ...] = Field(min_length=1)
    differs: tuple[str, ...] = ()
    picture: Literal["losses", "accuracy", "points"] | None = None
    sets: dict[str, DataSet] = Field(min_length=1)
    settings: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    rows: tuple[Row, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [self.name_of(row) for row in self.rows]
        for row, name in zip(self.rows, names, strict=True):
            if not name or names.count(name) > 1:
                raise ValueError(f"row '{name}' needs a name that no other row has")
            for kind, used, there in (
                ("part", row.parts, self.parts),
                ("set", row.published, self.sets),
            ):
                for word in used:
                    if word not in there:
                        hint = nearest(word, list(there))
                        raise ValueError(f"row '{name}': there is no {kind} '{word}'.{hint}")
            for place, figures in row.published.items():
                if len(figures) != len(self.metrics):
                    raise ValueError(
                        f"row '{name}', published.{place}: has {len(figures)} figures for "
                        f"{len(self.metrics)} metrics"
                    )
        return self

    def name_of(self, row: Row) -> str:
        """Return a row's name."""
        return row.name or ", ".join(row.parts)

    def settings_of(self, row: Row) -> dict[str, Any]:
        """Return all settings of a row."""
        values = dict(self.settings)
        for settings in (*(self.parts[part] for part in row.parts), row.settings):
            values |= settings
        return values

    def sets_of(self, row: Row) -> list[str]:
        """Return the sets that a row is measured on: those with figures, or else all."""
        return list(row.published or self.sets)


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with admire, such as ``uor-ncl:2``."""
    return sorted(f"{path.parent.name}:{path.stem}" for path in RECIPES.glob("*/*.toml"))


def read_recipe(name: str) -> Recipe:
    """Read a recipe that comes with admire, or a TOML file of your own."""
    path = Path(name)
    if path.suffix != ".toml":
        paper, _, table = name.partition(":")
        path = RECIPES / paper / f"{table}.toml"
        if name not in recipe_names():
            raise UserError(
                f"Unknown recipe '{name}'.{nearest(name, recipe_names())} "
                "`admire reproduce` lists all; a recipe of your own is a file that ends in .toml."
            )
    return read_as(Recipe, json.dumps(read_toml(path), default=str), path)
