"""Rank made-up items with recorded replies and a toy encoder: ``python rank_many.py ITEMS FOLDER``
prints as JSON the seconds, those of the processor among them, and the peak of memory in MiB."""

import json
import re
import sys
import time
from pathlib import Path

from toys import open_words

from admire.apps.cli import main
from admire.rankers import embeddings

COMPOUNDS = 200


def write_items(path: Path, count: int) -> None:
    names = [f"{letter}.png" for letter in "abcde"]
    with path.open("w") as file:
        for k in range(count):
            compound = f"compound {k % COMPOUNDS}"
            item = {
                "compound": compound,
                "sentence": f"Witness {k} saw a {compound} in the year {k % 977}.",
                "sentence_type": "idiomatic" if k % 3 else "literal",
                "expected_order": names[k % 5 :] + names[: k % 5],
                "candidates": [
                    {"image": name, "caption": f"picture {k} of a {name[0]} beside house {k % j}"}
                    for j, name in enumerate(names, start=3)
                ],
            }
            file.write(json.dumps(item) + "\n")


def write_replies(path: Path) -> None:
    """What both senses of each compound mean, as a chat model would say it."""
    with path.open("w") as file:
        for k in range(COMPOUNDS):
            for sense in ("idiomatic", "literal"):
                said = {"meaning": f"the {sense} house {k}", "scene": f"a picture of house {k}"}
                row = {"compound": f"compound {k}", "sense": sense, **said}
                file.write(json.dumps(row) + "\n")


def ranked(count: int, folder: Path) -> dict[str, float]:
    data = folder / f"{count}.jsonl"
    write_items(data, count)
    arguments = ["rank", str(data), "--out", str(folder / f"run{count}"), "--sense", "given"]
    started, busy = time.perf_counter(), time.process_time()
    try:
        main([*arguments, "--llm", f"recorded:{folder / 'replies.jsonl'}"])
    except SystemExit as stopped:
        if stopped.code:
            raise
    return {"seconds": time.perf_counter() - started, "busy": time.process_time() - busy}


if __name__ == "__main__":
    count, folder = int(sys.argv[1]), Path(sys.argv[2])
    embeddings.open_encoder = open_words  # type: ignore[assignment]
    write_replies(folder / "replies.jsonl")
    ranked(100, folder)  # all that is loaded once
    told = ranked(count, folder)
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    told["peak"] = int(peak[1]) / 1024 if peak else float("nan")
    print(json.dumps(told), flush=True)
