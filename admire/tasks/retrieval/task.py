"""Retrieval as a task, with training of encoders for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from admire.core.options import make
from admire.core.registry import register
from admire.encoders.training_settings import FitSettings
from admire.rankers.settings import RequestOptions
from admire.tasks.retrieval.settings import (
    SPLITS,
    RetrieverStart,
    RetrieverTraining,
    RetrieveSettings,
)
from admire.tasks.task import CONFIG_FILE, Data, Output, Result, Task, Values, as_rows, open_session

if TYPE_CHECKING:
    from admire.llm.session import Session
    from admire.pipeline.forecast import DryRun

log = logging.getLogger("admire")


@register("task", "retrieve")
class RetrieveTask(Task):
    """Retrieves documents with the same meaning as a query's span, and scores that."""

    settings: ClassVar[Sequence[Any]] = (RetrieveSettings, RequestOptions, (Output, "out"))
    learns, takes, written = "retriever", "benchmark", "run"
    splits, parts = SPLITS, ("queries", "indexes")

    @classmethod
    def training(cls) -> Sequence[Any]:
        return RetrieverTraining, FitSettings, RetrieverStart, CONFIG_FILE

    def run(self, data: Data, settings: Values, session: Session | None = None) -> Result:
        """Retrieve; the figures are those of each group of queries, in percent."""
        from admire.core.storage import check_folder
        from admire.tasks.retrieval.retrieve import retrieve_split
        from admire.tasks.retrieval.run_folder import write_retrieval

        own, out = make(RetrieveSettings, settings), make(Output, settings).out
        if out:
            check_folder(out, "retrieval run")
        retrieval = retrieve_split(str(data), own, session=session or open_session(settings))
        if out:
            write_retrieval(retrieval, out)
            log.info("Wrote %s", out)
        figures: list[Any] = retrieval.summary.to_dict("records")
        files = [out] if out else []
        return Result(figures, retrieval.record, files, as_rows(retrieval.scores))

    def effective(self, settings: Values) -> Values:
        return settings if settings.get("query") == "meaning" else {**settings, "llm": None}

    def join(self, results: Sequence[Result], metrics: Sequence[str] = ()) -> Result:
        """Add the figures of each usage of documents."""
        import pandas as pd

        result = super().join(results)
        types = pd.read_csv(result.files[0] / "types.csv")
        types["group"] = types["documents"] + " documents"
        return replace(result, figures=[*result.figures, *as_rows(types)])

    def rehearse(self, data: Data, settings: Values, session: DryRun) -> None:
        from admire.tasks.retrieval.passages import read_split
        from admire.tasks.retrieval.retrieve import read_queries

        own = make(RetrieveSettings, settings)
        if own.query == "meaning":
            split = read_split(str(data), own.split, own.usage, gold=own.gold)
            read_queries(split, own, session)

    def train(self, data: Sequence[Data], settings: Values) -> Result:
        """Fine-tune a sentence encoder."""
        from admire.tasks.retrieval.passages import read_split
        from admire.tasks.retrieval.training import train_retrievers

        out = make(Output, settings).out or Path("retriever")
        fit, start = make(FitSettings, settings), make(RetrieverStart, settings)
        (benchmark,) = data
        figures = train_retrievers(
            start.encoder,
            {name: read_split(str(benchmark), name) for name in SPLITS},
            replace(make(RetrieverTraining, settings), fit=fit),
            out,
            seeds=start.seeds,
            device=start.device,
            trust_remote_code=start.trust_remote_code,
        )
        return Result(as_rows(figures), {}, (out,))
