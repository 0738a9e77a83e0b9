"""A module in the user's own process, set up and measured by the same engines as in a trial's."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchstone.api.keeping import Keeping
from torchstone.api.recording import Opened, trial_of
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import AXES, DATALOADER_AXES, AxisStage, Scalar, axes_of, axis_named
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.message import Event, Measured, TrialRequest
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import IN_HOST_MEMORY, PIN
from torchstone.core.schema.run import Slot
from torchstone.core.schema.trial import Measurement, Stage, Trial
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
from torchstone.execution.plan import on_device
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.auto_settings import settle
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.execution import measure_prepared
from torchstone.execution.worker.setup import Setup, dataset_items
from torchstone.plugins import registry
from torchstone.plugins.protocols import Engine, fixed_axes

_CLEAR = Path("/proc/self/clear_refs")
_HIGH_WATER = "5"  # proc(5): resets the peak of the resident memory to what it is now


def reset_peaks(torch_device: Any) -> None:
    """Give unused memory back to the device, and start the peaks of device and process at what is in use now.

    On systems other than Linux the process's own peak cannot be reset, and stays that of its whole life.
    """
    import torch

    gc.collect()
    if torch_device.type != "cpu":
        module = torch.get_device_module(torch_device)
        if hasattr(module, "empty_cache"):
            module.empty_cache()
        if hasattr(module, "reset_peak_memory_stats"):
            module.reset_peak_memory_stats(torch_device)  # which device is the current one is the user's to change
    try:
        _CLEAR.write_text(_HIGH_WATER, encoding="ascii")
    except OSError:  # another system, or a sandbox that does not let us
        return


_OF_MADE_DATA = axes_of(AxisStage.ITEM)  # a module at hand brings its own


class Bench:
    """A module at hand, and what keeps it. For messages: `who` is asking, and what the loss is called there."""

    def __init__(
        self,
        who: str,
        task: str,
        parts: Mapping[str, Any],
        title: str,
        procedure: Procedure,
        kept: Keeping,
        loss_word: str = "loss",
        usual_loss: Any = None,
    ) -> None:
        """Adopt the parts. `usual_loss`: of a training whose batches are pairs, where no loss is among them."""
        if task not in registry.names("engines"):
            raise unknown("task", task, registry.names("engines"))
        self._kept, self._where = kept, f"{who}({title})"
        self._given = {name: part for name, part in parts.items() if part is not None}
        self._lazy = _is_lazy(parts.get("model"))
        try:
            self.model = self._adopted()
            if task == "train" and self.model.loss is None:
                how = f"pass {loss_word}=…, or batches that are mappings with labels"
                self.model = self._with_loss(usual_loss, f"{who}: task train needs a loss: {how}")
        finally:
            if self._lazy:  # it was called once, to see what it is
                kept.put_back()
        self._engine: Engine = registry.load("engines", task)
        self._procedure = procedure
        data = "example" if self.model.samples is None else f"loader:{type(self._given['example']).__name__}"
        kind, item = ("function", "call") if task == Task.CALL else ("module", "sample")
        self._workload = Workload(Task(task), f"{kind}:{title}", data, item, "custom")

    def case(self, placement: Placement, axes: Mapping[str, Scalar]) -> Case:
        """Return the Case with these values of axes; a loader's own for what is not said. Raises UsageError."""
        allowed = [axis for axis in self._engine.axes if axis not in _OF_MADE_DATA and not AXES[axis].on_request]
        of = f"task {self._workload.task} of a module at hand"
        defaults: dict[str, Scalar] = {axis: AXES[axis].default for axis in allowed}
        defaults.update((axis, value) for axis, value in self._own(placement).items() if axis in allowed)
        given = {axis: axis_named(axis, allowed, of).parse(value) for axis, value in axes.items()}
        values: Mapping[str, Scalar] = {**defaults, **given}
        if values.get("precision") == "auto":
            values = on_device(values, registry.load("devices", placement.device).probe()[placement.index])
        return Case(self._workload, values, placement)

    def _own(self, placement: Placement) -> Mapping[str, Scalar]:
        if self._workload.task == Task.CALL:
            return {}
        if self.model.example is not None:
            return {"batch_size": len(next(iter(self.model.example.values())))}
        own = {axis: self.model.facts.own(axis) for axis in DATALOADER_AXES}
        own.update(fixed_axes(self.model.samples))
        if placement.device in IN_HOST_MEMORY:
            own[PIN] = False
        return {"feed": "loader", **{axis: value for axis, value in own.items() if value is not None}}

    def _adopted(self) -> LoadedModel:
        source = registry.load("models", "py")
        if "function" in self._given:
            called: LoadedModel = source.callable(self._given["function"], self._given["arguments"], {})
            return called
        model: LoadedModel = source.adopt(self._given, self._where)
        if (made := model.optimizer) is not None:
            model.optimizer = lambda parameters: self._kept.handed_out(made(parameters))
        return model

    def _with_loss(self, loss: Any, lacking: str) -> LoadedModel:
        """Return the model with that loss. Raises UsageError, with the text `lacking`, where nothing goes with it."""
        if loss is None:
            raise UsageError(lacking)
        self._given["loss"] = loss
        try:
            return self._adopted()
        except UsageError:  # it speaks of a loss that nobody named
            raise UsageError(lacking) from None

    def take(self, case: Case, opened: Opened, slot: Slot, order: int) -> Trial:
        """Set up the module, warm up and measure; return the Trial. The module is then restored.

        Every trial begins with the same weights, the same random numbers and no gradients.
        """
        began_s = system_clock()
        with self._kept.trial(self._procedure.seed):
            if self._lazy:  # every trial has the weights that the seed gives
                self.model = self._adopted()
            parts = self._measured(case, opened, slot, began_s)
            ended_s = system_clock()
        facts = merged(parts.pop("facts"), self._kept.facts)
        return trial_of(case, slot.number, order, began_s, ended_s, {"facts": facts, **parts})

    def _measured(self, case: Case, opened: Opened, slot: Slot, began_s: float) -> dict[str, Any]:
        device, seed = opened.device, self._procedure.seed
        reset_peaks(device.torch_device)
        tally = Collector(case)
        # The device's gauges and the process's are read at both ends only: a reading thread would contend with the
        # step for the interpreter.
        recorder = TelemetrySampler(os.getpid(), opened.info, began_s, system_clock)
        as_set, settings = settle(case, self.model, device, self._procedure.settings)
        prepared = self._engine.prepare(as_set, self.model, device)
        device.synchronize()
        tally.setup("model_load_time_s", system_clock() - began_s)
        tally.add(self.model.facts, prepared.facts, Facts(settings=settings))
        samples = self.model.samples
        tally.facts.dataset_items = dataset_items(case, samples, own=samples is not None)
        batches = self._engine.open_batches(as_set, self.model, samples, device, seed)
        events: list[Event] = []
        setup = Setup(as_set, self._engine, self.model, prepared, device, tally)
        request = TrialRequest(as_set, self._procedure, slot.number)
        recorder.read()
        try:
            measure_prepared(request, setup, batches, events.append)
        except StopIteration:
            why = "its data ended before the trial did and can be iterated only once"
            raise UsageError(f"{self._where}: {why}; pass a Dataset, a DataLoader or a list of batches") from None
        finally:
            batches.close()
        recorder.read()
        measured = next(event for event in events if isinstance(event, Measured))
        return {
            "outcome": tally.outcome(),
            "facts": merged(measured.facts, recorder.facts()),
            "measurements": measured.measurements + _spans(measured, began_s),
            "series": recorder.series(),
        }


def _is_lazy(module: Any) -> bool:
    import torch

    parameters = module.parameters() if isinstance(module, torch.nn.Module) else ()
    return any(torch.nn.parameter.is_lazy(parameter) for parameter in parameters)


def _spans(measured: Measured, began_s: float) -> tuple[Measurement, ...]:
    return tuple(
        Measurement("window_span_s", Stage.STEADY, (begin_s - began_s, end_s - began_s), name)
        for name, (begin_s, end_s) in measured.windows_s.items()
    )
