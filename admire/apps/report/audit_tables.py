"""Tables of an audit, for the command line and for the head of a report."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from admire.apps.audit.audit import AUDIT
from admire.apps.report.report import Table, file_name, short_name
from admire.core.files import read_text
from admire.data.overlap import KINDS
from admire.metrics.figures import NOTHING

NAMED = 5  #: how many items or parts a cell names

Match = Mapping[str, Any]  #: a row of :attr:`admire.apps.audit.audit.Audit.matches`


def run_audits(folders: Sequence[Path], names: Sequence[str]) -> list[Table]:
    """Return the tables of those runs that have been audited."""
    tables: list[Table] = []
    for folder, name in zip(folders, names, strict=True):
        if (path := folder / AUDIT).is_file():
            tables += audit_tables(json.loads(read_text(path)), of=name * (len(folders) > 1))
    return tables


def audit_tables(audit: Mapping[str, Any], *, items: int = 100, of: str = "") -> list[Table]:
    """Return the tables of :meth:`admire.apps.audit.audit.Audit.as_json`: what sets share, by which
    items, the set itself, and which compounds dictionaries have.

    Args:
        items: how many items that share something are shown at most.
        of: the name of the audited run, for the titles.
    """
    audited = f"Audit of {of}" if of else "Audit"
    headings = ("Finding", "How many", "Which")
    the_set = Table(f"{audited}: the set", headings, (*_findings(audit),), folded=True)
    end = [the_set, *_known_tables(audited, audit["known"])]
    if not audit["against"]:
        return end
    touched = defaultdict[tuple[str, int], list[Match]](list)  # by other set and item
    # The other set's items, by what they share.
    others = defaultdict[tuple[str, ...], set[int]](set)
    for match in audit["matches"]:
        if match["side"] == "here":
            touched[match["against"], match["item"]].append(match)
        else:
            others[_shared(match)].add(match["item"])
    count = len({item for _, item in touched})
    shares = Table(
        f"{audited}: {count} of {audit['items']} items share something with other sets",
        ("Against", "Items", *(f"{kind.title()}s" for kind in KINDS), "Same sense", "Opposite"),
        tuple(_overlap_row(overlap, touched) for overlap in audit["against"]),
        "Items: how many share anything. Of compounds, sentences, captions and pictures, how many "
        "distinct ones; – where the other set or this one has none. Pictures "
        "are the same if they look alike.",
    )
    if not touched:
        return [shares, *end]
    hidden = len(touched) - items
    which = Table(
        f"{audited}: items that share something",
        ("Item", "Against", "What it shares", "With", "Sense"),
        tuple(_item_row(matches, others) for matches in list(touched.values())[:items]),
        f"And {hidden} more; the JSON has them all." if hidden > 0 else "",
        folded=True,
    )
    return [shares, which, *end]


def _known_tables(audited: str, compounds: Mapping[str, Sequence[str]] | None) -> Iterator[Table]:
    """Yield the table of the compounds that dictionaries have, if any were asked."""
    if not compounds:
        return
    rows = {
        "Idiomatic only": compounds["idiomatic"],
        "Literal only": compounds["literal"],
        "Of both senses": compounds["both"],
        "None": compounds["neither"],
    }
    count = sum(map(len, rows.values()))
    names = ", ".join(map(short_name, compounds["dictionaries"]))
    yield Table(
        f"{audited}: {count - len(compounds['neither'])} of {count} compounds are in a dictionary",
        (f"Entries in {names}", "Compounds", "Which"),
        tuple((entries, str(len(which)), _first(which)) for entries, which in rows.items()),
        "This is outside knowledge, not leakage: a dictionary says what a compound means, "
        "not which candidate is best.",
        folded=True,
    )


def _set_name(path: str) -> str:
    """Return a set's name: its file's, with the folder's if every set calls its file so."""
    name = file_name(path)
    if not name.startswith("manifest."):
        return name
    return f"{file_name(path.removesuffix(name).rstrip('/'))}/{name}".removeprefix("/")


def _shared(match: Match) -> tuple[str, ...]:
    return match["against"], match["kind"], match["digest"]


def _sense(matches: Iterable[Match]) -> str:
    """Return the sense of an item's matches, compared with its own."""
    senses = {match["sense"] for match in matches}
    return "unknown" if None in senses else "both" if len(senses) > 1 else senses.pop()


def _overlap_row(
    overlap: Mapping[str, Any], touched: Mapping[tuple[str, int], list[Match]]
) -> tuple[str, ...]:
    shared = [matches for (name, _), matches in touched.items() if name == overlap["name"]]
    senses = Counter(map(_sense, shared))
    labelled = senses.total() > senses["unknown"]
    kinds = [overlap["kinds"][kind] for kind in KINDS]
    return (
        _set_name(overlap["name"]),
        str(len(shared)),
        *(f"{k['shared']} of {k['compared']}" if k["compared"] else NOTHING for k in kinds),
        str(senses["same"] + senses["both"]) if labelled else NOTHING,
        str(senses["opposite"] + senses["both"]) if labelled else NOTHING,
    )


