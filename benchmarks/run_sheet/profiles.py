"""B6: what diagnose finds of one training, and whether its kernels take no more time than its step."""

from __future__ import annotations

from typing import Any

from run_sheet.here import Here, Refused
from run_sheet.products import opened

_STEPS = 50


def diagnosed(here: Here) -> None:
    """Note the kernel time of a step against the step, then what diagnose names first and measures."""
    model, batch = ("hf:distilbert-tiny", 8) if here.on_cpu else ("hf:distilbert-base-uncased", 32)
    kernels(here, model, batch)
    done = here.torchstone(
        "diagnose", "--model", model, "--task", "train", "--data", "synthetic", "--axis", f"batch_size={batch}",
        "--axis", "sequence_length=128", "--budget", "40s", "--within", "80s", limit_s=110,
    )  # fmt: skip
    here.note("exit_code", done.code)
    try:
        diagnosis = done.document()["diagnosis"]
    except (Refused, KeyError) as why:
        here.note("why", str(why))
        return
    causes = diagnosis["causes"]
    here.note("causes", len(causes))
    here.note("first_cause", causes[0]["id"] if causes else None)
    here.note("first_share", causes[0]["share"] if causes else None)
    gains = [one["gain"]["value"] for one in diagnosis["tried"] if one.get("gain")]
    here.note("tried", len(diagnosis["tried"]))
    here.note("largest_gain", max(gains) if gains else None)


def kernels(here: Here, model: str, batch: int) -> None:
    """Note the device time of one profiled step, and the step as the stopwatch has it."""
    from torchstone.instrument.clock import system_clock
    from torchstone.instrument.loop import Instrument
    from torchstone.instrument.stopping import FixedCount
    from torchstone.worker.operators import count_operators

    device, prepared, batches = prepared_training(here, model, {"batch_size": [batch], "sequence_length": [128]})
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
    from torchstone import plan, registry
    from torchstone.terms.case import Case
    from torchstone.worker.opening import load_model, open_samples
    from torchstone.worker.settling import settle

    found = opened(here)
    sketch = plan.sketch(plan.Ask("train", model, "synthetic", axes=axes))
    case = Case(sketch.workload, plan.on_device(sketch.configurations[0], found.info), found.placement)
    loaded = load_model(case)
    case, _ = settle(case, loaded, found.device, "device")
    engine = registry.load("engines", "train")
    prepared = engine.prepare(case, loaded, found.device)
    return found.device, prepared, engine.open_batches(case, loaded, open_samples(case, loaded, 0), found.device, 0)
