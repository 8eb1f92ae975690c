"""Commands for collections: their index, and search in them."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated, get_args

import typer

from admire.choices import ENGINES, EngineName, QueryText, SenseMethod
from admire.cli.options import (
    SENSE_OPTION,
    ChatLlm,
    EncoderDevice,
    Json,
    LlmUrl,
    PromptFolder,
    QueryLanguage,
    Seed,
    choice,
)
from admire.cli.output import print_rows

log = logging.getLogger("admire")


def search(
    text: Annotated[str, typer.Argument(help="A text that uses the compound.")],
    span: Annotated[str, typer.Option(help="The compound, as it stands in the text.")],
    index: Annotated[
        Path,
        typer.Option(
            help="Texts to search: .txt (a line each), .jsonl or .csv (column text), or a folder "
            "that admire index wrote."
        ),
    ],
    top: Annotated[int, typer.Option(help="How many texts to show.")] = 10,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of texts, e5 or sbert:…; else e5 or the index's.")
    ] = None,
    query: Annotated[
        QueryText,
        choice(
            "query",
            get_args(QueryText),
            "What texts are compared with; the last two are plain cosine.",
        ),
    ] = "meaning",
    llm: ChatLlm = "embedded",
    llm_url: LlmUrl = None,
    sense: Annotated[SenseMethod, SENSE_OPTION] = "auto",
    contrast: Annotated[
        float, typer.Option(help="Weight of the compound against texts in the idiomatic sense.")
    ] = 0.0,
    lang: QueryLanguage = "en",
    device: EncoderDevice = "auto",
    prompts: PromptFolder = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Find the texts that mean what the compound means here."""
    from admire.collections.search import SearchSettings, search_texts

    settings = SearchSettings(
        encoder=encoder,
        query=query,
        top=top,
        llm=llm,
        llm_url=llm_url,
        sense=sense,
        contrast=contrast,
        lang=lang,
        prompts=prompts,
        device=device,
        seed=seed,
    )
    found = search_texts(text, span, index, settings)
    reading = found.reading
    if json:
        understood = (
            {
                "sense": reading.sense.label,
                "probability": reading.sense.probability,
                "gloss": reading.gloss,
            }
            if reading
            else {"query": query}
        )
        texts = [{"id": t.name, "score": score, "text": t.caption} for t, score in found.texts]
        print(jsonlib.dumps(understood | {"texts": texts}, indent=2, ensure_ascii=False))
        return
    rows = [(f"{score:+.2f}", one.name, one.caption) for one, score in found.texts]
    title = f"{reading.sense.label}: {reading.gloss or '–'}" if reading else query
    print_rows(("Score", "Id", "Text"), rows, f"{span}, {title}")


def index(
    texts: Annotated[Path, typer.Argument(help="Texts, as for search.")],
    out: Annotated[Path, typer.Option(help="Index folder to write, for search --index.")],
    encoder: Annotated[str, typer.Option(help="Encoder of texts: e5 or sbert:…")] = "e5",
    engine: Annotated[
        EngineName,
        choice(
            "engine",
            ENGINES,
            "What searches: a comparison with every vector, from disk; or LanceDB, nearly exact "
            "and faster.",
        ),
    ] = "exact",
    device: EncoderDevice = "auto",
) -> None:
    """Encode texts once, to search them often."""
    from admire.collections.index import write_index
    from admire.collections.texts import read_texts
    from admire.encoders import open_encoder

    found = read_texts(texts)
    write_index(found, open_encoder(encoder, device=device), out, engine=engine)
    log.info("Wrote %s, %d texts", out, len(found))
