"""What a set of items shares with other sets, repeats and lacks, and what depends on order."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from admire.core.choices import RankQuery
from admire.core.errors import UserError
from admire.core.files import read_text
from admire.core.schema import Seed, check_setting
from admire.data.compounds import find_compound
from admire.data.items import Candidate, Item, SenseLabel, item_keys
from admire.data.overlap import KINDS, Digests, alike, parts_of, picture_hashes
from admire.metrics.leakage import SAW, Card
from admire.pipeline.ranking import Ranking
from admire.pipeline.run import rank
from admire.pipeline.run_folder import read_run
from admire.rankers.settings import Settings
from admire.senses.dictionaries import Dictionary, look_up


@dataclass(frozen=True)
class Evenness:
    """How often something is on each place, and would be if an item's places were equally likely.

    ``p`` is the probability that chance alone is at least as uneven, by simulation.
    """

    counts: tuple[int, ...]
    expected: tuple[float, ...]
    p: float


def evenness(places: Iterable[tuple[int, int]], *, draws: int = 5000, seed: int = 0) -> Evenness:
    """Judge how evenly places, from 0, are filled; each is given with the number to choose from."""
    check_setting("seed", seed, Seed)
    sizes: Counter[int] = Counter()
    filled: Counter[int] = Counter()
    for place, count in places:
        sizes[count] += 1
        filled[place] += 1
    width, rng = max(sizes), np.random.default_rng(seed)
    expected = np.zeros(width)
    drawn = np.zeros((draws, width))
    for count, times in sorted(sizes.items()):
        expected[:count] += times / count
        drawn[:, :count] += rng.multinomial(times, [1 / count] * count, size=draws)
    counts = np.array([*map(filled.__getitem__, range(width))])
    uneven = ((counts - expected) ** 2 / expected).sum()
    chance = ((drawn - expected) ** 2 / expected).sum(axis=1)
    p = (1 + (chance >= uneven - 1e-9).sum()) / (draws + 1)
    return Evenness(tuple(counts.tolist()), tuple(expected.tolist()), float(p))


@dataclass(frozen=True)
class OrderCheck:
    """Where the order of candidates may matter. Items are numbered from 1.

    Attributes:
        by, items: how, and how many of them, were ranked.
        tied, tied_first: items with equal scores, and with several highest ones.
        shown: for each ``ranker`` and ``llm`` of a run, how many ``answers`` contain an order, and
            the ``places`` at which their best candidates were shown.
        unchecked: why nothing was ranked; None if it was.
    """

    by: str
    items: int = 0
    tied: tuple[int, ...] = ()
    tied_first: tuple[int, ...] = ()
    shown: tuple[dict[str, Any], ...] = ()
    unchecked: str | None = None


def check_order(items: Sequence[Item], run: Path | None = None, *, seed: int = 0) -> OrderCheck:
    """Find ties in a run of the items, and positions that its chat models prefer.

    Without a run the items that can be are ranked by embeddings; the query is the sentence, in
    Subtask B the compound. No chat model is asked.
    """
    if run:
        rankings = read_run(run).rankings
        if item_keys(items) != item_keys([ranking.item for ranking in rankings]):
            raise UserError(
                f"{run}: is a run of other items than the data. Give its own data.", "run"
            )
        best_places = tuple(_best_places(rankings, seed))
        ties = _ties(range(1, len(items) + 1), rankings)
        return OrderCheck(f"the settings of {run}", len(items), shown=best_places, **ties)
    contexts = {item.context for item in items}
    query: RankQuery = "compound" if "sequence" in contexts else "sentence"
    captions = all(candidate.caption for item in items for candidate in item.candidates)
    settings = Settings(query=query, track="caption" if captions else None)
    check = OrderCheck(f"embeddings, with the {query} as the query")
    rankable = [number for number, item in enumerate(items, start=1) if _rankable(item)]
    if not rankable:
        return replace(check, unchecked="No item has candidates to rank.")
    try:
        rankings = rank([items[number - 1] for number in rankable], settings).rankings
    except UserError as error:
        return replace(check, unchecked=str(error))
    return replace(check, items=len(rankable), **_ties(rankable, rankings))


def _rankable(item: Item) -> bool:
    complete = all(thing.caption or thing.image for thing in item.things)
    return bool(item.candidates and (item.sentence.strip() or item.sequence) and complete)


def _ties(numbers: Iterable[int], rankings: Iterable[Ranking]) -> dict[str, Any]:
    tied = {number: r for number, r in zip(numbers, rankings, strict=True) if r.tied}
    first = tuple(number for number, r in tied.items() if r.order[0] in r.tied)
    return {"tied": tuple(tied), "tied_first": first}


def _best_places(rankings: Sequence[Ranking], seed: int) -> Iterator[dict[str, Any]]:
    places: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for judgement in chain.from_iterable(ranking.judgements for ranking in rankings):
        places[judgement.ranker, judgement.llm] += [
            (answer.shown.index(answer.order[0]), len(answer.shown))
            for answer in judgement.answers
            if len(answer.shown) > 1 and answer.order
        ]
    for (ranker, llm), shown_at in places.items():
        if shown_at:
            even = evenness(shown_at, seed=seed)
            yield {"ranker": ranker, "llm": llm, "answers": len(shown_at), "places": even}


AUDIT = "audit.json"  #: an audit's file name in a run folder


@dataclass(frozen=True)
class Audit:
    """Overlap of a set with others, its duplicates and missing parts. Items are numbered from 1.

    Attributes:
        against: for each other set its ``name``; ``items``, how many it has (None for a set of
            digests); ``unread``, why pictures of it could not be read, each reason once;
            and ``kinds``: by kind of part, how many different ones of this set were ``compared``
            (0 where the other set has none), how many of these are ``shared``, and how many
            ``items`` have one of those.
        matches: the parts that other sets have as well, a row for each place: ``against``,
            ``kind``, ``digest``, ``side`` (``here`` or ``there``), ``item``, ``compound``, ``name``
            (the beginning of the text, or the picture's name) and ``sense``. Rows with the same
            first three belong together. ``sense`` is whether the other items have the ``same``
            sense as the item here, the ``opposite`` one or ``both``; None if any is unknown. A set
            of digests has no rows ``there``.
        repeats: the parts that the set has more than once, a row for each place: ``kind``,
            ``digest``, ``item``, ``name``. Rows with the same kind and digest belong together.
        different: by kind, how many different ones the set has.
        lacks: for each check ``what`` may be missing, its ``count`` ``of`` how many, the numbers
            of the ``items``, and ``which`` files or reasons there are to name.
        senses: by ``language`` the ``items``, and how many are ``idiomatic``, ``literal`` and
            ``unknown``.
        lengths: ``least``, ``median`` and ``most`` words or candidates; ``what`` is counted.
        best: the positions of the best candidates in the file, by gold; None without gold.
        order: ties and the positions that chat models prefer; None if it was not checked.
        known: the ``dictionaries``, and the compounds by their entries: only ``idiomatic``, only
            ``literal``, ``both`` or ``neither``; None without dictionaries.
    """

    items: int
    against: list[dict[str, Any]]
    matches: pd.DataFrame
    repeats: pd.DataFrame
    different: dict[str, int]
    lacks: list[dict[str, Any]]
    senses: list[dict[str, Any]]
    lengths: list[dict[str, Any]]
    best: Evenness | None
    order: OrderCheck | None = None
    known: dict[str, list[str]] | None = None

    def as_json(self, data: str = "") -> dict[str, Any]:
        """Return the audit as in ``audit.json``; ``data`` is the set's file or folder."""
        values = {"data": data, **vars(self)}
        for name in ("matches", "repeats"):
            values[name] = json.loads(values[name].to_json(orient="records"))
        for name in ("best", "order"):
            values[name] = asdict(values[name]) if values[name] else None
        return values


def audit(
    items: Sequence[Item],
    against: Mapping[str, Sequence[Item] | Digests] | None = None,
    *,
    order: OrderCheck | None = None,
    dictionaries: Sequence[Dictionary] = (),
    seed: int = 0,
) -> Audit:
    """Compare a set of items with others, or with digests of training data, and with itself.

    A picture that cannot be read is counted, not refused.
    """
    parts, unread = _parts(items)
    sets, matches = [], [_match(parts, parts[:0])]
    for name, other in (against or {}).items():
        there, reasons = _parts(other)
        shared = _match(parts, there).assign(against=name)
        matches.append(shared)
        tables = (parts, there, shared[shared["side"] == "here"])
        kinds = {}
        for kind in KINDS:
            own, theirs, both = (table[table["kind"] == kind] for table in tables)
            kinds[kind] = {
                "compared": own["digest"].nunique() if len(theirs) else 0,
                "shared": both["digest"].nunique(),
                "items": both["item"].nunique(),
            }
        count = None if isinstance(other, Mapping) else len(other)
        why = list(dict.fromkeys(reasons.values()))
        sets.append({"name": name, "items": count, "kinds": kinds, "unread": why})
    places = [
        (item.names.index(item.best), len(item.candidates))
        for item in items
        if item.best and item.candidates
    ]
    senses: list[dict[str, Any]] = []
    for language in dict.fromkeys(item.language for item in items):
        counts = Counter(item.sentence_type for item in items if item.language == language)
        of_sense = {sense: counts[sense] for sense in get_args(SenseLabel)} | {
            "unknown": counts[None]
        }
        senses.append({"language": language, "items": counts.total(), **of_sense})
    return Audit(
        items=len(items),
        against=sets,
        matches=pd.concat(matches, ignore_index=True),
        repeats=_repeats(parts),
        different={kind: parts.loc[parts["kind"] == kind, "digest"].nunique() for kind in KINDS},
        lacks=list(_lacks(items, unread)),
        senses=senses,
        lengths=list(_lengths(items)),
        best=evenness(places, seed=seed) if places else None,
        order=order,
        known=_known(items, parts, dictionaries) if dictionaries else None,
    )


COLUMNS = ["kind", "digest", "item", "compound", "name", "sense"]


def _parts(items: Sequence[Item] | Digests) -> tuple[pd.DataFrame, dict[Path, str]]:
    """Return a row for each part of items or each digest, and why pictures could not be read."""
    if isinstance(items, Mapping):
        listed = [(kind, digest) for kind in KINDS for digest in items.get(kind, ())]
        return pd.DataFrame(listed, columns=COLUMNS[:2]).reindex(columns=COLUMNS), {}
    hashes, unread = picture_hashes(
        candidate.image for _, candidate in _things(items) if candidate.image
    )
    rows = []
    for part in parts_of(items, hashes=hashes):
        item, name = items[part.item], part.name
        if part.kind != "picture":
            name = textwrap.shorten(name, 60, placeholder="…")
        row = part.kind, part.digest, part.item + 1, item.compound, name, item.sentence_type
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS), unread


