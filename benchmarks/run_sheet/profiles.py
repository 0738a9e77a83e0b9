"""B6: whether the kernels of a training take no more time than its step."""

from __future__ import annotations

from typing import Any

from run_sheet.here import Here
from run_sheet.products import opened

_STEPS = 50


def kernels(here: Here, model: str, axes: dict[str, list[Any]]) -> None:
    """Note the device time of one profiled step, and the step as the stopwatch has it."""
    from torchstone.execution.timing.clock import system_clock
    from torchstone.execution.timing.loop import Instrument
    from torchstone.execution.timing.stopping import FixedCount
    from torchstone.execution.worker.profiling import count_operators

    device, prepared, batches = prepared_training(here, model, axes)
    try:
        instrument = Instrument(prepared.step, batches.next, device.synchronize, system_clock)
        instrument.window(device.stopwatch(), FixedCount(10))
        window = instrument.window(device.stopwatch(), FixedCount(_STEPS))
        here.note("step_s", window.total_s / _STEPS)
        counted = count_operators(prepared.step, batches.next, device)
    finally:
        batches.close()
    if counted is not None:
        here.note("operators", counted.calls)
        here.note("waits", counted.waits)
        here.note("kernels", counted.kernels)
        here.note("kernel_s", counted.kernel_s)


def prepared_training(here: Here, model: str, axes: dict[str, list[Any]]) -> tuple[Any, Any, Any]:
    """Return the open device, the prepared training and its feed, as a trial of torchstone has them."""
    from torchstone.core.schema.case import Case
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.execution import plan
    from torchstone.execution.worker.auto_settings import settle
    from torchstone.execution.worker.setup import load_model, open_samples
    from torchstone.plugins import registry

    found = opened(here)
    sketch = plan.sketch(WorkloadRequest("train", model, "synthetic", axes=axes))
    case = Case(sketch.workload, plan.on_device(sketch.configurations[0], found.info), found.placement)
    loaded = load_model(case)
    case, _ = settle(case, loaded, found.device, "device")
    engine = registry.load("engines", "train")
    prepared = engine.prepare(case, loaded, found.device)
    return found.device, prepared, engine.open_batches(case, loaded, open_samples(case, loaded, 0), found.device, 0)
