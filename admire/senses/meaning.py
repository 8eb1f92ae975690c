"""The meaning of a compound: definitions and a scene of one sense, read from a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from admire.core.choices import TEXTS
from admire.core.schema import UNLESS_NONE
from admire.data.items import Item
from admire.data.limits import LIMITS, without_invalid
from admire.llm.chat import thinks_aloud
from admire.prompts import quoted
from admire.prompts.quotations import data_of, runs_of, without_lines, without_objects, words_of

DEFINITIONS = 2  #: maximum number of definitions of a sense
CONSIDERED = 20
"""How many definitions of a reply are considered. The tokens of a reply allow no more."""
LONGEST = 50  #: maximum words of a definition; longer lines are thoughts
REPEATS = "it only repeats the compound's words"

IDIOMATIC, LITERAL = TEXTS[:3], TEXTS[3:]

MeaningKind = Literal["gloss", "idiomatic", "literal"]
"""One definition of the idiomatic sense, as in UoR-NCL's paper, or all of one sense."""


@dataclass(frozen=True)
class Meaning:
    """The meaning of a sense: definitions, and a scene that a picture of it would show; or empty.

    Attributes:
        unread: a chat model's last reply, if none was usable. Definitions are then those of a
            dictionary.
        fault: why that reply was not usable; or :data:`REPEATS` for definitions that are used.
    """

    definitions: tuple[str, ...] = ()
    scene: str | None = None
    unread: Annotated[str | None, UNLESS_NONE] = None
    fault: Annotated[str | None, UNLESS_NONE] = None

    def __bool__(self) -> bool:
        return bool(self.definitions or self.scene)


NO_MEANING = Meaning()


def read_gloss(reply: str, item: Item, prompt: str = "", *, cut: bool = False) -> Meaning:
    """Parse one definition, from a line or from JSON."""
    text = without_lines(reply, prompt, item.sentence)
    definitions = _read_json(text, item.phrase)[0] if '"definitions"' in text else None
    lines = _answers(text, cut=cut) if definitions is None else definitions
    return _usable(lines, "", item, "", 1)


def read_meaning(reply: str, item: Item, prompt: str = "", *, cut: bool = False) -> Meaning:
    """Parse definitions and a scene from a JSON object, or from lines with a line for the scene.

    The complete parts of a reply that was ``cut`` off are used. Copies from the sentence or from
    the prompt's examples of other phrases are skipped, and so is everything about another phrase.
    Without a definition the meaning is empty, and its fault contains the reason.
    """
    reply = without_objects(reply, data_of(item))
    if re.match(r'(?s)\s*[^\s"`{][^{]*"\s*[]}]', reply):  # continues the prompt's last line
        reply = prompt.rpartition("\n")[2] + reply
    phrase = quoted(item.phrase).casefold()
    examples = "\n".join(line for line in prompt.splitlines() if phrase not in line.casefold())
    is_json = "{" in reply or '"definitions"' in reply
    definitions, scene = _read_json(reply, item.phrase) if is_json else _read_lines(reply, cut=cut)
    if is_json and not definitions:
        return Meaning(fault=f"it has no definitions of '{item.phrase}'")
    return _usable(definitions, scene, item, examples, DEFINITIONS)


def _usable(
    definitions: Sequence[str], scene: str, item: Item, examples: str, most: int
) -> Meaning:
    """Return the usable parts of a reply; without a usable definition, the first fault."""
    usable: dict[str, str] = {}
    faults = []
    for text in definitions[:CONSIDERED]:
        gloss = clean_gloss(text, item.phrase)
        fault = _fault(gloss or "", item, examples)
        if gloss and not fault:
            usable.setdefault(gloss.casefold().strip(" ."), gloss)
        faults.append(fault)
    if not usable:
        return Meaning(fault=next(filter(None, faults), "no line of it is a definition"))
    scene = _plain(scene[: LIMITS["scene"]])
    shows = re.search(r"\w", scene) and not _fault(scene, item, examples)
    return Meaning(tuple(usable.values())[:most], scene if shows else None)


def _fault(text: str, item: Item, examples: str) -> str | None:
    """Return why a definition is not usable; None if it is."""
    if not text:
        return "it is a refusal, or only the compound itself"
    if is_copied(text, item.sentence):
        return "it copies the sentence"
    if text.strip(" .") in examples:
        return "it copies an example of the prompt"
    if len(words_of(text)) > LONGEST:
        return f"it has more than {LONGEST} words"
    return None


