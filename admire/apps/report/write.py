"""From run folders to the file of a report."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from admire.apps.report.audit_tables import run_audits
from admire.apps.report.gallery import Cards
from admire.apps.report.pictures import Shown, make_thumbnails, with_pictures
from admire.apps.report.plots import draw_plots
from admire.apps.report.report import Kind, Report, render, run_names
from admire.apps.report.tables import ranking_tables
from admire.apps.report.text_reports import retrieval_report, senses_report
from admire.core.choices import BoardTrack, Images, PublishedSet
from admire.core.errors import UserError, check_extra
from admire.core.storage import note_addition, write_whole
from admire.llm.pictures import image_size
from admire.metrics.agreement import describe_shared
from admire.pipeline.run_folder import read_record

log = logging.getLogger("admire")


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    images: Images = "embed",
    data: str | Path | None = None,
    published: PublishedSet | None = None,
    track: BoardTrack | None = None,
    metrics: Sequence[str] = (),
) -> Path:
    """Write one HTML file that shows runs, and return its path. Nothing is asked or encoded.

    Args:
        runs: folders of ``admire rank``, ``fuse`` or ``retrieve``, or tables of ``admire sense`` or
            ``detect``; all of one kind. The first is what the others are compared with.
        out: the file.
        images: ``embed`` puts thumbnails into the file, so that it can be moved; ``link`` names
            the picture files, relative to it.
        data: where the data of the runs are, if not where run.json says.
        published: the set that the data are, to show places among published figures; None takes the
            one that :func:`admire.metrics.published.recognise_set` finds, if any.
        track: that of the board; None takes the one in which each run is judged.
        metrics: names of further metrics, plug-ins.

    Raises:
        UserError: a run cannot be read, they are not of one kind, the file cannot be written, or a
            package is missing.
    """
    paths, out = [Path(run) for run in runs], Path(out)
    check_report()
    kinds = {_kind(path) for path in paths}
    if len(kinds) != 1:
        raise UserError("A report shows runs of one kind. Give run folders, or tables of senses.")
    if kinds != {"ranking"}:
        report = senses_report(paths) if kinds == {"senses"} else retrieval_report(paths)
    else:
        names, where = run_names(paths), Path(data) if data else None
        records = [read_record(path) for path in paths]
        rankings = [with_pictures(*pair, where) for pair in zip(paths, records, strict=True)]
        cards = Cards(rankings, records, metrics)
        embedded = make_thumbnails(cards.files) if images == "embed" else None
        thumbnails, pictures = embedded or (_links(cards.files, out), {})
        of_cards = cards.data(names, thumbnails)
        report = Report(
            " · ".join(names),
            "ranking",
            (*ranking_tables(cards.scores, names, published, track), *run_audits(paths, names)),
            draw_plots(of_cards),
            of_cards,
            pictures,
            linked=images == "link",
        )
    has = [[result is not None for result in item["runs"]] for item in report.data["items"]]
    items = [[k for k, present in enumerate(has) if present[run]] for run in range(len(paths))]
    if note := describe_shared(run_names(paths), items):
        log.warning("%s", note)
    note_addition(out)  # first: a kill after it leaves no file that admire does not know
    with write_whole(out) as file:
        file.writelines(render(report))
    return out


def check_report() -> None:
    """Check early, before any chat model is asked, that a report's packages are installed."""
    check_extra("report", "A report", "matplotlib", "PIL")


def _kind(path: Path) -> Kind:
    if (path / "items.jsonl").is_file():
        return "ranking"
    if (path / "run.trec").is_file():
        return "retrieval"
    if path.is_file() and path.suffix.lower() == ".tsv":
        return "senses"
    raise UserError(
        f"{path}: is not a run folder. A report is made from folders of admire rank, fuse or "
        "retrieve, or from tables of admire sense or detect."
    )


def _links(files: Sequence[Path], out: Path) -> dict[Path, Shown]:
    """Return the files themselves, by addresses relative to the report."""
    links = {}
    for file in files:
        try:
            width, height = image_size(file)
            address = Path(os.path.relpath(file.resolve(), out.resolve().parent)).as_posix()
            links[file] = {"picture": quote(address), "width": width, "height": height}
        except UserError as error:
            log.warning("%s The report shows its caption alone.", error)
    return links
