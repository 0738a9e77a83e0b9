"""`torchstone.measure`: a module at hand, in the user's own process, by the same engines as the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from torchstone import registry
from torchstone.errors import UsageError, unknown
from torchstone.extend import Engine
from torchstone.in_process.devices import open_device
from torchstone.in_process.recording import default_folder, keep, trial_of
from torchstone.instrument.clock import system_clock
from torchstone.runner.recorder import Recorder
from torchstone.summary import RunSummary
from torchstone.terms.axis import AXES, Scalar
from torchstone.terms.case import Case, Task, Workload
from torchstone.terms.message import Event, Measured, TrialRequest
from torchstone.terms.model import LoadedModel
from torchstone.terms.procedure import Procedure
from torchstone.terms.trial import Measurement, Stage, Trial
from torchstone.worker.execution import measure_prepared
from torchstone.worker.tally import Tally


def measure(
    module: Any,
    batch: Any,
    *,
    task: str = "infer",
    loss: Callable[..., Any] | None = None,
    optimizer: Callable[[Iterable[Any]], Any] | None = None,
    device: str = "auto",
    trials: int = 3,
    warmup: int | None = None,
    iterations: int | None = None,
    budget_s: float = 2.0,
    target: float | None = 0.01,
    name: str | None = None,
    output_dir: str | Path | None = None,
    **axes: Scalar,
) -> RunSummary:
    """Measure a module at hand and return the run's summary; an ordinary record is written.

    Parameters
    ----------
    module: a torch.nn.Module. For task "train" its weights are updated: pass a copy if you need them as they are.
    batch: an example batch, items along dimension 0: a tensor, a tuple of positional inputs, or a mapping of keyword
        inputs; for task "train" a pair (inputs, target) goes with `loss(output, target)`, and a mapping without a
        `loss` is passed to a module that returns an object with a `.loss`.
    task: "infer" or "train".
    loss: for training, loss(output, target) → scalar tensor.
    optimizer: for training, optimizer(parameters) → torch.optim.Optimizer; None: the axis `optimizer`.
    trials: repetitions of warm-up and windows. They share this process, so their interval leaves out what differs
        between processes (12 to 22 % on a shared machine); `torchstone run` has fresh ones.
    budget_s, target: a window ends after so many seconds, or when its mean is known this well.
    axes: values of axes, e.g. precision="bf16", compile="default", batch_size=8 (the batch is repeated or cut to it).

    Raises:
    ------
    UsageError: an unknown axis or task, a batch without tensors. Unsupported: the device or module cannot do it.

    """
    for word, count in (("trials", trials), ("iterations", iterations)):
        if count is not None and count < 1:
            raise UsageError(f"measure: {word}={count} is too small: 1 or more")
    title = name or type(module).__name__
    procedure = Procedure(
        trials=trials,
        warmup=warmup,
        iterations=iterations,
        budget_s=budget_s,
        target=target,
        isolation="inline",
        heap="default",
    )
    bench = _Bench(_adopted(module, batch, loss, optimizer), task, title, device, axes, procedure)
    folder = Path(output_dir) if output_dir is not None else default_folder()
    return keep(bench.case, procedure, title, folder, bench.take)


class _Bench:
    """A module on its device, measured as often as asked."""

    def __init__(
        self, model: LoadedModel, task: str, title: str, device: str, axes: Mapping[str, Scalar], procedure: Procedure
    ) -> None:
        if task not in registry.names("engines"):
            raise unknown("task", task, registry.names("engines"))
        if task == "train" and model.loss is None:
            raise UsageError("measure: task train needs a loss: pass loss=…, or a mapping with labels")
        self._engine: Engine = registry.load("engines", task)
        self._model = model
        self._procedure = procedure
        values = _configuration(self._engine, model, axes)
        self._device, placement = open_device(device)
        self.case = Case(Workload(Task(task), f"module:{title}", "example", "sample"), values, placement)

    def take(self, number: int) -> Trial:
        """Set the module up anew, warm up and measure; return the Trial."""
        began_s = system_clock()
        tally = Tally(self.case)
        recorder = Recorder(os.getpid(), None, began_s, system_clock)
        prepared = self._engine.prepare(self.case, self._model, self._device)
        self._device.synchronize()
        tally.setup("model_load_time_s", system_clock() - began_s)
        tally.facts.update({**self._model.facts, **prepared.facts})
        batches = self._engine.open_batches(self.case, self._model, None, self._device, self._procedure.seed)
        events: list[Event] = []
        request = TrialRequest(self.case, self._procedure, number)
        # Counters are read at both ends only: a reading thread would contend with the step for the interpreter.
        recorder.read()
        try:
            measure_prepared(request, events.append, self._engine, prepared, batches, self._device, tally)
        finally:
            batches.close()
        recorder.read()
        measured = next(event for event in events if isinstance(event, Measured))
        parts = {
            "outcome": tally.outcome(),
            "facts": measured.facts,
            "measurements": measured.measurements + _spans(measured, began_s),
            "series": recorder.series(),
        }
        return trial_of(self.case, number, began_s, system_clock(), parts)


def _adopted(module: Any, batch: Any, loss: Any, optimizer: Any) -> LoadedModel:
    parts = {"model": module, "example": batch, "loss": loss, "optimizer": optimizer}
    given = {name: part for name, part in parts.items() if part is not None}
    model: LoadedModel = registry.load("models", "py").adopt(given, f"measure({type(module).__name__})")
    return model


def _configuration(engine: Engine, model: LoadedModel, axes: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    allowed = [axis for axis in engine.axes if axis not in ("sequence_length", "image_size")]
    for axis in axes:
        if axis not in allowed:
            raise unknown("axis", axis, allowed)
    size = len(next(iter(model.example.values()))) if model.example else 1
    defaults: dict[str, Scalar] = {axis: AXES[axis].default for axis in allowed}
    given = {axis: AXES[axis].parse(value) for axis, value in axes.items()}
    return {**defaults, "batch_size": size, **given}


def _spans(measured: Measured, began_s: float) -> tuple[Measurement, ...]:
    return tuple(
        Measurement("window_span_s", Stage.STEADY, (begin_s - began_s, end_s - began_s), name)
        for name, (begin_s, end_s) in measured.windows_s.items()
    )
