"""Results of a run: a ranking for each item, in blocks or all at once, and as tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SkipValidation,
    ValidationInfo,
    model_validator,
)

from admire.core.errors import UserError
from admire.core.schema import STRICT, UNLESS_EMPTY, UNLESS_NONE
from admire.data.items import Candidate, Item, SenseLabel
from admire.data.overlap import Kind
from admire.data.submission import Prediction
from admire.metrics.figures import describe_ties, summarise
from admire.metrics.item_figures import drop_missing_senses, score_item
from admire.metrics.metrics import confidence, open_metrics
from admire.rankers.judgement import Judgement, Part
from admire.rankers.scorer import Scores, rank_names, tied_names
from admire.senses.interpretation import Interpretation
from admire.senses.sense import likelier, majority, mean_probability

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("admire")

BLOCK = 512
"""How many items are ranked and written at a time."""

PART = "part_"
"""Prefix of the columns that sum to the score, over all rows of a candidate."""

Thing = TypeVar("Thing")


def blocks(things: Iterable[Thing]) -> Iterator[list[Thing]]:
    """Yield the things in lists of :data:`BLOCK`."""
    rest = iter(things)
    while block := list(islice(rest, BLOCK)):
        yield block


def used_gold_sense(record: Mapping[str, Any]) -> bool:
    """Return whether a run, or one fused into it, took the sense from the gold."""
    if "fused" in record:
        return any(used_gold_sense(fused["record"]) for fused in record["fused"])
    return any(llm.get("sense") == "given" for llm in record.get("models", {}).get("llms", ()))


def part_column(part: Part) -> str:
    """Return a part's column: ``part_caption_gloss``, ``part_caption_unlike_compound``."""
    return PART + "_".join(filter(None, (part.of, part.text))).replace(" ", "_")


@dataclass(frozen=True)
class FusedRun:
    """A run that was fused into another one: its folder, and its order of an item, best first."""

    run: str
    weight: float
    order: tuple[str, ...]


def _name_and_caption(candidate: Candidate) -> dict[str, str]:
    caption = {"caption": candidate.caption} if candidate.caption else {}
    return {"name": candidate.name} | caption


Described = Annotated[Candidate, PlainSerializer(_name_and_caption)]
"""A candidate that is written without its image."""


