"""Likelihood: candidates are scored by how probable texts about the compound are after each.

It is the query likelihood of UPR (Sachan et al. 2022, arXiv 2204.07496): a model that cannot judge
candidates can still be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from admire.base.errors import UserError
from admire.data.items import Candidate, Item
from admire.models.llm import ChatModel, Question, forget
from admire.prompts import Prompts
from admire.rankers.judgement import Answer, Judgement, ask_by_item
from admire.rankers.presentation import show, tracks_shown
from admire.rankers.scorer import query_weights, score
from admire.rankers.set_summary import summarise_set
from admire.rankers.settings import Scoring, Settings
from admire.senses.interpretation import Interpretation


def judge_likelihood(
    items: Sequence[Item],
    llm: ChatModel,
    prompts: Prompts,
    settings: Settings,
    readings: Sequence[Interpretation],
) -> list[Judgement]:
    """Rate the texts about each compound as the reply of a model that was shown a candidate.

    A text's likelihood is the mean log-probability of its tokens. Likelihoods take the place of
    cosines in :func:`admire.rankers.scorer.score`: they are standardised over the candidates, and
    the other sense counts against the meant one. Only texts that count are rated. A sequence is not
    shown.

    Args:
        readings: the senses, and the texts to rate.

    Raises:
        UserError: the model cannot be asked, cannot see what it must, or tells no probabilities.
    """
    tracks = tracks_shown(summarise_set(items), llm, settings.track)
    scoring = replace(settings.scoring, caption_weight=1.0)
    texts = [
        {"compound": item.phrase} | reading.texts()
        for item, reading in zip(items, readings, strict=True)
    ]
    weights = [
        {role: weight for role, weight in weighed.items() if weight}
        for weighed in (
            query_weights(scoring, reading.sense, of_item)
            for of_item, reading in zip(texts, readings, strict=True)
        )
    ]

    def ask(turn: tuple[int, Candidate]) -> Answer:
        number, candidate = turn
        bare = replace(items[number], sequence=())
        shown = show(prompts, "likelihood", bare, [candidate], tracks, settings.image_side)

        def likelihood(text: str) -> float:
            question = Question(shown, max_tokens=1, target=text, purpose="ranking")
            places = llm.ask(question).logprobs
            if not places:
                forget(llm, question)
                raise UserError(
                    f"{llm.name} tells no log-probabilities of a given text (prompt_logprobs). "
                    "vLLM does; of a GGUF file, name gguf:PATH.",
                    "rankers",
                    "llms",
                )
            return float(np.mean([logprob for place in places for logprob in place.values()]))

        likelihoods = {role: likelihood(texts[number][role]) for role in weights[number]}
        return Answer((candidate.name,), (candidate.name,), likelihoods=likelihoods)

    turns = [(k, candidate) for k, item in enumerate(items) for candidate in item.candidates]
    by_item = ask_by_item(ask, turns, items, llm, "Reading candidates")
    return [
        Judgement("likelihood", llm.name, _scores(answers, weighed, scoring), answers)
        for answers, weighed in zip(by_item, weights, strict=True)
    ]


def _scores(
    answers: Sequence[Answer], weights: dict[str, float], scoring: Scoring
) -> tuple[float, ...]:
    rows = np.array([[answer.likelihoods[role] for answer in answers] for role in weights])
    return tuple(score({"caption": rows}, list(weights.values()), scoring).tolist())
