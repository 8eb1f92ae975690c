import json
import re
from importlib.util import find_spec

import pytest
from commands import chat_server, passed, run
from conftest import admire_row

from admire.augment import read_rewritten
from admire.llm.chat import Price


@pytest.mark.skipif(find_spec("albumentations") is None, reason="needs the extra 'augment'")
def test_images_have_variants_and_a_contact_sheet(capsys, tmp_path):
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (20, 10), "red").save(tmp_path / "pictures" / "owl.png")
    out = tmp_path / "out"
    options = ("--per-image", 2, "--seed", 3)
    code, printed, err = run(
        capsys, "augment", "images", tmp_path / "pictures", "--out", out, *options
    )
    assert (code, printed) == (0, f"{out / 'contact_sheet.png'}\n"), err
    assert f"2 variants in {out}" in err
    names = sorted(path.name for path in out.glob("*.png"))
    assert names == ["contact_sheet.png", "owl_1.png", "owl_2.png"]


@pytest.mark.usefixtures("wide")
def test_a_chat_model_that_rewrites_is_counted_paid_and_asked_once(
    capsys, write_table, httpserver, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    monkeypatch.setattr("admire.llm.openai.OpenAIChat.price", lambda *_: Price(1.0))
    prompts = chat_server(httpserver, lambda prompt: f"said otherwise {len(prompt)}")
    out = tmp_path / "out.csv"
    command = ("augment", "captions", write_table(admire_row()), "--out", out, "--by")
    shared = (*command, "openai:gpt-x", "--parallel", 1)
    printed, _ = passed(capsys, *shared, "--dry-run", "--json")
    (row,) = json.loads(printed)
    assert (row["stage"], row["questions"], row["kept"]) == ("paraphrases", 5, 0)
    assert prompts == []
    code, _, err = run(capsys, *shared, "--budget", 2)
    assert code == 2
    assert "budget of $2 exhausted ($2.0000 spent)" in err
    assert len(prompts) == 2
    _, err = passed(capsys, *shared)
    assert re.search(r"│ paraphrases +│ openai:gpt-x +│ 5 +│ 2 +│", err)
    assert len(prompts) == 5
    assert f"Wrote {out} (5 rewritten captions)" in err
    made_by = {row.made_by for rows in read_rewritten(out).values() for row in rows}
    assert made_by == {"openai:gpt-x"}
    code, _, err = run(capsys, *command, "googletrans")
    assert code == 2
    assert err.splitlines()[-1].endswith("(embedded, gguf:PATH, openai:MODEL). (--by)")