class Row(BaseModel):
    """An item of a run with its results: a line of ``items.jsonl``.

    Attributes:
        predicted_type: see :func:`agreed_sense`.
        order: the candidates' names from best to worst.
        interpretations: one for each chat model; empty if the query is a baseline.
        judgements: the scores of rankers other than ``embeddings``, one for each ranker and model.
        fused: the runs that it was fused from.
        seen: which kinds of its parts the ``head`` or ``detector`` of the run saw in training; see
            :func:`admire.metrics.leakage.find_leaks`.
        unsure: whether the confidence is lower than the run requires, see
            :attr:`admire.rankers.settings.Settings.abstain_below`.
        tied: the candidates with tied scores, from best to worst.
        uncompared: the candidates that no part of the score compares with another one, such as the
            only picture; they are last.
        margin: how far the first candidate is ahead of the second, in units of the encoders' noise
            (a mean over encoders and chat models); negative if it is first for other reasons. None
            if others rank, or cosines were standardised otherwise.
        by_sense: the order that either sense would have, if it is unsure which one is meant and
            both have been read; see :attr:`admire.senses.sense.Sense.is_unsure`.
    """

    model_config = STRICT | ConfigDict(frozen=True)

    compound: str
    sentence: str
    language: str
    candidates: tuple[Described, ...]
    sequence: tuple[Described, ...]
    sentence_type: SenseLabel | None
    expected_order: tuple[str, ...] | None
    expected_item: str | None
    predicted_type: SenseLabel | None
    order: tuple[str, ...]
    interpretations: tuple[Interpretation, ...]
    judgements: tuple[Judgement, ...]
    word: Annotated[str, UNLESS_EMPTY] = ""
    definitions: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    written: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    fused: Annotated[tuple[FusedRun, ...], UNLESS_EMPTY] = ()
    seen: Annotated[dict[str, list[Kind]], UNLESS_EMPTY] = {}
    unsure: Annotated[bool, UNLESS_EMPTY] = False
    tied: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    uncompared: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    margin: Annotated[float | None, UNLESS_NONE] = None
    by_sense: Annotated[dict[SenseLabel, tuple[str, ...]], UNLESS_EMPTY] = {}

    @model_validator(mode="after")
    def _check_names(self, info: ValidationInfo) -> Self:
        """Refuse orders and judgements of other candidates, and images in a file."""
        names = self.item.names
        if any(sorted(order) != sorted(names) for order in (self.order, *self.by_sense.values())):
            raise ValueError("order does not name the candidates")
        for judgement in self.judgements:
            judged = {name for answer in judgement.answers for name in answer.shown + answer.order}
            if len(judgement.scores) != len(names) or not judged <= {*names}:
                raise ValueError("a judgement is of other candidates")
        gold = self.expected_order
        if info.mode == "json" and gold and (len(gold) < 2 or not {*gold} <= {*names}):
            raise ValueError("expected_order does not name the candidates")
        if info.mode == "json" and any(thing.image for thing in self.item.things):
            raise ValueError("a candidate names an image file, which a row never does")
        return self

    @property
    def item(self) -> Item:
        """The item; without images if it was read from a run folder."""
        return Item(**{field.name: getattr(self, field.name) for field in fields(Item)})

    def with_item(self, item: Item) -> Self:
        """Return the row with another item, such as the same with images or other gold."""
        return self.model_copy(update=vars(item))

    @property
    def probability_idiomatic(self) -> float | None:
        """The probability of the idiomatic sense, a mean over the chat models.

        None for a baseline, if no vote could be parsed, or if the sense was given.
        """
        readings = self.interpretations
        given = any(reading.sense.by == "given" for reading in readings)
        return None if given else mean_probability(reading.sense for reading in readings)

    @property
    def confidence(self) -> float | None:
        """The probability of the predicted sense; None if :attr:`probability_idiomatic` is."""
        p = self.probability_idiomatic
        return None if p is None else confidence(p, self.predicted_type)

    @property
    def prediction(self) -> Prediction:
        """The row as part of a submission."""
        return Prediction(
            self.compound,
            self.sentence,
            self.order,
            self.predicted_type,
            self.order[0] if self.item.context == "sequence" else None,
            self.probability_idiomatic,
            self.unsure,
            self.language,
            tied_first=self.order[0] in self.tied,
            written=self.written,
        )


class Ranking(Row):
    """A row with the scores of its candidates, as in ``scores.csv``.

    Attributes:
        scores: of each candidate, in the item's order.
        parts: the rows of scores.csv, one for each ranker, model and candidate.
    """

    scores: Annotated[Scores, SkipValidation, Field(exclude=True)]
    parts: tuple[dict[str, Any], ...] = Field(exclude=True, repr=False)

    @classmethod
    def of(
        cls,
        item: Item,
        scores: Scores,
        parts: Iterable[Mapping[str, Any]] = (),
        interpretations: Iterable[Interpretation] = (),
        *,
        abstain_below: float | None = None,
        leads: Scores | None = None,
        **fields: Any,
    ) -> Self:
        """Rank an item's candidates by their scores.

        Args:
            scores: shape (candidates,), in the item's order.
            parts: rows of scores.csv without the columns ``score`` and ``rank``, which are added.
            abstain_below: the item is unsure if its confidence is lower.
            leads: the scores in units that are comparable between items, for the margin.
            fields: other fields of a row.
        """
        names, interpretations = item.names, tuple(interpretations)
        last = fields.get("uncompared", ())
        order, sense = rank_names(names, scores, last), agreed_sense(interpretations)
        if abstain_below is not None and item.has_sense:
            probability = mean_probability(reading.sense for reading in interpretations)
            fields["unsure"] = confidence(probability, sense) < abstain_below
        if leads is not None and len(order) > 1:
            first, second = (leads[names.index(name)] for name in order[:2])
            fields["margin"] = round(float(first - second), 9)
        total = dict(zip(names, scores, strict=True))
        ranks = {name: rank for rank, name in enumerate(order, start=1)}
        return cls(
            **vars(item),
            order=order,
            predicted_type=sense,
            interpretations=interpretations,
            tied=tied_names(names, scores, last),
            scores=scores,
            parts=tuple(
                {**part, "score": total[part["candidate"]], "rank": ranks[part["candidate"]]}
                for part in parts
            ),
            **({"judgements": ()} | fields),
        )


