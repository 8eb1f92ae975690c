"""The trainer that all fine-tuning shares: it keeps the best epoch and goes on after a kill."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from errno import EDQUOT, EFBIG, EIO, ENOSPC, EROFS
from pathlib import Path
from typing import Any, Literal

import numpy as np

from admire.base.errors import UserError, needs_extra
from admire.base.progress import SECONDS_BETWEEN_LINES
from admire.base.storage import check_folder, only_writer, replace_folder, unwritable, write_whole
from admire.models.encoders.hub import from_disk
from admire.models.head_settings import FitSettings as FitSettings

with needs_extra("finetune", "Fine-tuning"):
    import datasets
    import torch
    from safetensors import SafetensorError
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.base.model import BaseModel
    from sentence_transformers.base.sampler import (
        BatchSamplers,
        DefaultBatchSampler,
        MultiDatasetBatchSamplers,
    )
    from torch.utils.data import SequentialSampler
    from transformers import (
        EarlyStoppingCallback,
        PrinterCallback,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )
log = logging.getLogger("admire")

BEGUN = "begun.json"
"""Beside the checkpoints: of which training they are."""
STATE = "trainer_state.json"
"""What is written last into a checkpoint."""

Row = Mapping[str, Any]
Batches = Literal["random", "like lengths", "no duplicates", "neighbours"]
"""How rows are put into batches.

- ``random``: at random.
- ``like lengths``: rows of similar length together, so that little is padded; the batches come in
  random order.
- ``no duplicates``: no text twice in a batch, for losses that use other rows' texts as negatives.
- ``neighbours``: in the order in which the rows are given.
"""


def fine_tune(
    model: SentenceTransformer,
    loss: torch.nn.Module | Mapping[str, torch.nn.Module],
    rows: Sequence[Row] | Mapping[str, Sequence[Row]],
    validate: Callable[[], float],
    settings: FitSettings,
    out: Path,
    collate: Callable[[Sequence[Row]], dict[str, torch.Tensor]] | None = None,
    *,
    of: str = "",
    batches: Batches = "random",
    learning_rates: Mapping[str, float] | None = None,
    finish: Callable[[Path, list[float]], None] | None = None,
) -> list[float]:
    """Train the model in place, keep the epoch with the best figure, and save it to ``out``.

    After each epoch a checkpoint is written beside ``out``, so that the same call continues where
    an earlier one was killed. The checkpoints are deleted when the model is saved, and when rows or
    settings have changed.

    Args:
        loss: takes the features of each text column, as losses of sentence-transformers do.
        rows: one mapping for each sample, with its texts in columns. To learn several tasks at
            once, give rows and losses by the task's name. Each batch is then of one task, and each
            task has as many batches as its rows fill.
        validate: returns the figure of the model as it is; higher is better.
        collate: makes features of rows. None leaves that to sentence-transformers.
        of: what else the result depends on, such as the base model and the loss's settings. A
            checkpoint is only continued from if this is the same.
        batches: which rows share a batch.
        learning_rates: other learning rates for weights whose names match these regular
            expressions.
        finish: called with the folder that holds the saved model and the figures that are returned,
            before the folder gets the name ``out``. What it writes there appears together with the
            model.

    Returns:
        The figure before training and after each epoch.

    Raises:
        UserError: there is nothing to train on, or ``out`` cannot be written, may not be
            replaced (see :func:`admire.base.storage.check_folder`) or is being written by another
            process.
    """
    content: Any = (
        {name: list(map(dict, some)) for name, some in rows.items()}
        if isinstance(rows, Mapping)
        else list(map(dict, rows))
    )
    if not content or (isinstance(content, dict) and not all(content.values())):
        raise UserError("There is nothing to train on.")
    check_folder(out, "model")
    out = out.resolve()
    checkpoints = out.with_name(f".{out.name}.checkpoints")
    key = hashlib.sha256(json.dumps([of, asdict(settings), content]).encode())
    with only_writer(out), _telling_of_the_disk(out):
        losses = loss.values() if isinstance(loss, Mapping) else [loss]
        if any(_own_weights(one, model) for one in losses):
            # A checkpoint does not hold the loss's weights, so nothing can continue from it.
            shutil.rmtree(checkpoints, ignore_errors=True)
        last, before = _begun(checkpoints, key.hexdigest())
        if last:
            log.info("Going on from %s", last)
        else:
            _make(checkpoints, out)  # fails before anything is computed
            before = validate()
            with write_whole(checkpoints / BEGUN) as file:
                json.dump({"key": key.hexdigest(), "before": before}, file)
        with from_disk():  # a model card would ask the hub about the models that it names
            trainer = _trainer(
                model,
                loss,
                content,
                validate,
                settings,
                checkpoints,
                collate,
                batches,
                learning_rates,
            )
            trainer.train(resume_from_checkpoint=last)
            # Otherwise the model in memory would still compute in bfloat16, unlike the saved one.
            trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
            figures = [e["eval_figure"] for e in trainer.state.log_history if "eval_figure" in e]
            with replace_folder(out, "model") as part:
                model.save_pretrained(str(part))
                if finish:
                    finish(part, [before, *figures])
        _drop(checkpoints, BEGUN)
        if max(figures) <= before:
            log.warning("No epoch is better than the model was before (%.4f).", before)
        return [before, *figures]


@contextmanager
def _telling_of_the_disk(out: Path) -> Iterator[None]:
    """Give the user's error where the packages cannot write, which each tell in their own way."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        of_torch = r"PytorchStreamWriter|inline_container|iostream error|os error \d+"
        if isinstance(error, OSError) and error.errno in (ENOSPC, EROFS, EDQUOT, EFBIG, EIO):
            raise unwritable(out, error) from error
        if re.search(of_torch, str(error)):
            raise unwritable(out, OSError("the disk is full, or fails")) from error
        raise


