"""Rankings of documents, their scores (IdioLink, appendix D), and files for other tools."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pandas as pd

from admire.base.errors import UserError
from admire.base.storage import write_whole
from admire.scores.metrics import ndcg, r_precision
from admire.tasks.retrieval.passages import Split, relevance

log = logging.getLogger("admire")

Similarities = npt.NDArray[np.float64]


def ranked(similarities: Similarities, ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Positions of the documents from best to worst, one row a query: shape (queries, documents).

    Scores are compared as they are written to run files, and documents with equal scores are in
    descending order of their ids. trec_eval does both, so other tools see the same ranking.
    """
    by_name = np.argsort(np.argsort(np.array([trec_id(name) for name in ids])))
    return np.array([np.lexsort((-by_name, -row)) for row in written(similarities)])


def written(similarities: Similarities) -> npt.NDArray[np.float32]:
    """Scores to six decimals and in single precision, as trec_eval reads them."""
    return np.round(similarities, 6).astype(np.float32)


def score_queries(split: Split, similarities: Similarities) -> pd.DataFrame:
    """R-precision and nDCG@10 of each query (appendix D).

    Args:
        similarities: of queries and documents, shape (queries, documents).

    Returns:
        A row a query: ``id, idiom, usage, subject, r_precision, ndcg`` (at 10), from 0 to 1.
        Queries without a relevant document in the index have no row.

    Raises:
        UserError: no query has a relevant document.
    """
    orders = ranked(similarities, [document.id for document in split.documents])
    rows = []
    for query, order, wanted in zip(split.queries, orders, relevance(split), strict=True):
        gains = wanted[order]
        if gains.any():
            rows.append(
                {
                    "id": query.id,
                    "idiom": query.idiom,
                    "usage": query.usage,
                    "subject": query.subject,
                    "r_precision": r_precision(gains),
                    "ndcg": ndcg(gains, 10),
                }
            )
    if not rows:
        raise UserError("No query has a relevant document in the index.")
    if len(rows) < len(split.queries):
        log.warning(
            "%d of %d queries have no relevant document in the index and are left out.",
            len(split.queries) - len(rows),
            len(split.queries),
        )
    return pd.DataFrame(rows)


def write_trec(folder: Path, split: Split, similarities: Similarities, name: str) -> None:
    """Write ``run.trec`` (the 100 best documents of each query) and ``qrels.trec``.

    Args:
        name: of the system, as it stands in the run file.

    Raises:
        UserError: a file cannot be written.
    """
    ids = [document.id for document in split.documents]
    orders = ranked(similarities, ids)
    name = trec_id(name)
    with write_whole(folder / "run.trec") as file:
        for query, order, row in zip(split.queries, orders, written(similarities), strict=True):
            asked = trec_id(query.id)
            for rank, place in enumerate(order[:100], start=1):
                found = trec_id(ids[place])
                file.write(f"{asked} Q0 {found} {rank} {row[place]:.6f} {name}\n")
    with write_whole(folder / "qrels.trec") as file:
        for query, wanted in zip(split.queries, relevance(split), strict=True):
            for place in np.flatnonzero(wanted):
                file.write(f"{trec_id(query.id)} 0 {trec_id(ids[place])} 1\n")


def trec_id(name: str) -> str:
    """An id without spaces, which separate columns there. Different ids stay different."""
    return re.sub(r"[\s%]", lambda found: quote(found[0]), name)


def summarise_queries(scored: pd.DataFrame) -> pd.DataFrame:
    """Means over all queries, by usage and by subject, in percent as in the paper.

    Returns:
        A row a group: ``group, n, r_precision, ndcg`` (at 10).
    """
    groups: list[tuple[str, pd.DataFrame]] = [("all", scored)]
    for column in ("usage", "subject"):
        groups += [(str(name), part) for name, part in scored.groupby(column) if name]
    figures = ["r_precision", "ndcg"]
    rows = [(name, len(part), *(100 * part[figures].mean())) for name, part in groups]
    return pd.DataFrame(rows, columns=["group", "n", *figures])
