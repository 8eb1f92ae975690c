"""Files that are nearly right, made from right ones: what readers are tried on.

A harm is plain data, so that Hypothesis can make it smaller: the name of a way to do harm, two
numbers that say where, and what is put there.
"""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from hypothesis import strategies as st

Harm = tuple[str, int, int, bytes]

CELLS = (
    *("", " ", "0", "1", "-1", "1e400", "nan", "Infinity", "-inf", "1_000", "٣", "²", "0x10"),
    *("9" * 5000, "null", "None", "True", "[]", "['a.png']", "['a.png', 'b.png', 1]", "{1}"),
    *("[" * 20_000, "-" * 20_000 + "1", "=1+1", "x" * 100_000, "\0", "a\0.png"),
    *("\ufeff", "\u202e", '"', "'", "\\", "a\tb", "a,b", "a\nb", "\r", "\u2028"),
    *("../a.png", "/etc/passwd", "a/" * 3000),
    *("idiomatic", "literal", "en", "xx-", "1.png", "image1_name", "candidate1"),
    *("image" + "9" * 5000 + "_name", "sequence_caption" + "9" * 5000),
    *("<b>", "{{ 1 }}"),
)  # fmt: skip
RAW = (
    *("null", "true", "0", "1", "-1", "0.5", "1e400", "NaN", "Infinity", "-Infinity", '""', '" "'),
    *("1" + "0" * 400, "9" * 5000, "1" + "0" * 18, "[]", "{}", "[[]]", "[null]", "[1, 2]", '["a"]'),
    *('"\\ud800"', '"\\u0000"', '"\\n"', '"a"', '"1"', '"idiomatic"', '"../a"', '{"a": 1}'),
    *("[" * 500 + "]" * 500, '{"a":' * 400 + "1" + "}" * 400),
    *('"' + "x" * 10**5 + '"',),
)  # fmt: skip
"""What JSON may hold in place of what it should; as it is written, for no writer writes some."""

TABLE = ("drop column", "double column", "rename column", "cell", "more cells", "drop row")
JSON = ("put", "put", "put", "drop", "rename", "double")
BYTES = ("cut", "drop", "repeat", "insert", "flip", "insert", "flip")
TEXT = ("bom", "utf-16", "latin-1", "crlf", "cr", "no end")
ODD = [
    b"\0",
    b"\xff",
    b'"',
    b"\n",
    b"\r",
    b",",
    b"\t",
    b"[",
    b"{",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
]


def harms(suffix: str) -> st.SearchStrategy[list[Harm]]:
    """What is done to a file with this suffix: up to three things, one after the other."""
    places = st.integers(0, 10**6)

    def one(ways: tuple[str, ...], what: st.SearchStrategy[bytes]) -> st.SearchStrategy[Harm]:
        return st.tuples(st.sampled_from(ways), places, places, what)

    ways = [one(BYTES, st.binary(max_size=8) | st.sampled_from(ODD))]
    if suffix in (".csv", ".tsv"):
        ways.insert(0, one(TABLE, st.sampled_from(CELLS).map(str.encode)))
    if suffix in (".json", ".jsonl"):
        ways.insert(0, one(JSON, st.sampled_from(RAW).map(str.encode)))
    if suffix not in (".npy", ".npz", ".safetensors", ".parquet", ".tar"):
        ways.append(one(TEXT, st.just(b"")))
    return st.lists(st.one_of(ways), min_size=1, max_size=3)


def harmed(content: bytes, suffix: str, harms: list[Harm]) -> bytes:
    """A file's content after what is done to it. What cannot be done any more is left out."""
    for way, one, other, what in harms:
        if way in TABLE:
            content = _table(content, suffix, way, one, other, what.decode())
        elif way in JSON:
            content = _json(content, suffix, way, one, other, what)
        elif way in TEXT:
            content = _text(content, way)
        else:
            content = _bytes(content, way, one, other, what)
    return content


def _bytes(content: bytes, way: str, one: int, other: int, what: bytes) -> bytes:
    if not content:
        return what
    place, length = one % len(content), other % min(len(content), 1 + other % 64)
    before, after = content[:place], content[place:]
    if way == "cut":
        return before
    if way == "drop":
        return before + after[length:]
    if way == "repeat":
        return before + after[:length] * (2 + other % 9) + after
    if way == "insert":
        return before + what + after
    return before + bytes([after[0] ^ (1 + other % 255)]) + after[1:]


def _text(content: bytes, way: str) -> bytes:
    text = content.decode(errors="replace")
    if way == "bom":
        return b"\xef\xbb\xbf" + content
    if way in ("utf-16", "latin-1"):
        return text.encode(way, errors="replace")
    if way == "no end":
        return content.rstrip(b"\n")
    return content.replace(b"\n", {"crlf": b"\r\n", "cr": b"\r"}[way])


def _table(content: bytes, suffix: str, way: str, one: int, other: int, what: str) -> bytes:
    delimiter = "\t" if suffix == ".tsv" else ","
    try:
        rows = list(csv.reader(io.StringIO(content.decode()), delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error):
        return content
    if not rows or not rows[0]:
        return content
    header, *others = rows
    k = one % len(header)
    if way == "drop column":
        rows = [row[:k] + row[k + 1 :] for row in rows]
    elif way == "double column":
        rows = [[*row, row[k] if k < len(row) else ""] for row in rows]
    elif way == "rename column":
        header[k] = what if other % 2 else header[other % len(header)]
    elif others:
        row = others[other % len(others)]
        if way == "drop row":
            others.remove(row)
            rows = [header, *others]
        elif way == "more cells":
            row.append(what)
        elif k < len(row):
            row[k] = what
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()


HERE = "put \ue000 here"


def _json(content: bytes, suffix: str, way: str, one: int, other: int, what: bytes) -> bytes:
    lines = content.split(b"\n") if suffix == ".jsonl" else [content]
    k = one % len(lines)
    try:
        value = json.loads(lines[k])
    except ValueError:
        return content
    if way == "double":  # a key twice, of which the last counts
        keys = list(re.finditer(rb'"\w+": ?', lines[k]))
        if keys:
            key = keys[other % len(keys)]
            lines[k] = lines[k][: key.start()] + key[0] + what + b", " + lines[k][key.start() :]
        return b"\n".join(lines)
    places: list[tuple[Any, Any]] = list(_places(value))
    if not places:
        return content
    holder, key = places[other % len(places)]
    if way == "put":
        holder[key] = HERE
    else:
        kept = holder.pop(key)
        if way == "rename" and isinstance(holder, dict):
            holder["other"] = kept
    lines[k] = json.dumps(value).encode().replace(json.dumps(HERE).encode(), what)
    return b"\n".join(lines)


def _places(value: Any) -> Any:
    """Every value in a JSON value: what holds it, and its key there."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
