"""Shared by the engines: their axes, feeds and windows, and a model in eval mode that answers batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import UNQUANTIZED, Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import merged
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.metric import FORWARD
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.core.schema.quality import AnswerCounts
from torchstone.plugins.choices import RuntimeVariant
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Mark, Prepared, Samples, SavedFile

SIZES = ("batch_size", "sequence_length", "image_size", "audio_s")
LOADER = ("num_workers", "pin_memory", "prefetch_factor")


class FedEngine(Engine):
    """An engine whose steps take batches of the data; its windows are those that its axis `mode` asks for."""

    def preload(self) -> None:
        """Import this engine's own files: torch's compiler, of which they set a switch, alone takes a second."""
        from torchstone.plugins.tasks import _batches, _flops, _graphs, _settings  # noqa: F401

    def windows(self, configuration: Mapping[str, Scalar]) -> Sequence[str]:
        mode = str(configuration.get("mode", "both")) if "mode" in self.axes else "throughput"
        return ("latency", "throughput") if mode == "both" else (mode,)

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        from torchstone.plugins.tasks._batches import open_batches

        return open_batches(case.configuration, model, samples, device, seed)


class BesideFp32(Prepared):
    """A model in eval mode on its device, whose answers are compared with those of eager mode in fp32."""

    _variant: RuntimeVariant | None = None  # what computes in place of eager mode

    def __init__(self, case: Case, model: LoadedModel, device: Device) -> None:
        import torch

        from torchstone.plugins.tasks import _graphs, _runtimes, _settings

        configuration = case.configuration
        _settings.refuse(configuration, model, device)
        _settings.set_numerics(configuration)
        self._device, self._outputs_of = device, _runtimes.outputs_of
        self._plain = _settings.move_to_device(model.module.eval(), configuration, device)
        self._compile_pool = _graphs.CompilePool(configuration, device)
        self._module = _settings.compiled(self._plain, configuration)
        self._asked = self._module  # what answers a whole batch
        self._inference_mode = torch.inference_mode
        self._fetch = _settings.fetcher(configuration, device)
        self._plain_forward = model.forward
        self._forward = _settings.in_precision(model.forward, configuration, device)
        self._precision = configuration.get("precision")
        self._configuration = configuration
        self._causal = model.input.causal
        self.facts = _settings.in_effect(configuration, device)

    def enter(self, window: str) -> None:
        self._compile_pool.close()

    def compare(self, samples: Samples, seed: int) -> AnswerCounts | None:
        from torchstone.plugins.tasks import _runtimes

        if self._variant is None and not self._is_narrow:
            return None
        with self._inference_mode():
            return _runtimes.counted(
                self._answer, self._reference, samples, self._configuration, seed, causal=self._causal
            )

    def compare_precision(self, pull: Callable[[], Batch]) -> Mapping[str, float]:
        from torchstone.plugins.tasks import _runtimes

        if self._variant is not None or not self._is_narrow:
            return {}
        batches = [pull().tensors for _ in range(_runtimes.COMPARED)]
        with self._inference_mode():
            pairs = [(self._answer(batch), self._reference(batch)) for batch in batches]
        if not all(ours for _, ours in pairs):
            raise ValueError("the model's output has no tensor that torch's pytree finds")
        return _runtimes.differences(str(self._precision), pairs)

    @property
    def _is_narrow(self) -> bool:
        return self._precision not in (None, "fp32")

    def _answer(self, tensors: Mapping[str, Any]) -> Sequence[Any]:
        """Return what is measured answers."""
        output = self._forward(self._asked, self._move_to_device(tensors))
        return [tensor.cpu() for tensor in self._outputs_of(output)]

    def _reference(self, tensors: Mapping[str, Any]) -> Sequence[Any]:
        """Return what eager mode answers in fp32, by the kernels that torch chooses for it."""
        from torchstone.plugins.tasks import _settings

        with _settings.full_precision(self._configuration) if self._is_narrow else nullcontext():
            output = self._plain_forward(self._plain, self._move_to_device(tensors))
        return [tensor.cpu() for tensor in self._outputs_of(output)]

    def _move_to_device(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        moved = {name: tensor.to(self._device.torch_device) for name, tensor in tensors.items()}
        return self._fetch(lambda: Batch(moved, 0), _unmarked)


class PreparedInference(BesideFp32):
    """Batches are answered by a torch module, or by what a runtime makes of it."""

    def __init__(self, case: Case, model: LoadedModel, device: Device) -> None:
        from torchstone.plugins.tasks import _graphs, _runtimes

        self._variant = _runtimes.variant_of(case.configuration, device)
        super().__init__(case, model, device)
        self._fetch = _graphs.marking_steps(self._fetch, case.configuration, device)
        self._looked = False
        self._moments: Any = None

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        tensors = self._fetch(pull, mark)
        with self._inference_mode():
            output = self._forward(self._module, tensors)
        mark(FORWARD)
        if not self._looked:
            self._looked, self._moments = True, moments(output)

    def build(self, pull: Callable[[], Batch], samples: Samples | None = None, seed: int = 0) -> Mapping[str, float]:
        """Export the model to its runtime, quantize it, and compare its answers with those of eager mode in fp32."""
        from torchstone.plugins.tasks import _runtimes, _settings

        if self._variant is None:
            return {}
        batches = [self._fetch(pull, _unmarked) for _ in range(_runtimes.COMPARED)]
        calibration = self._calibration(samples, seed, batches)
        device = str(self._device.torch_device)
        compiled = partial(_settings.compiled, configuration=self._configuration)
        model = self._plain, self._plain_forward
        built = _runtimes.build(self._variant, *model, batches, calibration, device, compiled)
        self._forward = lambda _module, tensors: built.answer(tensors)
        self.facts = merged(self.facts, built.facts)
        return built.values

    def _calibration(
        self, samples: Samples | None, seed: int, pulled: Sequence[Mapping[str, Any]]
    ) -> Iterator[Mapping[str, Any]]:
        """Yield batches of items that are not compared; those pulled, where there are no real ones."""
        from torchstone.plugins.tasks import _runtimes

        own = iter(()) if samples is None else _runtimes.calibration(samples, self._configuration, seed)
        first = next(own, None)
        yield from pulled if first is None else (first, *own)

    def save(self, pull: Callable[[], Batch], samples: Samples | None, seed: int, file: SavedFile) -> Sequence[str]:
        from torchstone.plugins.tasks import _runtimes

        mode = str(self._configuration.get("compile", "off"))
        if self._variant is None:
            return _runtimes.save_eager(self._plain, self._forward, self._fetch(pull, _unmarked), mode, file)
        batch = self._fetch(pull, _unmarked)
        calibration, device = self._calibration(samples, seed, [batch]), str(self._device.torch_device)
        model = self._plain, self._plain_forward
        return _runtimes.save(self._variant, *model, batch, calibration, file, device, mode)

    def results(self) -> Mapping[str, Sequence[float]]:
        return {"fingerprint": [float(m) for m in self._moments]} if self._moments is not None else {}

    def count(self, batch: Batch) -> StepCounts:
        import torch

        from torchstone.plugins.tasks import _flops

        if self._variant is not None and self._variant.quantization != UNQUANTIZED:
            return StepCounts(why_not=Statement("integer_products"))

        def work(module: Any, tensors: Mapping[str, Any]) -> None:
            with torch.no_grad():  # inference mode forbids what torch's counter hangs on parameters given to a module
                self._plain_forward(module, tensors)

        return _flops.count(self._plain, work, batch.tensors, self._precision)


def _unmarked(_phase: str) -> None:
    """A phase that is not measured."""


def moments(output: Any) -> Any:
    """Return mean and standard deviation of the first tensor in an output, or None where there is none."""
    import torch

    waiting = [output]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, torch.Tensor):
            values = part.detach() if part.is_floating_point() else part.detach().float()
            return (values.mean(), values.std(correction=0))
        if isinstance(part, Mapping):
            waiting[:0] = part.values()
        elif isinstance(part, list | tuple):
            waiting[:0] = part
        elif hasattr(part, "__dict__"):
            waiting[:0] = vars(part).values()
    return None
