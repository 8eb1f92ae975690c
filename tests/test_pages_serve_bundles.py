from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from serving import drawn, problem, serving, toy_models
from toys import explains

from admire import read_items, read_submission


def unzipped(content: bytes, folder: Path) -> list[str]:
    """The names in a zip file, which is unpacked."""
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        bundle.extractall(folder)
        return sorted(bundle.namelist())


def test_the_set_is_read_by_rank_and_has_each_item_as_it_was_last_ranked(tmp_path):
    with serving(toy_models(explains("idiomatic"))) as served:
        page = served.visit().listen()
        problem(page.get("/set.zip"), 404)
        owl = page.add(drawn("JPEG"), "my owl's <photo>.jpeg").json()["id"]
        page.ranked(candidates=[{"picture": owl}, {"caption": "old"}])
        job, _ = page.ranked(candidates=[{"picture": owl}, {"caption": "späte Eule"}])
        page.ranked(by_hand={"of": job, "sense": "literal"})
        saved = page.client.get(f"/set.zip?visitor={page.visitor}")
    assert saved.headers["content-type"] == "application/zip"
    names = ["manifest.jsonl", "pictures/my_owl_s_photo_.jpeg"]
    assert unzipped(saved.content, tmp_path) == names
    (item,) = read_items(tmp_path)
    assert item.sentence_type == "literal"
    assert [one.name for one in item.candidates] == [names[1], "candidate2"]
    assert [one.caption for one in item.candidates] == [None, "späte Eule"]
    assert item.candidates[0].image.read_bytes() == drawn("JPEG")


def test_a_run_folder_says_nothing_of_where_the_pictures_were(tmp_path):
    with serving() as served:
        page = served.visit().listen()
        ids = [page.add(drawn(colour=colour), "a.png").json()["id"] for colour in ("red", "blue")]
        job, item = page.ranked(candidates=[{"picture": one} for one in ids])
        saved = page.get(f"/runs/{job}.zip")
        problem(page.get("/runs/unknown.zip"), 404)
        folder = str(served.service.folder)
        kept = list(served.service.find(page.visitor).folder.iterdir())
        assert sorted(file.name for file in kept) == sorted(ids)
    names = unzipped(saved.content, tmp_path)
    for name in names:
        text = (tmp_path / name).read_text()
        assert folder not in text
        assert not any(one in text for one in ids)
    assert json.loads((tmp_path / "run/run.json").read_text())["source"] is None
    (prediction,) = read_submission(tmp_path / "run/submission_en.tsv")
    ranked = [item["candidates"][k]["name"] for k in item["runs"][0]["order"]]
    assert list(prediction.order) == ranked == ["a.png", "a (2).png"]
