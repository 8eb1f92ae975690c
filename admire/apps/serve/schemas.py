"""What ``/v1`` accepts and returns: rows of a ``manifest.jsonl``, and rankings."""

from __future__ import annotations

import base64
import re
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from admire.apps.serve.guard import Limits
from admire.core.choices import ProfileName, nearest
from admire.core.schema import UNLESS_NONE
from admire.data.image_files import FORMAT_NAMES
from admire.data.limits import check_text, limited

# Without admire.data.items, which takes longer to import than the page may take.
Sense = Literal["idiomatic", "literal"]
By = Literal["detector", "captions", "given", "recorded"]
NONE = "null if no vote could be parsed"
CONFIDENCE = f"Probability of the predicted sense; {NONE}, or the sense was given."
Language = Annotated[str, *limited("language")]
Name = Annotated[str, *limited("image")]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Many = Field(max_length=1_000)  # pydantic reads no further
START = "data:[^,]{0,200};base64,"  #: how the data URI of a picture begins


def _decoded(value: object) -> bytes:
    start = re.match(START, value) if isinstance(value, str) else None
    if not start or not isinstance(value, str):
        raise ValueError("is not a data URI like data:image/png;base64,…, with the picture")
    try:
        return base64.b64decode(value[start.end() :], validate=True)
    except ValueError:
        raise ValueError("is not base64 after base64,") from None


class Sent(BaseModel):
    """An object in a request. An unknown key is refused, because it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: object) -> object:
        if isinstance(value, dict):
            names = [*cls.model_fields]
            for key in value:
                if key not in names:
                    hint = nearest(key[:80], names) or f" Known keys: {', '.join(names)}."
                    raise ValueError(f"'{key[:80]}' is unknown.{hint}")
        return value


class Candidate(Sent):
    """A picture, a caption, or a picture with its caption."""

    image: (
        Annotated[
            bytes,
            BeforeValidator(_decoded),
            WithJsonSchema({"type": "string", "pattern": f"^{START}"}),
        ]
        | None
    ) = Field(
        None,
        description=f"{FORMAT_NAMES} as a data URI, at most {Limits.megabytes} MB and "
        f"{Limits.megapixels} megapixels.",
    )
    caption: Annotated[str, *limited("caption")] | None = None
    name: Name | None = Field(
        None, description="Its name in the answer, such as a file's name (default: candidate1, …)."
    )


Candidates = list[
    Annotated[
        Candidate,
        BeforeValidator(
            lambda value: {"caption": value} if isinstance(value, str) else value,
            json_schema_input_type=Candidate | Annotated[str, *limited("caption")],
        ),
    ]
]
"""A text is a caption."""


class Votes(Sent):
    """How often each sense was given."""

    idiomatic: Count = 0
    literal: Count = 0
    unparsed: Count = 0


class Meaning(Sent):
    """What a chat model says of one sense."""

    definitions: Annotated[list[Annotated[str, *limited("definition")]], Many] = Field(
        default=[], description="The first two count."
    )
    scenes: Annotated[list[Annotated[str, *limited("scene")]], Many] = Field(
        default=[], description="The first one counts."
    )
    unread: Annotated[
        Annotated[str, *limited("reply")] | None,
        UNLESS_NONE,
        Field(description="The reply, if it could not be used; then a dictionary is asked."),
    ] = None
    fault: Annotated[
        Annotated[str, *limited("reply")] | None,
        UNLESS_NONE,
        Field(description="Why the reply could not be used, or what is wrong with a definition."),
    ] = None


class Entry(Sent):
    """What a dictionary says of one sense."""

    gloss: Annotated[str, *limited("definition")]
    source: Annotated[str, *limited("llm")] = Field(description="The dictionary.")


class Reading(Sent):
    """How one chat model understands the compound here."""

    llm: Annotated[str, *limited("llm")]
    sense: Sense | None
    probability_idiomatic: Probability | None = Field(
        description=f"Probability of the idiomatic sense; {NONE}."
    )
    confidence: Probability | None = Field(
        None, description=f"{CONFIDENCE} Requests can omit it: it is computed."
    )
    votes: Votes | None = None
    by: By | None = Field(None, description="What decided the sense in place of votes.")
    wording: Annotated[str, *limited("definition")] | None = Field(
        None, description="The meaning in short, to show."
    )
    idiomatic: Meaning = Meaning()
    literal: Meaning = Meaning()
    dictionary: dict[Sense, Annotated[list[Entry], Many]] = {}

    @model_validator(mode="after")
    def _follow(self) -> Self:
        from admire.metrics.metrics import confidence

        if self.sense is None:
            self.probability_idiomatic = None
        p = None if self.by == "given" else self.probability_idiomatic
        self.confidence = None if p is None else confidence(p, self.sense)
        return self


class Row(Sent):
    """One row of a manifest.jsonl, with pictures as data URIs."""

    compound: Annotated[str, *limited("compound")]
    sentence: Annotated[str, *limited("sentence")] | None = Field(
        None, description="Uses the compound. Only an item with a sequence can do without."
    )
    language: Language | None = Field(
        None, description="A language tag (default: detected from the sentence; en if that fails)."
    )
    candidates: Candidates = Field(
        min_length=2,
        max_length=Limits.pictures,
        description=f"At most {Limits.pictures} together with the sequence.",
    )
    sequence: Candidates = Field(
        [],
        max_length=Limits.pictures,
        description="Instead of a sentence: what the best candidate continues.",
    )
    profile: ProfileName | None = Field(
        None, description="The models and settings (default: those that the server started with)."
    )
    readings: Annotated[list[Reading], Many] = Field(
        [],
        description="Readings of an earlier answer, unchanged or with another sense or other "
        "definitions. The candidates are ranked by these, and no chat model is asked.",
    )
    definitions: (
        Annotated[list[Annotated[str, *limited("definition")]], Field(max_length=2)] | None
    ) = Field(
        None, description="What the compound means in the sentence, in place of a model's words."
    )
    sentence_type: Annotated[
        Sense | None,
        BeforeValidator(lambda v: (v.strip().lower() or None) if isinstance(v, str) else v),
    ] = Field(None, description="Gold; as in a manifest, in any case of letters.")
    expected_order: Annotated[list[Name], Many] | None = Field(
        None, description="Gold: names, best first."
    )
    expected_item: Name | None = Field(None, description="Gold of an item with a sequence.")
    id: Annotated[str | int | None, BeforeValidator(partial(check_text, "id"))] = Field(
        None, description="Not used; manifests may have it."
    )
    subset: Annotated[str, *limited("id")] | None = Field(
        None, description="Not used; AdMIRe's files have it."
    )


class Part(BaseModel):
    """What one text or ranker adds to a candidate's score."""

    of: str = Field(description="What is compared (image, caption), or the ranker.")
    text: str | None = Field(
        description="What it is compared with: gloss, scene, compound, …; unlike compound, … if "
        "similarity lowers the score. Null for a ranker."
    )
    value: float
    encoder: Annotated[str | None, UNLESS_NONE] = Field(
        None, description="The encoder that compared, if there are several."
    )


