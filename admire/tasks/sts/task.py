"""Similarity of sentences as a task, with training of encoders for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from admire.core.errors import UserError
from admire.core.options import Option, make
from admire.core.registry import register
from admire.core.schema import Count, as_tuple, settings
from admire.encoders.training_settings import FitSettings, StartEncoder
from admire.rankers.settings import RequestOptions
from admire.tasks.sts.settings import (
    TRIPLET_LOSSES,
    SentenceFiles,
    SentenceTraining,
    SimilaritySettings,
    TrainingSetting,
)
from admire.tasks.task import CONFIG_FILE, Data, Output, Result, Task, Values, as_rows, open_session

if TYPE_CHECKING:
    from admire.llm.session import Session
    from admire.pipeline.forecast import DryRun
    from admire.tasks.sts.pairs import Pair

log = logging.getLogger("admire")


FILES = Option("Data and output", in_file=False)


@settings(frozen=True, kw_only=True)
class PairFiles(Output):
    """What pairs are read, and the submission that is written."""

    gold: Annotated[Path | None, FILES] = None
    """Task 2B's gold file, for its dev file."""
    split: Annotated[str | None, FILES] = None
    """Split of STS Benchmark or of a folder: train, dev or test (default: all)."""
    limit: Annotated[Count | None, FILES] = None
    """Read only the first N pairs of each file (default: all)."""
    count: Annotated[bool, FILES] = False
    """Count the pairs: different idioms, pairs of similarity 1 and others (ChengyuSTS, table 5).
    Opens no model."""
    hard: Annotated[tuple[Path, ...], FILES] = ()
    """List the pairs of similarity 1 that this submission rates below 0.6 (ChengyuSTS, table 7).
    Opens no model. Repeat for those that several models rate so."""
    setting: Annotated[TrainingSetting, FILES] = "fine_tune"
    """Setting that the submission names for its training data."""

    def __post_init__(self) -> None:
        if bool(self.out) + self.count + bool(self.hard) > 1:
            text = "Choose one: counts, hard pairs or a submission."
            raise UserError(text, "count", "hard", "out")


@register("task", "sts")
class SimilarityTask(Task):
    """Measures the similarity of sentence pairs, and scores it: Spearman's correlation."""

    settings: ClassVar[Sequence[Any]] = (SimilaritySettings, RequestOptions, PairFiles)
    learns, takes = "sentences", "files"

    @classmethod
    def training(cls) -> Sequence[Any]:
        return SentenceTraining, FitSettings, SentenceFiles, StartEncoder, CONFIG_FILE

    def run(
        self, data: Data | Sequence[Data], settings: Values, session: Session | None = None
    ) -> Result:
        """Compare the pairs of all data together; a row for each language and subset of pairs.

        With ``count`` the figures are the numbers of pairs, with ``hard`` the hard pairs.
        """
        from admire.core.storage import check_file
        from admire.tasks.sts.evaluation import (
            list_hard_pairs,
            measure_similarity,
            write_similarities,
        )
        from admire.tasks.sts.pairs import count_pairs

        files, own = make(PairFiles, settings), make(SimilaritySettings, settings)
        if files.out:
            check_file(files.out, "ID,Language,Setting,Sim\n", force=files.force)
        pairs = _read(data, files)
        if files.count or files.hard:
            table = list_hard_pairs(pairs, files.hard) if files.hard else count_pairs(pairs)
            return Result(as_rows(table), {"data": str(data), "pairs": len(pairs)})
        if not files.out and not any(pair.gold for pair in pairs):
            why = "has no similarities. Give a gold file, or a place for a submission."
            raise UserError(f"{data}: {why}", "gold", "out")
        measured = measure_similarity(pairs, own, session=session or open_session(settings))
        if files.out:
            write_similarities(files.out, pairs, measured.similarities, files.setting)
            log.info("Wrote %s (%d pairs)", files.out, len(pairs))
        record = {"data": str(data), "model": own.llm or own.encoder, "pairs": len(pairs)}
        written = [files.out] if files.out else []
        return Result(as_rows(measured.correlations), record, written)

    def effective(self, settings: Values) -> Values:
        """Leave the encoder out if a chat model takes its place; counts need neither."""
        opens = not any(settings.get(name) for name in ("llm", "count", "hard"))
        return settings if opens else {**settings, "encoder": None}

    def rehearse(self, data: Data | Sequence[Data], settings: Values, session: DryRun) -> None:
        from admire.tasks.sts.evaluation import measure_similarity

        own = make(SimilaritySettings, settings)
        if own.llm:
            measure_similarity(_read(data, make(PairFiles, settings)), own, session=session)

    def train(self, data: Sequence[Path], settings: Values) -> Result:
        """Fine-tune a sentence encoder. A row of figures for each epoch."""
        import pandas as pd

        from admire.core.storage import check_folder
        from admire.encoders.cached import open_trainable
        from admire.tasks.sts.rows import read_training_data
        from admire.tasks.sts.training import train_sentences

        out = make(Output, settings).out or Path("sentences")
        own, start = make(SentenceTraining, settings), make(StartEncoder, settings)
        # 64 single sentences, or 16 rows of several
        usual = {"batch_size": 64 if own.objective in TRIPLET_LOSSES else 16}
        fit, files = make(FitSettings, usual | dict(settings)), make(SentenceFiles, settings)
        check_folder(out, "model")
        learned = read_training_data(data, own.objective, **vars(files), seed=fit.seed)
        parts = learned.groups, learned.pairs, learned.validation
        log.info("%d groups and %d pairs to learn from, %d to validate", *map(len, parts))
        encoder = open_trainable(
            start.encoder, device=start.device, trust_remote_code=start.trust_remote_code
        )
        history = train_sentences(encoder, learned, replace(own, fit=fit), out)
        log.info("Wrote %s", out)
        figures = as_rows(pd.DataFrame(history))
        return Result(figures, {"validation": figures}, (out,))


def _read(data: Data | Sequence[Data], files: PairFiles) -> list[Pair]:
    from admire.tasks.sts.pairs import read_pairs

    return [
        pair
        for path in as_tuple(data)
        for pair in read_pairs(Path(path), files.gold, split=files.split, limit=files.limit)
    ]
