"""Results of a run: a ranking for each item, in blocks or all at once, and as tables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
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

BLOCK = 512  #: how many items are ranked and written at a time

PART = "part_"  #: prefix of the columns that sum to the score, over all rows of a candidate

Thing = TypeVar("Thing")


PartColumns = tuple[Mapping[str, Any], Mapping[str, Sequence[Any] | Scores]]
"""Columns of scores.csv for one ranker and model: those with one value for all candidates, and
those with a value for each."""


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


class FusedRun(BaseModel, frozen=True):
    """A run that was fused into another one: its folder, and its order of an item, best first."""

    run: str
    weight: float
    order: tuple[str, ...]


Described = Annotated[
    Candidate,
    PlainSerializer(lambda c: {"name": c.name} | ({"caption": c.caption} if c.caption else {})),
]
"""A candidate that is written without its image."""


_ITEM = attrgetter(*Item.__dataclass_fields__)


class Row(BaseModel):
    """An item of a run with its results: a line of ``items.jsonl``.

    Attributes:
        predicted_type: see :func:`agreed_sense`.
        order: the candidates' names from best to worst.
        interpretations: one for each chat model; empty if the query is a baseline.
        judgements: of rankers other than ``embeddings``, one for each ranker and model.
        seen: which kinds of its parts the ``head`` or ``detector`` of the run saw in training; see
            :func:`admire.metrics.leakage.find_leaks`.
        unsure: whether the confidence is below ``abstain_below``.
        tied: the candidates with tied scores, from best to worst.
        uncompared: those that nothing compares with another one, such as the only picture; they
            are last.
        margin: how far the first candidate is ahead of the second, in units of the encoders' noise
            (a mean over encoders and chat models); negative if it is first for other reasons. None
            if others rank, or cosines were standardised otherwise.
        by_sense: the order by either sense, if it is unsure which one is meant and both have been
            read; see :attr:`admire.senses.sense.Sense.is_unsure`.
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
        return Item(*_ITEM(self))

    def with_item(self, item: Item) -> Self:
        """Return the row with another item, such as one with images or other gold."""
        return self.model_copy(update=vars(item))

    @property
    def probability_idiomatic(self) -> float | None:
        """The mean over chat models; None without a parsed vote, or if the sense was given."""
        senses = [reading.sense for reading in self.interpretations]
        return None if "given" in map(attrgetter("by"), senses) else mean_probability(senses)

    @property
    def confidence(self) -> float | None:
        """The probability of the predicted sense, if there is one."""
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
            tied_first=self.order[0] in {*self.tied, *self.uncompared},
            written=self.written,
        )


class Ranking(Row):
    """A row with the scores of its candidates, in the item's order, and its rows of scores.csv."""

    scores: Annotated[Scores, SkipValidation, Field(exclude=True)]
    parts: tuple[dict[str, Any], ...] = Field(exclude=True, repr=False)

    @classmethod
    def of(
        cls,
        item: Item,
        scores: Scores,
        parts: Iterable[PartColumns] = (),
        interpretations: Sequence[Interpretation] = (),
        *,
        abstain_below: float | None = None,
        leads: Scores | None = None,
        **fields: Any,
    ) -> Self:
        """Rank an item's candidates by their scores, shape (candidates,).

        Args:
            parts: the columns of scores.csv, except for ``score`` and ``rank``.
            leads: the scores in units that are comparable between items, for the margin.
            fields: other fields of a row.
        """
        names, last = item.names, fields.get("uncompared", ())
        order, sense = rank_names(names, scores, last), agreed_sense(interpretations)
        if abstain_below is not None and item.has_sense:
            probability = mean_probability(reading.sense for reading in interpretations)
            fields["unsure"] = confidence(probability, sense) < abstain_below
        if leads is not None and len(order) > 1:
            first, second = (leads[names.index(name)] for name in order[:2])
            fields["margin"] = round(float(first - second), 9)
        ranks = [order.index(name) + 1 for name in names]
        rows: list[dict[str, Any]] = []
        for own, columns in parts:
            every = {**columns, "score": scores, "rank": ranks}
            for name, *values in zip(names, *every.values(), strict=True):
                rows.append({"candidate": name, **own, **dict(zip(every, values, strict=True))})
        return cls(
            **vars(item),
            order=order,
            predicted_type=sense,
            interpretations=tuple(interpretations),
            tied=tied_names(names, scores, last),
            scores=scores,
            parts=tuple(rows),
            **({"judgements": ()} | fields),
        )


def agreed_sense(interpretations: Sequence[Interpretation]) -> SenseLabel | None:
    """Return the sense that all chat models agree on, otherwise the majority of their votes.

    If one was decided without votes, the mean of their probabilities decides; None without any.
    """
    labels = {reading.sense.label for reading in interpretations}
    if len(labels) == 1:
        return labels.pop()
    senses = [reading.sense for reading in interpretations]
    if any(sense.by for sense in senses):
        return likelier(mean_probability(senses) or 0.0, "detector").label
    return majority(sum(s.idiomatic for s in senses), sum(s.literal for s in senses))


@dataclass(frozen=True, repr=False)
class Run:
    """The rankings of a set of items, and the record of how they were made; cards in a notebook."""

    rankings: tuple[Ranking, ...]
    record: dict[str, Any]

    def predictions(self) -> list[Prediction]:
        """Return the rows of a submission."""
        return [ranking.prediction for ranking in self.rankings]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate, those of an item from best to worst.

        Columns: ``item`` and ``rank`` (from 1), ``compound``, ``language``, ``candidate``,
        ``score``, ``compared`` (whether it was compared with the others), ``gold_rank``
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

        Columns: ``compound``, ``sentence``, ``language``, ``predicted_type``,
        ``probability_idiomatic``, ``confidence``, ``unsure``; ``meaning``, see
        :meth:`Interpretation.wording`; ``order``, from best to worst; the gold's ``sentence_type``
        and ``best``; if any item has gold, its figures, as ``top1`` and ``dcg``; and the other
        columns of :func:`admire.items_to_frame`, so that rows of this table can be ranked again.
        The index is ``item`` of :meth:`to_frame`.
        """
        import pandas as pd

        from admire.data.sources import items_to_frame

        rows = []
        for ranking in self.rankings:
            item, readings = ranking.item, ranking.interpretations
            wordings = (reading.wording(item.phrase, item.definitions) for reading in readings)
            row = {
                **{name: getattr(ranking, name) for name in OF_ROW},
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
        """Return means with 95 % intervals over the items with gold; see :func:`admire.score`.

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
        by = ", ".join(names) or "fused runs"
        lines = [f"Run of {count} item{'s' * (count != 1)}, by {by}{gold}"]
        for ranking in self.rankings[:3]:
            sense = ranking.predicted_type or "no sense"
            text = f"  {ranking.item.compound} ({sense}): {', '.join(ranking.order)}"
            lines.append(text if len(text) <= 100 else text[:99] + "…")
        return "\n".join([*lines, f"  … and {count - 3} more"] if count > 3 else lines)

    def _repr_html_(self) -> str | None:
        # By its name, because the pages are above this package, and only a notebook needs them.
        html: str | None = resolve_name("admire.apps.report.notebook:run_cards")(self)
        return html


OF_ROW = (
    *("compound", "sentence", "language"),
    *("predicted_type", "probability_idiomatic", "confidence", "unsure"),
)
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
    """The figures of a run's items, noted ranking by ranking; ``items`` are without candidates."""

    def __init__(
        self, record: Mapping[str, Any], metrics: Sequence[str], rankings: Iterable[Ranking] = ()
    ):
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
