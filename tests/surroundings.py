"""What commands of test_faults_kills.py find in their processes: toys where models would be."""

from __future__ import annotations

from typing import Any


def words() -> None:
    """The encoder is a bag of words, blocks have two items and shards four things."""
    from toys import PictureEncoder

    import admire.models.encoders.families as families

    def open_encoder(name: str, **_: Any) -> Any:
        from admire.models.encoders.cached import CachedTowers

        encoder = CachedTowers(PictureEncoder())  # type: ignore[arg-type]
        encoder.encode_images = encoder.encoder.encode_images  # type: ignore[method-assign]
        return encoder

    families.open_encoder = open_encoder  # type: ignore[assignment]  # before others take it
    import openai.resources.chat  # noqa: F401

    import admire.augment
    import admire.models.llm.batches
    import admire.pages.report
    import admire.runs.run_folder
    import admire.tasks.collections.building
    import admire.tasks.collections.shards
    from admire.models.encoders import images  # noqa: F401
    from admire.models.llm import pictures  # noqa: F401

    admire.augment.rewrite_items  # noqa: B018 - loads it
    admire.pages.report.write_report  # noqa: B018
    import matplotlib.figure  # noqa: F401

    admire.runs.run_folder.BLOCK = 2
    admire.tasks.collections.shards.SHARD = 4


def pictures() -> None:
    """Variants of pictures."""
    from admire.augment import images

    images._albumentations()


def heads() -> None:
    """Heads and light detectors on a bag of words."""
    words()
    import sklearn.linear_model  # noqa: F401
    import torch
    from toys import WordEncoder

    import admire.senses
    import admire.senses.light as light
    import admire.training

    class ContextEncoder(WordEncoder):
        def encode_queries(self, queries: Any) -> Any:
            return self.encode_texts([query.text for query in queries], role="query")

    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])  # imports a thousand modules
    light.open_encoder = lambda name: ContextEncoder()  # type: ignore[assignment]
    admire.training.compare_heads  # noqa: B018 - loads it
    admire.training.train_head  # noqa: B018
    admire.senses.train_detector  # noqa: B018


def encoders() -> None:
    """Sentence encoders are trained; their model cards take too long to make."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer._create_model_card = lambda *_, **__: None  # type: ignore[method-assign]