def _match(parts: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of :attr:`Audit.matches` for one other set, without its name."""
    pictures = (table.loc[table["kind"] == "picture", "digest"] for table in (there, parts))
    like = alike(*pictures)
    same = [
        like.get(digest, []) if kind == "picture" else [digest]
        for kind, digest in zip(there["kind"], there["digest"], strict=True)
    ]
    key = ["kind", "digest"]
    theirs = there.assign(digest=pd.Series(same, there.index, object), side="there")
    theirs = theirs.explode("digest").merge(parts[key].drop_duplicates(), on=key)
    mine = parts.merge(theirs[key].drop_duplicates(), on=key).assign(side="here")
    senses = defaultdict(set)
    for *part, sense in theirs[[*key, "sense"]].itertuples(index=False):
        senses[tuple(part)].add(None if pd.isna(sense) else sense)
    relations: list[str | None] = []
    for *part, own in mine[[*key, "sense"]].itertuples(index=False):
        others = senses[tuple(part)]
        same_sense = "both" if len(others) > 1 else "same"
        relation = same_sense if own in others else "opposite"
        relations.append(None if own is None or None in others else relation)
    mine["sense"] = pd.Series(relations, mine.index, object)
    theirs = theirs[theirs["item"].notna()].assign(sense=None)
    both = pd.concat([mine, theirs]) if len(theirs) else mine
    columns = ["against", *COLUMNS[:2], "side", *COLUMNS[2:]]
    return both.assign(against="", item=both["item"].astype(int))[columns]


def read_training_digests(path: Path) -> Digests | None:
    """Return the digests of what a head, classifier or detector was trained on, by its card.

    None if the path is neither such a folder nor a JSON file.
    """
    names = ("head.json", "admire.json")  # of heads and of classifiers
    cards = [path / name for name in names if (path / name).is_file()]
    if not cards and (path.is_dir() or path.suffix.lower() != ".json"):
        return None
    try:
        card: Any = json.loads(read_text(cards[0] if cards else path))
        card = card if cards else card["card"]
        Card.model_validate(card)
        listed: Digests = card[SAW]
        return listed
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: does not list its training data. Train it again with admire.", "against"
        ) from None


def _repeats(parts: pd.DataFrame) -> pd.DataFrame:
    """Return the parts that several items share, or several candidates of one item."""
    hashes = parts.loc[parts["kind"] == "picture", "digest"].unique()
    first: dict[str, str] = {}  # by picture the first one that looks like it
    for picture, near in alike(hashes, hashes).items():
        for other in near:
            first.setdefault(other, first.get(picture, picture))
    same = parts.assign(digest=[first.get(digest, digest) for digest in parts["digest"]])
    repeated = same[same.duplicated(["kind", "digest"], keep=False)]
    return repeated[["kind", "digest", "item", "name"]].reset_index(drop=True)


def _lacks(items: Sequence[Item], unread: Mapping[Path, str]) -> Iterator[dict[str, Any]]:
    numbered = list(enumerate(items, start=1))
    written = [(k, item) for k, item in numbered if item.sentence.strip()]
    things = _things(items)
    pictures = [(k, candidate) for k, candidate in things if candidate.image]

    def is_named(candidate: Candidate) -> bool:
        return not re.fullmatch(r"(candidate|sequence)\d+", candidate.name)  # by the reader

    checks: tuple[tuple[str, Sequence[tuple[int, Any]], Callable[[Any], object]], ...] = (
        ("a sentence or sequence", numbered, lambda item: item.sentence.strip() or item.sequence),
        ("a sense", numbered, lambda item: item.sentence_type),
        ("a gold order", numbered, lambda item: item.best),
        ("candidates", numbered, lambda item: item.candidates),
        ("the compound in the sentence", written, in_sentence),
        ("a caption", things, lambda candidate: candidate.caption),
        ("a picture", things, lambda candidate: candidate.image or is_named(candidate)),
        ("the picture's file", things, lambda thing: thing.image or not is_named(thing)),
        ("a readable picture", pictures, lambda candidate: candidate.image not in unread),
    )
    for part, of, has in checks:
        if not of:
            continue
        missing = [(k, thing) for k, thing in of if not has(thing)]
        which: list[str] = []
        if part == "the picture's file":
            which = [candidate.name for _, candidate in missing]
        elif part == "a readable picture":
            which = list(dict.fromkeys(unread[candidate.image] for _, candidate in missing))
        numbers = list(dict.fromkeys(k for k, _ in missing))
        yield {"what": part, "count": len(missing), "of": len(of), "items": numbers, "which": which}


def _things(items: Iterable[Item]) -> list[tuple[int, Candidate]]:
    """Return each candidate and each element of a sequence, with its item's number."""
    return [(k, candidate) for k, item in enumerate(items, start=1) for candidate in item.things]


def in_sentence(item: Item) -> bool:
    """Return whether the compound is in its sentence, inflected or with words between."""
    return find_compound(item.sentence, item.phrase) is not None


def _lengths(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    captions = [candidate.caption for _, candidate in _things(items) if candidate.caption]
    for kind, counts in (
        ("words of a sentence", [len(i.sentence.split()) for i in items if i.sentence]),
        ("words of a caption", [len(caption.split()) for caption in captions]),
        ("candidates of an item", [len(i.candidates) for i in items if i.candidates]),
    ):
        if counts:
            middle = float(np.median(counts))
            yield {"what": kind, "least": min(counts), "median": middle, "most": max(counts)}


def _known(
    items: Sequence[Item], parts: pd.DataFrame, dictionaries: Sequence[Dictionary]
) -> dict[str, list[str]]:
    """See :attr:`Audit.known`. Compounds that count as the same are looked up once."""
    compounds_of: dict[str, list[str]] = {"idiomatic": [], "literal": [], "both": [], "neither": []}
    compounds = parts[parts["kind"] == "compound"].drop_duplicates("digest")
    for number in compounds["item"]:
        item = items[number - 1]
        entries = look_up(dictionaries, item.phrase, item.language)
        senses = [sense for sense in get_args(SenseLabel) if getattr(entries, sense)]
        sense = "both" if len(senses) > 1 else senses[0] if senses else "neither"
        compounds_of[sense].append(item.phrase)
    return {"dictionaries": [dictionary.name for dictionary in dictionaries], **compounds_of}
