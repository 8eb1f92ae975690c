"""What a compound means, in a chat model's words: each sense by definitions and a scene."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from admire.base.choices import TEXTS
from admire.data.items import Item, SenseLabel
from admire.models.llm import ChatModel, Question
from admire.prompts import Prompts, quoted
from admire.prompts.quotations import data_of, without_lines, without_objects

GLOSS_TOKENS = 60
MEANING_TOKENS = 90
HINTS = 2
"""How many glosses of a dictionary a prompt shows."""
WORD_HINTS = 10
"""The same for a word in a phrase, where any of them may be meant."""
ATTEMPTS = 3
"""How often a model is asked, each time with another seed, until a reply can be used."""
DEFINITIONS = 2
"""How many definitions of a sense are kept."""

IDIOMATIC, LITERAL = TEXTS[:3], TEXTS[3:]


@dataclass(frozen=True)
class Meaning:
    """A sense in a chat model's words: short definitions, and what a picture of it would show.

    Empty where the model was not asked, or gave nothing that can be used.
    """

    definitions: tuple[str, ...] = ()
    scene: str | None = None

    def __bool__(self) -> bool:
        return bool(self.definitions or self.scene)


UNSAID = Meaning()


def gloss(item: Item, llm: ChatModel, prompts: Prompts, *, seed: int = 0) -> Meaning:
    """The compound's idiomatic sense in one definition, as in section 2.1 of the UoR-NCL paper.

    The model is first asked for its likeliest reply. If that is empty, a refusal, the bare compound
    or a copy of the sentence, it is asked again at temperature 1.

    Raises:
        UserError: the model cannot be asked.
    """
    prompt = prompts.about(item, "gloss")

    def read(reply: str) -> Meaning:
        text = clean_gloss(without_lines(reply, prompt, item.sentence), item.phrase)
        return Meaning((text,)) if text and not copied(text, item.sentence) else UNSAID

    return _ask(prompt, read, llm, GLOSS_TOKENS, seed)


def meaning(
    item: Item,
    sense: SenseLabel,
    llm: ChatModel,
    prompts: Prompts,
    *,
    seed: int = 0,
    hint: Sequence[str] = (),
) -> Meaning:
    """One sense of the compound in short definitions and a scene, all in one reply.

    The prompt is :func:`template`. It is asked again as for :func:`gloss`, unless dictionaries
    define the sense: then their words stand in for a reply that cannot be used.

    Args:
        hint: what dictionaries say of that sense; the model may repeat it.

    Raises:
        UserError: the model cannot be asked.
    """
    prompt = prompts.about(item, template(item, sense), hint=hint)
    examples = prompts.about(item, template(item, sense), hint=())

    def read(reply: str) -> Meaning:
        return read_meaning(reply, item, examples)

    if hint and not item.word:
        found = _ask(prompt, read, llm, MEANING_TOKENS, seed, attempts=1)
        return found or Meaning(tuple(hint)[:DEFINITIONS])
    return _ask(prompt, read, llm, MEANING_TOKENS, seed)


def template(item: Item, sense: SenseLabel) -> str:
    """The prompt for a sense: it is called as the sense, and ``word`` for a word in a phrase."""
    return "word" if item.word else sense


def _ask(
    prompt: str,
    read: Callable[[str], Meaning],
    llm: ChatModel,
    max_tokens: int,
    seed: int,
    attempts: int = ATTEMPTS,
) -> Meaning:
    for attempt in range(attempts):
        question = Question(
            prompt,
            temperature=0.0 if attempt == 0 else 1.0,
            max_tokens=max_tokens,
            seed=seed + attempt,
            purpose="meanings",
        )
        found = read(llm.ask(question).text)
        if found:
            return found
    return UNSAID


def read_meaning(reply: str, item: Item, prompt: str = "") -> Meaning:
    """The definitions and the scene in a reply: a JSON object, or lines of which one is the scene.

    A reply that is cut off gives what there is of it. What is copied from the sentence or from the
    prompt's examples of other phrases is left out, and so is what is said of another phrase.
    Without a definition the meaning is empty.
    """
    reply = _whole(without_objects(reply, data_of(item)), prompt)
    own = quoted(item.phrase).casefold()
    examples = "\n".join(line for line in prompt.splitlines() if own not in line.casefold())
    is_json = "{" in reply or '"definitions"' in reply
    definitions, scene = _of_json(reply, item.phrase) if is_json else _of_lines(reply)
    kept: dict[str, str] = {}
    for text in definitions:
        cleaned = clean_gloss(text, item.phrase)
        if cleaned and not _echoed(cleaned, item, examples):
            kept.setdefault(cleaned.casefold().strip(" ."), cleaned)
    if not kept:
        return UNSAID
    shown = _plain(scene)
    told = re.search(r"\w", shown) and not _echoed(shown, item, examples)
    return Meaning(tuple(kept.values())[:DEFINITIONS], shown if told else None)


def _whole(reply: str, prompt: str) -> str:
    """The reply with the prompt's last line before it, where it goes on with that JSON object."""
    goes_on = re.match(r'(?s)\s*[^\s"`{][^{]*"\s*[]}]', reply)
    return prompt.rpartition("\n")[2] + reply if goes_on else reply


