"""The command ``audit``: what a set shares with others, repeats and lacks."""

from __future__ import annotations

import json as jsonlib
import logging
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from admire.base.errors import UserError
from admire.cli import options as opt
from admire.cli.output import print_rows
from admire.rankers.settings import Settings

log = logging.getLogger("admire")

LISTED = 10
"""Items that share something, printed at most; ``--json`` has all."""


def audit(
    data: Path,
    /,
    *,
    against: list[Path] | None = None,
    run: Path | None = None,
    out: Path | None = None,
    order: Annotated[bool, Parameter(negative="--no-order")] = True,
    dictionary: list[str] | None = None,
    lang: opt.Lang = None,
    seed: int = 0,
    json: opt.Json = False,
) -> None:
    """Check what a set shares with other sets, what it repeats, and what it lacks.

    Compares compounds, sentences, captions and pictures; pictures may have other names, and may
    have been scaled, saved again or recoloured. Also tells which compounds a dictionary has.
    Asks no chat model.

    Args:
        data: As for rank; candidates are not needed.
        against: Another set, or a head or detector, whose card lists what it was trained on.
            Repeat for several.
        run: A run folder of this data: rank by its settings, and write audit.json there, for admire
            report.
        out: JSON file to write.
        order: Rank twice, once with the candidates shuffled, to see whether their order matters.
        dictionary: Dictionary in which the compounds are looked up, as for rank, or none. Repeat
            for several; else wordnet.
        seed: Seed of shuffling and of simulated chance.
    """
    from admire.audit.audit import AUDIT, read_training_digests
    from admire.audit.audit import audit as audit_items
    from admire.audit.candidate_order import check_order
    from admire.base.storage import note_addition, write_whole
    from admire.data.items import Item
    from admire.data.overlap import Digests
    from admire.data.reader import iter_items
    from admire.pages.report.audit_tables import audit_tables
    from admire.senses.dictionaries import open_dictionaries

    if out and out.is_dir():
        raise UserError(
            f"{out}: is a folder. Name the file to write, for example audit.json.", "out"
        )

    def read(path: Path, language: str | None = None) -> list[Item]:
        return list(iter_items(path, language, warn=False, whole=False))

    def read_other(path: Path) -> list[Item] | Digests:
        digests = read_training_digests(path)
        return read(path) if digests is None else digests

    items = read(data, lang)
    others = {str(path): read_other(path) for path in against or ()}
    dictionaries = open_dictionaries(dictionary or Settings.dictionaries)
    order_check = check_order(items, run, seed=seed) if order else None
    findings = audit_items(
        items, others, order=order_check, dictionaries=dictionaries, seed=seed
    ).as_json(str(data))
    if json:
        print(jsonlib.dumps(findings, indent=2))
    else:
        for table in audit_tables(findings, items=LISTED):
            print_rows(table.headings, table.rows, table.title)
            if table.note:
                print(table.note)
    for path in (run / AUDIT if run else None, out):
        if path:
            note_addition(path)  # first, so that a kill leaves no file unknown to admire
            with write_whole(path) as file:
                jsonlib.dump(findings, file, indent=2, ensure_ascii=False)
            log.info("Wrote %s", path)
