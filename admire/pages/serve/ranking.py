"""What the working thread does: rank an item, rank it again by hand, search."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from admire.audit.audit import in_sentence
from admire.base.errors import UserError
from admire.data.items import Item, SenseLabel
from admire.data.reader import read_items
from admire.pages.report.gallery import card, result
from admire.pages.report.thumbnails import Shown, thumbnail
from admire.pages.serve.language import language_of
from admire.pages.serve.pictures import Picture
from admire.rankers import look_where_no_caption_is
from admire.rankers.set_summary import summarise_set
from admire.rankers.settings import Settings
from admire.runs.ranking import Ranking, Run
from admire.runs.run import rank
from admire.senses.interpretation import Interpretation
from admire.senses.meaning import DEFINITIONS, Meaning
from admire.senses.recorded import Recorded, RecordedReply, key_of
from admire.senses.sense import Sense
from admire.senses.source import Source

if TYPE_CHECKING:
    from admire.models.llm import ChatModel
    from admire.pages.serve.models import Models
    from admire.senses import Detector


FOUND_SIDE = 1024
"""The longest side of a found picture's copy, in pixels."""


@dataclass(frozen=True)
class Ranked:
    """An item that was ranked.

    Attributes:
        pictures: of the candidates that have one, by the candidate's name.
        settings: with which the profile ranks, whatever was said by hand since.
        sense: as it was given by hand.
        asked: what the page sent for it.
    """

    run: Run
    settings: Settings
    pictures: Mapping[str, Picture]
    sense: SenseLabel | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranking(self) -> Ranking:
        return self.run.rankings[0]

    @property
    def item(self) -> Item:
        return self.ranking.item


def read_row(row: Mapping[str, Any], folder: Path, name: str) -> Item:
    """A row of a ``manifest.jsonl`` as an item, with all checks of ``admire rank``.

    Without a ``language`` it is that of the sentence, or ``en`` where that cannot be told.

    Args:
        folder: holds the pictures, by the names in the row.
        name: of the manifest, which is written there for a moment.

    Raises:
        UserError: the row cannot be ranked; the message names the key, and no file.
    """
    manifest = folder / name
    manifest.write_text(json.dumps(row), encoding="utf-8")
    guess = None if row.get("language") else language_of(row.get("sentence") or "")
    try:
        (item,) = read_items(manifest, guess or "en")
    except UserError as error:
        message = str(error).removeprefix(f"{manifest}, row 1")
        message = message.removeprefix(f" ('{row.get('compound')}')").lstrip(":, ")
        raise UserError(message, *error.settings) from None
    finally:
        manifest.unlink()
    if len(item.candidates) < 2:
        raise UserError("candidates: there are none; a ranking needs two or more.")
    return item


def rank_item(item: Item, settings: Settings, models: Models) -> Run:
    """Rank one item with models that are open, or that are opened now and kept.

    Raises:
        UserError: as :func:`admire.rank` does.
    """
    return _rank(item, settings, models, models.llms(settings), models.detector(settings))


def rank_by_hand(
    before: Ranked,
    sense: SenseLabel | None,
    meanings: Mapping[SenseLabel, str | None],
    models: Models,
) -> Run:
    """Rank an item again with what a person says of it. No chat model is asked.

    Args:
        before: what chat models said of the item.
        sense: None leaves it as it was.
        meanings: definitions, one a line, in place of all that was said of a sense.

    Raises:
        UserError: the profile's rankers do not compare vectors; or as :func:`admire.rank` does.
    """
    if "embeddings" not in before.settings.rankers:
        raise UserError(
            f"This profile ranks by {' and '.join(before.settings.rankers)} alone: its chat model "
            "would have to look at the candidates again. Only what is compared as vectors can be "
            "ranked again by hand."
        )
    if not before.ranking.interpretations:
        raise UserError("No chat model said what the compound means here.")
    item = before.item
    recorded = [_by_hand(item, one, sense, meanings) for one in before.ranking.interpretations]
    settings = replace(
        before.settings, rankers=("embeddings",), llms=tuple(one.name for one in recorded)
    )
    return _rank(item, settings, models, recorded)


def copied(ranked: Ranked, folder: Path) -> Ranked:
    """The result with its pictures in another visitor's folder, under the same ids."""
    pictures = {name: replace(one, path=folder / one.id) for name, one in ranked.pictures.items()}
    for name, one in pictures.items():
        if not one.path.exists():
            os.link(ranked.pictures[name].path, one.path)
    item = replace(
        ranked.item,
        candidates=tuple(
            replace(one, image=pictures[one.name].path) if one.name in pictures else one
            for one in ranked.item.candidates
        ),
    )
    run = replace(ranked.run, rankings=(ranked.ranking.with_item(item),))
    return replace(ranked, run=run, pictures=pictures)