def _of_json(reply: str, compound: str) -> tuple[list[str], str]:
    """Definitions and scene of a JSON object about the compound, which may be cut off."""
    parts = re.split(rf"(?={_NAME})", reply)
    about = [(re.match(rf'{_NAME}"({_INSIDE})"', part), part) for part in parts]
    if any(named for named, _ in about):
        about = [
            (named, part)
            for named, part in about
            if named and _same(_unescaped(named[1]), compound)
        ]
    for _, part in about:
        definitions = re.search(rf'"definitions"\s*:\s*(\[[^\]]*|"{_INSIDE}")', part)
        texts = re.findall(rf'"({_INSIDE})"', definitions[1]) if definitions else []
        if texts:  # else the prompt's last line, repeated
            scene = re.search(rf'"scene"\s*:\s*"({_INSIDE})', part)
            return [_unescaped(text) for text in texts], _unescaped(scene[1] if scene else "")
    return [], ""


_NAME = r'"(?:phrase|idiom)"\s*:\s*'
_INSIDE = r'(?:[^"\\]|\\.)*'
"""What stands between a JSON text's quotes."""


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _of_lines(reply: str) -> tuple[list[str], str]:
    """Definitions, one a line, numbered or not, and a line that begins with ``Scene:``."""
    definitions, scene = [], ""
    for line in reply.splitlines():
        text = re.sub(r"^[\s*_#>-]*(?:\d+[.)]\s*)?[\s*_]*", "", line)
        label = re.match(r"(?i)(?:scene|cena)\W*:\W*", text)
        if label:
            scene = scene or text[label.end() :]
        else:
            definitions.append(text)
    return definitions, scene


def _same(one: str, other: str) -> bool:
    return _words(one) == _words(other)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _echoed(text: str, item: Item, examples: str) -> bool:
    return copied(text, item.sentence) or text.strip(" .") in examples


def copied(text: str, sentence: str) -> bool:
    """Whether a definition repeats the sentence that it is to explain.

    It does if five words in a row are the sentence's, or if at least four words and two thirds of
    its words are, in runs of two or more.
    """
    words, source = _words(text), _words(sentence)
    blocks = SequenceMatcher(None, words, source, autojunk=False).get_matching_blocks()
    runs = [block.size for block in blocks if block.size > 1]
    return max(runs, default=0) >= 5 or (sum(runs) >= 4 and 3 * sum(runs) >= 2 * len(words))


def clean_gloss(reply: str, compound: str) -> str | None:
    """The definition alone, without markup and without an opening like 'A pipe dream is'.

    The compound's own words in the query would draw it to literal pictures, which is what the
    gloss is there to prevent. Returns None if no definition is left.
    """
    for line in reply.splitlines():
        text = _plain(line)
        if text.endswith(":") or _CHATTER.match(text):
            continue
        text = _without_opening(text, compound)
        if re.search(r"\w", text) and text.strip(" .").casefold() != compound.casefold():
            return None if _REFUSAL.match(text) else text
    return None


def _plain(text: str) -> str:
    """The text without markup and double quotes."""
    return re.sub(r"[*_`#\"“”«»]+", "", text).strip()


_QUOTES = "'‘’"
_CHATTER = re.compile(r"(?:sure|certainly|okay|of course|no problem)\s*[,.!]", re.IGNORECASE)
_REFUSAL = re.compile(
    r"(?:i['’]m sorry|i am sorry|sorry[,.!]|i cannot|i can['’]t|as an ai|desculpe)", re.IGNORECASE
)


def _without_opening(text: str, compound: str) -> str:
    """The text without what leads up to the definition; empty if it is the compound alone."""
    text = re.sub(r"(?i)^(?:definition|meaning|definição|significado)\s*:\s*", "", text)
    opening = (
        rf"^(?:(?:an?|the|um|uma|o|a)\s+)?"
        rf"(?:(?:idiomatic\s+)?(?:idiom|phrase|expression|term|compound|expressão|termo)"
        rf"(?:\s+idiomática)?\s+)?"
        rf"[{_QUOTES}]*{re.escape(compound)}[{_QUOTES}]*\s*"
        rf"(?:[.\s]*$|[:–—,-]|(?:means|is|are|refers to|describes|significa|é|refere-se a)"
        rf"(?!['’\w]):?)\s*"
        rf"(?:(?:used to describe|usad[oa] para descrever|that|que)\s+)?"
    )
    return re.sub(opening, "", text, flags=re.IGNORECASE).strip(f" \t{_QUOTES}")
