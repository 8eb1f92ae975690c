"""Chat models that look at candidates: they know the truth, and may be noisy and biased.

``PYTHONPATH=tests/fakes python -m judges`` prints the simulation of ``docs/figures.md``.
"""

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from admire import Candidate, Item, Settings
from admire.llm import ChatModel, Image, Question, Reply
from admire.llm.probes import DIGITS, NUMBER

SHOWN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|Candidate (?P<letter>[A-Z])\b|<image (?P<image>.*?)>'
)


class Judge(ChatModel):
    """Answers every kind of question of the rankers as one who knows what each candidate is worth.

    Args:
        worth: of a candidate, by its caption or by the name of its image's file.
        noise: the deviation of what is added to each worth, anew in each question.
        first: what is added to the candidate that is shown first.
        spoil: changes a reply's text, given the question and how often it was put.
    """

    def __init__(
        self,
        worth: Mapping[str, float],
        *,
        name: str = "judge",
        sense: str = "idiomatic",
        noise: float = 0.0,
        first: float = 0.0,
        sees: bool = True,
        logprobs: bool = True,
        spoil: Callable[[str, Question, int], str] = lambda text, question, count: text,
    ):
        self.name = self.identity = name
        self.parallel = 1
        self.accepts_images = sees
        self.scores_text = False
        self.questions: list[Question] = []
        self._asked: Counter[object] = Counter()
        self._worth, self._sense, self._noise, self._first = worth, sense, noise, first
        self._logprobs, self._spoil = logprobs, spoil

    def ask(self, question: Question) -> Reply:
        if question is DIGITS:
            return Reply(NUMBER)
        self.questions.append(question)
        self._asked[question.parts] += 1
        felt = self._felt(question) if question.purpose == "ranking" else {}
        fields: Mapping[str, Any] = (question.schema or {}).get("properties", {})
        if question.logprobs:
            (worth,) = felt.values()
            likely = {"A": math.log(worth), "B": math.log(0.5 * (1 - worth)), "x": -9.0}
            letter = max(likely, key=likely.__getitem__)
            return Reply(letter, logprobs=(likely,) if self._logprobs else None)
        if "order" in fields:
            best = sorted(felt, key=lambda letter: -felt[letter])
            text = json.dumps(self._reasoned(best, list(fields)))
        elif "better" in fields:
            gap = felt["A"] - felt["B"]
            better = "equal" if not gap else "A" if gap > 0 else "B"
            text = json.dumps({"reason": "It fits.", "better": better})
        elif "neither" in fields:
            (worth,) = felt.values()
            shown = {"idiomatic": worth, "literal": (1 - worth) / 2, "neither": (1 - worth) / 2}
            text = json.dumps({name: round(100 * value) for name, value in shown.items()})
        else:  # a vote, or the meanings
            text = self._sense.capitalize()
        return Reply(self._spoil(text, question, self._asked[question.parts]))

    def _felt(self, question: Question) -> dict[str, float]:
        """What each candidate seems to be worth, by letter, in the order shown."""
        parts = [question.parts] if isinstance(question.parts, str) else list(question.parts)
        texts = [f"<image {p.path.name}>" if isinstance(p, Image) else p for p in parts]
        text = "\n".join(texts)
        rng = np.random.default_rng(zlib.crc32(text.encode()))
        felt: dict[str, float] = {}
        letter = "A"  # where one is shown alone, it has none
        for match in SHOWN.finditer(text):
            letter = match["letter"] or letter
            key = json.loads(match["text"]) if match["text"] else match["image"]
            if key in self._worth and letter not in felt:
                bias = 0.0 if felt else self._first
                felt[letter] = self._worth[key] + self._noise * rng.standard_normal() + bias
        return felt

    def _reasoned(self, best: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
        one = {"elements": "lamp", "expresses": "late hours"}
        roles = ("meant", "related", "other", "other_related", "unrelated")
        said = {
            "literal_use": "The owl flew.",
            "idiomatic_use": "He is up late.",
            "sense": self._sense,
            "meaning": "someone awake late",
            "candidates": {
                letter: one | {"role": roles[min(place, 4)]} for place, letter in enumerate(best)
            },
            "order": list(best),
        }
        return {field: said[field] for field in fields}


WORTHS = {f"caption {k}": (9 - 2 * k) / 10 for k in range(5)}
"""Captions and what they are worth, the best first: 0.9 to 0.1."""


def item_of(captions: Sequence[str], compound: str = "night owl", **fields: Any) -> Item:
    candidates = tuple(Candidate(f"{text}.png", caption=text) for text in captions)
    return Item(compound, f"A {compound}.", candidates=candidates, **fields)


ITEM = item_of(list(WORTHS))
BEST = tuple(candidate.name for candidate in ITEM.candidates)


def settings(*rankers: str, **changes: Any) -> Settings:
    return Settings(rankers=rankers, **({"meanings": "gloss", "votes": 1} | changes))


def pictured(folder: Path, names: Sequence[str], captions: bool = False) -> Item:
    """An item with small pictures of these names, of a colour each."""
    from PIL import Image as Pillow

    candidates = []
    for k, name in enumerate(names):
        Pillow.new("RGB", (8, 6), (40 * k, 0, 99)).save(folder / name)
        candidates.append(Candidate(name, folder / name, f"of {name}" if captions else None))
    return Item("night owl", "A night owl.", candidates=tuple(candidates))


WORTH = np.array([1.0, 0.5, 0.0, -0.5, -1.0])
ASTRAY = WORTH[[3, 2, 1, 0, 4]]
"""What candidates are worth to one who takes the sentence to mean the other sense."""
NOISE, FIRST = 1.0, 1.0


def simulated_orders(
    items: int,
    shuffles: int,
    rng: np.random.Generator,
    *,
    noise: float = NOISE,
    first: float = FIRST,
    astray: float = 0.0,
) -> npt.NDArray[np.int64]:
    """Places that a noisy judge gives, shape (items, shuffles, candidates); candidate 0 is best.

    Each candidate stands once in each place, where there are as many shuffles as candidates. In a
    share ``astray`` of its replies the judge takes the sentence to mean the other sense.
    """
    count = len(WORTH)
    start = rng.permuted(np.tile(np.arange(count), (items, 1)), axis=1)
    seen_first = start[:, np.arange(shuffles) % count]
    felt = np.where(rng.random((items, shuffles, 1)) < astray, ASTRAY, WORTH)
    felt = felt + noise * rng.standard_normal((items, shuffles, count))
    felt += first * (seen_first[:, :, None] == np.arange(count))
    return np.argsort(np.argsort(-felt, axis=2), axis=2)


def predicted(shuffles: int, how: str, *, items: int = 60_000, **judge: float) -> float:
    """Top-1 by a large simulation whose aggregation shares no line with admire's.

    Where several candidates are best, each counts in part.
    """
    stood = simulated_orders(items, shuffles, np.random.default_rng(12345), **judge)
    sums = stood.sum(axis=1)
    if how == "borda":
        best = sums == sums.min(axis=1, keepdims=True)
        return float((best[:, 0] / best.sum(axis=1)).mean())
    before = (stood[:, :, :, None] < stood[:, :, None, :]).sum(axis=1)
    every = list(permutations(range(len(WORTH))))
    agreed = np.stack(
        [
            sum(before[:, one, two] for k, one in enumerate(order) for two in order[k + 1 :])
            + sum(0.001 * k * sums[:, one] for k, one in enumerate(order))  # of equals, Borda's
            for order in every
        ],
        axis=1,
    ).round(6)
    nearest = agreed == agreed.max(axis=1, keepdims=True)
    on_top = np.array([order[0] == 0 for order in every])
    return float((nearest[:, on_top].sum(axis=1) / nearest.sum(axis=1)).mean())


def one_shuffle(*, noise: float = NOISE, first: float = FIRST, astray: float = 0.0) -> float:
    """Top-1 of one shuffle in closed form: the chance that the best candidate seems to be best."""
    from scipy.integrate import quad
    from scipy.stats import norm

    def chance(worth: npt.NDArray[np.float64]) -> float:
        def density(x: float) -> float:
            others = norm.cdf((x - worth[1:]) / noise)
            return float(norm.pdf((x - worth[0]) / noise) / noise * others.prod())

        return float(quad(density, worth[0] - 8 * noise, worth[0] + 8 * noise)[0])

    liked = first * np.eye(len(WORTH))
    right, wrong = (np.mean([chance(worth + one) for one in liked]) for worth in (WORTH, ASTRAY))
    return float((1 - astray) * right + astray * wrong)


if __name__ == "__main__":
    print("| noise | first | astray | K = 1 | 5, Borda | 5, Kemeny | 10, Borda | 10, Kemeny |")
    print("|---|---|---|---|---|---|---|---|")
    for noise, first, astray in (
        (0.5, 0.0, 0.0),
        (0.5, 1.0, 0.0),
        (0.5, 1.0, 0.1),
        (0.5, 1.0, 0.2),
        (1.0, 0.0, 0.0),
        (1.0, 1.0, 0.0),
        (1.0, 2.0, 0.0),
        (1.0, 1.0, 0.2),
    ):
        judge = {"noise": noise, "first": first, "astray": astray}
        figures = [one_shuffle(**judge)]
        figures += [predicted(k, how, **judge) for k in (5, 10) for how in ("borda", "kemeny")]
        print(f"| {noise} | {first} | {astray} | {' | '.join(f'{one:.3f}' for one in figures)} |")