class Scored(BaseModel):
    """A candidate with its score."""

    name: str = Field(description="As in the request, or candidate1, candidate2, … in its order.")
    score: float
    rank: int = Field(description="1 is the best.")
    parts: list[Part] = Field(description="They sum to the score.")


class Ranking(BaseModel):
    """The ranking of an item."""

    compound: str
    sentence: str
    span: tuple[int, int] | None = Field(
        description="Where the compound stands, inflected perhaps: the places of its first "
        "character and of the one after its last. Null where it is not found."
    )
    language: str = Field(description="As in the request, or as detected from the sentence.")
    sense: Sense | None
    probability_idiomatic: float | None = Field(
        description=f"Probability of the idiomatic sense; {NONE}, or the sense was given."
    )
    confidence: float | None = Field(description=CONFIDENCE)
    readings: list[Reading]
    order: list[str] = Field(description="The candidates' names, best first.")
    uncompared: list[str] = Field(description="Those that nothing compares with others: the last.")
    candidates: list[Scored] = Field(description="In the order of the request.")
    judgements: list[dict[str, Any]] = Field(
        description="Answers of chat models that ranked the candidates."
    )
    unsure: bool = Field(False, description="The confidence is below what the settings require.")
    by_sense: dict[Sense, list[str]] = Field({}, description="The order under either sense.")
    no_meaning: bool = Field(False, description="No meaning was found; only the compound counts.")
    warnings: list[str] = Field(description="What makes the result less reliable.")
