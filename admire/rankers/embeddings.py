"""Embeddings: compares candidates with texts about the compound, as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import get_args

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Item, SenseLabel
from admire.rankers.judgement import Judgement, Part, as_counted
from admire.rankers.ranker import ComparingRanker
from admire.rankers.run_encoders import Encoded, RunEncoder, share_a_view, that_compare
from admire.rankers.scorer import comparable, compared, contributions, query_weights, score
from admire.senses.interpretation import Interpretation
from admire.senses.sense import likelier

_Query = tuple[dict[str, str], dict[SenseLabel | None, dict[str, float]]]
"""What candidates are compared with: texts by role (empty for ``sequence``), and the weights of
these roles by sense: of None for the scores, and of either sense if it is unsure and has an
idiomatic text. A role of weight 0 does not count, but its cosines are recorded."""


@register("ranker", "embeddings", needs=("embedded",))
class Embeddings(ComparingRanker):
    """Vectors: candidates are compared with texts about the compound.

    Of several encoders, an item leaves out those that do not know its language, or that encode too
    little of its candidates. If that leaves none, the first one compares.
    """

    uses_encoders = True

    def __init__(self, encoders: Sequence[RunEncoder]):
        self.encoders = encoders

    def judge(
        self, items: Sequence[Item], readings: Sequence[Interpretation | None]
    ) -> list[tuple[Judgement, ...]]:
        """Return a judgement by each encoder; see :class:`ComparingRanker`."""
        judged: list[tuple[Judgement, ...]] = [()] * len(items)
        queries = list(map(self._query, items, readings))
        compared_by = [that_compare(self.encoders, item) for item in items]
        for encoder in self.encoders:
            places = [k for k, by in enumerate(compared_by) if encoder in by]
            viewed = cache(partial(share_a_view, encoders=encoder.tracks))  # warns once
            own = [viewed(items[k]) for k in places]
            texts = [text for k in places for text in queries[k][0].values() if text]
            encoded = encoder.encode(own, texts)
            for k, item in zip(places, own, strict=True):
                judged[k] += (self._compare(item, queries[k], encoded, encoder),)
        return judged

    def _query(self, item: Item, reading: Interpretation | None) -> _Query:
        """Return the query for a chat model's interpretation, or for a baseline."""
        scoring, baseline = self.settings.scoring, self.settings.query
        if reading is None or baseline != "meaning":
            texts = {"compound": item.phrase, "sentence": item.sentence, "sequence": ""}
            return {baseline: texts[baseline]}, {None: {baseline: 1.0}}
        texts = {"compound": item.phrase} | reading.texts()
        if item.sequence:
            texts["sequence"] = ""
        zeros, weights = dict.fromkeys(texts, 0.0), dict[SenseLabel | None, dict[str, float]]()
        weights[None] = zeros | query_weights(scoring, reading.sense, texts)
        if reading.sense.is_unsure and reading.idiomatic:
            for label in get_args(SenseLabel):
                sense = likelier(label == "idiomatic", "given")
                weights[label] = zeros | query_weights(scoring, sense, texts)
        return texts, weights

    def _compare(
        self, item: Item, query: _Query, encoded: Encoded, encoder: RunEncoder
    ) -> Judgement:
        """Compare an item's candidates with its query, by one encoder."""
        (texts, weights), scoring, noise = query, self.settings.scoring, encoder.noise
        cosines = encoder.cosines(item, texts, encoded)
        if "sequence" in texts and not any(
            getattr(part, track) for part in item.sequence for track in cosines
        ):
            raise UserError(f"'{item.compound}': its sequence has no {'+'.join(cosines)}.", "track")
        by_sense = {
            sense: score(cosines, [*by_role.values()], scoring, noise)
            for sense, by_role in weights.items()
        }
        counted = [*weights[None].values()]
        added = contributions(cosines, counted, scoring, noise)
        roles = [*texts]  # the first is the compound, whose part is the last
        parts = [
            Part(track, "unlike " * (weights[None][role] < 0) + role, values[roles.index(role)])
            for track, values in added.items()
            for role in roles[1:] + roles[:1]
            if weights[None][role]
        ]
        if len(self.encoders) > 1 and scoring.standardise != "noise":
            parts = as_counted(parts, by_sense[None], 1)
            by_sense = {sense: comparable(values) for sense, values in by_sense.items()}
        return Judgement(
            self.name,
            "",
            tuple(by_sense[None].tolist()),
            (),
            encoder=encoder.name,
            parts=tuple(parts),
            compared=compared(cosines, scoring).tolist(),
            leads=score(cosines, counted, scoring, noise, unit="noise alone"),
            cells={
                f"{track}_{role}": values
                for track, rows in cosines.items()
                for role, values in zip(roles, rows, strict=True)
            },
            by_sense={sense: tuple(values.tolist()) for sense, values in by_sense.items() if sense},
        )
