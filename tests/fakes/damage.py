"""Files that are nearly right, made from right ones: what readers are tried on.

A harm is plain data, so that Hypothesis can make it smaller: the name of a way to do harm, two
numbers that say where, and what is put there.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import strategies as st

Harm = tuple[str, int, int, bytes]

CELLS = (
    *("", " ", "0", "-1", "1e400", "nan", "-inf", "1_000", "٣", "²", "9" * 5000, "null", "True"),
    *("[]", "['a.png']", "['a.png', 'b.png', 1]", "{1}", "[" * 20_000, "=1+1", "x" * 100_000),
    *("\0", "a\0.png", "\ufeff", "\u202e", '"', "'", "\\", "a\tb", "a,b", "a\nb", "\r", "\u2028"),
    *("../a.png", "/etc/passwd", "a/" * 3000, "idiomatic", "xx-", "image1_name", "candidate1"),
    *("image" + "9" * 5000 + "_name", "sequence_caption" + "9" * 5000, "{{ 1 }}"),
)  # fmt: skip
RAW = (
    *("null", "true", "0", "-1", "0.5", "1e400", "NaN", "-Infinity", '""', '" "', "9" * 5000),
    *("1" + "0" * 400, "[]", "{}", "[[]]", "[null]", "[1, 2]", '["a"]', '{"a": 1}', '"../a"'),
    *('"\\ud800"', '"\\u0000"', '"\\n"', '"a"', '"1"', '"idiomatic"', '"' + "x" * 10**5 + '"'),
    *("[" * 500 + "]" * 500, '{"a":' * 400 + "1" + "}" * 400),
)  # fmt: skip
"""What JSON may hold in place of what it should; as it is written, for no writer writes some."""
SIGNS = (bytes([sign]) for sign in b'"\n\r,\t[{')
ODD = (b"\0", b"\xff", *SIGNS, b"\xed\xa0\x80", b"\xef\xbb\xbf")

TABLE = ("drop column", "rename column", "cell", "more cells", "drop row")
JSON = ("put", "put", "drop", "rename")
BYTES = ("cut", "drop", "insert", "insert", "flip")
TEXT = ("bom", "utf-16", "latin-1", "crlf", "cr")


def harms(suffix: str) -> st.SearchStrategy[list[Harm]]:
    """What is done to a file with this suffix: up to three things, one after the other."""
    places = st.integers(0, 10**6)

    def one(ways: tuple[str, ...], what: st.SearchStrategy[bytes]) -> st.SearchStrategy[Harm]:
        return st.tuples(st.sampled_from(ways), places, places, what)

    inside = (JSON, RAW) if suffix in (".json", ".jsonl") else (TABLE, CELLS)
    ways = [
        one(inside[0], st.sampled_from(inside[1]).map(str.encode)),
        one(BYTES, st.binary(max_size=8) | st.sampled_from(ODD)),
        one(TEXT, st.just(b"")),
    ]
    return st.lists(st.one_of(ways), min_size=1, max_size=3)


def harmed(content: bytes, suffix: str, harms: list[Harm]) -> bytes:
    """A file's content after what is done to it. What cannot be done any more is left out."""
    for way, one, other, what in harms:
        try:
            if way in TABLE:
                content = _table(content, "\t" if suffix == ".tsv" else ",", way, one, other, what)
            elif way in JSON:
                content = _json(content, suffix, way, one, other, what)
            elif way in TEXT:
                content = _text(content, way)
            else:
                content = _bytes(content, way, one, other, what)
        except (ValueError, IndexError, ZeroDivisionError, csv.Error):
            continue
    return content


def _bytes(content: bytes, way: str, one: int, other: int, what: bytes) -> bytes:
    place = one % len(content)
    before, after = content[:place], content[place:]
    new = {
        "cut": b"",
        "drop": after[other % 64 :],
        "insert": what + after,
        "flip": bytes([after[0] ^ (1 + other % 255)]) + after[1:],
    }
    return before + new[way]


def _text(content: bytes, way: str) -> bytes:
    if way == "bom":
        return b"\xef\xbb\xbf" + content
    if way in ("utf-16", "latin-1"):
        return content.decode(errors="replace").encode(way, errors="replace")
    return content.replace(b"\n", {"crlf": b"\r\n", "cr": b"\r"}[way])


def _table(content: bytes, delimiter: str, way: str, one: int, other: int, what: bytes) -> bytes:
    header, *others = csv.reader(io.StringIO(content.decode()), delimiter=delimiter)
    k = one % len(header)
    row = others[other % len(others)]
    if way == "drop column":
        header, *others = [some[:k] + some[k + 1 :] for some in (header, *others)]
    elif way == "rename column":
        header[k] = what.decode() if other % 2 else header[other % len(header)]
    elif way == "drop row":
        others.remove(row)
    elif way == "more cells":
        row.append(what.decode())
    else:
        row[k] = what.decode()
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="\n").writerows([header, *others])
    return written.getvalue().encode()


HERE = "put \ue000 here"


def _json(content: bytes, suffix: str, way: str, one: int, other: int, what: bytes) -> bytes:
    lines = content.splitlines() if suffix == ".jsonl" else [content]
    k = one % len(lines)
    value = json.loads(lines[k])
    places = list(_places(value))
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
