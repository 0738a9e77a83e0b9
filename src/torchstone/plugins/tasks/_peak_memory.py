"""The peak memory of a step, of any batch, on a device that need not be here: the engine's own step, without data.

The step that is measured is the step that is followed: the same `prepare` and `step`, under FakeTensorMode, after one
update of the optimizer, which has its state from then on. What is alive at the highest moment is told by kind.
Method after DNNMem (Gao et al., Estimating GPU memory consumption of deep learning models, ESEC/FSE 2020) with torch's
own shape functions in place of formulas; liveness by weak references (_live_storages.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Protocol

import msgspec
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from torchstone.core.errors import Unsupported
from torchstone.core.library_workspace import workspace_bytes
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import Batch
from torchstone.core.schema.case import Case
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.peak_memory import PeakMemory
from torchstone.core.schema.phase import BACKWARD, DATA, FORWARD, OPTIMIZER, TRANSFER
from torchstone.core.stats.peak_memory import GRANULE, reserved_bytes
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Prepared
from torchstone.plugins.tasks._cpu_buffers import with_buffers
from torchstone.plugins.tasks._live_storages import LiveStorages
from torchstone.plugins.tasks._pretending import pretending
from torchstone.plugins.tasks._settings import nhwc
from torchstone.plugins.tasks._twin import twin

_RESIDENT = 4  # batches that a resident feed keeps on the device
_KERNELS = ("flash", "efficient", "cudnn", "math")


class Prepares(Protocol):
    """What an engine has."""

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        """Set the model up."""


def peak_memory(
    engine: Prepares, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device
) -> PeakMemory:
    """Return the peak of the engine's step. `drawn`: a few items as one batch, of whatever size; its rows are scaled.

    Raises Unsupported, with the reason, where the model cannot be followed without data.
    """
    card = case.placement.device != "cpu"
    size = int(case.configuration["batch_size"] or 1)
    if case.configuration.get("compile", "off") != "off":  # followed as it is written: what is compiled holds less
        case = msgspec.structs.replace(case, configuration={**case.configuration, "compile": "off"})
    kernels = tuple(name for name in _KERNELS if device.objection("sdpa", name) is None) if card else None
    try:
        with pretending(case.configuration.get("sdpa"), kernels) as instead:
            live = LiveStorages(GRANULE, instead) if card else LiveStorages(inner=with_buffers)
            with live:
                account = _Account(live)
                begin = _followed(engine, case, model, drawn, device, account, size)
        return account.told(size, begin, workspaces=_workspaces(device, case), reserve=card)
    except (NotImplementedError, UnsupportedOperatorException) as error:
        raise Unsupported(f"torch has no shape function for an operator of this model ({_line(error)})") from error
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        raise Unsupported(f"data-dependent control flow or shapes in this model ({_line(error)})") from error
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise Unsupported(f"cannot be traced without data ({type(error).__name__}: {_line(error)})") from error


def _followed(
    engine: Prepares, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device, account: _Account,
    size: int,
) -> int:  # fmt: skip
    """Update once for the state of the optimizer, and take a step; return where in the course that begins."""
    last = nhwc(case.configuration)
    module = twin(model.module, lambda tensor: _empty(tensor, last=last))
    stays: Any = module
    stays.to = lambda *_, **__: module  # it is where and as it shall be; torch cannot move what has no data in place
    prepared: Any = engine.prepare(case, msgspec.structs.replace(model, module=module), device)
    optimizer = getattr(prepared, "optimizer", None)
    if optimizer is not None and case.placement.device != "cpu":
        _loop_as_torch_would(optimizer)
    resident = case.configuration.get("feed") == "resident"
    account.takes(module, optimizer, resident=resident)
    live = account.live
    live.phase = "inputs"
    batches = [_batch(drawn, size, last=last and resident) for _ in range(_RESIDENT if resident else 1)]
    account.resident([tensor for batch in batches for tensor in batch.tensors.values()])
    begin = len(live.course)
    following = cycle(batches)
    if optimizer is not None:
        account.updates()
    prepared.step(lambda: account.pulled(next(following)), account.mark)
    account.stepped()
    return begin


class _Account:
    """What each storage turned out to be. `live`: who follows them."""

    def __init__(self, live: LiveStorages) -> None:
        self.live = live
        self._parameters: Sequence[Any] = ()
        self._optimizer: Any = None
        self._resident = False
        self._begun = 0
        self._of: dict[str, set[int]] = {
            kind: set() for kind in ("weights", "gradients", "optimizer", "activations", "inputs")
        }

    def takes(self, module: torch.nn.Module, optimizer: Any, *, resident: bool) -> None:
        """Take note of what is there before the first step."""
        self._parameters, self._optimizer, self._resident = list(module.parameters()), optimizer, resident
        self._of["weights"] = self.live.numbers_of([*self._parameters, *module.buffers()])

    def resident(self, tensors: Sequence[Any]) -> None:
        """Take note of batches that stay."""
        self._of["inputs"] |= self.live.numbers_of(tensors)

    def pulled(self, batch: Batch) -> Batch:
        """A forward pass begins with a batch."""
        self.live.phase, self._begun = "inputs", len(self.live.births)
        return batch

    def mark(self, phase: str) -> None:
        """A phase has ended; the next begins."""
        live = self.live
        if phase == TRANSFER or (phase == DATA and self._resident):
            live.phase = FORWARD
        elif phase == FORWARD:
            self._of["activations"] |= {number for number in live.alive if number >= self._begun}
            live.phase = BACKWARD
        elif phase == BACKWARD:
            self._of["gradients"] |= live.numbers_of(p.grad for p in self._parameters)
            live.phase = OPTIMIZER

    def updates(self) -> None:
        """Update once, with gradients that are as large as any: what the first step of all does in its last phase."""
        self.live.phase = OPTIMIZER
        for parameter in self._parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        self._of["gradients"] |= self.live.numbers_of(p.grad for p in self._parameters)
        self._optimizer.step()
        self.stepped()
        self._optimizer.zero_grad(set_to_none=True)

    def stepped(self) -> None:
        """A step has ended."""
        if self._optimizer is not None:
            states = [value for state in self._optimizer.state.values() for value in state.values()]
            self._of["optimizer"] |= self.live.numbers_of(v for v in states if isinstance(v, torch.Tensor))

    def told(self, size: int, begin: int, *, workspaces: Sequence[int], reserve: bool) -> PeakMemory:
        """Return the peak from `begin` on."""
        live = self.live
        place, _ = max(live.since(begin - 1), key=lambda found: found[1])
        kinds: dict[str, int] = {}
        for number in live.alive_at(place):
            kind = self._kind(number)
            kinds[kind] = kinds.get(kind, 0) + live.births[number].size
        if workspaces:
            kinds["workspace"] = sum(workspaces)
        newest = live.births[live.course[place][0]].phase
        course = [*((-1 - thread, size) for thread, size in enumerate(workspaces)), *live.course]
        return PeakMemory(
            size, sum(kinds.values()), kinds, newest if newest in (FORWARD, BACKWARD, OPTIMIZER) else FORWARD,
            reserved_bytes(course) if reserve else None,
        )  # fmt: skip

    def _kind(self, number: int) -> str:
        for kind in ("weights", "gradients", "optimizer", "inputs"):
            if number in self._of[kind]:
                return kind
        birth = self.live.births[number]
        if birth.phase == "inputs":
            return "inputs"
        trains = self._optimizer is not None
        again = birth.phase == BACKWARD and birth.recorded  # checkpointing computes a forward pass again
        kept = number in self._of["activations"] or again or (not trains and birth.phase == FORWARD)
        return "activations" if kept else "temporaries"


def _empty(tensor: Any, *, last: bool) -> Any:
    if last and tensor.dim() == 4:
        return torch.empty(tensor.shape, dtype=tensor.dtype, memory_format=torch.channels_last, device="cpu")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")


def _batch(drawn: Mapping[str, Any], size: int, *, last: bool) -> Batch:
    for part in drawn.values():
        if not isinstance(part, torch.Tensor):
            raise Unsupported(
                f"the memory of a {type(part).__name__} is not known before it is there: measure it instead"
            )
    rows = next((tensor.size(0) for tensor in drawn.values() if tensor.dim()), 1)
    tensors = {}
    for name, tensor in drawn.items():
        shape = (size, *tensor.shape[1:]) if tensor.dim() and tensor.size(0) == rows else tuple(tensor.shape)
        layout = torch.channels_last if last and len(shape) == 4 else torch.contiguous_format
        tensors[name] = torch.empty(shape, dtype=tensor.dtype, memory_format=layout)
    return Batch(tensors, size)


def _loop_as_torch_would(optimizer: Any) -> None:
    """Choose foreach where nothing else was asked for: torch looks at the type of tensors, and these have another."""
    for group in optimizer.param_groups:
        if group.get("foreach", False) is None and not group.get("fused") and not group.get("differentiable"):
            group["foreach"] = True


def _workspaces(device: Device, case: Case) -> tuple[int, ...]:
    """Return the bytes of each thread that multiplies: the one of backward passes beside the main one."""
    each = workspace_bytes(case.placement.device, getattr(device, "capability", None))
    return (each,) * (2 if case.workload.task == "train" else 1) if each else ()


def _line(error: BaseException) -> str:
    told: Scalar = str(error).strip().split("\n", 1)[0]
    return str(told)[:120] or type(error).__name__
