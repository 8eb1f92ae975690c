"""Runs on disk, read back: to compare, score, fuse and show them."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import islice, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import numpy as np
import pandas as pd

from admire.scores.cards import Seen
from admire.base.errors import UserError
from admire.scores.evaluation import (
    item_figures,
    score_items,
    sense_columns,
    summarise,
    without_missing_senses,
)
from admire.base.files import (
    known_fields,
    open_text,
    parse_json,
    read_table,
    read_text,
    table_parts,
    unguarded,
)
from admire.senses.interpretation import Interpretation
from admire.data.items import Candidate, Item, SenseLabel
from admire.senses.meaning import Meaning
from admire.data.overlap import KINDS
from admire.rankers import Answer, Judgement
from admire.senses.recorded import Recorded, Said, key_of
from admire.runs.run import Ranking, Run
from admire.runs.run_folder import (
    ITEMS,
    OF_ITEM,
    RECORD,
    SCORES,
    SEEN,
    UNFINISHED,
    blocks,
    submission_names,
)
from admire.senses.sense import VOTES, Sense, mean_probability
from admire.data.submission import Prediction, read_submission

log = logging.getLogger("admire")

Thing = TypeVar("Thing")

UNSEEN: Seen = MappingProxyType({})
"""One for all items: an empty dict for each would take much of the memory of a large run."""


def _refusing_damage(read: Callable[..., Thing]) -> Callable[..., Thing]:
    """What reads run folders, with one message for all that a damaged file makes it raise."""

    @wraps(read)
    def wrapped(folders: Any, *others: Any) -> Thing:
        try:
            return read(folders, *others)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            named = folders if isinstance(folders, str | Path) else " or ".join(map(str, folders))
            raise UserError(f"{named}: is damaged. Run admire rank again.") from error

    return wrapped


@_refusing_damage
def read_cosines(folder: Path) -> tuple[list[Item], list[pd.DataFrame], int]:
    """A run folder's items, for each the rows of cosines that scores.csv has for it, and how many
    encoders made them.

    Raises:
        UserError: the folder is not a run of :func:`admire.rank` with chat models, lacks gold, or
            was ranked without embeddings.
    """
    record = read_record(folder)
    if "fused" in record:
        raise UserError(f"{folder}: is fused. Tune the runs that it is made of.")
    items, _ = _read_items(folder)
    table = _read_scores(folder, ("item", "candidate", "llm", "probability"))
    if "ranker" in table:
        rankers = dict.fromkeys(table["ranker"])
        table = table[table["ranker"] == "embeddings"]
        if table.empty:
            raise UserError(
                f"{folder}: was ranked by {' and '.join(rankers)} alone, so it has no cosines. "
                "Add the ranker embeddings.",
                "rankers",
            )
    for name in table.columns.intersection([*WORDS]):
        table = table.assign(**{name: table[name].map(unguarded)})
    parts = {int(number): part for number, part in table.groupby(table["item"].astype(int))}
    encoders = {one["identity"] for one in record["models"]["encoders"].values()}
    return items, [parts[number] for number in range(1, len(items) + 1)], len(encoders)


@_refusing_damage
def compare_runs(folders: Sequence[str | Path]) -> pd.DataFrame:
    """How runs differ and how they score, as a tidy table to pivot, plot and filter.

    For each run and language the rows of :func:`admire.scores.evaluation.summarise` (``group``, ``n``,
    ``metric``, ``mean``, ``low``, ``high``), each with ``run`` (the folder), ``language``,
    ``method``, ``llm``, ``encoder`` and every setting of the run (``sense``, ``head``,
    ``scoring.gate``, …). ``method`` is the paper's name: CI for images, CIC for images and
    captions, and so CC for captions alone, with -F in a head's space; the baselines are
    ``compound`` and ``sentence``. Other rankers are called by their names. What was fused is joined
    by ``&``, and has ``fusion`` and ``weights`` in place of settings.

    Raises:
        UserError: a folder is not a run, or an item of it has no gold order.
    """
    tables = []
    for folder in map(Path, folders):
        record = read_record(folder)
        items, orders = _read_items(folder)
        what, flat = _fused(record) if "fused" in record else _ranked(record)
        for language in dict.fromkeys(item.language for item in items):
            chosen = [k for k, item in enumerate(items) if item.language == language]
            scored = score_items(
                [items[k] for k in chosen], [orders[k] for k in chosen], str(folder)
            )
            names = {"run": str(folder), "language": language, **what}
            tables.append(summarise(scored).assign(**flat | names))
    table = pd.concat(tables, ignore_index=True)
    first = ["run", "language", "method", "llm", "encoder", "group", "n", "metric"]
    return table[[*first, *table.columns.difference(first, sort=False)]]


def _ranked(record: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """What a run is called by its method and models, and its settings."""
    settings = record["settings"]
    encoders = [one["name"] for one in record["models"]["encoders"].values()]
    what = {
        "method": _method(settings),
        "llm": " + ".join(settings["llms"]) if record["models"]["llms"] else "–",
        "encoder": " + ".join(dict.fromkeys(encoders)) or "–",
    }
    scoring = {f"scoring.{name}": value for name, value in settings["scoring"].items()}
    scoring["scoring.texts"] = ",".join(scoring.get("scoring.texts", ()))
    flat = settings | scoring
    left_out = ("llms", "rankers", "scoring")
    return what, {name: value for name, value in flat.items() if name not in left_out}


def _fused(record: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """As :func:`_ranked`, of a run of :func:`admire.runs.fusion.fuse`."""
    runs = [one["record"] for one in record["fused"]]
    named = [(_fused(one) if "fused" in one else _ranked(one))[0] for one in runs]
    what = {name: " & ".join(dict.fromkeys(one[name] for one in named)) for name in named[0]}
    weights = ",".join(f"{one['weight']:g}" for one in record["fused"])
    return what, {"fusion": record["fusion"], "weights": weights}


def _method(settings: dict[str, Any]) -> str:
    names = list(settings.get("rankers", ["embeddings"]))  # older runs have no others
    if "embeddings" in names:
        names[names.index("embeddings")] = _compared(settings)
    return " + ".join(names)


def _compared(settings: dict[str, Any]) -> str:
    if settings["query"] != "meaning":
        return str(settings["query"])
    name = {"image": "CI", "caption": "CC", "image+caption": "CIC"}[settings["track"]]
    return name + "-F" * bool(settings["head"])


@_refusing_damage
def read_run(folder: Path) -> Run:
    """The run that :func:`write_run` wrote, without its images.

    Runs of older versions have no captions.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    table = _read_scores(folder, ("item", "candidate", "score"))
    rows = list(read_rows(folder))
    parts = {
        int(number): [_part(row) for row in part.to_dict("records")]
        for number, part in table.groupby(table["item"].astype(int))
    }
    rankings = tuple(_ranking(row, parts[number]) for number, row in enumerate(rows, start=1))
    for ranking in rankings:
        _check_types(ranking)
    return Run(rankings, read_record(folder))


