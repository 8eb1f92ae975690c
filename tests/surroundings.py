"""What commands of test_faults_kills.py find in their processes: toys where models would be."""

from __future__ import annotations

from typing import Any


def words() -> None:
    """The encoder is a bag of words, blocks have two items."""
    from toys import PictureEncoder

    import admire.models.encoders.families as families

    def open_encoder(name: str, **_: Any) -> Any:
        from admire.models.encoders.cached import CachedTowers

        encoder = CachedTowers(PictureEncoder())  # type: ignore[arg-type]
        encoder.encode_images = encoder.encoder.encode_images  # type: ignore[method-assign]
        return encoder

    families.open_encoder = open_encoder  # type: ignore[assignment]  # before others take it
    import openai.resources.chat  # noqa: F401

    import admire.models.llm.batches
    import admire.pages.report
    import admire.runs.run
    from admire.models.llm import pictures  # noqa: F401

    admire.pages.report.write_report  # noqa: B018 - loads it
    import matplotlib.figure  # noqa: F401

    admire.runs.ranking.BLOCK = 2


def encoders() -> None:
    """Sentence encoders are trained; their model cards take too long to make."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer._create_model_card = lambda *_, **__: None  # type: ignore[method-assign]
