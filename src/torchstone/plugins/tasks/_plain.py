"""Engines that do not train: inference, the loader alone, and calls of any function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.metric import DATA, FORWARD, PeakMemory
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Mark, Prepared, Samples
from torchstone.plugins.tasks._inference import LOADER, SIZES, FedEngine, PreparedInference, moments

# ── infer ────────────────────────────────────────────────────────────────────────────────────────────────────

# Inference as a user would write it: eval, inference_mode, autocast, torch.compile; latency and throughput windows.


class Infer(FedEngine):
    """Engine for task infer."""

    describes = "forward passes in eval mode: latency in a closed loop, throughput back to back"
    axes: tuple[str, ...] = (
        *(*SIZES, "precision", "compile", "runtime", "quantization", "channels_last", "sdpa", "threads"),
        *(*LOADER, "feed", "mode"),
    )

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        return PreparedInference(case, model, device)

    def peak_memory(self, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device) -> PeakMemory:
        from torchstone.plugins.tasks import _peak_memory, _runtimes

        if (variant := _runtimes.variant_of(case.configuration, device)) is not None:
            raise Unsupported(f"{variant}: its memory cannot be predicted without running it")
        return _peak_memory.step_peak_memory(self, case, model, drawn, device)


# ── load ─────────────────────────────────────────────────────────────────────────────────────────────────────

# The loader alone: batches are taken as fast as they come and nothing is computed. What the loader *could* deliver.


class PreparedLoading(Prepared):
    """Nothing to compute with: a step takes one batch and drops it."""

    facts = Facts()

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        pull()
        mark(DATA)

    def results(self) -> Mapping[str, Sequence[float]]:
        return {}

    def count(self, batch: Batch) -> StepCounts:
        return StepCounts(why_not=Statement("loader_alone"))


class Load(FedEngine):
    """Engine for task load."""

    describes = "the data loader alone: batches back to back, no computation"
    axes: tuple[str, ...] = (*SIZES, *LOADER, "threads")

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        fed = msgspec.structs.replace(case, configuration={**case.configuration, "feed": "loader"})
        return super().open_batches(fed, model, samples, device, seed)

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        from torchstone.plugins.tasks import _settings

        _settings.refuse(case.configuration, model, device)
        _settings.set_numerics(case.configuration)
        return PreparedLoading()


# ── call ─────────────────────────────────────────────────────────────────────────────────────────────────────

# Any function as it is: each call is a step. Neither gradients nor torch's switches are touched.


class CallBatches:
    """Batches without data: one call each. `device` is among the tensors, for functions that have such an argument."""

    queue, turn = 0, 1
    unreadable: Mapping[str, str] = {}

    def __init__(self, device: Device) -> None:
        batch = Batch({"device": device.torch_device}, 1)
        self.next: Callable[[], Batch] = lambda: batch

    def begin_epoch(self, number: int) -> None:
        """Nothing to begin."""

    def close(self) -> None:
        """Nothing to end."""


class PreparedCall(Prepared):
    """A function, ready to be called."""

    def __init__(self, case: Case, model: LoadedModel) -> None:
        import torch

        self._spec, self._model = case.workload.model, model
        self._first: Any = None
        self._called = False
        self.facts = Facts(threads_in_effect=torch.get_num_threads())

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        output = self._model.forward(self._model.module, pull().tensors)
        mark(FORWARD)
        if not self._called:
            self._called, self._first = True, self._looked_at(output)

    def _looked_at(self, output: Any) -> Any:
        """Return the moments of an output. Raises UsageError where it is a model, which was to be measured itself."""
        import torch

        first = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(first, torch.nn.Module):
            raise UsageError(f"{self._spec} returned a model: to measure that, add --task infer or --task train")
        return moments(output)

    def results(self) -> Mapping[str, Sequence[float]]:
        return {"fingerprint": [float(m) for m in self._first]} if self._first is not None else {}

    def count(self, batch: Batch) -> StepCounts:
        """Return nothing: what a function reaches by itself cannot be put on meta tensors."""
        return StepCounts(why_not=Statement("own_function"))


class Call(FedEngine):
    """Engine for task call."""

    describes = "calls of any function: latency in a closed loop, throughput back to back"
    axes: tuple[str, ...] = ("threads", "mode")

    def preload(self) -> None:
        """Nothing: a function brings what it needs, and torch's compiler alone would take a second."""

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        return CallBatches(device)

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        import torch

        if threads := case.configuration.get("threads"):
            torch.set_num_threads(int(threads))
        return PreparedCall(case, model)


PLUGINS: Mapping[str, Engine] = {
    "infer": Infer(),
    "load": Load(),
    "call": Call(),
}