WORDS = ("candidate", "ranker", "llm", "predicted_type", "gloss")
"""Columns of scores.csv that hold texts."""


def _part(row: Mapping[Any, str]) -> dict[str, Any]:
    """A row of scores.csv as :attr:`admire.runs.run.Ranking.parts` has it; empty cells are left out."""
    return {
        name: unguarded(cell) if name in WORDS else _number(cell)
        for name, cell in row.items()
        if cell and name not in OF_ITEM
    }


def _number(cell: str) -> float:
    if not math.isfinite(number := float(cell)):
        raise ValueError("no run has such a number")
    return number


@_refusing_damage
def open_run_replies(folder: Path) -> list[Recorded]:
    """What each chat model of a run said of its items, and the run's orders.

    Raises:
        UserError: the folder is not a run, or the run asked no chat model.
    """
    rankings = read_run(folder).rankings
    digest = hashlib.sha256((folder / ITEMS).read_bytes()).hexdigest()
    readings = list(zip(*(ranking.interpretations for ranking in rankings), strict=False))
    if not readings:
        raise UserError(f"{folder}: no chat model was asked in this run.", "llms")
    found = []
    for number, of_model in enumerate(readings, start=1):
        name = f"run:{folder}" + f"#{number}" * (len(readings) > 1)
        one = Recorded(name, f"run:{digest}:{number}:{of_model[0].llm}", {})
        for row, (ranking, reading) in enumerate(zip(rankings, of_model, strict=True), start=1):
            said = one.said.setdefault(key_of(ranking.item.compound, ranking.item.sentence), Said())
            said.sense = reading.sense
            said.meanings = {"idiomatic": reading.idiomatic, "literal": reading.literal}
            where = f"{folder / 'items.jsonl'}, row {row}"
            said.orders[frozenset(ranking.order)] = ranking.order, where
        found.append(one)
    return found