def agreed_sense(interpretations: Sequence[Interpretation]) -> SenseLabel | None:
    """Return the sense that all chat models agree on, otherwise the majority of their votes.

    If one was decided without votes, the mean of their probabilities decides. None for a baseline,
    or if no vote could be parsed.
    """
    labels = {reading.sense.label for reading in interpretations}
    if len(labels) == 1:
        return labels.pop()
    senses = [reading.sense for reading in interpretations]
    if any(sense.by for sense in senses):
        return likelier(mean_probability(senses) or 0.0, "detector").label
    votes = (sum(sense.idiomatic for sense in senses), sum(sense.literal for sense in senses))
    return majority(*votes)


@dataclass(frozen=True, repr=False)
class Run:
    """The rankings of a set of items, and the record of how they were made.

    In a notebook it shows its first items as cards, with their pictures.
    """

    rankings: tuple[Ranking, ...]
    record: dict[str, Any]

    def predictions(self) -> list[Prediction]:
        """Return the rows of a submission."""
        return [ranking.prediction for ranking in self.rankings]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate, those of an item from best to worst.

        Columns: ``item`` (from 1), ``compound``, ``language``, ``candidate``, ``rank`` (from 1),
        ``score``, ``compared`` (whether it was compared with another candidate), ``gold_rank``
        (missing if unknown; in Subtask B only of the right candidate), ``caption``, ``image``.
        """
        import pandas as pd

        rows = []
        for number, ranking in enumerate(self.rankings, start=1):
            item = ranking.item
            gold = [item.expected_item] if item.expected_item else item.expected_order or ()
            by_name = {candidate.name: candidate for candidate in item.candidates}
            scores = dict(zip(by_name, ranking.scores, strict=True))
            for rank, name in enumerate(ranking.order, start=1):
                row = {
                    "item": number,
                    "compound": item.compound,
                    "language": item.language,
                    "candidate": name,
                    "rank": rank,
                    "score": float(scores[name]),
                    "compared": name not in ranking.uncompared,
                    "gold_rank": gold.index(name) + 1 if name in gold else None,
                    "caption": by_name[name].caption,
                    "image": by_name[name].image,
                }
                rows.append(row)
        return pd.DataFrame(rows).astype({"gold_rank": "Int64"})

    def items_frame(self) -> pd.DataFrame:
        """Return one row per item.

        Columns: ``compound``, ``sentence``, ``language``; ``predicted_type``;
        ``probability_idiomatic``; ``confidence``, the probability of the predicted sense;
        ``unsure``; ``meaning``, see :meth:`Interpretation.wording`; ``order``, from best to worst;
        the gold's ``sentence_type`` and ``best``; if any item has gold, its figures, as ``top1``
        and ``dcg``; and the other columns of :func:`admire.items_to_frame`, so that rows of this
        table can be ranked again. The index counts from 1, as ``item`` in :meth:`to_frame`.
        """
        import pandas as pd

        from admire.data.sources import items_to_frame

        rows = []
        for ranking in self.rankings:
            item, readings = ranking.item, ranking.interpretations
            wordings = (reading.wording(item.phrase, item.definitions) for reading in readings)
            row = {
                "compound": item.compound,
                "sentence": item.sentence,
                "language": item.language,
                "predicted_type": ranking.predicted_type,
                "probability_idiomatic": ranking.probability_idiomatic,
                "confidence": ranking.confidence,
                "unsure": ranking.unsure,
                "meaning": next(filter(None, wordings), None),
                "order": ranking.order,
                "sentence_type": item.sentence_type,
                "best": item.best,
            }
            rows.append(row)
        scored = RunScores(self.record, (), self.rankings).table()
        table = pd.DataFrame(rows)
        table = table.join(scored[[name for name in scored if name not in OF_ITEM]])
        table = table.set_index(pd.RangeIndex(1, len(table) + 1, name="item"))
        items = items_to_frame(ranking.item for ranking in self.rankings)
        return table.join(items.drop(columns=table.columns, errors="ignore"))

    def figures(self, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """Return means with 95 % intervals over the items with gold.

        As :func:`admire.score`: ``group`` (all, idiomatic, literal), ``n``, ``metric``, ``mean``,
        ``low``, ``high``; and ``gold_sense``, if the run took the sense from the gold.

        Args:
            metrics: names of further metrics, plug-ins.

        Raises:
            UserError: no item has gold, or a metric is unknown or fails.
        """
        scored = RunScores(self.record, metrics, self.rankings).table()
        if scored.empty:
            raise UserError("No item of this run has an expected_order or expected_item to score.")
        return run_figures(scored, self.record)

    def __repr__(self) -> str:
        models = self.record.get("models", {})
        names = [llm["name"] for llm in models.get("llms", ())]
        encoders = (e for of_track in models.get("encoders", {}).values() for e in of_track)
        names += dict.fromkeys(encoder["name"] for encoder in encoders)
        count = len(self.rankings)
        gold = ", with the gold sense" * used_gold_sense(self.record)
        lines = [
            f"Run of {count} item{'s' * (count != 1)}, by {', '.join(names) or 'fused runs'}{gold}",
        ]
        for ranking in self.rankings[:3]:
            sense = ranking.predicted_type or "no sense"
            text = f"  {ranking.item.compound} ({sense}): {', '.join(ranking.order)}"
            lines.append(text if len(text) <= 100 else text[:99] + "…")
        return "\n".join([*lines, f"  … and {count - 3} more"] if count > 3 else lines)

    def _repr_html_(self) -> str | None:
        # By its name, because the pages are above this package, and only a notebook needs them.
        html: str | None = resolve_name("admire.apps.report.notebook:run_cards")(self)
        return html


OF_ITEM = (
    *("compound", "sentence", "sentence_type", "language"),
    *("predicted_type", "probability_idiomatic", "unsure", "tied_first", "seen"),
)
"""The columns of :meth:`RunScores.table` that are not figures."""


def run_figures(scored: pd.DataFrame, record: Mapping[str, Any]) -> pd.DataFrame:
    """Summarise scored items; mark the figures if the sense came from the gold; warn of ties."""
    table = summarise(scored)
    if note := describe_ties(scored):
        log.warning("%s", note)
    return table.assign(gold_sense=True) if used_gold_sense(record) else table


class RunScores:
    """The figures of a run's items, noted ranking by ranking.

    Attributes:
        items: those of the run, without candidates.
    """

    def __init__(
        self, record: Mapping[str, Any], metrics: Sequence[str], rankings: Iterable[Ranking] = ()
    ) -> None:
        """Take the record of the run, the names of further metrics, and the first rankings."""
        self.record, self.metrics = record, metrics
        self.items: list[Item] = []
        self._rows: dict[int, dict[str, Any]] = {}
        self._figures = open_metrics(metrics)
        for ranking in rankings:
            self.add(ranking)

    def add(self, ranking: Ranking) -> None:
        """Note the next ranking of the run."""
        item, prediction = ranking.item, ranking.prediction
        if item.best:
            number = len(self._rows) + 1
            self._rows[len(self.items)] = {
                "compound": item.compound,
                "sentence": item.sentence,
                **score_item(item, prediction, "the run", number, self._figures),
                "language": item.language,
                "seen": ranking.seen,
            }
        self.items.append(replace(item, candidates=(), sequence=()))

    def table(self) -> pd.DataFrame:
        """Return a row for each item with gold; the index is the items' index in the run.

        The columns are those of :func:`score_items`, with ``sense_accuracy`` if the senses are
        predicted, not given, and labelled; ``language``; and ``seen``, see :attr:`Row.seen`.

        Raises:
            UserError: no item has one of the further metrics.
        """
        import pandas as pd

        if not self._rows:
            return pd.DataFrame()
        table = pd.DataFrame(list(self._rows.values()), index=list(self._rows))
        predicted = table["predicted_type"]
        table = drop_missing_senses(table, bool(predicted.notna().any()))
        if without := [metric for metric in self.metrics if metric not in table]:
            raise UserError(f"the run: no item has a figure of the metric '{without[0]}'.")
        predicts = predicted.notna().any() and not used_gold_sense(self.record)
        if predicts and table["sentence_type"].notna().all():
            table["sense_accuracy"] = (table["sentence_type"] == predicted).astype(float)
        return table
