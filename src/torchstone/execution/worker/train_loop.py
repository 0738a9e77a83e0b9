"""The training loop: epochs with timed steps, each validated and saved before the next starts."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.schema.batch import Batch
from torchstone.core.schema.case import Case
from torchstone.core.schema.fit import EpochEnded, Fit, Quality
from torchstone.core.schema.message import Entered, Event, FitRequest, Progress
from torchstone.core.schema.model import LoadedModel
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Instrument
from torchstone.execution.timing.stopping import FixedCount
from torchstone.execution.worker.checkpoints import (
    STATE,
    checkpoint_name,
    load_state,
    load_weights,
    save_state,
    save_weights,
)
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.eval_loop import judge
from torchstone.execution.worker.fit_data import FitData, open_fit_data
from torchstone.execution.worker.fit_schedule import factor, schedule_of
from torchstone.execution.worker.setup import Setup
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Mark, Samples, Trainable

Send = Callable[[Event], None]
TOKENIZER = "tokenizer.json"


class Far(msgspec.Struct):
    """How far a training is: epochs done, the lowest that an epoch was judged by, and which epoch that was.

    Epochs are judged by their error rate where items have classes (the earlier of two that are equal), by their loss
    elsewhere: held out, or of their steps where nothing is.

    `last` is sent again when a training goes on: a controller that was killed may not have written it down.
    """

    epochs: int = 0
    lowest: float = math.inf
    best: int = 0
    last: EpochEnded | None = None


def fit_model(request: FitRequest, setup: Setup, send: Send) -> None:
    """Train as the Fit says; send each epoch as it ends, then what all of them measured.

    Raises Unsupported if the data makes no epoch, UsageError if what lies in the folder is not of this training.
    """
    case, procedure, fit = setup.case, request.procedure, request.fit
    prepared: Trainable = setup.prepared
    model, device, tally = setup.model, setup.device, setup.tally
    data = open_fit_data(case, model, fit, procedure.seed)
    steps = steps_in_an_epoch(case, data, procedure.iterations)
    tally.facts.dataset_items = len(data.training) if data.has_end and data.training is not None else None
    tally.facts.validation_items = len(data.validation) if data.validation is not None else None
    batches = setup.engine.open_batches(case, model, data.training, device, procedure.seed)
    before = resource.getrusage(resource.RUSAGE_SELF)
    try:
        training = _Training(fit, steps, procedure.epochs or 1, prepared, model, data, batches, device)
        training.go(send, tally)
    finally:
        batches.close()
    tally.usage(before, resource.getrusage(resource.RUSAGE_SELF))
    for metric, value in device.memory().items():
        tally.steady(metric, [value])
    for metric, values in prepared.results().items():
        tally.steady(metric, values)
    tally.left_out(batches.unreadable)
    send(tally.measured())


def steps_in_an_epoch(case: Case, data: FitData, asked: int | None) -> int:
    """Return the optimizer steps of an epoch: those asked for, or all whole ones of whole batches.

    Raises Unsupported where there is no end to the data, or too little of it.
    """
    size, accumulation = (int(case.configuration.get(name) or 1) for name in ("batch_size", "grad_accumulation"))
    if asked is not None:
        return max(2, asked)
    if not data.has_end or data.training is None:
        raise Unsupported(f"data {case.workload.data} is endless and has no epochs; give --data or --steps N")
    items = len(data.training)
    steps = items // size // accumulation
    if steps < 2:
        each = f"{size} × {accumulation}" if accumulation > 1 else str(size)
        raise Unsupported(f"{items} items make {steps} steps of {each}; an epoch needs at least 2")
    return steps


def _worth(loss: float, validation: Quality | None) -> float:
    """Return what an epoch is judged by; less is better."""
    if validation is None:
        return loss
    return validation.loss if validation.accuracy is None else 1.0 - validation.accuracy


class _Training:
    """A training between its epochs."""

    def __init__(
        self, fit: Fit, steps: int, epochs: int, prepared: Trainable, model: LoadedModel, data: FitData,
        batches: Batches, device: Device,
    ) -> None:  # fmt: skip
        self._fit, self._steps, self._epochs = fit, steps, epochs
        self._prepared, self._model, self._data, self._batches, self._device = prepared, model, data, batches, device
        self._folder = Path(fit.folder)
        self._schedule = schedule_of(prepared.optimizer, fit, steps * epochs)
        self._far = Far()

    def go(self, send: Send, tally: Collector) -> None:
        """Train until the last epoch, until it gets no better, or until the loss is no number."""
        if self._fit.resume:
            self._far = msgspec.convert(load_state(self._prepared, self._schedule, self._folder / STATE), Far)
            load_weights(self._prepared.module, self._folder / checkpoint_name(self._far.epochs))
            tally.facts.resumed_after_epoch = self._far.epochs
            if self._far.last is not None:
                send(self._far.last)
        else:
            self._keep_tokenizer()
        far, patience = self._far, self._fit.early_stop
        while far.epochs < self._epochs:
            far.last = ended = self._epoch(send, tally)
            save_state(self._prepared, self._schedule, msgspec.to_builtins(far), self._folder / STATE)
            send(ended)
            told, held_out = ended.training, ended.validation
            tally.facts.epochs, tally.facts.best_epoch = far.epochs, far.best
            tally.facts.final_train_accuracy = told.accuracy if told else None
            tally.facts.final_val_accuracy = held_out.accuracy if held_out else None
            if not math.isfinite(ended.loss):
                break
            if patience is not None and far.epochs - far.best >= patience:
                tally.facts.stopped_early = patience
                break

    def _epoch(self, send: Send, tally: Collector) -> EpochEnded:
        """Train, judge and save one epoch."""
        number, began_s, prepared = self._far.epochs + 1, system_clock(), self._prepared
        stage = f"epoch {number}"
        send(Entered(stage, began_s, measures=True))
        self._batches.begin_epoch(number)
        prepared.losses = []

        def listen(steps: int, elapsed_s: float, step_s: float) -> None:
            send(Progress(stage, steps, elapsed_s, step_s, self._steps))

        instrument = Instrument(self._step, self._batches.next, self._device.synchronize, system_clock, listen)
        window = instrument.window(self._device.stopwatch(), FixedCount(self._steps))
        tally.epoch(stage, window)
        prepared.enter("throughput")  # a training has no warm-up: what compiled ends with its first epoch
        loss = fmean(map(float, prepared.losses))
        last_step = number * self._steps - 1
        rate = self._schedule.base_lrs[0] * factor(self._fit, last_step, self._steps * self._epochs)
        trained_s = system_clock()
        training, validation = self._judged(self._data.again), self._judged(self._data.validation)
        judged_s = system_clock()
        better = self._note(_worth(loss, validation))
        checkpoint = self._save(better=better)
        ended_s = system_clock()
        return EpochEnded(
            number, rate, loss, training, validation, self._steps, sum(window.items), window.total_s,
            sum(window.waits_s), judged_s - trained_s, ended_s - judged_s, began_s, ended_s, tuple(window.laps_s),
            checkpoint, better,
        )  # fmt: skip

    def _step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        self._prepared.step(pull, mark)
        self._schedule.step()

    def _judged(self, samples: Samples | None) -> Quality | None:
        if samples is None or len(samples) == 0:
            return None
        batches = self._prepared.open_whole(samples)
        try:
            return judge(self._prepared, batches, self._model.input)
        finally:
            batches.close()

    def _note(self, worth: float) -> bool:
        """Count the epoch, and say whether it is the best so far."""
        far = self._far
        far.epochs += 1
        if worth < far.lowest:
            far.lowest, far.best = worth, far.epochs
        return far.best == far.epochs

    def _save(self, *, better: bool) -> str:
        """Save the weights; of those before, keep what was asked for. Returns the name of the new ones."""
        far = self._far
        name = checkpoint_name(far.epochs)
        save_weights(self._prepared.module, self._folder / name)
        if self._fit.keep == "best":
            for epoch in range(1, far.epochs):
                if epoch != far.best:
                    (self._folder / checkpoint_name(epoch)).unlink(missing_ok=True)
        return name

    def _keep_tokenizer(self) -> None:
        """Save what made token ids of the text, where it was made for this data: new data must be read by the same."""
        tokenizer = getattr(self._data.training, "tokenizer", None)
        if tokenizer is not None and hasattr(tokenizer, "save"):
            tokenizer.save(str(self._folder / TOKENIZER))
