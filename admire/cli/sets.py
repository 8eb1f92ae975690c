"""Commands that look at a set: its faults, what it lacks, what it shares with others."""

from __future__ import annotations

import json as jsonlib
import logging
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from admire.base.errors import UserError
from admire.base.terminal import visible
from admire.cli import options as opt
from admire.cli.output import print_json, print_rows
from admire.data.settings import ItemFiles
from admire.rankers.settings import Settings

log = logging.getLogger("admire")


def init(folder: Path, /, *pictures: Path) -> None:
    """Begin a set of your own: write the manifest of a folder of pictures, ready to edit.

    The pictures of a folder are the candidates of one item, and the folder's name is the compound.
    Captions come from the .txt files beside the pictures. Sentences are left empty: fill them in,
    and admire check says what is still missing.

    Args:
        folder: Folder of the set, in which manifest.csv is written.
        pictures: Pictures, or folders of them, that are copied into the set; else those that are in
            it.

    Examples:
        admire init my_set/ pictures/
        admire init my_set/ night_owl/*.jpg cold_feet/*.jpg
    """
    from admire.data.new_set import init_set

    rows = init_set(folder, pictures)
    log.info("Items in %s: %d. Each needs a sentence.", folder / "manifest.csv", len(rows))
    log.info("Next: %s", shlex.join(["admire", "check", str(folder)]))


@opt.with_settings("check", (ItemFiles, "lang", "limit", "images"))
def check(
    data: opt.Data,
    /,
    *,
    out: Path | None = None,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Find all faults of a set at once: in rows, paths, links and pictures. Opens no model.

    Each picture is decoded. A set of which no picture is there is ranked by its
    captions, and that is no fault. Ends with exit code 2 if there are faults; admire rank
    --skip-bad goes on without what they spoil.

    Pictures are looked at if Pillow is there, as with the extra embedded.

    Args:
        out: Run folder for admire rank: also check that it can be written.

    Examples:
        admire check my_set/
        admire check my_set/ --limit 5 --json
    """
    from admire.base.storage import check_folder
    from admire.data.check import SetCounts, check_set
    from admire.data.image_files import check_image

    files = opt.make(ItemFiles, options)
    folder = files.images or (data if data.is_dir() else data.parent)
    checked = check_set(
        partial(files.read, data),
        partial(SetCounts, folder.resolve()),
        lambda first: first.counts["pictures"] > 0,
        check_image,
    )
    counts, links = checked.collector.counts, list(checked.collector.links)
    faults = [vars(fault) for fault in checked.faults]
    if out:
        try:
            check_folder(out, "run")
        except UserError as error:
            faults.append({"what": str(error), "lost": "run"})
    if json:
        print_json({"counts": counts, "faults": faults, "links": links})
    else:
        for fault in faults:
            print(visible(fault["what"]))
        if not faults:
            print("No faults.")
        print("; ".join(f"{kind}: {count}" for kind, count in counts.items()))
        if links:
            others = f" and {len(links) - 1} more" if len(links) > 1 else ""
            print(visible(f"Links that lead out of the set's folder: {links[0]}{others}"))
    if faults:
        number = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise UserError(f"{data}: {number}, listed above.")


@opt.with_settings("audit", (ItemFiles, "lang"), (Settings, "dictionaries"))
def audit(
    data: Path,
    /,
    *,
    against: list[Path] | None = None,
    run: Path | None = None,
    out: Path | None = None,
    force: opt.Force = False,
    order: Annotated[bool, Parameter(negative="--no-order")] = True,
    seed: int = 0,
    json: opt.Json = False,
    options: opt.Options = None,
) -> None:
    """Check what a set shares with other sets, what it repeats, and what it lacks.

    Compares compounds, sentences, captions and pictures; pictures may have other names, and may
    have been scaled, saved again or recoloured. Also tells which compounds a dictionary has.
    Asks no chat model.

    Needs the extra embedded.

    Args:
        data: As for rank; candidates are not needed.
        against: Another set, or a head or detector, whose card lists what it was trained on.
            Repeat for several.
        run: A run folder of this data: rank by its settings, and write audit.json there, for admire
            report.
        out: JSON file to write.
        order: Rank twice, once with the candidates shuffled, to see whether their order matters.
        seed: Seed of shuffling and of simulated chance.

    Examples:
        admire audit dev.tsv --against train.tsv --run runs/dev
    """
    from admire.audit.audit import AUDIT, read_training_digests
    from admire.audit.audit import audit as audit_items
    from admire.audit.candidate_order import check_order
    from admire.base.storage import check_file, note_addition, write_whole
    from admire.data.reader import iter_items
    from admire.pages.report.audit_tables import audit_tables
    from admire.senses.dictionaries import open_dictionaries

    if out:
        check_file(out, '"against": ', force=force)
    read = partial(iter_items, notes={}, whole=False)
    items = list(read(data, opt.make(ItemFiles, options).lang))
    cards = {str(path): read_training_digests(path) for path in against or ()}
    findings = audit_items(
        items,
        {path: list(read(path)) if saw is None else saw for path, saw in cards.items()},
        order=check_order(items, run, seed=seed) if order else None,
        dictionaries=open_dictionaries(opt.make(Settings, options).dictionaries),
        seed=seed,
    ).as_json(str(data))
    if json:
        print_json(findings)
    else:
        for table in audit_tables(findings, items=10):  # --json has all
            print_rows(table.headings, table.rows, table.title)
            if table.note:
                print(table.note)
    for path in (run / AUDIT if run else None, out):
        if path:
            note_addition(path)  # first, so that a kill leaves no file unknown to admire
            with write_whole(path) as file:
                jsonlib.dump(findings, file, indent=2, ensure_ascii=False)
            log.info("Wrote %s", path)
