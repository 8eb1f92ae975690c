"""Finding the texts that mean what an expression means in its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from admire.choices import Number, QueryText, check_settings
from admire.collections.index import TextIndex, index_texts, open_index
from admire.collections.texts import read_texts
from admire.encoders import TextEncoder, open_encoder
from admire.errors import UserError
from admire.interpretation import Interpretation
from admire.items import Candidate, Item
from admire.llm import ChatModel
from admire.retrieval.passages import locate
from admire.retrieval.queries import QUERY_SETTINGS, QuerySettings, understand
from admire.scorer import query_weights
from admire.senses import Detector


@dataclass(frozen=True, kw_only=True)
class SearchSettings(QuerySettings):
    """How texts are searched.

    Attributes:
        encoder: an encoder of texts by name; None is that of the index, or e5 for a file.
        query: what texts are compared with. ``meaning`` is sense and gloss, by the method of
            :func:`admire.rank`; ``compound`` and ``sentence`` are plain cosine.
        top: how many texts are found.
    """

    encoder: str | None = None
    query: QueryText = "meaning"
    top: int = 10

    def __post_init__(self) -> None:
        check_settings(
            self,
            encoder=str | None,
            query=get_args(QueryText),
            top=Number(1, whole=True),
            **QUERY_SETTINGS,
        )


@dataclass(frozen=True)
class Found:
    """The texts that a search found.

    Attributes:
        texts: with their scores, best first.
        reading: how the expression was understood; None unless it was searched by meaning.
    """

    texts: list[tuple[Candidate, float]]
    reading: Interpretation | None


def search_texts(
    text: str,
    span: str,
    index: Path | TextIndex,
    settings: SearchSettings | None = None,
    *,
    llm: ChatModel | None = None,
    encoder: TextEncoder | None = None,
    detector: Detector | None = None,
) -> Found:
    """Find the texts that mean what the span means in the text.

    Args:
        text: a text that uses the expression.
        span: the expression, as it stands in the text.
        index: the texts to search: an index, the folder of one, or a file that
            :func:`admire.collections.texts.read_texts` reads.
        settings: the defaults where they are None.
        llm, encoder, detector: open models in place of those that the settings name, and of the
            built-in detector.

    Raises:
        UserError: the text does not contain the span, the index was made with another encoder, a
            file cannot be read, or a model cannot be opened or asked.
    """
    settings = settings or SearchSettings()
    try:
        locate(text, span)
    except ValueError as error:
        raise UserError(f"span: {error}: “{text}”.", "span") from None
    built = index if isinstance(index, TextIndex) else open_index(index) if index.is_dir() else None
    if encoder is None:
        name = settings.encoder or (built.encoder["name"] if built else "e5")
        encoder = open_encoder(name, device=settings.device)
    if built and built.encoder["identity"] != encoder.identity:
        raise UserError(
            f"{index if isinstance(index, Path) else 'The index'}: was made with the encoder "
            f"'{built.encoder['name']}' ({built.encoder['identity']}), not with '{encoder.name}' "
            f"({encoder.identity}).",
            "encoder",
        )
    if built is None:
        built = index_texts(read_texts(cast(Path, index)), encoder)
    reading: Interpretation | None = None
    if settings.query == "meaning":
        (reading,) = understand([Item(span, text, settings.lang)], settings, llm, detector)
        asked = {"compound": span} | ({"gloss": reading.gloss} if reading.gloss else {})
        weights = query_weights(settings.scoring, reading.sense, asked)
    else:
        asked = {settings.query: text if settings.query == "sentence" else span}
        weights = {settings.query: 1.0}
    vectors = encoder.encode_texts(list(asked.values()), role="query")
    queries = dict(zip(asked, vectors, strict=True))
    return Found(built.search(queries, weights, min(settings.top, built.size)), reading)
