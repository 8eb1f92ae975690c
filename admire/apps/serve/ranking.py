"""What the working thread does: rank an item, if asked with given readings."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

from admire.apps.audit.audit import in_sentence
from admire.apps.report.gallery import result
from admire.apps.serve import schemas
from admire.apps.serve.models import Models
from admire.core.errors import UserError
from admire.data.compounds import find_compound
from admire.data.items import Item, SenseLabel
from admire.pipeline.ranking import Run
from admire.pipeline.run import rank
from admire.pipeline.run_folder import write_run
from admire.rankers import look_where_no_caption_is, shares_no_view
from admire.rankers.run_encoders import encoder_attribute
from admire.rankers.settings import Settings, compares_vectors, summarise_set
from admire.senses.detector import describe_untrained
from admire.senses.meaning import DEFINITIONS, Meaning
from admire.senses.recorded_replies import Recorded, RecordedReply, key_of
from admire.senses.sense import Sense

if TYPE_CHECKING:
    from admire.senses import Detector

LanguageFrom = Literal["request", "sentence", "default"]

BY_HAND = ", by hand"  #: what ends the name of a chat model whose reading a person sent


def rank_item(
    item: Item, settings: Settings, models: Models, readings: Sequence[schemas.Reading] = ()
) -> Run:
    """Rank one item with models that are open, or that are opened now and kept.

    Args:
        readings: in place of asking the chat models, for rankers that compare vectors.
    """
    if readings:
        if not settings.compares:
            by = " and ".join(settings.rankers)
            raise UserError(f"This profile ranks by {by} alone: only vectors are ranked by hand.")
        recorded = [_recorded(item, reading) for reading in readings]
        names = tuple(source.name for source in recorded)
        by_vectors = tuple(filter(compares_vectors, settings.rankers))
        settings = replace(settings, rankers=by_vectors, llms=names)
    opened: dict[str, Any] = {}
    if settings.compares:
        settings = look_where_no_caption_is(summarise_set([item]), settings)
        opened["encoder"] = [models.encoder(name, settings) for name in settings.encoder]
        if settings.caption_encoder:
            opened["caption_encoder"] = models.encoder(settings.caption_encoder, settings)
    return rank(
        [item],
        settings,
        asking=models.asking,
        llms=recorded if readings else models.llms(settings),
        detector=None if readings else models.detector(settings),
        **opened,
    )


def _recorded(item: Item, reading: schemas.Reading) -> Recorded:
    """Turn a reading into a source that answers with it."""
    probability = reading.probability_idiomatic
    if probability is None:
        probability = {"idiomatic": 1.0, "literal": 0.0}.get(reading.sense or "", 0.5)
    votes = (reading.votes or schemas.Votes()).model_dump()
    sense = Sense(reading.sense, probability, **votes, by=reading.by)
    meanings = {}
    for label in get_args(SenseLabel):
        sent = getattr(reading, label)
        definitions = filter(None, (" ".join(text.split()) for text in sent.definitions))
        meanings[label] = Meaning(tuple(definitions)[:DEFINITIONS], next(iter(sent.scenes), None))
    name = f"{reading.llm.removesuffix(BY_HAND)}{BY_HAND}"
    replies = {key_of(item.compound, item.sentence): RecordedReply(sense, meanings)}
    return Recorded(name, name, replies)


def describe(
    run: Run, detector: Detector | None = None, language_from: LanguageFrom = "request"
) -> schemas.Ranking:
    """Describe a run of one item; warn if its detector was not trained on the language."""
    (ranking,) = run.rankings
    item, facts = ranking.item, result(ranking.item, ranking, run.record)
    candidates = [
        {
            "name": candidate.name,
            "score": round(facts["scores"][k], 9) + 0.0,  # no -0.0, no -1.000000000000009
            "rank": 1 + facts["order"].index(k),
            "parts": [part | {"value": part["values"][k]} for part in facts["parts"]],
        }
        for k, candidate in enumerate(item.candidates)
    ]
    warnings = [*_language_warnings(item, facts, detector, language_from)]
    if item.sentence and not in_sentence(item):
        warnings.append(f"The compound “{item.phrase}” is not in the sentence.")
    if run.record["models"]["encoders"] and shares_no_view(item):
        by_words = "pictures are compared by what sight recognises in them"
        how = by_words if any(facts["scores"]) else "scores are 0"
        warnings.append(f"The candidates have no modality in common: {how}.")
    elif ranking.uncompared:
        names = ", ".join(ranking.uncompared)
        warnings.append(f"Nothing compares {names} with the other candidates: they come last.")
    if any(candidate.image for candidate in item.candidates):
        for name in run.record["settings"]["encoder"]:
            if limits := encoder_attribute(name, "limits", ""):
                warnings.append(f"The encoder {name} {limits}.")
    return schemas.Ranking.model_validate(
        facts
        | {
            "compound": item.compound,
            "sentence": item.sentence,
            "span": find_compound(item.sentence, item.phrase),
            "language": item.language,
            "order": list(ranking.order),
            "uncompared": list(ranking.uncompared),
            "candidates": candidates,
            "warnings": warnings,
        }
    )


def _language_warnings(
    item: Item, facts: Mapping[str, Any], detector: Detector | None, language_from: LanguageFrom
) -> Iterator[str]:
    """Yield what is doubtful about an item's language."""
    if language_from == "default":
        yield "The language could not be detected, so English is assumed."
    if any(reading.get("by") == "detector" for reading in facts["readings"]):
        guessed = " (guessed from the sentence)" if language_from == "sentence" else ""
        if untrained := describe_untrained(detector, [item.language], guessed):
            yield untrained


def zip_folder(run: Run) -> bytes:
    """Zip the folder of a run."""
    content = io.BytesIO()
    with TemporaryDirectory() as place, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        write_run(run, Path(place) / "run")
        for path in sorted(Path(place).rglob("*.*")):
            file.write(path, path.relative_to(place))
    return content.getvalue()
