"""Likelihood: candidates are scored by how probable texts about the compound are after each.

It is the query likelihood of UPR (Sachan et al. 2022, arXiv 2204.07496): a model that cannot judge
candidates can still be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from admire.base.errors import UserError
from admire.data.items import Candidate, Item
from admire.models.llm import ChatModel, Question, Unanswered, forget
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
        _weighted_texts(item, reading, scoring)
        for item, reading in zip(items, readings, strict=True)
    ]

    def ask(turn: tuple[int, Candidate]) -> Answer:
        number, candidate = turn
        bare = replace(items[number], sequence=())
        parts = show(prompts, "likelihood", bare, [candidate], tracks, settings.image_side)

        likelihoods: dict[str, float] = {}
        for role, (text, _) in texts[number].items():
            question = Question(parts, max_tokens=1, target=text, purpose="ranking")
            with suppress(Unanswered):  # so a forecast counts all of them
                places = llm.ask(question).logprobs
                if not places:
                    forget(llm, question)
                    raise UserError(
                        f"{llm.name} tells no log-probabilities of a given text (prompt_logprobs). "
                        "vLLM does; of a GGUF file, name gguf:PATH.",
                        "rankers",
                        "llms",
                    )
                likelihoods[role] = float(np.mean([[*place.values()] for place in places]))
        if len(likelihoods) < len(texts[number]):
            raise Unanswered
        return Answer((candidate.name,), (candidate.name,), likelihoods=likelihoods)

    turns = [(k, candidate) for k, item in enumerate(items) for candidate in item.candidates]
    by_item = ask_by_item(ask, turns, items, llm, "Reading candidates")
    return [
        Judgement("likelihood", llm.name, _scores(answers, item_texts, scoring), answers)
        for answers, item_texts in zip(by_item, texts, strict=True)
    ]


def _weighted_texts(
    item: Item, reading: Interpretation, scoring: Scoring
) -> dict[str, tuple[str, float]]:
    """Return the texts that count, each with its weight, by role."""
    texts = {"compound": item.phrase} | reading.texts()
    weights = query_weights(scoring, reading.sense, texts)
    return {role: (texts[role], weight) for role, weight in weights.items() if weight}


def _scores(
    answers: Sequence[Answer], texts: dict[str, tuple[str, float]], scoring: Scoring
) -> tuple[float, ...]:
    rows = np.array([[answer.likelihoods[role] for answer in answers] for role in texts])
    weights = [weight for _, weight in texts.values()]
    return tuple(score({"caption": rows}, weights, scoring).tolist())
