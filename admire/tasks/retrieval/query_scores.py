"""Rankings of documents, the scores of queries (IdioLink, appendix D), and TREC files of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pandas as pd

from admire.core.errors import UserError
from admire.core.storage import write_whole
from admire.metrics.metrics import ndcg, r_precision
from admire.tasks.retrieval.passages import Split, relevance

log = logging.getLogger("admire")

Similarities = npt.NDArray[np.float64]  #: of queries and documents, shape (queries, documents)


def rank_documents(similarities: Similarities, ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return positions of the documents from best to worst, shape (queries, documents), as in
    trec_eval: scores are compared as written, and equal ones go by descending id."""
    by_name = np.argsort(np.argsort(np.array([trec_id(name) for name in ids])))
    return np.array([np.lexsort((-by_name, -row)) for row in trec_scores(similarities)])


def trec_scores(similarities: Similarities) -> npt.NDArray[np.float32]:
    """Round scores to six decimals in single precision, as trec_eval reads them."""
    return np.round(similarities, 6).astype(np.float32)


def trec_id(name: str) -> str:
    """Quote spaces, which separate columns in TREC files. Different ids stay different."""
    return re.sub(r"[\s%]", lambda match: quote(match[0]), name)


def score_queries(split: Split, similarities: Similarities) -> pd.DataFrame:
    """Compute ``id, idiom, usage, subject, r_precision, ndcg`` (at 10), from 0 to 1, of each query
    (appendix D). Queries without a relevant document have no row; no row at all is a UserError.
    """
    orders = rank_documents(similarities, [document.id for document in split.documents])
    rows = []
    for query, order, relevant in zip(split.queries, orders, relevance(split), strict=True):
        if relevant.any():
            gains = relevant[order]
            figures = r_precision(gains), ndcg(gains, 10)
            rows.append((query.id, query.idiom, query.usage, query.subject, *figures))
    if not rows:
        raise UserError("No query has a relevant document in the index.")
    if left_out := (total := len(split.queries)) - len(rows):
        log.warning("%d of %d queries have no relevant document and are left out.", left_out, total)
    return pd.DataFrame(rows, columns=["id", "idiom", "usage", "subject", "r_precision", "ndcg"])


def summarise_queries(scores: pd.DataFrame) -> pd.DataFrame:
    """Average over all queries, by usage and by subject, in percent as in the paper:
    ``group, n, r_precision, ndcg`` (at 10)."""
    groups: list[tuple[str, pd.DataFrame]] = [("all", scores)]
    for column in ("usage", "subject"):
        groups += [(str(name), part) for name, part in scores.groupby(column) if name]
    figures = ["r_precision", "ndcg"]
    rows = [(name, len(part), *(100 * part[figures].mean())) for name, part in groups]
    return pd.DataFrame(rows, columns=["group", "n", *figures])


def score_types(split: Split, similarities: Similarities) -> pd.DataFrame:
    """Average by the usage of the relevant documents, in percent: ``documents, r_precision, ndcg``
    (at 10), ``n`` (queries).

    Each usage is scored as if its documents alone were relevant, and the query's other relevant
    documents were not in the index. A low figure says that these documents are missed.
    """
    orders = rank_documents(similarities, [document.id for document in split.documents])
    usages = np.array([document.usage for document in split.documents])
    rows = []
    for order, relevant in zip(orders, relevance(split), strict=True):
        for usage in dict.fromkeys(usages[relevant]):
            of_usage = relevant & (usages == usage)
            gains = of_usage[order][(of_usage | ~relevant)[order]]
            rows.append((str(usage), 100 * r_precision(gains), 100 * ndcg(gains, 10)))
    groups = pd.DataFrame(rows, columns=["documents", "r_precision", "ndcg"]).groupby("documents")
    return groups.mean().assign(n=groups.size()).reset_index()


def write_trec(folder: Path, split: Split, similarities: Similarities, system: str) -> None:
    """Write ``qrels.trec``, and ``run.trec`` with the 100 best documents of each query."""
    queries = [trec_id(query.id) for query in split.queries]
    documents = [trec_id(document.id) for document in split.documents]
    orders = rank_documents(similarities, [document.id for document in split.documents])
    with write_whole(folder / "run.trec") as file:
        for query, order, scores in zip(queries, orders, trec_scores(similarities), strict=True):
            for rank, k in enumerate(order[:100], start=1):
                file.write(f"{query} Q0 {documents[k]} {rank} {scores[k]:.6f} {trec_id(system)}\n")
    with write_whole(folder / "qrels.trec") as file:
        for query, relevant in zip(queries, relevance(split), strict=True):
            file.writelines(f"{query} 0 {documents[k]} 1\n" for k in np.flatnonzero(relevant))
