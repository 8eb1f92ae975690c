"""Fine-tuning with sentence-transformers' trainer: one epoch is kept, and a kill survived."""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from admire.core.errors import UserError, needs_extra
from admire.core.progress import SECONDS_BETWEEN_LINES
from admire.core.storage import check_folder, only_writer, replace_folder, unwritable
from admire.encoders.hub import from_disk
from admire.encoders.training_settings import FitSettings as FitSettings

with needs_extra("finetune", "Fine-tuning"):
    import torch
    from datasets import Dataset, DatasetDict
    from safetensors import SafetensorError
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.base.model import BaseModel
    from sentence_transformers.base.sampler import BatchSamplers, DefaultBatchSampler
    from torch.utils.data import SequentialSampler
    from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback, TrainerState
log = logging.getLogger("admire")

RANK = "rank"  #: the trainer's name of the number by which an epoch is kept

Row = Mapping[str, Any]
Figures = dict[str, float]
"""Figures of a model on the validation data by name; the first decides which epoch is the best."""

Batches = Literal["random", "like lengths", "no duplicates", "neighbours"]
"""How rows are put into batches; ``no duplicates`` is for losses that use other rows' texts as
negatives."""


@dataclass(frozen=True)
class TrainingSet:
    """Rows, and how a model learns from them.

    To learn several tasks at once, give rows and losses by the task's name. Each batch is then of
    one task.

    Attributes:
        rows: one mapping for each sample, with its texts in columns.
        loss: as in sentence-transformers. A checkpoint does not hold weights of its own.
        batches: which rows share a batch.
        collate: makes features of rows. None leaves that to sentence-transformers.
    """

    rows: Sequence[Row] | Mapping[str, Sequence[Row]]
    loss: torch.nn.Module | dict[str, torch.nn.Module]
    batches: Batches = "random"
    collate: Callable[[Sequence[Row]], dict[str, torch.Tensor]] | None = None


