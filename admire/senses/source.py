"""Where senses and meanings come from: a chat model that is asked, or what was recorded before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Protocol, runtime_checkable

from admire.core.errors import UserError
from admire.data.items import Item
from admire.llm import ChatModel, ask_each
from admire.prompts import Prompts
from admire.senses.dictionaries import Entries
from admire.senses.meaning import Meaning, MeaningKind, ask_gloss, ask_meaning, template
from admire.senses.sense import Sense
from admire.senses.votes import vote

HINTS = 2
"""Maximum number of glosses from a dictionary in a prompt."""
WORD_HINTS = 10
"""The same for a word in a phrase, where any of them may be meant."""


@runtime_checkable
class Source(Protocol):
    """Provides the sense of a compound in its sentence, and its meaning.

    Attributes:
        name: what the user calls it.
        identity: everything that its answers depend on.
        llm: the chat model that answers other questions as well; None without one.
        judges_senses: whether ``auto`` uses its decision on the sense; otherwise a detector
            decides.
        describes_both_senses: whether ``auto`` requests the meanings of both senses, and not only
            of the idiomatic one where it is intended.
    """

    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def llm(self) -> ChatModel | None: ...
    @property
    def judges_senses(self) -> bool: ...
    @property
    def describes_both_senses(self) -> bool: ...

    def check(self, items: Iterable[Item]) -> None:
        """Refuse items that it has no data about, before anything is asked."""

    def senses(
        self, items: Iterable[Item], prompts: Prompts, *, votes: int, temperature: float, seed: int
    ) -> list[Sense]:
        """Return the sense of each item; refuse items whose sense it cannot decide."""

    def meanings(
        self,
        items: Sequence[Item],
        kind: MeaningKind,
        prompts: Prompts,
        *,
        seed: int,
        entries: Mapping[Item, Entries],
        gloss_tokens: int,
    ) -> dict[Item, Meaning]:
        """Return the meaning of each item's compound, with dictionaries' entries as hints."""

    def order(self, item: Item) -> tuple[str, ...] | None:
        """Return the recorded order of an item's candidates; None without one."""


@dataclass(frozen=True)
class ChatSource:
    """A chat model as a source: it votes on senses and writes meanings."""

    llm: ChatModel

    @property
    def name(self) -> str:
        return self.llm.name

    @property
    def identity(self) -> str:
        return self.llm.identity

    @property
    def judges_senses(self) -> bool:
        return self.llm.judges_senses

    @property
    def describes_both_senses(self) -> bool:
        return self.llm.describes_both_senses

    def check(self, items: Iterable[Item]) -> None:
        """Accept all items."""

    def senses(
        self, items: Iterable[Item], prompts: Prompts, *, votes: int, temperature: float, seed: int
    ) -> list[Sense]:
        items = list(items)
        check_contexts(items)
        return vote(items, self.llm, prompts, votes=votes, temperature=temperature, seed=seed)

    def meanings(
        self,
        items: Sequence[Item],
        kind: MeaningKind,
        prompts: Prompts,
        *,
        seed: int,
        entries: Mapping[Item, Entries],
        gloss_tokens: int,
    ) -> dict[Item, Meaning]:
        """Ask for each item's meaning; each different prompt is sent once."""

        def hint(item: Item) -> tuple[str, ...]:
            if kind == "gloss":
                return ()
            return entries[item].glosses(kind)[: HINTS if item.has_sense else WORD_HINTS]

        def ask(item: Item) -> Meaning:
            if kind == "gloss":
                return ask_gloss(item, self.llm, prompts, max_tokens=gloss_tokens, seed=seed)
            return ask_meaning(item, kind, self.llm, prompts, seed=seed, hint=hint(item))

        prompt_of = {
            item: prompts.about(item, template(item, kind), hint=hint(item)) for item in items
        }
        # Sorted, so that a server can reuse the prefix that a prompt shares with the one before.
        first = {prompt: item for item, prompt in sorted(prompt_of.items(), key=itemgetter(1))}
        noun = "literal meaning" if kind == "literal" else "meaning"
        name_of = attrgetter("compound")
        answers = ask_each(ask, [*first.values()], self.llm, f"Writing the {noun}", name_of=name_of)
        meanings = dict(zip(first, answers, strict=True))
        return {item: meanings[prompt] for item, prompt in prompt_of.items()}

    def order(self, item: Item) -> None:
        """Return None: rankers ask the chat model."""


def as_source(llm: ChatModel | Source) -> Source:
    """Return a chat model as a source; return other sources unchanged."""
    return llm if isinstance(llm, Source) else ChatSource(llm)


def check_contexts(items: Iterable[Item]) -> None:
    """Refuse items that have neither a sentence nor a sequence with captions."""
    for item in items:
        if not item.shows_sense:
            raise UserError(
                f"'{item.compound}': no sentence or sequence with captions to decide its sense.",
                "sense",
            )
