"""Carries out a MemoryRequest: the peak memory of a step on a device that need not be here, without its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.message import MemoryRequest, MemoryTold
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.peak_memory import PeakMemory
from torchstone.core.stats.peak_memory import largest_batch
from torchstone.execution.worker.auto_settings import brought, settle
from torchstone.execution.worker.setup import load_model, open_device, open_samples
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device, Stopwatch, Vendor
from torchstone.plugins.protocols import Engine

_ROWS = 2  # items that are really drawn: of them only shapes and types count
_SAME_SHAPES = ("pretrained", "folder")  # weights that random ones stand in for


def foretell(request: MemoryRequest) -> MemoryTold:
    """Return what was asked. Raises Unsupported, with the reason, where the model cannot be followed without data."""
    device = _Pretended(request) if request.device is not None else open_device(request.case)
    try:
        return _told(request, device, _shapes_of(request.case))
    except AssertionError:  # a tensor that is no parameter and no buffer was left without a device: load it all
        return _told(request, device, load_model(request.case))


def _told(request: MemoryRequest, device: Device, model: LoadedModel) -> MemoryTold:
    own = brought(model, request.case)
    case, _ = settle(own.filled(request.case, request.left_open), model, device, request.settings)
    engine: Engine = registry.load("engines", str(case.workload.task))
    drawn = _drawn(engine, case, model, request.seed)
    known: dict[int, PeakMemory] = {}

    def peak(batch: int) -> PeakMemory:
        if batch not in known:
            one = msgspec.structs.replace(case, configuration={**case.configuration, "batch_size": batch})
            known[batch] = engine.peak_memory(one, model, drawn, device)
        return known[batch]

    if "batch_size" in own.fixed:
        only = peak(int(own.fixed["batch_size"] or 1))
        within = [only if only.allocated_bytes <= limit else None for limit in request.limits_bytes]
        return MemoryTold((only,), tuple(within), own.why)
    own_size = "batch_size" in request.left_open  # nobody named one: that of the example
    batches = (int(case.configuration["batch_size"] or 1),) if own_size else request.batches
    peaks = tuple(peak(batch) for batch in batches)
    start = max(batches, default=1)
    seen = {batch: float(one.allocated_bytes) for batch, one in known.items()}
    found = [largest_batch(lambda n: peak(n).allocated_bytes, limit, start, seen) for limit in request.limits_bytes]
    return MemoryTold(peaks, tuple(None if batch is None else peak(batch) for batch in found))


def _shapes_of(case: Case) -> LoadedModel:
    """Return the model without its data where that can be, else as it is."""
    import torch

    weights = case.workload.fixed.get("weights")
    if weights in _SAME_SHAPES:
        fixed: Mapping[str, Scalar] = {**case.workload.fixed, "weights": "random"}
        case = msgspec.structs.replace(case, workload=msgspec.structs.replace(case.workload, fixed=fixed))
    elif weights != "random":
        return load_model(case)
    try:
        with torch.device("meta"):
            return load_model(case)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):  # it looks into its weights
        return load_model(case)


def _drawn(engine: Engine, case: Case, model: LoadedModel, seed: int) -> Mapping[str, Any]:
    """Return a few items as one batch on the CPU."""
    few = {**case.configuration, "batch_size": _ROWS, "feed": "resident", "num_workers": 0, "channels_last": False}
    few.update(getattr(model.samples, "fixed", None) or {})  # batches that come as they are
    small = msgspec.structs.replace(case, configuration={k: v for k, v in few.items() if k in case.configuration})
    batches = engine.open_batches(small, model, open_samples(case, model, seed), _Host(), seed)
    try:
        found: Mapping[str, Any] = batches.next().tensors
    finally:
        batches.close()
    return found


class _Host:
    """Where items are drawn. Of a Device it has what a feed asks for."""

    def __init__(self) -> None:
        import torch

        self.torch_device: Any = torch.device("cpu")

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def stopwatch(self) -> Stopwatch:
        """Nothing is timed here."""
        raise Unsupported("nothing can be timed without the device")

    def memory(self) -> Mapping[str, int]:
        """Nothing is allocated here."""
        return {}

    def objection(self, axis: str, value: Scalar) -> str | None:
        """Object to nothing."""
        return None

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        """Prefer nothing."""
        return None


class _Pretended(_Host):
    """A device that is not here: it objects and prefers as its kind does.

    Intel's and Apple's are followed as CUDA, too, which stands for them in what a step allocates, but for their own
    attention kernels, which are asked for.
    """

    def __init__(self, request: MemoryRequest) -> None:
        super().__init__()
        vendor: Vendor = registry.load("devices", request.case.placement.device)
        if request.device is None:
            raise Unsupported(f"{request.case.placement}: the properties of an absent device are not known")
        self._device = vendor.pretend(request.device)
        self.capability = request.device.compute_capability

    def objection(self, axis: str, value: Scalar) -> str | None:
        """Object as the device would, but for what only the machine around it can tell."""
        return None if axis in ("compile", "pin_memory") else self._device.objection(axis, value)

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        """Prefer what the device would."""
        return None if axis == "threads" else self._device.preference(axis, configuration)