def fine_tune(
    model: SentenceTransformer,
    data: TrainingSet,
    validate: Callable[[], Figures],
    settings: FitSettings,
    out: Path,
    *,
    of: str = "",
    learning_rates: Mapping[str, float] = MappingProxyType({}),
    finish: Callable[[Path, Figures], None] | None = None,
) -> list[Figures]:
    """Train the model in place, keep the epoch that the settings name, and save it to ``out``.

    After each epoch a checkpoint is written beside ``out``, so that the same call continues where
    an earlier one was killed. The checkpoints are deleted when the model is saved, or at the next
    call with other rows or settings. Returns the figures before training and after each epoch.

    Args:
        validate: returns the figures of the model as it is; higher is better.
        of: what else the result depends on, such as the base model and the loss's settings.
        learning_rates: by regular expressions of weights' names. These weights do not decay.
        finish: called with the folder of the saved model and the kept epoch's figures, before the
            folder gets the name ``out``.

    Raises:
        UserError: there is nothing to train on, or ``out`` cannot be written.
    """
    tasks = data.rows if isinstance(data.rows, Mapping) else {"": data.rows}
    content = {name: list(map(dict, rows)) for name, rows in tasks.items()}
    if not min(map(len, content.values()), default=0):
        raise UserError("No training data.")
    check_folder(out, "model")
    limit = model.max_seq_length
    log.info("Of texts longer than %s tokens the model reads the beginning, as in papers.", limit)
    out = out.resolve()
    key = hashlib.sha256(json.dumps([of, asdict(settings), content]).encode()).hexdigest()
    checkpoints = out.with_name(f".{out.name}.{key[:16]}.checkpoints")
    with only_writer(out), _disk_errors(out):
        every = out.parent.glob(f".{glob.escape(out.name)}.{'?' * 16}.checkpoints")
        for other in {*every} - {checkpoints}:  # of other rows or settings
            shutil.rmtree(other, ignore_errors=True)
        checkpoints.mkdir(parents=True, exist_ok=True)  # fails before anything is computed
        before = validate()
        patience = settings.patience if settings.keep == "best" else 1
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(checkpoints),
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            learning_rate_mapping=dict(learning_rates),
            weight_decay=settings.weight_decay,
            warmup_steps=settings.warmup,
            lr_scheduler_type="linear",
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=2,  # the one to keep and the last
            logging_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model=f"eval_{RANK}",
            greater_is_better=True,
            restore_callback_states_from_checkpoint=True,
            bf16=settings.precision == "bfloat16",
            seed=settings.seed,
            data_seed=settings.seed,
            batch_sampler=SAMPLERS[data.batches],
            multi_dataset_batch_sampler="proportional",
            use_cpu=model.device.type == "cpu",
            disable_tqdm=True,
            report_to="none",
        )
        collator: Any = data.collate and partial(data.collate)
        if collator:
            collator.valid_label_columns = ("label",)  # the trainer reads it
        with from_disk():  # a model card would ask the hub about the models that it names
            datasets = {name: Dataset.from_list(rows) for name, rows in content.items()}
            trainer = _Trainer(
                model=model,
                args=arguments,
                train_dataset=datasets.get("") or DatasetDict(datasets),
                loss=data.loss,
                evaluator=_Figures(validate, settings.keep),
                data_collator=collator,
                callbacks=[EarlyStoppingCallback(patience), _Report(list(before))],
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train(resume_from_checkpoint=_last_checkpoint(checkpoints))
            # Otherwise the model in memory would still compute in bfloat16, unlike the saved one.
            trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
            evaluated = [e for e in trainer.state.log_history if f"eval_{RANK}" in e]
            history = [{name: entry[f"eval_{name}"] for name in before} for entry in evaluated]
            kept = history[int(np.argmax([entry[f"eval_{RANK}"] for entry in evaluated]))]
            with replace_folder(out, "model") as part:
                model.save_pretrained(str(part))
                if finish:
                    finish(part, kept)
        shutil.rmtree(checkpoints, ignore_errors=True)
        first = next(iter(before))
        if kept[first] <= before[first]:
            message = "The kept epoch does not improve on the initial model (%.4f)."
            log.warning(message, before[first])
        return [before, *history]


def _last_checkpoint(folder: Path) -> str | None:
    """Find the last checkpoint that is whole: the file of its state is written last."""
    states = folder.glob("checkpoint-*/trainer_state.json")
    last = max((path.parent for path in states), key=lambda path: int(path.name[11:]), default=None)
    if last is None:
        return None
    log.info("Resuming from %s", last)
    return str(last)


@contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    """Turn the packages' own errors of a full disk into the message that says so."""
    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        if re.search(r"PytorchStreamWriter|inline_container|iostream|os error \d+", str(error)):
            raise unwritable(out, OSError("the disk is full, or fails")) from error
        raise


class _Trainer(SentenceTransformerTrainer):
    """The trainer, without weight decay where weights have a learning rate of their own."""

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        # Of the tokens' vectors only the added ones get gradients; decay would move the others.
        for group in optimizer.param_groups[2:]:  # before them those that decay, and the others
            group["weight_decay"] = 0.0
        return optimizer


class _Neighbours(DefaultBatchSampler):
    """Batches of rows in the order in which they are given."""

    def __init__(self, dataset: Dataset, batch_size: int, drop_last: bool, **options: Any):
        super().__init__(SequentialSampler(dataset), batch_size, drop_last, **options)


class _LikeLengths(_Neighbours):
    """Batches of rows of similar length, drawn anew each epoch, in random order."""

    POOL = 50  #: how many batches are drawn at random, to be sorted by length among themselves

    def __init__(self, dataset: Dataset, batch_size: int, drop_last: bool, **options: Any):
        super().__init__(dataset, batch_size, drop_last, **options)
        self._lengths = [sum(len(t) for t in row.values() if isinstance(t, str)) for row in dataset]

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self._lengths)).tolist()
        size = self.POOL * self.batch_size
        for start in range(0, len(order), size):
            order[start : start + size] = sorted(
                order[start : start + size], key=lambda place: self._lengths[place]
            )
        batches = [order[k : k + self.batch_size] for k in range(0, len(order), self.batch_size)]
        for place in rng.permutation(len(batches)):
            yield batches[place]


SAMPLERS: dict[Batches, Any] = {
    "random": BatchSamplers.BATCH_SAMPLER,
    "like lengths": _LikeLengths,
    "no duplicates": BatchSamplers.NO_DUPLICATES,
    "neighbours": _Neighbours,
}


class _Figures(BaseEvaluator):
    """The figures of an epoch, and its rank: the epoch with the highest is kept.

    If not the best but an epoch of a number is kept, ranks rise up to that one.
    """

    def __init__(self, validate: Callable[[], Figures], keep: str | int):
        super().__init__()  # type: ignore[no-untyped-call]
        self.primary_metric = RANK
        self._validate = validate
        self._keep = keep

    def __call__(
        self, model: BaseModel, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> Figures:
        figures = self._validate()
        rank = next(iter(figures.values()))
        if self._keep != "best":
            rank = epoch if self._keep == "last" else -abs(epoch - int(self._keep))
        return figures | {RANK: rank}


class _Report(TrainerCallback):  # type: ignore[misc]
    """Logs a line for each epoch, and within a long epoch how far it is."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._logged = time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        if time.monotonic() - self._logged > SECONDS_BETWEEN_LINES:
            self._logged = time.monotonic()
            log.info("Step %d of %d", state.global_step, state.max_steps)

    def on_evaluate(self, args: Any, state: TrainerState, control: Any, **options: Any) -> None:
        loss = next((e["loss"] for e in reversed(state.log_history) if "loss" in e), float("nan"))
        figures = [f"{name} {options['metrics'][f'eval_{name}']:.4f}" for name in self._names]
        log.info("Epoch %d: loss %.4f, %s", state.epoch or 0, loss, ", ".join(figures))
