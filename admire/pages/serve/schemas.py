"""What ``/v1`` takes and answers: rows of a ``manifest.jsonl``, rankings, searches."""

from __future__ import annotations

import base64
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, WithJsonSchema

from admire.base.choices import ProfileName
from admire.base.schema import UNLESS_NONE
from admire.data.image_files import FORMAT_NAMES
from admire.data.limits import Limit
from admire.pages.serve.guard import Limits

# Without admire.data.items, which takes longer to import than the page may take.
Sense = Literal["idiomatic", "literal"]
By = Literal["detector", "captions", "given", "recorded"]
Probability = Annotated[
    float | None, Field(description="Of the idiomatic sense; null where no vote could be read.")
]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Language = Annotated[str, Limit("language")]
Name = Annotated[str, Limit("image")]
START = "data:[^,]{0,200};base64,"
"""How the data URI of a picture begins."""


def _decoded(value: object) -> bytes:
    start = re.match(START, value) if isinstance(value, str) else None
    if not start or not isinstance(value, str):
        raise ValueError("is not a data URI like data:image/png;base64,…, with the picture")
    try:
        return base64.b64decode(value[start.end() :], validate=True)
    except ValueError:
        raise ValueError("is not base64 after base64,") from None


class Candidate(BaseModel):
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
    caption: Annotated[str, Limit("caption")] | None = None
    name: Name | None = Field(
        None, description="What the answer calls it, such as its file's name; else candidate1, …"
    )


class Votes(BaseModel):
    """How often each sense was given."""

    idiomatic: int = 0
    literal: int = 0
    unparsed: int = 0


class Meaning(BaseModel):
    """What a chat model says of one sense."""

    definitions: list[Annotated[str, Limit("definition")]] = Field(
        default=[], description="The first two count."
    )
    scenes: list[Annotated[str, Limit("scene")]] = Field(
        default=[], description="The first one counts."
    )
    unread: Annotated[
        Annotated[str, Limit("reply")] | None,
        UNLESS_NONE,
        Field(description="The reply, if it could not be used: a dictionary stands in, if it can."),
    ] = None


class Entry(BaseModel):
    """What a dictionary says of one sense."""

    gloss: Annotated[str, Limit("definition")]
    source: Annotated[str, Limit("llm")] = Field(description="The dictionary.")


class Reading(BaseModel):
    """How one chat model understands the compound here."""

    llm: Annotated[str, Limit("llm")]
    sense: Sense | None
    probability: Probability
    votes: Votes | None = None
    by: By | None = Field(None, description="What decided the sense in place of votes.")
    wording: Annotated[str, Limit("definition")] | None = Field(
        None, description="The meaning in short, to show."
    )
    idiomatic: Meaning = Meaning()
    literal: Meaning = Meaning()
    dictionary: dict[Sense, list[Entry]] = {}


class Row(BaseModel):
    """One row of a manifest.jsonl, with pictures as data URIs. Other keys are ignored."""

    compound: Annotated[str, Limit("compound")]
    sentence: Annotated[str, Limit("sentence")] | None = Field(
        None, description="Uses the compound. Only an item with a sequence can do without."
    )
    language: Language | None = Field(
        None,
        description="A language tag; without one that of the sentence, or en where it cannot be "
        "told.",
    )
    candidates: list[Candidate] = Field(
        min_length=2,
        max_length=Limits.pictures,
        description=f"At most {Limits.pictures} together with the sequence.",
    )
    sequence: list[Candidate] = Field(
        [], description="In place of the sentence: what the best candidate continues."
    )
    profile: ProfileName | None = Field(
        None, description="The models and settings; by default those of the server's start."
    )
    readings: list[Reading] = Field(
        [],
        description="Readings of an earlier answer, perhaps with another sense or other "
        "definitions: the candidates are ranked by these, and no chat model is asked.",
    )
    sentence_type: Sense | None = None
    expected_order: list[Name] | None = None
    expected_item: Name | None = None


class Part(BaseModel):
    """What one text or ranker adds to a candidate's score."""

    of: str = Field(description="What is compared (image, caption), or the ranker.")
    text: str | None = Field(
        description="With what it is compared: gloss, scene, compound, …, or unlike compound, … "
        "where likeness counts against it, or pair; null for a ranker."
    )
    value: float


class Scored(BaseModel):
    """A candidate with its score."""

    name: str = Field(description="As in the request, or candidate1, candidate2, … in its order.")
    score: float
    rank: int = Field(description="1 is the best.")
    parts: list[Part] = Field(description="They sum to the score.")


Span = Annotated[
    tuple[int, int] | None,
    Field(
        description="Where the compound stands, inflected perhaps: the places of its first "
        "character and of the one after its last. Null where it is not found."
    ),
]


class Ranking(BaseModel):
    """The ranking of an item."""

    compound: str
    sentence: str
    span: Span
    language: str = Field(description="As in the request, or as told from the sentence.")
    sense: Sense | None
    probability: Probability
    readings: list[Reading]
    order: list[str] = Field(description="The candidates' names, best first.")
    candidates: list[Scored] = Field(description="In the order of the request.")
    judgements: list[dict[str, Any]] = Field(
        description="What rankers answered that looked at the candidates."
    )
    unsure: bool = Field(False, description="The sense is less sure than the settings ask for.")
    no_meaning: bool = Field(False, description="No meaning was found, the compound alone counts.")
    warnings: list[str] = Field(description="What is odd about the item.")


class Search(BaseModel):
    """A search in the collection that the server was started with."""

    text: Annotated[Text, Limit("sentence")] = Field(description="Uses the expression.")
    span: Annotated[Text, Limit("span")] = Field(
        description="The expression, as it stands in the text."
    )
    language: Language | None = Field(
        None, description="A language tag; without one that of the text, or en."
    )
    top: int = Field(10, ge=1, le=100, strict=True, description="How many to find.")


class FoundText(BaseModel):
    """A text with its score."""

    id: str
    score: float
    text: str


class FoundPicture(BaseModel):
    """A picture with its score."""

    id: str
    score: float
    caption: str | None
    image: str | None = Field(
        None,
        description="A copy of at most 1,024 pixels a side, as a data URI; null where the picture "
        "cannot be read any more.",
    )
    width: int | None = None
    height: int | None = None


class Found(BaseModel):
    """What a search found, best first: texts or pictures, whichever the collection holds."""

    readings: list[Reading] = Field(description="How the expression is understood.")
    gloss: str | None
    span: Span
    texts: list[FoundText] | None = None
    pictures: list[FoundPicture] | None = None