def _by_hand(
    item: Item,
    before: Interpretation,
    sense: SenseLabel | None,
    meanings: Mapping[SenseLabel, str | None],
) -> Recorded:
    """What one chat model said of the item, with what a person says in its place."""
    said = RecordedReply(before.sense)
    if sense:
        vote = int(sense == "idiomatic")
        said.sense = Sense(sense, float(vote), vote, 1 - vote)
    said.meanings = {"idiomatic": before.idiomatic, "literal": before.literal}
    for label, text in meanings.items():
        if text and text.strip():
            lines = (" ".join(line.split()) for line in text.splitlines())
            said.meanings[label] = Meaning(tuple(filter(None, lines))[:DEFINITIONS])
    name = f"{before.llm.removesuffix(BY_HAND)}{BY_HAND}"
    return Recorded(name, name, {key_of(item.compound, item.sentence): said})


BY_HAND = ", by hand"


def _rank(
    item: Item,
    settings: Settings,
    models: Models,
    llms: Sequence[ChatModel | Source],
    detector: Detector | None = None,
) -> Run:
    encoder = caption_encoder = None
    if "embeddings" in settings.rankers:
        settings = look_where_no_caption_is(summarise_set([item]), settings)
        encoder = models.encoder(settings.encoder, settings)
        if settings.caption_encoder:
            caption_encoder = models.encoder(settings.caption_encoder, settings)
    return rank(
        [item],
        settings,
        llms=llms,
        encoder=encoder,
        caption_encoder=caption_encoder,
        detector=detector,
    )


def search(
    text: str, span: str, language: str, top: int, models: Models, folder: Path, visitor: str
) -> dict[str, Any]:
    """What of the collection means or shows what the span means in the text, for the page.

    Args:
        folder: where copies of found pictures are written.
        visitor: the id, for the addresses of these copies.

    Returns:
        ``found``, as the page shows it, and ``pictures``, the copies in it.

    Raises:
        UserError: as :func:`admire.tasks.collections.search_index` does.
    """
    from admire.tasks.collections import SearchSettings, search_index

    stack = models.settings(models.profiles[0])
    index, encoder = models.collection(stack)
    found = search_index(
        text,
        span,
        index,
        SearchSettings(top=top, lang=language),
        llm=models.llms(stack)[0],
        encoder=encoder,
        detector=models.detector(stack),
    )
    reading = found.reading
    shown: dict[str, Any] = {
        "sense": reading.sense.label if reading else None,
        "probability": reading.sense.probability if reading else None,
        "gloss": reading.gloss if reading else None,
    }
    if not found.pictures:
        shown["texts"] = [
            {"id": one.name, "text": one.caption, "score": points} for one, points in found.entries
        ]
        return {"found": shown, "pictures": ()}
    copies = {one.image: _copy(one.image, folder) for one, _ in found.entries if one.image}
    pictures = {path: copy for path, copy in copies.items() if copy}
    item = Item(span, text, language, candidates=tuple(one for one, _ in found.entries))
    scores = np.array([points for _, points in found.entries])
    ranking = Ranking.of(item, scores, interpretations=(reading,) if reading else ())
    shown["item"] = item_card(Run((ranking,), {}), pictures, visitor)
    return {"found": shown, "pictures": pictures.values()}


def _copy(picture: Path, folder: Path) -> Picture | None:
    """A small copy of a collection's picture; None if it cannot be read any more."""
    from admire.tasks.collections import read_picture

    file = folder / secrets.token_hex(16)
    try:
        file.write_bytes(read_picture(picture))
        content, (width, height) = thumbnail(file, FOUND_SIDE)
        file.write_bytes(content)
    except (UserError, OSError):
        file.unlink(missing_ok=True)
        return None
    return Picture(picture.name, file, "image/webp", width, height)


def item_card(
    run: Run, pictures: Mapping[Path, Picture] = MappingProxyType({}), visitor: str = ""
) -> dict[str, Any]:
    """The item as cards.js draws it, with what the run made of it.

    Args:
        pictures: those that the visitor of that id can fetch, by the images of candidates.
    """
    shown = {
        path: Shown(f"/pictures/{one.id}?visitor={visitor}", one.width, one.height)
        for path, one in pictures.items()
    }
    (ranking,) = run.rankings
    drawn = card(1, ranking.item, [result(ranking.item, ranking, None, run.record)], shown)
    return drawn | {"warnings": warnings_of(ranking.item)}


def warnings_of(item: Item) -> list[str]:
    """What is odd about an item, in whole sentences."""
    if not item.sentence or in_sentence(item):
        return []
    return [f"The compound “{item.phrase}” is not in the sentence."]
