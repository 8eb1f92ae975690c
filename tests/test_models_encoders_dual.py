"""Dual encoders of transformers: what is special about them."""

from __future__ import annotations

import pytest

from admire.models.encoders import open_encoder
from admire.models.encoders.dual import DualEncoder

for package in ("torch", "open_clip", "multilingual_clip", "sentence_transformers"):
    pytest.importorskip(package, reason="needs the extra 'clip'")

from clips import CPU, TEXTS, complaint, same, texts_of  # noqa: E402
from duals import KINDS  # noqa: E402

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


@pytest.mark.parametrize("kind", KINDS)
def test_siglip_reads_lower_case_as_it_was_trained(folder_of, kind: str):
    encoder = DualEncoder(str(folder_of("dual" if kind == "siglip" else kind)), None, CPU)
    cased = [text.upper() for text in TEXTS]
    alike = same(texts_of(encoder, cased), texts_of(encoder, TEXTS), 1e-4)
    assert alike == kind.startswith("siglip")


def test_a_model_that_gives_plain_tensors_is_read_too(folder_of, monkeypatch):
    encoder = DualEncoder(str(folder_of("dual")), None, CPU)
    wanted = texts_of(encoder, TEXTS)
    model, *_ = encoder._loaded
    whole = model.get_text_features
    monkeypatch.setattr(model, "get_text_features", lambda **ready: whole(**ready).pooler_output)
    assert same(texts_of(encoder, TEXTS), wanted)


def test_a_model_with_one_tower_is_refused(sbert_folder):
    said = complaint(f"dual:{sbert_folder}")
    assert said.startswith(f"dual:{sbert_folder}: is not a dual encoder; XLMRobertaModel lacks")


def test_another_transformers_may_give_other_vectors(folder_of, monkeypatch):
    before = open_encoder(f"dual:{folder_of('dual')}").identity
    monkeypatch.setattr("admire.models.encoders.dual.metadata.version", lambda _: "6.0")
    assert open_encoder(f"dual:{folder_of('dual')}").identity != before