def _ranking(row: dict[str, Any], parts: list[dict[str, Any]]) -> Ranking:
    scores = {part["candidate"]: part["score"] for part in parts}
    order = tuple(row["order"])
    if sorted(order) != sorted(scores):
        raise ValueError("the order is not one of the candidates")
    captions = {one["name"]: one.get("caption") for one in row.get("candidates", ())}
    candidates = tuple(Candidate(name, caption=captions.get(name)) for name in scores)
    interpretations = tuple(
        Interpretation(
            one["llm"],
            Sense(**known_fields(Sense, one["sense"])),
            _meaning(one["idiomatic"]),
            _meaning(one["literal"]),
        )
        for one in row["interpretations"]
    )
    return Ranking(
        replace(_item(row), candidates=candidates),
        interpretations,
        np.array([*scores.values()]),
        order,
        tuple(parts),
        tuple(map(_judgement, row.get("judgements", ()))),
        tuple(row.get("fused", ())),
        row.get(SEEN, {}),
        row.get("unsure", False),
    )


def _check_types(ranking: Ranking) -> None:
    """Refuse what no run has written: texts and numbers in each other's place."""
    names = {candidate.name for candidate in ranking.item.candidates}
    texts: list[object] = [one.caption or "" for one in ranking.item.candidates]
    numbers: list[object] = []
    for reading in ranking.interpretations:
        texts.append(reading.llm)
        _check_sense(reading.sense.label)
        numbers += [reading.sense.probability, *(getattr(reading.sense, name) for name in VOTES)]
        for meaning in (reading.idiomatic, reading.literal):
            texts += [*meaning.definitions, meaning.scene or ""]
    for judgement in ranking.judgements:
        texts += [judgement.ranker, judgement.llm]
        numbers += [judgement.agreement or 0, *judgement.scores]
        if judgement.scores.shape != (len(names),):
            raise ValueError("a ranker's scores are not of the candidates")
        for answer in judgement.answers:
            texts += [*answer.shown, *answer.order, *answer.grades]
            texts += [answer.meaning or "", answer.unread or ""]
            _check_sense(answer.sense)
            numbers += answer.grades.values()
            for reasons in answer.reasons.values():
                texts += [*reasons, *reasons.values()]
            if not names.issuperset((*answer.shown, *answer.order)):
                raise ValueError("an answer is of other candidates")
    _check_texts(texts)
    if not all(isinstance(one, int | float) and math.isfinite(one) for one in numbers):
        raise TypeError("something is no number")


def _check_sense(label: object) -> None:
    if label not in (None, *get_args(SenseLabel)):
        raise ValueError("there is no such sense")


def _check_texts(texts: Iterable[object]) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("something is no text")


def _judgement(row: dict[str, Any]) -> Judgement:
    answers = tuple(
        Answer(
            **known_fields(Answer, one)
            | {"shown": tuple(one["shown"]), "order": tuple(one["order"])}
        )
        for one in row["answers"]
    )
    scores = np.array(row["scores"], dtype=float)
    return Judgement(row["ranker"], row["llm"], scores, answers, row["agreement"])