def _make(checkpoints: Path, out: Path) -> None:
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{out}: cannot be written ({error.strerror or error}). Choose another place.", "out"
        ) from None


def _begun(checkpoints: Path, key: str) -> tuple[str | None, float]:
    """The last complete checkpoint of the same training, and the figure before training."""
    found = sorted(filter(_readable, checkpoints.glob(f"checkpoint-*/{STATE}")), key=_step)
    try:
        begun = json.loads((checkpoints / BEGUN).read_text(encoding="utf-8"))
        if found and begun["key"] == key:
            return str(found[-1].parent), float(begun["before"])
    except (OSError, ValueError, KeyError):
        pass
    shutil.rmtree(checkpoints, ignore_errors=True)
    return None, 0.0


def _readable(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _drop(folder: Path, first: str) -> None:
    """Remove a folder, and first the file without which it does not count."""
    (folder / first).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _step(path: Path) -> int:
    return int(path.parent.name.rpartition("-")[2])


def _trainer(
    model: SentenceTransformer,
    loss: torch.nn.Module | Mapping[str, torch.nn.Module],
    content: Any,
    validate: Callable[[], float],
    settings: FitSettings,
    checkpoints: Path,
    collate: Callable[[Sequence[Row]], dict[str, torch.Tensor]] | None,
    batches: Batches,
    learning_rates: Mapping[str, float] | None,
) -> SentenceTransformerTrainer:
    dataset: datasets.Dataset | datasets.DatasetDict
    if isinstance(content, dict):
        dataset = datasets.DatasetDict(
            {name: datasets.Dataset.from_list(some) for name, some in content.items()}
        )
    else:
        dataset = datasets.Dataset.from_list(content)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(checkpoints),
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            learning_rate_mapping=dict(learning_rates or {}),
            weight_decay=settings.weight_decay,
            warmup_steps=settings.warmup,
            lr_scheduler_type="linear",
            eval_strategy="epoch",
            save_strategy="epoch",
            logging_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="eval_figure",
            greater_is_better=True,
            restore_callback_states_from_checkpoint=True,
            bf16=settings.precision == "bfloat16",
            seed=settings.seed,
            data_seed=settings.seed,
            batch_sampler=SAMPLERS[batches],
            multi_dataset_batch_sampler=MultiDatasetBatchSamplers.PROPORTIONAL,
            use_cpu=model.device.type == "cpu",
            disable_tqdm=True,
            report_to="none",
        ),
        train_dataset=dataset,
        loss=dict(loss) if isinstance(loss, Mapping) else loss,
        evaluator=_Figure(validate),
        data_collator=_Collator(collate) if collate else None,  # type: ignore[arg-type]
        callbacks=[EarlyStoppingCallback(settings.patience), _Report()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _own_weights(loss: torch.nn.Module, model: SentenceTransformer) -> bool:
    shared = {id(weights) for weights in model.parameters()}
    return any(id(weights) not in shared for weights in loss.parameters())


class _Neighbours(DefaultBatchSampler):
    """Batches of rows in the order in which they are given."""

    def __init__(self, dataset: datasets.Dataset, batch_size: int, drop_last: bool, **options: Any):
        super().__init__(SequentialSampler(dataset), batch_size, drop_last, **options)


class _LikeLengths(_Neighbours):
    """Batches of rows of similar length, drawn anew each epoch, in random order."""

    POOL = 50
    """How many batches are drawn at random, to be sorted by length among themselves."""

    def __init__(self, dataset: datasets.Dataset, batch_size: int, drop_last: bool, **options: Any):
        super().__init__(dataset, batch_size, drop_last, **options)
        self._lengths = [
            sum(len(text) for text in row.values() if isinstance(text, str)) for row in dataset
        ]

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self._lengths)).tolist()
        size = self.POOL * self.batch_size
        for start in range(0, len(order), size):
            order[start : start + size] = sorted(
                order[start : start + size], key=lambda place: self._lengths[place]
            )
        found = [order[k : k + self.batch_size] for k in range(0, len(order), self.batch_size)]
        for place in rng.permutation(len(found)):
            yield found[place]


