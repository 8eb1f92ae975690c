"""A command in a process of its own, with a bag of words as its encoder: ``python killed.py …``."""

from typing import Any


def words() -> None:
    """The encoder is a bag of words, blocks have two items."""
    from toys import PictureEncoder, open_words

    from admire.encoders import cached

    def open_encoder(name: str, **_: Any) -> Any:
        if name == "minilm":
            return open_words(name)
        encoder = cached.CachedEncoder(PictureEncoder())  # type: ignore[arg-type]
        encoder.encode_images = encoder.encoder.encode_images  # type: ignore[method-assign]
        return encoder

    cached.open_encoder = open_encoder  # type: ignore[assignment]  # before others take it
    import admire.pipeline.ranking

    admire.pipeline.ranking.BLOCK = 2


if __name__ == "__main__":
    words()
    from admire.apps.cli import main

    main()
