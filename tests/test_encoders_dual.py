"""Dual encoders of transformers: what is special about them."""

from __future__ import annotations

import pytest
from clips import CPU, TEXTS, complaint, same, texts_of
from duals import KINDS

from admire.encoders.dual import DualEncoder

pytest_plugins = ("clip_fixtures",)
pytestmark = pytest.mark.usefixtures("one_thread", "network")


@pytest.mark.parametrize("kind", KINDS)
def test_siglip_reads_lower_case_as_it_was_trained(folder_of, kind: str):
    encoder = DualEncoder(str(folder_of("dual" if kind == "siglip" else kind)), None, CPU)
    cased = [text.upper() for text in TEXTS]
    alike = same(texts_of(encoder, cased), texts_of(encoder, TEXTS), 1e-4)
    assert alike == kind.startswith("siglip")


def test_a_model_with_one_tower_is_refused(sbert_folder):
    assert "is not a dual encoder" in complaint(f"dual:{sbert_folder}")
