"""Evaluates a checkpoint on data, and writes every prediction into a file."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.own_files import moved
from torchstone.core.schema.case import Case
from torchstone.core.schema.fit import Evaluation, Judged
from torchstone.core.schema.message import Entered, EvaluateRequest, Event
from torchstone.core.schema.model import LoadedModel
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.checkpoints import load_weights
from torchstone.execution.worker.eval_loop import judge
from torchstone.execution.worker.setup import Part, Setup, limited, open_view, view_of
from torchstone.plugins.protocols import Samples, Trainable

COLUMNS = ("item", "label", "prediction", "confidence")
_DIGITS = 6


def evaluate(request: EvaluateRequest, setup: Setup, send: Callable[[Event], None]) -> None:
    """Do it, and send a Judged. Raises UsageError if weights, tokenizer or data are not of this model."""
    case, seed, asked = setup.case, request.procedure.seed, request.evaluation
    prepared: Trainable = setup.prepared
    model = setup.model
    load_weights(prepared.module, Path(asked.weights))
    samples = _samples(case, asked, model, seed)
    if len(samples) == 0:
        raise UsageError(f"data {case.workload.data}: no items to evaluate on")
    send(Entered("evaluating", system_clock()))
    times_s: list[float] = []
    items: list[int] = []

    def timed(spent_s: float, count: int) -> None:
        times_s.append(spent_s)
        items.append(count)

    batches = prepared.open_whole(samples)
    try:
        with moved(Path(asked.predictions)) as beside, beside.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            quality = judge(prepared, batches, model.input, _Writer(rows), timed)
    finally:
        batches.close()
    if batches.unreadable:
        where, why = next(iter(batches.unreadable.items()))
        raise UsageError(f"{where}: {why}; predictions are numbered by item, so no item can be skipped")
    send(Judged(quality, asked.labels, tuple(times_s), tuple(items)))


class _Writer:
    """Writes a row an item: its number, its label, the answer, and how sure the model is of it."""

    def __init__(self, rows: Any) -> None:
        self._rows, self._number = rows, 0

    def __call__(self, labels: Any, probabilities: Any) -> None:
        sure, answers = probabilities.max(dim=1)
        for label, answer, share in zip(labels.tolist(), answers.tolist(), sure.tolist(), strict=True):
            self._rows.writerow((self._number, label, answer, round(share, _DIGITS)))
            self._number += 1


def _samples(case: Case, asked: Evaluation, model: LoadedModel, seed: int) -> Samples:
    """Open the data as the training saw it: with its tokenizer and its classes, without random changes."""
    tokenizer = model.tokenizer
    if asked.tokenizer is not None and tokenizer is None:
        tokenizer = _tokenizer(Path(asked.tokenizer))
    view = msgspec.structs.replace(view_of(case, model, seed, asked.split, labels=asked.labels), tokenizer=tokenizer)
    samples = limited(open_view(case, view), case, seed)
    if asked.held_out is None:
        return samples
    from torchstone.execution.worker.fit_data import divided

    return Part(samples, divided(samples, asked.held_out, seed)[1])


def _tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises its own bare Exception
        raise UsageError(f"{file}: not a tokenizer: {str(error)[:200]}") from error
