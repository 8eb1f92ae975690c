"""Scoring as a task: figures of submissions and runs by their gold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from admire.core.choices import BoardTrack, PublishedSet
from admire.core.errors import UserError
from admire.core.options import Option, Panel, make
from admire.core.registry import register
from admire.core.schema import Seed, adapter, settings
from admire.tasks.task import Data, Task, Values

if TYPE_CHECKING:
    from admire.llm.session import Session
    from admire.tasks.scorecard import Scorecards

SCORING: Panel = "Scoring"


@settings(frozen=True, kw_only=True)
class ScoreSettings:
    """By what submissions are scored, and with what they are compared."""

    gold: Annotated[Path | None, Option(SCORING)] = None
    """File with the expected orders, or a folder with one file per language (default: the run's
    own)."""
    judgements: Annotated[Path | None, Option(SCORING)] = None
    """File saved by a report (judgements.json), with people's corrections of the gold."""
    published: Annotated[PublishedSet | None, Option(SCORING)] = None
    """Published set of the gold data: also compare with its published figures."""
    track: Annotated[BoardTrack | None, Option(SCORING)] = None
    """Track of the leaderboard (default: the run's)."""
    metrics: Annotated[tuple[str, ...], Option(SCORING, "metric", completes="metric")] = ()
    """Further metric, a plug-in. Repeat for several."""
    seed: Annotated[Seed, Option(SCORING)] = 0
    """Seed for resampling."""

    def __post_init__(self) -> None:
        if self.published and self.judgements:
            text = "Published figures use the original gold. Omit one of the two options."
            raise UserError(text, "published", "judgements")


@register("task", "score")
class Score(Task):
    """Scores a submission or a run folder, or two, which are also compared."""

    settings: ClassVar[Sequence[Any]] = (ScoreSettings,)

    def run(
        self, data: Data | Sequence[Path], settings: Values, session: Session | None = None
    ) -> Scorecards:
        """See :class:`Task`."""
        from admire.tasks.scorecard import score_submissions

        paths = [Path(data)] if isinstance(data, str | Path) else data
        own = make(ScoreSettings, settings)
        record: dict[str, Any] = adapter(ScoreSettings).dump_python(own, mode="json")
        record["submissions"] = [str(path) for path in paths]
        return replace(score_submissions(paths, **vars(own)), record=record)
