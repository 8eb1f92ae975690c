"""Queries as encoders get them, with span or instruction, and as a chat model interprets them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from admire.core.choices import Meanings
from admire.core.errors import UserError
from admire.core.files import read_text
from admire.core.schema import read_as
from admire.data.items import Item
from admire.encoders import CachedEncoder, Query, QueryEncoder, TextEncoder
from admire.encoders.cached import text_windows
from admire.encoders.windows import Windows
from admire.llm import ChatModel, Session, open_llm
from admire.pipeline.chat_stage import interpret_items
from admire.prompts import Prompts
from admire.senses import Detector
from admire.senses.dictionaries import open_dictionaries
from admire.senses.interpretation import Approach, Interpretation
from admire.senses.settings import SenseSettings
from admire.tasks.retrieval.passages import Passage
from admire.tasks.retrieval.settings import InstructionFormat, QueryForm, QuerySettings

INSTRUCTION = (
    "Based on the literal/idiomatic usage of the span '{span}' in the query, retrieve documents "
    "that contain a span conveying the same conceptual meaning."
)
"""IdioLink's instruction (appendix B), quoted as in github.com/Intellexus-DSI/IdioLink."""

PROMPTS: dict[InstructionFormat, str] = {
    "instruct": "Instruct: {}\nQuery: ",
    "qwen3": "Instruct: {}\nQuery:",
    "bge-gemma2": "<instruct>{}\n<query>",
    "gritlm": "<|user|>\n{}\n<|embed|>\n",
    "tart": "{} [SEP] ",
    "nomic": "search_query: {} ",
    "prompt": "{} ",
}
"""Instructions as prompts. In the format ``plain`` an instruction is part of the text."""

DOCUMENTED: dict[str, InstructionFormat] = {
    "instructor": "prompt",  # sbert.net, "Instruction-tuned models"
    "qwen3": "qwen3",  # hf.co/Qwen/Qwen3-Embedding-0.6B
    "bge-.*gemma2": "bge-gemma2",  # hf.co/BAAI/bge-multilingual-gemma2
    "gritlm": "gritlm",  # github.com/ContextualAI/gritlm
    r"\btart\b": "tart",  # github.com/facebookresearch/tart
    # Nomic's models know a few tasks alone: the instruction follows the word for search.
    "nomic-embed": "nomic",  # hf.co/nomic-ai/nomic-embed-text-v2-moe
    # The cards of SFR-Embedding-Mistral, Linq-Embed-Mistral, llama-embed-nemotron-8b and
    # stella_en_1.5B_v5, and mteb's wrappers of them
    "sfr-embedding|linq-embed|llama-embed-nemotron|stella.en": "instruct",
    "instruct|qwen|lychee": "instruct",
}
"""The form that a model's makers document, by its name; the first pattern counts."""

TRAINED = "retriever.json"
"""File in the folder of a trained retriever, with its :class:`TrainedOn`."""


class TrainedOn(BaseModel):
    """How a retriever got its queries in training, and gets them since (IdioLink, section 4.3)."""

    query: QueryForm
    instruction_format: InstructionFormat


def encode_queries(
    queries: Sequence[Passage],
    encoder: TextEncoder,
    form: QueryForm,
    instruction_format: InstructionFormat = "auto",
) -> Windows:
    """Encode the queries' sentences, window by window, or their spans."""
    instruction_format = instruction_format_of(encoder.name, form, instruction_format)
    inputs = [encoder_query(query, form, instruction_format) for query in queries]
    if isinstance(encoder, QueryEncoder):
        if isinstance(encoder, CachedEncoder):
            return encoder.query_windows(inputs)
        return Windows.of(encoder.encode_queries(inputs))
    if form.endswith("span"):
        raise UserError(
            f"The encoder '{encoder.name}' has no vectors of spans. Use the query 'sentence' or "
            "'instruction+sentence', or an encoder sbert:REPOSITORY.",
            "query",
            "encoder",
        )
    return text_windows(encoder, [(q.prompt or "") + q.text for q in inputs], role="query")


def instruction_format_of(
    name: str, form: QueryForm, setting: InstructionFormat = "auto"
) -> InstructionFormat:
    """Return the form of instructions for an encoder: the setting, or if that is ``auto``, the one
    that admire trained it with, or else the one that its name implies.

    Raises:
        UserError: it learned from instructions, and the setting is another form.
    """
    path = Path(name.partition(":")[2]).expanduser() / TRAINED
    if path.is_file():
        learned = read_as(TrainedOn, read_text(path), path)
        instructed = form.startswith("instruction") and learned.query.startswith("instruction")
        if instructed and setting not in ("auto", learned.instruction_format):
            raise UserError(
                f"The encoder '{name}' learned from instructions of the form "
                f"'{learned.instruction_format}', not '{setting}'. Leave it on auto.",
                "instruction_format",
            )
        setting = learned.instruction_format if setting == "auto" else setting
    if setting != "auto":
        return setting
    name = name.rpartition("/")[2].lower()  # folders above it say nothing about the model
    forms = (form for pattern, form in DOCUMENTED.items() if re.search(pattern, name))
    return next(forms, "plain")


def encoder_query(query: Passage, form: QueryForm, instruction_format: InstructionFormat) -> Query:
    """Return the text to encode, the prompt before it, and the span's position in the text."""
    start, end = query.place
    prompt, prefix = None, ""
    if form.startswith("instruction"):
        instruction = INSTRUCTION.format(span=query.span)
        if instruction_format == "plain":
            prefix = f"{instruction} "
        else:
            prompt = PROMPTS[instruction_format].format(instruction)
    span = (len(prefix) + start, len(prefix) + end) if form.endswith("span") else None
    return Query(prefix + query.sentence, prompt, span)


def interpret_queries(
    items: Sequence[Item],
    settings: QuerySettings,
    llm: ChatModel | None = None,
    detector: Detector | None = None,
    *,
    meanings: Meanings = "both",
    session: Session | None = None,
) -> list[Interpretation]:
    """Find the sense and the meanings of each item, also of literal uses, by a chat model that is
    open or that the settings name, and by a detector or the built-in one."""
    model = open_llm(llm or settings.llm, session, settings.llm_url, settings.dictionaries)
    senses = SenseSettings(sense=settings.sense, meanings=meanings)
    how = Approach(Prompts(settings.prompts), senses, settings.seed, "all")
    entries = open_dictionaries(settings.dictionaries)
    (readings,) = interpret_items(items, [model], how, dictionaries=entries, detector=detector)
    return readings