def _read_json(reply: str, compound: str) -> tuple[list[str], str]:
    """Parse definitions and scene of a JSON object about the compound, which may be cut off.

    Not by ``pydantic_core.from_json(allow_partial=…)``: replies begin inside an object, close a
    list with a brace, or have text around it; and a cut definition is dropped, but not a cut scene.
    """
    parts = re.split(rf"(?={_NAME})", reply)
    names = [re.match(rf'{_NAME}"({_INSIDE})"', part) for part in parts]
    anonymous, words = not any(names), words_of(compound)
    for name, part in zip(names, parts, strict=True):
        if not (anonymous or (name and words_of(_unescape(name[1])) == words)):
            continue
        definitions = re.search(
            rf'"definitions"\s*:\s*(\[(?:[^\]"]|"{_INSIDE}")*|"{_INSIDE}")', part
        )
        texts = re.findall(rf'"({_INSIDE})"', definitions[1]) if definitions else []
        if texts:  # else the prompt's last line, repeated
            scene = re.search(rf'"scene"\s*:\s*"({_INSIDE})', part)
            return [_unescape(text) for text in texts], _unescape(scene[1] if scene else "")
    return [], ""


_NAME = r'"(?:phrase|idiom)"\s*:\s*'
_INSIDE = r'(?:[^"\\]|\\.)*'  #: a JSON text between its quotes


def _unescape(text: str) -> str:
    """Return the text without JSON escapes; unchanged if they are invalid."""
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _answers(reply: str, *, cut: bool) -> list[str]:
    """Return the lines that may be an answer: no code, fences or thoughts, which continue until the
    last line. If a line was cut off, its complete sentences count."""
    lines = [line for line in reply.splitlines() if not re.match(r"\s*(?:```|[]{}[]|$)", line)]
    if any(map(thinks_aloud, lines)):
        return [] if cut or thinks_aloud(lines[-1]) else lines[-1:]
    if cut and lines:
        whole = re.match(r".*[.!?。！？](?=\s|$)", lines[-1])
        lines[-1:] = [whole[0]] if whole else []
    return lines


def _read_lines(reply: str, *, cut: bool) -> tuple[list[str], str]:
    """Parse definitions, one per line, numbered or not, and a line that begins with ``Scene:``.

    A line of one word is not a definition: a server without a model may answer like that.
    """
    definitions, scene = [], ""
    for line in _answers(reply, cut=cut):
        text = re.sub(r"^[\s*_#>-]*(?:\d+[.)]\s*)?[\s*_]*", "", line)
        label = re.match(r"(?i)(?:scene|cena)\W*:\W*", text)
        if label:
            scene = scene or text[label.end() :]
        elif len(words_of(text)) > 1:
            definitions.append(text)
    return definitions, scene


def is_copied(text: str, sentence: str) -> bool:
    """Return whether a text has five words in a row from the sentence, or at least four words and
    two thirds of its words, in runs of two or more."""
    words, source = words_of(text), words_of(sentence)
    if not {*runs_of(words, 5)}.isdisjoint(runs_of(source, 5)):
        return True
    pairs, copied = {*runs_of(source, 2)}, set[int]()
    for place, pair in enumerate(runs_of(words, 2)):
        if pair in pairs:
            copied |= {place, place + 1}
    return len(copied) >= 4 and 3 * len(copied) >= 2 * len(words)


def clean_gloss(reply: str, compound: str) -> str | None:
    """Return the definition without markup and without an opening like 'A pipe dream is', whose
    words would make the query similar to literal pictures; None if nothing remains."""
    opening = (
        rf"^(?:(?:definition|meaning|definição|significado)\s*:\s*)?"
        rf"(?:(?:(?:an?|the|um|uma|o|a)\s+)?"
        rf"(?:(?:idiomatic\s+)?(?:idiom|phrase|expression|term|compound|expressão|termo)"
        rf"(?:\s+idiomática)?\s+)?"
        rf"[{_QUOTES}]{{0,9}}{re.escape(compound)}[{_QUOTES}]{{0,9}}\s*+"
        rf"(?:[.\s]*+$|[:–—,-]|(?:means|is|are|refers to|describes|significa|é|refere-se a)"
        rf"(?!['’\w]):?)\s*"
        rf"(?:(?:used to describe|usad[oa] para descrever|that|que)\s+)?)?"
    )
    for line in reply.splitlines():
        text = _plain(line[: LIMITS["definition"]])
        if text.endswith(":") or _CHATTER.match(text):
            continue
        text = re.sub(opening, "", text, flags=re.IGNORECASE).strip(f" \t{_QUOTES}")
        if re.search(r"\w", text) and text.strip(" .").casefold() != compound.casefold():
            return None if _REFUSAL.match(text) else text
    return None


def _plain(text: str) -> str:
    """Return the text without markup, double quotes and invalid characters."""
    return re.sub(r"[*_`#\"“”«»]+", "", without_invalid(text)).strip()


_QUOTES = "'‘’"
_CHATTER = re.compile(r"(?:sure|certainly|okay|of course|no problem)\s*[,.!]", re.IGNORECASE)
_REFUSAL = re.compile(
    r"(?:i['’]m sorry|i am sorry|sorry[,.!]|i cannot|i can['’]t|as an ai\b|desculpe)", re.IGNORECASE
)
