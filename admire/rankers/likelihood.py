"""Likelihood: scores candidates by the probability of texts about the compound after each.

It is the query likelihood of UPR (Sachan et al. 2022, arXiv 2204.07496), also for tiny models.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from admire.core.errors import UserError
from admire.core.registry import register
from admire.data.items import Item
from admire.llm.chat import Capabilities, Question
from admire.llm.conversation import Conversation, Unusable
from admire.rankers.judgement import Answer, Judgement
from admire.rankers.presentation import show
from admire.rankers.ranker import Ranker
from admire.rankers.scorer import query_weights, score
from admire.rankers.settings import SetSummary
from admire.senses.interpretation import Interpretation


@register("ranker", "likelihood", citation="Sachan et al. 2022, arXiv 2204.07496")
class Likelihood(Ranker):
    """Texts about each compound, rated as the reply of a model that was shown a candidate.

    A text's likelihood is the mean log-probability of its tokens; likelihoods replace the cosines
    in :func:`admire.rankers.scorer.score`. A sequence is not shown.
    """

    task = "Reading candidates"

    def check(self, summary: SetSummary, llm: Capabilities) -> None:
        if not llm.scores_text:
            raise UserError(
                f"{llm.name} cannot return the probability of a given text, which the ranker "
                "likelihood needs. Use embedded, gguf:PATH, or a model on a vLLM server.",
                "rankers",
                "llms",
            )

    def scores(self, item: Item, reading: Interpretation | None) -> Conversation[Judgement]:
        alone, side = replace(item, sequence=()), self.settings.image_side
        assert reading is not None
        scoring = replace(self.settings.scoring, caption_weight=1.0)
        texts = {"compound": item.phrase} | reading.texts()
        every = query_weights(scoring, reading.sense, texts)
        weights = {role: weight for role, weight in every.items() if weight}
        questions = [
            Question(parts, max_tokens=1, target=texts[role], shown=(candidate.name,))
            for candidate in item.candidates
            for parts in [show(self.prompts, "likelihood", alone, [candidate], self.tracks, side)]
            for role in weights
        ]
        replies = yield questions
        if unrated := [q for q, r in zip(questions, replies, strict=True) if not r.logprobs]:
            yield Unusable(unrated)
            raise UserError(
                f"'{item.compound}': {self.llm and self.llm.name} returns no log-probabilities of "
                "a given text (prompt_logprobs). vLLM does; for a GGUF file, use gguf:PATH.",
                "rankers",
                "llms",
            )
        means = [float(np.mean([[*p.values()] for p in reply.logprobs or ()])) for reply in replies]
        rows = np.array(means).reshape(len(item.candidates), len(weights)).T
        points = score({"caption": rows}, [*weights.values()], scoring)
        answers = tuple(
            Answer((name,), (name,), likelihoods=dict(zip(weights, column, strict=True)))
            for name, column in zip(item.names, rows.T.tolist(), strict=True)
        )
        return Judgement(self.name, "", tuple(points.tolist()), answers)