def _item_row(
    matches: Sequence[Match], others: Mapping[tuple[str, ...], set[int]]
) -> tuple[str, ...]:
    first = matches[0]
    parts = Counter(kind for _, kind, _ in set(map(_shared, matches)))
    there = set[int]().union(*(others[_shared(match)] for match in matches))
    return (
        f"{first['item']} {first['compound']}",
        _set_name(first["against"]),
        ", ".join(f"{parts[k]} {k}{'s' * (parts[k] > 1)}" for k in KINDS if parts[k]),
        _numbered(sorted(there)) or NOTHING,
        _sense(matches),
    )


def _numbered(items: Sequence[int]) -> str:
    """Return the numbers of items, at most :data:`NAMED`."""
    return f"item{'s' * (len(items) > 1)} {_first(items)}" if items else ""


def _first(things: Sequence[object]) -> str:
    rest = f" and {len(things) - NAMED} more" if len(things) > NAMED else ""
    return f"{', '.join(map(str, things[:NAMED]))}{rest}"


def _two(texts: Sequence[str]) -> list[str]:
    """Return the first two of the texts, and an ellipsis for more."""
    return [*texts[:2], *(["…"] if len(texts) > 2 else [])]


def _findings(audit: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield rows on repeated and missing things, if there are any, and on counts."""
    for kind in KINDS:
        yield from _repeats(audit["repeats"], kind)
    for kind in ("caption", "picture"):
        yield from _repeats(audit["repeats"], kind, by_item=True)
    for lack in audit["lacks"]:
        if lack["count"]:
            which = "; ".join(filter(None, [_numbered(lack["items"]), *_two(lack["which"])]))
            yield f"Without {lack['what']}", f"{lack['count']} of {lack['of']}", which
    for overlap in audit["against"]:
        if overlap["unread"]:
            title = f"Pictures of {_set_name(overlap['name'])} that were not compared"
            yield title, str(len(overlap["unread"])), overlap["unread"][0]
    for senses in audit["senses"]:
        counted = f"{senses['idiomatic']} idiomatic, {senses['literal']} literal"
        unknown = f"{senses['unknown']} unknown"
        yield f"Senses ({senses['language']})", counted, unknown if senses["unknown"] else ""
    if audit["best"]:
        yield _evenness_row("Place of the best candidate by gold: 1, 2, …", audit["best"])
    if audit["order"]:
        yield from _order_rows(audit["order"])
    for lengths in audit["lengths"]:
        title = lengths["what"].capitalize()
        yield title, f"{lengths['least']} to {lengths['most']}", f"median {lengths['median']:g}"


def _repeats(
    repeats: Iterable[Mapping[str, Any]], kind: str, *, by_item: bool = False
) -> Iterator[tuple[str, str, str]]:
    groups = defaultdict[Any, list[Mapping[str, Any]]](list)
    for place in repeats:
        if place["kind"] == kind:
            groups[place["digest"], place["item"] if by_item else None].append(place)
    repeated = []
    for group in groups.values():
        items = sorted({place["item"] for place in group})
        names = list(dict.fromkeys(place["name"] for place in group))
        if len(group if by_item else items) > 1:
            repeated.append(f"{', '.join(names[:3])} ({_numbered(items)})")
    if repeated:
        who = "candidates of one item share" if by_item else "several items have"
        title = f"{kind.title()}s that {who}"
        yield title, str(len(repeated)), "; ".join(_two(repeated))


def _evenness_row(title: str, test: Mapping[str, Any]) -> tuple[str, str, str]:
    expected = [f"{count:.1f}".removesuffix(".0") for count in test["expected"]]
    share = f"{expected[0]} each" if len(set(expected)) == 1 else ", ".join(expected)
    counts = ", ".join(map(str, test["counts"]))
    p = "p < 0.01" if test["p"] < 0.01 else f"p = {test['p']:.2f}"
    return title, counts, f"{share} expected; chance alone is as uneven with {p}"


def _order_rows(order: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    before, settings, run = order["by"].partition("settings of ")
    ranked = f"ranked by {before}{settings}{file_name(run)}"  # without folders of the machine
    for scores, numbers in (("scores", order["tied"]), ("highest scores", order["tied_first"])):
        which = order["unchecked"] or "; ".join(filter(None, [_numbered(numbers), ranked]))
        count = NOTHING if order["unchecked"] else f"{len(numbers)} of {order['items']}"
        yield f"Items with equal {scores}", count, which
    for case in order["shown"]:
        llm = short_name(case["llm"])
        title = f"Best for {llm} ({case['ranker']}), shown to it at place 1, 2, …"
        yield _evenness_row(title, case["places"])
