"""Small data for sentence similarity: the tasks' files, groups of paraphrases, and pairs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from admire.tasks.sts.pairs import Group, Pair

Row = dict[str, str]


def dev(name: str = "1", **changes: str) -> Row:
    """A row of Task 2B's dev file."""
    return {
        "ID": name,
        "Language": "EN",
        "MWE1": "night owl",
        "MWE2": "None",
        "sentence1": "My sister is a night owl.",
        "sentence2": "My sister is a late sleeper.",
    } | changes


def gold(name: str = "1", sim: str = "1", other: str = "", **changes: str) -> Row:
    return {"ID": name, "DataID": "d", "Language": "EN", "sim": sim, "otherID": other} | changes


def train(name: str = "t.1", **changes: str) -> Row:
    """A row of Task 2B's training file."""
    return {
        "ID": name,
        "MWE1": "night owl",
        "MWE2": "None",
        "Language": "EN",
        "sentence_1": "My sister is a night owl.",
        "sentence_2": "My sister is a late sleeper.",
        "sim": "1",
        "alternative_1": "",
        "alternative_2": "",
    } | changes


def wrong(name: str = "t.2", **changes: str) -> Row:
    """A row with an incorrect paraphrase."""
    return train(
        name,
        sentence_2="My sister is a dark bird.",
        sim="None",
        alternative_1="My sister is a late sleeper.",
        alternative_2="My sister is a dark bird.",
        **changes,
    )


TABLE_6 = (
    {
        "S": "有的网友{付之一笑}, 同时也有15名网友积极响应",
        "A_c": "有的网友{一笑了之}, 同时也有15名网友积极响应",
        "A_i": "有的网友{大笑不止}, 同时也有15名网友积极响应",
        "sim": "",
    },
    {
        "S": "这个丑闻有可能使政治生涯{戛然而止}。",
        "A_c": "这个丑闻有可能使政治生涯{突然中断}。",
        "A_i": "",
        "sim": "1.0",
    },
    {
        "S": "然而, 大多数白马皮肤呈粉红色。",
        "A_c": "",
        "A_i": "然而, 大多数粉红马有白色皮肤。",
        "sim": "0.0",
    },
)
BENCHMARK = "split\tgenre\tdataset\tyear\tsid\tscore\tsentence1\tsentence2\n"


def benchmark(*rows: Sequence[str]) -> str:
    """STS Benchmark's text of rows with split, score and two sentences."""
    lines = (f"{s}\tg\td\t2012\t1\t{score}\t{a}\t{b}\n" for s, score, a, b in rows)
    return BENCHMARK + "".join(lines)


def assin(*rows: Sequence[str]) -> str:
    """ASSIN2's text of rows with a similarity and two sentences."""
    root = ElementTree.Element("entailment-corpus")
    for number, (similarity, first, second) in enumerate(rows, start=1):
        pair = ElementTree.SubElement(root, "pair", id=f"{number}", similarity=similarity)
        ElementTree.SubElement(pair, "t").text = first
        ElementTree.SubElement(pair, "h").text = second
    return ElementTree.tostring(root, encoding="unicode")


SUBJECTS = ("my sister", "the man", "a woman", "my owl")
SENSES = {
    "night owl": ("woman who writes at midnight", "bird in the tree"),
    "red lamp": ("real man", "small circle"),
    "big desk": ("sister of a man", "square triangle"),
    "blue bird": ("midnight", "yellow tree"),
}
GROUPS = [
    Group(f"{who} is a {mwe}", (f"{who} is a {right}",), (f"{who} is a {wrong}",), "en", mwe)
    for who in SUBJECTS
    for mwe, (right, wrong) in SENSES.items()
]
SAID = (
    ("is big", "is a big man", 0.9),
    ("writes at the desk", "writes on the desk", 1.0),
    ("is red", "is in a tree", 0.2),
    ("is a square", "writes at midnight", 0.0),
)
PAIRS = [
    Pair(f"{k}{j}", "en", f"{who} {first}", f"{who} {second}", similarity)
    for k, who in enumerate(SUBJECTS)
    for j, (first, second, similarity) in enumerate(SAID)
]


def write_benchmark(path: Path) -> Path:
    """PAIRS as a file of the STS benchmark: the first twelve are of the split train."""
    scored = [
        ("train" if k < 12 else "dev", f"{5 * (pair.similarity or 0)}", pair.first, pair.second)
        for k, pair in enumerate(PAIRS)
    ]
    path.write_text(benchmark(*scored))
    return path


def training_rows(groups: Sequence[Group]) -> list[dict[str, str]]:
    rows = []
    for k, group in enumerate(groups):
        (right,), (wrong,) = group.correct, group.incorrect
        shared = {"MWE1": group.mwe or "None", "sentence_1": group.sentence}
        rows.append(train(f"t.{k}", **shared, sentence_2=right))
        scored = {"sim": "None", "alternative_1": right, "alternative_2": wrong}
        rows.append(train(f"t.{k}", **shared, sentence_2=wrong, **scored))
    return rows


def pair(first: str, second: str = "x", **options: Any) -> Pair:
    return Pair(f"{first}-{second}", "en", first, second, **options)


def sentences(groups: Sequence[Group]) -> set[str]:
    return {text for g in groups for text in (g.sentence, *g.correct, *g.incorrect)}


def asked(pairs: Sequence[Pair]) -> set[str]:
    return {text for pair in pairs for text in (pair.first, pair.second)}
