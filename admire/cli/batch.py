"""``admire batch``: ask what a run will need by OpenAI's Batch API."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from admire.base.choices import SenseMethod
from admire.cli.options import (
    SENSE_OPTION,
    VOTES_OPTION,
    Budget,
    Data,
    DetectorFile,
    DryRun,
    GateWanted,
    ImageSide,
    Lang,
    Llm,
    LlmUrl,
    MeaningsWanted,
    Profile,
    PromptFolder,
    Rankers,
    Seed,
    Shuffles,
    TrackWanted,
    given,
)
from admire.cli.output import print_forecasts

log = logging.getLogger("admire")


def batch(
    data: Data,
    profile: Profile = "embedded",
    ranker: Rankers = None,
    shuffles: Shuffles = None,
    image_side: ImageSide = None,
    llm: Llm = None,
    llm_url: LlmUrl = None,
    lang: Lang = None,
    sense: Annotated[SenseMethod | None, SENSE_OPTION] = None,
    votes: Annotated[int | None, VOTES_OPTION] = None,
    meanings: MeaningsWanted = None,
    track: TrackWanted = None,
    gate: GateWanted = None,
    prompts: PromptFolder = None,
    detector: DetectorFile = None,
    seed: Seed = 0,
    dry_run: DryRun = False,
    budget: Budget = None,
) -> None:
    """Ask by OpenAI's Batch API, at half the price and within a day, what admire rank will need.

    What the cache lacks is submitted, and what has been answered is put into the cache. Call it
    again, with the same options, until it says that admire rank can begin; it ends with exit code 3
    while questions are under way.
    """
    from dataclasses import replace

    from admire.data.items import read_items
    from admire.rankers.settings import PROFILES, Asking
    from admire.runs.batch import batch as submit
    from admire.runs.forecast import plan

    stack = PROFILES[profile]
    changes = {
        "rankers": tuple(ranker) if ranker else None,
        "shuffles": shuffles,
        "image_side": image_side,
        "llms": tuple(llm) if llm else None,
        "llm_url": llm_url,
        "sense": sense,
        "votes": votes,
        "meanings": meanings,
        "track": track,
        "scoring": replace(stack.scoring, **given({"gate": gate})),
        "prompts": str(prompts) if prompts else None,
        "detector": str(detector) if detector else None,
        "seed": seed,
    }
    settings = replace(stack, **given(changes))
    items = read_items(data, lang)
    if dry_run:
        print_forecasts(plan(items, settings, batch=True))
        return
    under_way = submit(items, settings, budget=Asking(budget=budget).budget)
    for line in under_way:
        log.info("%s.", line)
    if under_way:
        log.info("Call the same command again later: answers come within 24 hours as a rule.")
        raise typer.Exit(3)
    log.info("The cache has all that batches can answer. Now run admire rank with these options.")