SAMPLERS: dict[Batches, Any] = {
    "random": BatchSamplers.BATCH_SAMPLER,
    "like lengths": _LikeLengths,
    "no duplicates": BatchSamplers.NO_DUPLICATES,
    "neighbours": _Neighbours,
}


class _Figure(BaseEvaluator):
    def __init__(self, validate: Callable[[], float]):
        super().__init__()  # type: ignore[no-untyped-call]
        self.primary_metric = "figure"
        self._validate = validate

    def __call__(
        self, model: BaseModel, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        return {"figure": self._validate()}


class _Collator:
    """A collator as the trainer wants it."""

    valid_label_columns = ("label",)

    def __init__(self, collate: Callable[[Sequence[Row]], dict[str, torch.Tensor]]):
        self._collate = collate

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return self._collate(rows)


class _Report(TrainerCallback):
    """Logs a line for each epoch, and within a long epoch how far it is; drops old checkpoints."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **options: Any,
    ) -> None:
        if time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            log.info("Step %d of %d", state.global_step, state.max_steps)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **options: Any,
    ) -> None:
        """Keep the best checkpoint and the last one.

        The trainer would do so itself, but what it leaves when it is killed looks like a whole one.
        """
        kept = {f"checkpoint-{state.global_step}", Path(state.best_model_checkpoint or "").name}
        for path in Path(args.output_dir or "").glob("checkpoint-*"):
            if path.name not in kept:
                _drop(path, STATE)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **options: Any,
    ) -> None:
        loss = next((e["loss"] for e in reversed(state.log_history) if "loss" in e), float("nan"))
        figure = options["metrics"]["eval_figure"]
        log.info("Epoch %d: loss %.4f, validation %.4f", state.epoch or 0, loss, figure)
