"""Search for the pictures and texts that show or mean what an expression means in its sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from admire.apps.search.entries import Entry, read_texts
from admire.apps.search.index import Index, check_encoder, index_texts, open_index
from admire.apps.search.settings import SearchSettings
from admire.core.choices import Meanings
from admire.core.errors import UserError
from admire.data.items import Item
from admire.data.languages import detect_language
from admire.encoders import TextEncoder, open_encoder
from admire.encoders.cached import CachedEncoder, checked
from admire.llm import ChatModel, Session
from admire.rankers.run_encoders import encoder_attribute
from admire.rankers.scorer import query_weights
from admire.rankers.settings import Scoring, Settings
from admire.senses import Detector
from admire.senses.interpretation import Interpretation
from admire.tasks.retrieval.passages import locate
from admire.tasks.retrieval.queries import interpret_queries


@dataclass(frozen=True)
class SearchResult:
    """The best entries of a collection with their scores, best first.

    ``reading`` is how the expression was understood; None unless it was searched by meaning.
    """

    entries: list[tuple[Entry, float]]
    reading: Interpretation | None
    pictures: bool = False


def scoring_for(settings: SearchSettings, index: Index) -> Scoring:
    """Return how similarities become a score: as in rank where there are pictures."""
    scoring = settings.scoring
    if "image" in index.tracks:
        scoring = Scoring(standardise="item")
        if "caption" in index.tracks:
            weight = encoder_attribute(index.encoder.name, "picture_weight", 1.0)
            scoring = replace(scoring, image_weight=weight)
    for name in ("contrast", "texts", "image_weight", "caption_weight"):
        if getattr(settings, name) is not None:
            scoring = replace(scoring, **{name: getattr(settings, name)})
    return scoring


def search_index(
    text: str,
    span: str,
    index: str | Path | Index,
    settings: SearchSettings | None = None,
    *,
    llm: ChatModel | None = None,
    encoder: TextEncoder | None = None,
    detector: Detector | None = None,
    session: Session | None = None,
) -> SearchResult:
    """Find the entries that show or mean what the span means in the text.

    Args:
        span: the expression, exactly as in the text.
        index: an index, the folder of one, or a file of :func:`admire.apps.search.read_texts`.
        llm, encoder, detector: open models in place of those that the settings name, and of the
            built-in detector.
        session: asks the chat model; None is one of its own.

    Raises:
        UserError: the text does not contain the span, the index was made with another encoder, a
            file cannot be read, or a model cannot be opened or asked.
    """
    settings = settings or SearchSettings()
    try:
        locate(text, span)
    except ValueError as error:
        raise UserError(f"span: {error}: “{text}”.", "span") from None
    index, opened = _open(Path(index) if isinstance(index, str) else index, settings, encoder)
    scoring = scoring_for(settings, index)
    pictures = "image" in index.tracks
    reading: Interpretation | None = None
    if settings.query == "meaning":
        item = Item(span, text, settings.lang or detect_language(text))
        meanings: Meanings = "both" if pictures or settings.texts is not None else "gloss"
        (reading,) = interpret_queries(
            [item], settings, llm, detector, meanings=meanings, session=session
        )
        gloss = {"gloss": reading.gloss} if reading.gloss else {}
        texts = {"compound": span} | (reading.texts() if meanings == "both" else gloss)
        weights = query_weights(scoring, reading.sense, texts)
    else:
        texts = {settings.query: text if settings.query == "sentence" else span}
        weights = {settings.query: 1.0}
    windows = opened.text_windows(list(texts.values()), role="query").each
    queries = dict(zip(texts, windows, strict=True))
    tracks = {"image": scoring.image_weight, "caption": scoring.caption_weight}
    return SearchResult(index.search(queries, weights, settings.top, tracks), reading, pictures)


def _open(
    index: Path | Index, settings: SearchSettings, encoder: TextEncoder | None
) -> tuple[Index, CachedEncoder]:
    """Open an index or a file of texts, and the encoder of its vectors."""
    place = index if isinstance(index, Path) else "The index"
    if isinstance(index, Path) and index.is_dir():
        index = open_index(index)
    usual = Settings.encoder[0] if isinstance(index, Path) else index.encoder.name
    encoder = checked(encoder or open_encoder(settings.encoder or usual, device=settings.device))
    if isinstance(index, Path):
        return index_texts(read_texts(index), encoder), encoder
    check_encoder(place, index.encoder, encoder)
    return index, encoder