def _meaning(said: dict[str, Any]) -> Meaning:
    return Meaning(tuple(said["definitions"]), said["scene"])


def _read_items(folder: Path) -> tuple[list[Item], list[Prediction]]:
    """The items of a run folder, and what was predicted of them."""
    items, orders = [], []
    for number, row in enumerate(read_rows(folder), start=1):
        item = _item(row)
        if item.best is None:
            raise UserError(f"{folder}: item {number} ('{item.compound}') has no gold order.")
        items.append(item)
        orders.append(_prediction(row))
    return items, orders


def _prediction(row: Mapping[str, Any]) -> Prediction:
    order = tuple(row["order"])
    _check_texts(order)
    _check_sense(row.get("predicted_type"))
    completes = order[0] if row.get("sequence") or row.get("expected_item") else None
    return Prediction(
        row["compound"],
        row["sentence"],
        order,
        row.get("predicted_type"),
        completes,
        mean_probability(
            Sense(**known_fields(Sense, one["sense"])) for one in row.get("interpretations", ())
        ),
        row.get("unsure", False),
    )


@_refusing_damage
def first_rankings(folder: Path, count: int) -> list[Ranking]:
    """The rankings of the first items of a run folder, so many of them; see :func:`read_run`.

    Raises:
        UserError: as for :func:`read_run`.
    """
    rows = list(islice(read_rows(folder), count))
    parts: dict[int, list[dict[str, Any]]] = {}
    for table in table_parts(folder / SCORES, ("item", "candidate", "score")):
        for row in table.to_dict("records"):
            parts.setdefault(int(row["item"]), []).append(_part(row))
        if max(parts) > count:
            break
    rankings = [_ranking(row, parts[number]) for number, row in enumerate(rows, start=1)]
    for ranking in rankings:
        _check_types(ranking)
    return rankings


@_refusing_damage
def score_run(folder: Path) -> pd.DataFrame | None:
    """As :func:`admire.scores.evaluation.score_items` of a run folder, without the columns ``compound``
    and ``sentence``, and with ``seen`` (see :attr:`admire.runs.run.Ranking.seen`); None where an item
    has no gold.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    tables, told = [], False
    for block in blocks(read_rows(folder)):
        scored = []
        for row in block:
            item, prediction = _item(row), _prediction(row)
            if item.best is None:
                return None
            told |= prediction.sentence_type is not None
            figures = item_figures(item, prediction, str(folder))
            scored.append(
                {
                    "sentence_type": item.sentence_type,
                    **figures,
                    **sense_columns(prediction),
                    SEEN: row.get(SEEN, UNSEEN),
                }
            )
        senses = dict.fromkeys(("sentence_type", "predicted_type"), SENSE_TYPE)
        tables.append(pd.DataFrame(scored).astype(senses))
    return without_missing_senses(pd.concat(tables, ignore_index=True), told)


SENSE_TYPE = pd.CategoricalDtype([*get_args(SenseLabel)])
"""Of columns in which a word would take fifty bytes a row."""


def read_predictions(path: Path) -> tuple[list[Prediction], Path | None]:
    """What a submission says, or a whole run, and the run folder that knows the senses.

    The predictions of a submission that stands in its run folder hold what the run knows besides.
    Of one that does not, or whose rows are not the run's, there is no such folder; a message says
    so.

    Args:
        path: the file of a submission, or a run folder.

    Raises:
        UserError: it cannot be read, or the run is damaged.
    """
    if path.is_dir():
        return [prediction for _, prediction in _predictions(path)], path
    told, folder = read_submission(path), path.parent
    why = "there is no run beside it"
    if (folder / ITEMS).is_file():
        try:
            of_run = _predictions(folder)
            names = submission_names(read_record(folder), [language for language, _ in of_run])
            known = [one for language, one in of_run if names[language] == path.name]
            other = _first_other(told, known)
            if other is None:
                return known, folder
            why = f"its row {other} is not the run's"
        except UserError as error:
            why = f"the run beside it cannot be read. {error}".rstrip(".")
    log.warning("%s: how sure its senses are cannot be told, because %s.", path, why)
    return told, None


@_refusing_damage
def _predictions(folder: Path) -> list[tuple[str, Prediction]]:
    """What a run predicts of each item, with the item's language.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    return [(row["language"], _prediction(row)) for row in read_rows(folder)]


