"""Likelihood: scores candidates by the probability of texts about the compound after each.

This is the query likelihood of UPR (Sachan et al. 2022, arXiv 2204.07496). It also works with
models that are too small to judge candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Item
from admire.llm import ChatModel, Question, evict
from admire.rankers.judgement import Answer, Judgement
from admire.rankers.presentation import show
from admire.rankers.ranker import Ranker
from admire.rankers.scorer import query_weights, score
from admire.rankers.set_summary import SetSummary
from admire.rankers.settings import Scoring
from admire.senses.interpretation import Interpretation


@register("ranker", "likelihood", citation="Sachan et al. 2022, arXiv 2204.07496")
class Likelihood(Ranker):
    """Texts about each compound, rated as the reply of a model that was shown a candidate.

    A text's likelihood is the mean log-probability of its tokens. Likelihoods replace the
    cosines in :func:`admire.rankers.scorer.score`: they are standardised over the candidates, and
    texts of the other sense lower the score. Only texts with a weight are rated. A sequence is not
    shown.
    """

    task = "Reading candidates"

    def check(self, summary: SetSummary, llm: ChatModel) -> None:
        if not llm.scores_text:
            raise UserError(
                f"{llm.name} cannot return the probability of a given text, which the ranker "
                "likelihood needs. Use embedded, gguf:PATH, or a model on a vLLM server.",
                "rankers",
                "llms",
            )

    @property
    def _scoring(self) -> Scoring:
        return replace(self.settings.scoring, caption_weight=1.0)

    def _weighted_texts(
        self, item: Item, reading: Interpretation | None
    ) -> dict[str, tuple[str, float]]:
        """Return the texts that count, each with its weight, by role."""
        assert reading is not None
        texts = {"compound": item.phrase} | reading.texts()
        weights = query_weights(self._scoring, reading.sense, texts)
        return {role: (texts[role], weight) for role, weight in weights.items() if weight}

    def questions(self, item: Item, reading: Interpretation | None) -> list[Question]:
        alone, side = replace(item, sequence=()), self.settings.image_side
        texts = self._weighted_texts(item, reading).values()
        return [
            Question(parts, max_tokens=1, target=text, purpose="ranking", shown=(candidate.name,))
            for candidate in item.candidates
            for parts in [show(self.prompts, "likelihood", alone, [candidate], self.tracks, side)]
            for text, _ in texts
        ]

    def answer(self, item: Item, reading: Interpretation | None, question: Question) -> Answer:
        places = self.model.ask(question).logprobs
        if not places:
            evict(self.model, question)
            raise UserError(
                f"{self.model.name} returns no log-probabilities of a given text (prompt_logprobs)."
                " vLLM does; for a GGUF file, use gguf:PATH.",
                "rankers",
                "llms",
            )
        mean = float(np.mean([[*place.values()] for place in places]))
        return Answer(question.shown, question.shown, likelihoods={"": mean})

    def judgement(
        self, item: Item, reading: Interpretation | None, answers: tuple[Answer, ...]
    ) -> Judgement:
        """Merge the answers about each candidate: one for each text, in the texts' order."""
        roles = [*self._weighted_texts(item, reading)]
        by_candidate = [
            replace(
                answers[start],
                likelihoods={
                    role: answer.likelihoods[""]
                    for role, answer in zip(roles, answers[start:], strict=False)
                },
            )
            for start in range(0, len(answers), len(roles))
        ]
        return super().judgement(item, reading, tuple(by_candidate))

    def scores(
        self, item: Item, reading: Interpretation | None, answers: Sequence[Answer]
    ) -> list[float]:
        texts = self._weighted_texts(item, reading)
        rows = np.array([[answer.likelihoods[role] for answer in answers] for role in texts])
        weights = [weight for _, weight in texts.values()]
        scores: list[float] = score({"caption": rows}, weights, self._scoring).tolist()
        return scores
