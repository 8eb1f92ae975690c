"""Many heads on the same embeddings: the paper's grid, over all cores, and able to go on."""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from admire.errors import UserError
from admire.machine import cores
from admire.progress import track
from admire.projection import TrainSettings, train_and_test
from admire.storage import write_whole
from admire.triplets import Triplets

AXES = {
    "batch_size": (16, 32),
    "learning_rate": (1e-3, 1e-4, 1e-5),
    "soft_negatives": (10, 30, 49),
    "temperature": (0.08, 0.09, 0.1),
    "dropout": (0.1, 0.3, 0.5),
}
"""What the paper tried."""


def paper_grid(base: TrainSettings) -> list[TrainSettings]:
    """The 162 settings of the paper's section 3; what it does not name is as in ``base``."""
    return [
        replace(base, **dict(zip(AXES, values, strict=True)))  # type: ignore[arg-type]
        for values in itertools.product(*AXES.values())
    ]


def sweep(
    data: Triplets, settings: Sequence[TrainSettings], out: Path, *, processes: int | None = None
) -> pd.DataFrame:
    """Train a head with each of the settings and tell how it went, in the settings' order.

    Each result is a line of ``out`` as soon as it is there. Lines of the same data and settings are
    not trained again, so a sweep that was stopped goes on; those of other data stay as they are.

    Columns: the settings, ``epoch`` and ``validation_loss`` of the best epoch, ``test_top1`` of the
    head and ``none_top1`` without one on the test samples, and ``history``.

    Raises:
        UserError: a setting does not suit the data, or ``out`` is no file of a sweep.
    """
    digest = _digest(data)
    done = {json.dumps(row["settings"]): row for row in _read(out) if row["data"] == digest}
    waiting = [one for one in settings if json.dumps(asdict(one)) not in done]
    out.parent.mkdir(parents=True, exist_ok=True)
    pool = ProcessPoolExecutor(
        processes or cores(),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_keep,
        initargs=(data,),
    )
    try:
        begun = [pool.submit(_outcome, one) for one in waiting]
        with out.open("a", encoding="utf-8") as file:
            for future in track(as_completed(begun), f"Training {len(begun)} heads", len(begun)):
                row = {"data": digest, **future.result()}
                done[json.dumps(row["settings"])] = row
                file.write(json.dumps(row) + "\n")
                file.flush()
    finally:  # at an error or Ctrl-C what has not begun is dropped
        pool.shutdown(cancel_futures=True)
    rows = [done[json.dumps(asdict(one))] for one in settings]
    return pd.DataFrame([row["settings"] | row["outcome"] for row in rows])


def _digest(data: Triplets) -> str:
    digest = hashlib.sha256(json.dumps([data.compounds, data.modalities]).encode())
    for array in (data.anchors, data.documents, data.present, data.positive):
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> list[dict[str, Any]]:
    """The results so far; a last line that was cut short is dropped, also from the file."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    try:
        rows = [json.loads(line) for line in whole.splitlines()]
        for row in rows:
            row["data"], row["settings"], row["outcome"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: is no file of a sweep. Choose another --out.") from None
    if whole != text:
        with write_whole(path) as file:
            file.write(whole)
    return rows


_data: Triplets


def _keep(data: Triplets) -> None:
    """Give a process its data once; with one thread, for it shares the cores with others."""
    global _data
    _data = data
    torch.set_num_threads(1)


def _outcome(settings: TrainSettings) -> dict[str, Any]:
    _, history, outcome = train_and_test(_data, settings)
    epochs = [asdict(epoch) for epoch in history]
    return {"settings": asdict(settings), "outcome": outcome | {"history": epochs}}