def abstained_below(folder: Path) -> float | None:
    """The confidence below which a run marked items as unsure; None where it marked none.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    below: float | None = read_record(folder).get("settings", {}).get("abstain_below")
    return below


def count_unsure(folder: Path) -> int:
    """How many items a run marked as unsure.

    Raises:
        UserError: the folder is not a run, or it is damaged.
    """
    return sum(row.get("unsure", False) for row in read_rows(folder))


def _first_other(told: Sequence[Prediction], known: Sequence[Prediction]) -> int | None:
    """The first row in which a submission is not that of a run, from 1; None if there is none."""
    pairs = zip_longest(told, known)
    for number, (one, other) in enumerate(pairs, start=1):
        if one is None or other is None or not _same_row(one, other):
            return number
    return None


def _same_row(told: Prediction, known: Prediction) -> bool:
    """Whether a row of a submission says what the run says."""
    said = replace(known, sentence=known.sentence or "", probability=None, unsure=False)
    if told.expected_item:  # its rows have no orders and no sentences
        said = replace(said, order=(), sentence=told.sentence)
    return told == said


def read_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of a run folder's items.jsonl; of a run that is under way, those of whole blocks.

    Raises:
        UserError: the file is missing or damaged.
    """
    path = folder / ITEMS
    left = _length(folder, ITEMS)
    with open_text(path) as file:
        for line in file:
            left -= len(line.encode())
            if left < 0:
                break
            if line.strip():
                row = _parsed(line, path)
                if not isinstance(row, dict) or not _is_seen(row.get(SEEN, {})):
                    raise UserError(f"{path}: is damaged. Run admire rank again.")
                yield row


def _is_seen(said: Any) -> bool:
    return isinstance(said, dict) and all(
        isinstance(kinds, list) and all(kind in KINDS for kind in kinds) for kinds in said.values()
    )


def _read_scores(folder: Path, required: Iterable[str]) -> pd.DataFrame:
    size = _length(folder, SCORES)
    return read_table(folder / SCORES, required, size=-1 if size == math.inf else int(size))


def _length(folder: Path, name: str) -> float:
    """How many bytes of a file count: of a run that is under way, those of whole blocks."""
    if not (folder / RECORD).is_file():
        return math.inf
    length: float = read_record(folder).get(UNFINISHED, {}).get("lengths", {}).get(name, math.inf)
    return length


def _item(row: dict[str, Any]) -> Item:
    """An item without its candidates."""
    expected = row["expected_order"]
    _check_texts((row["compound"], row["sentence"], row["language"], *(expected or ())))
    _check_sense(row["sentence_type"])
    return Item(
        row["compound"],
        row["sentence"],
        row["language"],
        sentence_type=row["sentence_type"],
        expected_order=tuple(expected) if expected else None,
        sequence=tuple(map(_thing, row.get("sequence", ()))),
        expected_item=row.get("expected_item"),
    )


def _thing(said: str | dict[str, str]) -> Candidate:
    """A thing of a sequence; runs of older versions have its caption or name alone."""
    if isinstance(said, str):
        return Candidate(said, caption=said)
    _check_texts((said["name"], said.get("caption") or ""))
    return Candidate(said["name"], caption=said.get("caption"))


def read_record(folder: Path) -> dict[str, Any]:
    """What run.json says of how a run was made.

    Raises:
        UserError: it is missing or damaged.
    """
    path = folder / RECORD
    record = _parsed(read_text(path), path)
    if not isinstance(record, dict):
        raise UserError(f"{path}: is damaged. Run admire rank again.")
    return record


def _parsed(text: str, path: Path) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        raise UserError(f"{path}: is damaged. Run admire rank again.") from None
