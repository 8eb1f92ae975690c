import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from toys import OWL, PAPER, Detector, ScriptedChat, WordEncoder, explains

from admire import Settings, rank, write_run
from admire.apps.cli.output import show_run
from admire.pipeline.fusion import fuse


def test_the_record_is_of_what_the_run_began_with(tmp_path):
    """Files that are edited while a run goes on are recorded as the run read them."""
    source, prompts = tmp_path / "items.tsv", tmp_path / "prompts"
    prompts.mkdir()
    template = "Is '{{ compound }}' meant literally in this one: {{ sentence }}"
    (prompts / "sense_en.j2").write_text(template)
    source.write_text("before")

    def edits(prompt: str) -> str:
        source.write_text("after")
        (prompts / "sense_en.j2").write_text("literally?")
        return "Literal" if "literally in this one" in prompt else "who knows"

    chat = ScriptedChat(edits)
    settings = replace(PAPER, prompts=prompts)
    run = rank([OWL], settings, llms=[chat], encoder=WordEncoder(), source=source)
    assert all("literally in this one" in prompt for prompt in chat.prompts)
    assert run.record["source"]["sha256"] == hashlib.sha256(b"before").hexdigest()
    expected = hashlib.sha256(template.encode()).hexdigest()
    assert run.record["prompts"]["sense_en.j2"] == expected
    assert run.record["settings"]["prompts"] == str(prompts)


ITEMS = [
    OWL,
    replace(OWL, sentence="Really a red bicycle.", language="tr"),
    replace(OWL, sentence="My sister is really a night owl.", language="tr"),
    replace(OWL, sentence="Night owls hooted.", language="pt-br"),
]


DETECTOR = Detector(lambda item: 0.8 if "eally" in item.sentence else 0.3, "en", "pt")


def written(folder: Path, **settings: object) -> list[dict]:
    """Rank the items and write the run; the chat model knows no meaning of one of them."""
    meaning = explains("Idiomatic").answer
    chat = ScriptedChat(lambda prompt: "?" if "bicycle" in prompt else meaning(prompt))
    options = Settings(dictionaries=("none",), **{"sense": "detector"} | settings)  # type: ignore[arg-type]
    run = rank(ITEMS, options, llms=[chat], encoder=WordEncoder(), detector=DETECTOR)
    write_run(run, folder)
    assert json.loads((folder / "run.json").read_text())["languages"] == run.record["languages"]
    return run.record["languages"]


def row(language: str, items: int, share: float, sure: float, **others: object) -> dict:
    counts = dict.fromkeys(("unsure", "without_meaning", "compound_not_found"), 0)
    facts = {"language": language, "items": items, "share_idiomatic": share, "confidence": sure}
    return facts | counts | {"detector_trained": True} | others


def test_a_run_is_summed_up_by_language(capsys, tmp_path):
    turkish = {"without_meaning": 1, "compound_not_found": 1, "detector_trained": False}
    expected = [
        row("en", 1, 0.0, 0.7, unsure=1),
        row("tr", 2, 1.0, 0.8, **turkish),
        row("pt-br", 1, 0.0, 0.7, unsure=1),
    ]
    assert written(tmp_path / "run", abstain_below=0.75) == expected
    show_run(tmp_path / "run", [])
    printed = capsys.readouterr().out
    (line,) = (line for line in printed.splitlines() if "Turkish (tr)*" in line)
    assert [cell.strip() for cell in line.split("│")[2:-1]] == ["2", "100%", "0.80", "0", "1", "1"]
    assert "* The detector was not trained on Turkish: these senses are less reliable." in printed
    assert written(tmp_path / "voted", sense="vote")[1]["detector_trained"] is None
    fused = fuse([tmp_path / "run", tmp_path / "voted"]).record["languages"]
    assert [(r["language"], r["detector_trained"]) for r in fused] == [
        ("en", True),
        ("tr", False),
        ("pt-br", True),
    ]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "tr",
            "Turkish (tr): 1 item, 100% idiomatic, mean confidence 0.80, 1 without",
        ),
        ("xqz", "xqz: 1 item, 100% idiomatic, "),
    ],
)
def test_one_language_is_one_line(capsys, tmp_path, language, words):
    item = replace(ITEMS[1], language=language)
    settings = Settings(sense="detector", dictionaries=("none",))
    chat = ScriptedChat(lambda _: "?")
    run = rank([item], settings, llms=[chat], encoder=WordEncoder(), detector=DETECTOR)
    write_run(run, tmp_path / "run")
    show_run(tmp_path / "run", [])
    printed = capsys.readouterr().out
    assert words in printed
    assert "By language" not in printed
