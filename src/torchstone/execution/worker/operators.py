"""Counts what a step asks of torch: operators and waits by its dispatcher, kernels and copies by its profiler."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from torchstone.core.schema.host_profile import Operators
from torchstone.execution.timing.loop import Source, Step, unmarked
from torchstone.execution.worker.profiled import profiled
from torchstone.plugins.machine_protocols import Device

_WAIT = "aten::_local_scalar_dense"  # what item(), tolist(), bool() and float() of a tensor all come to
_COPY = "Memcpy HtoD"


def count_operators(step: Step, source: Source, device: Device) -> Operators | None:
    """Look at one step, or two where there is an accelerator. None where the source ends meanwhile.

    Only an accelerator is profiled: the profiler takes a millisecond for each operator to make its list.
    """
    try:
        counted = _dispatched(step, source)
        if str(device.torch_device).startswith("cpu"):
            return counted
        return _profiled(step, source, device, counted)
    except StopIteration:
        return None


def _dispatched(step: Step, source: Source) -> Operators:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        """Counts, and does what was asked."""

        calls = waits = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            self.waits += func.name() == _WAIT
            return func(*args, **(kwargs or {}))

    with Counting() as counting:
        step(source, unmarked)
    return Operators(counting.calls, counting.waits)


def _profiled(step: Step, source: Source, device: Device, counted: Operators) -> Operators:
    from torch.profiler import ProfilerActivity, supported_activities

    wanted = [a for a in supported_activities() if a in (ProfilerActivity.CUDA, ProfilerActivity.XPU)]
    device.synchronize()
    with profiled([ProfilerActivity.CPU, *wanted]) as profiler:
        step(source, unmarked)
        device.synchronize()
    return on_device(profiler.events() or (), counted)


def on_device(events: Iterable[Any], counted: Operators) -> Operators:
    """Add what a device did to what was counted. `events`: torch's FunctionEvent, or what has its attributes."""
    events = list(events)
    on_host = {event.name for event in events if event.device_type.name == "CPU"}
    seen = [e for e in events if e.device_type.name != "CPU" and not _is_range(e, on_host)]
    if not seen:
        return counted
    copies = [event for event in seen if event.name.startswith(_COPY)]
    kernels = [event for event in seen if not event.name.startswith(("Memcpy", "Memset"))]
    return Operators(
        counted.calls, counted.waits, kernels=len(kernels), kernel_s=_seconds(kernels),
        pageable_copies=sum("Pageable" in event.name for event in copies), copy_s=_seconds(copies),
    )  # fmt: skip


def _is_range(event: Any, on_host: Collection[str]) -> bool:
    """Say whether a device's event is a range of record_function, drawn over kernels that are counted themselves.

    An optimizer's step is one, and any of the user's own (pytorch/pytorch#130730: gpu_user_annotation). Where torch
    does not tell its kind, the name does: that of a range is on the host, too, and no kernel's is.
    """
    return bool(getattr(event, "is_user_annotation", False)) or event.name in on_host


def _seconds(events: Sequence[Any]) -> float:
    return 1e-6 * sum(float(event.time_range.elapsed_us()) for event in events)
