"""How a row of a recipe is run: by its task, which says what the row needs, asks and measures."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from admire.apps.reproduce.recipe import Recipe, Row, task_of
from admire.core import registry
from admire.core.errors import UserError
from admire.core.options import Option, Panel
from admire.core.registry import Kind
from admire.core.schema import as_tuple
from admire.core.storage import write_whole
from admire.data.languages import base_language, named_language
from admire.data.reader import iter_items
from admire.data.rows import RowReader
from admire.data.sources import split_name
from admire.llm.address import check_named_in_file
from admire.tasks.task import Result, Task, check_entries, known_settings

KEPT = {"encoder", "device", "track", "sense", "instruction_format", "llm_url"}
"""Settings of a training that also apply where its model is measured, if the task has them."""

ITEM = {"compound", "sentence", "sentence_type"}
"""What items have that can be compared with those of another row."""

Items = Sequence[dict[str, Any]]  #: items with their figures, a row for each

Fields = Mapping[str, Option]  #: the settings that there are, by name


def naming(kind: Kind, fields: Fields) -> list[Option]:
    """Return the settings that name plug-ins of a kind; those of what is trained complete none."""
    return [field for field in fields.values() if kind in (field.completes, field.name)]


def named(kind: Kind, fields: Fields, values: Mapping[str, Any]) -> list[str]:
    """Return the plug-ins of a kind that settings name."""
    chosen = (values.get(field.name, field.default) for field in naming(kind, fields))
    return [name for value in chosen if value is not MISSING for name in as_tuple(value)]


def as_named(kind: Kind, fields: Fields, models: Sequence[str]) -> dict[str, Any]:
    """Return the setting that names plug-ins of a kind; none where there is none."""
    return {
        field.name: tuple(models) if isinstance(field.default, tuple) else models[0]
        for field in naming(kind, fields)[:1]
        if models
    }


@dataclass
class Job:
    """A row of a recipe on one of its sets.

    Attributes:
        options, own: the row's settings, and those that there are; of its training, if it trains.
        measured, fields: the set's settings, and those of the task.
        files, train: what the task measures, one after the other, and what a training learns from.
        lacking: which files are not here: "" are the data; no question depends on the others.
        metrics: the figures of the recipe, without their groups.
        instead: which models stand in for which, in words.
    """

    command: str
    task: Task
    trains: bool
    options: dict[str, Any]
    own: Fields
    measured: dict[str, Any]
    fields: Fields
    files: list[Any]
    train: list[Path]
    lacking: dict[str, list[str]]
    metrics: list[str]
    instead: str = ""

    def used(self, model: Path | None = None) -> dict[str, Any]:
        """Return the settings of the task; after a training those that use its model."""
        if not self.trains:
            return self.options | self.measured
        uses = {n: s.format(model) for n, s in self.task.uses.items() if model or "{}" not in s}
        kept = {n: self.options[n] for n in KEPT & self.fields.keys() & self.options.keys()}
        kept |= as_named("chat", self.fields, named("chat", self.own, self.options))
        return kept | uses | self.measured

    def models(self, *kinds: Kind) -> list[str]:
        """Return the names of the chat models that are asked, of the encoders, or of both."""
        effective = self.task.effective(self.used())
        models: list[str] = []
        for kind in kinds:
            if self.trains:
                models += named(kind, self.own, self.options)
            if not self.trains or kind == "chat":  # the encoder that is trained is not there yet
                models += named(kind, self.fields, effective)
        return [name for name in dict.fromkeys(models) if name != "bm25"]

    def put(self, kind: Kind, models: Sequence[str]) -> None:
        """Replace the row's own models."""
        put = as_named(kind, self.own, models)
        self.measured = {n: value for n, value in self.measured.items() if n not in put}
        self.options |= put

    def digest(self, *parts: object) -> str:
        """Return a digest of the command and of parts of what its result depends on."""
        llms = (name.partition(":") for name in self.models("chat"))
        replies = [Path(file).expanduser() for family, _, file in llms if family == "recorded"]
        text = json.dumps([self.command, *parts, *replies], default=_content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(path: Path) -> str:
    reader, plain = split_name(str(path))
    file = Path(plain)
    return reader + hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else str(path)


def prepare(recipe: Recipe, row: Row, place: str, data: str | None, where: str) -> Job:
    """Check a row's settings and find its data.

    Args:
        place: the name of the set.
        data: the folder of the data, or a benchmark on the hub.
        where: the recipe, for messages.
    """
    where, command = f"{where}, row '{recipe.name_of(row)}'", row.command or recipe.command
    group, plugin = recipe.sets[place], task_of(command)
    task, trains = plugin.open(), command != plugin.name
    fields = known_settings(task.settings)
    own = known_settings(task.training()) if trains else fields
    options = check_entries(recipe.settings_of(row), command, own, where)
    measured = _measured(group.settings, plugin.name, fields, f"{where}, set '{place}'")
    lacking = defaultdict[str, list[str]](list)
    find = partial(_find, data=data, language=group.settings.get("lang"), lacking=lacking[""])
    train = [*find(group.train)] if trains else []
    if task.takes == "benchmark":
        files: list[Any] = [Path(data) if data else find(Path("a benchmark"))]
        splits = task.splits if trains else [str(measured.get("split", "test"))]
        lacking[""] += _missing_parts(data, product(splits, task.parts))
    else:
        files = [*find(group.files)]
    if task.takes == "files" and files:
        files = [files]
    for values in (options, measured):
        check_named_in_file(values.get("llm_url"), where)
        for name, value in values.items():
            missing = lacking[name if values is options else ""]
            values[name] = _find(value, data=data, language=None, lacking=missing)
    # What a training must be told, and the row does not say, is that of the set.
    needed = {name for name, field in own.items() if field.default is MISSING} if trains else set()
    options = {name: measured[name] for name in needed & measured.keys()} | options
    metrics = list(dict.fromkeys(name.rpartition(":")[2] for name in recipe.metrics))
    data_of = files, train, lacking
    return Job(command, task, trains, options, own, measured, fields, *data_of, metrics)


def _missing_parts(data: str | None, parts: Iterable[tuple[str, str]]) -> list[str]:
    """Return which of a benchmark's files a folder lacks; one on the hub is not looked at."""
    folder = Path(data) if data and Path(data).is_dir() else None
    return [
        f"{split}/{name}.json"
        for split, name in parts
        if folder and not any(folder.glob(f"{split.partition('-')[0]}/{name}.json*"))
    ]


def _measured(values: Mapping[str, Any], task: str, fields: Fields, where: str) -> dict[str, Any]:
    """Check a set's settings; papers cut long texts."""
    panel: Panel = "Data and output"  # a set has all of these settings
    of_sets = {n: o._replace(in_file=o.in_file or o.panel == panel) for n, o in fields.items()}
    # Of rank, the profile "paper" says it.
    cut = {"long_texts": "cut"} if "long_texts" in fields and task != "rank" else {}
    return cut | check_entries(values, task, of_sets, where)


def _find(value: Any, *, data: str | None, language: str | None, lacking: list[str]) -> Any:
    """Return, for each path, the one below the data that ends so and is in the set's language."""
    if isinstance(value, tuple):
        return tuple(_find(v, data=data, language=language, lacking=lacking) for v in value)
    if not isinstance(value, Path):
        return value
    reader, plain = split_name(value)
    matches = sorted(Path(data).glob(f"**/{plain}")) if data else []
    if language:
        base = base_language(language)
        matches = [path for path in matches if base_language(named_language(path) or "en") == base]
    if not matches:
        lacking.append(f"{value} in {language}" if language else str(value))
    return Path(f"{reader}:{matches[0]}" if reader else matches[0]) if matches else value


def missing_pictures(job: Job) -> list[str]:
    """Return the first picture that a row which has its data would miss."""
    data = job.files if "image" in str(job.options.get("track")) and not job.lacking[""] else ()
    try:
        for path in data:  # a reader that looks at pictures refuses those that are missing
            for _ in iter_items(path, job.measured.get("lang"), rows=RowReader(look=str)):
                pass
    except UserError as error:
        return [str(error).rstrip(".")]
    return []


def run(
    job: Job, folder: Path, models: Path, seen: Callable[[Result], None]
) -> tuple[dict[str, Any], int, Items]:
    """Run a row on a set, or read what came out before.

    Args:
        folder: where its runs and its figures are kept.
        models: where trained models are kept, for all rows and sets.
        seen: is called with each result that a task made.

    Returns:
        The figures by metric (see :data:`admire.apps.reproduce.results.Figures`; none without
        gold), of how many items, pairs or queries they are, and the items with their figures.
    """
    from admire.metrics.metrics import DEFAULT

    plugged = [name for name in job.metrics if name in {*registry.names("metric")} - {*DEFAULT}]
    key = job.digest(job.options, job.measured, job.files, job.train, plugged)
    kept = folder / "figures.json"
    if kept.is_file():
        before = json.loads(kept.read_text(encoding="utf-8"))
        if before["key"] == key:
            return before["figures"], before["n"], before["items"]
    folder.mkdir(parents=True, exist_ok=True)
    with registry.blamed(job.task):
        model = models / job.digest(job.options, job.train)
        results = [_train(job, model, folder)] if job.trains else []
        results += _measure(job, model, folder, plugged, seen) if job.files else []
    numbers = defaultdict[str, list[Any]](list)
    for result in results:
        for name, ours in figures_of(result.figures).items():
            numbers[name].append(ours)
    n, figures = 0, {}
    for name, of_seeds in numbers.items():
        n = max(n, *(ours[0] for ours in of_seeds))
        means = np.array(of_seeds, float)[:, 1:]
        deviation = float(means[:, 0].std()) if len(means) > 1 else math.nan
        figures[name] = (*means.mean(axis=0).tolist(), deviation)
    alone = results[-1].items if len(results) == 1 + job.trains else ()
    items = [item for item in alone if item.keys() >= ITEM]
    if figures:
        with write_whole(kept) as file:
            json.dump({"key": key, "figures": figures, "n": n, "items": items}, file)
    return figures, n, items


def _train(job: Job, model: Path, folder: Path) -> Result:
    """Train a row's model, unless it is there; return what is known of it."""
    import pandas as pd

    kept = model.with_suffix(".json")
    if not kept.is_file():
        learned = job.files if job.task.takes == "benchmark" else job.train
        result = job.task.train(learned, job.options | {"out": model})
        with write_whole(kept) as file:
            json.dump(result.record or result.figures, file)
    trained = job.task.trained(model)
    if trained.items:
        with write_whole(folder / "epochs.csv") as file:
            pd.DataFrame(trained.items).to_csv(file, index=False)
    return trained


def _measure(
    job: Job, model: Path, folder: Path, plugged: Sequence[str], seen: Callable[[Result], None]
) -> Iterator[Result]:
    """Run the task on a row's files, and yield for each seed what they give together."""
    import pandas as pd

    from admire.pipeline.scoring import warn_if_runs_leaked

    seed, seeds = job.options.get("seed", 0), job.options.get("seeds", 1)
    for name in [f"seed-{seed + k}" for k in range(seeds)] if seeds > 1 else [""]:
        settings, results = job.used(model / name), []
        for number, data in enumerate(job.files, start=1):
            written = job.task.written.format(number)
            out = {"out": folder / name / written} if written else {}
            results.append(job.task.run(data, settings | out))
            seen(results[-1])
            if results[-1].items:
                warn_if_runs_leaked(pd.DataFrame(results[-1].items), *results[-1].files)
        yield job.task.join(results, plugged)


def figures_of(records: Items) -> dict[str, tuple[Any, ...]]:
    """Return n, mean and interval of each figure; those of one language alone are of the whole."""
    figures: dict[str, tuple[Any, ...]] = {}
    languages = {record.get("language", "all") for record in records} - {"all"}
    whole = [{**record, "language": "all"} for record in records] if len(languages) == 1 else []
    for record in (*whole, *records):
        groups = [str(record.get(name, "all")).lower() for name in ("language", "subset", "group")]
        place = "".join(f"{group}:" for group in groups if group != "all")
        n, only = record.get("n", record.get("total", 0)), "metric" in record
        for name in ("mean",) if only else record.keys() - {"n"}:
            if isinstance(record[name], int | float | None):
                ends = map(record.get, ("low", "high") if only else (f"{name}_low", f"{name}_high"))
                figures[place + record.get("metric", name)] = n, record[name], *ends
    return figures
