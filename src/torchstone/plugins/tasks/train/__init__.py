"""Training steps as a user would write them: forward, backward, clipping, optimizer; accumulation, autocast, scaler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import EIGHT_BIT
from torchstone.core.schema.case import Case
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.metric import BACKWARD, FORWARD, OPTIMIZER, PeakMemory
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.core.schema.ranks import is_distributed, items_together
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Mark, Prepared, Replicas, Samples, Trainable
from torchstone.plugins.tasks._inference import LOADER, SIZES, FedEngine

_FINGERPRINT = 3  # losses of the first steps: what was computed
_KEPT_LOSSES = 4096  # kept where they are, on the device, and read after the last window: no step waits for them


class PreparedTraining(Trainable):
    """A model in train mode, its optimizer and, for fp16, its loss scaler.."""

    def __init__(self, case: Case, model: LoadedModel, device: Device) -> None:
        import torch

        from torchstone.plugins.tasks import _graphs, _settings
        from torchstone.plugins.tasks.train import strategies

        if model.loss is None:
            raise Unsupported("task train: the model has no loss; return (module, example, loss)")
        configuration = case.configuration
        self._configuration = configuration
        _settings.refuse(configuration, model, device)
        _graphs.refuse_accumulation(configuration, device)
        _settings.set_numerics(configuration)
        module = strategies.with_adapters(model.module.train(), configuration)
        self.module: Any = _settings.move_to_device(module, configuration, device)
        self._compile_pool = _graphs.CompilePool(configuration, device)
        self.replicas: Replicas | None = None
        self._shapes = self.module
        if is_distributed(configuration):
            from torchstone.plugins.tasks import _flops

            self._shapes = _flops.twin(self.module, lambda tensor: tensor.to("meta"))  # what is shared cannot be copied
            self.replicas = strategies.replicas_of(self.module, configuration, device)
        called = self.module if self.replicas is None else self.replicas.call
        self._module = _settings.compiled(called, configuration)
        self._fetch = _graphs.marking_steps(_settings.fetcher(configuration, device), configuration, device)
        self._plain_loss = model.loss
        self._loss = _settings.in_precision(model.loss, configuration, device)
        self._forward = _settings.in_precision(model.forward, configuration, device)
        self._no_grad = torch.no_grad
        self._parameters = [p for p in self.module.parameters() if p.requires_grad]
        adapted = bool(configuration.get("lora"))
        fused: bool | None = False
        if model.optimizer is not None:
            self.optimizer = model.optimizer(self._parameters if adapted else self.module.parameters())
            self._passes = strategies.LEAST_PASSES
        else:
            self.optimizer, fused = strategies.build(self._parameters, configuration)
            self._passes = strategies.PASSES[str(configuration["optimizer"])]
        self.scaler = strategies.scaler(configuration, device, fused=bool(fused))
        self._accumulation = int(configuration.get("grad_accumulation") or 1)
        self._clip = float(configuration.get("grad_clip") or 0.0)
        self._clip_norm = torch.nn.utils.clip_grad_norm_
        self.facts = msgspec.structs.replace(
            _settings.in_effect(configuration, device),
            trainable_parameters=sum(p.numel() for p in self._parameters) if adapted else None,
            fused_optimizer=fused,
            effective_batch_size=items_together(configuration),
        )
        self.losses: list[Any] | None = None
        self._losses: list[Any] = []
        self._last_loss: Any = None
        self._note = _graphs.keeper(configuration, device)

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        """Do one optimizer step over `grad_accumulation` batches, after the last of which ranks exchange gradients."""
        for left in range(self._accumulation - 1, -1, -1):
            if self.replicas is not None:
                self.replicas.synchronize(last=left == 0)
            self._last_loss = self._backpropagate(pull, mark)
            mark(BACKWARD)
        self._update()
        mark(OPTIMIZER)
        if self.losses is not None:
            self.losses.append(self._last_loss)
        if len(self._losses) < _KEPT_LOSSES:
            self._losses.append(self._last_loss)

    def enter(self, window: str) -> None:
        """End what compiled during the warm-up."""
        self._compile_pool.close()

    def _backpropagate(self, pull: Callable[[], Batch], mark: Mark) -> Any:
        """Add the gradients of one batch and return its loss; the graph is gone when this returns."""
        loss = self._loss(self._module, self._fetch(pull, mark))
        mark(FORWARD)
        share = loss if self._accumulation == 1 else loss / self._accumulation
        (share if self.scaler is None else self.scaler.scale(share)).backward()
        return self._note(loss)

    def _update(self) -> None:
        if self._clip > 0.0:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            self._clip_norm(self._parameters, self._clip)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def answers(self, batch: Batch) -> Any:
        """Return the output for a batch, without gradients.

        `no_grad`, not `inference_mode`: buffers that a model fills on the way must stay fit for training.
        """
        with self._no_grad():
            return self._forward(self.module, self._fetch(lambda: batch, _unmarked))

    def loss_of(self, batch: Batch) -> float:
        with self._no_grad():
            return float(self._loss(self.module, self._fetch(lambda: batch, _unmarked)))

    def open_whole(self, samples: Samples) -> Batches:
        from torchstone.plugins.tasks._batches import Whole

        return Whole(samples, self._configuration)

    def results(self) -> Mapping[str, Sequence[float]]:
        """Return the losses (the first thousands and the last); those of the first three steps are the fingerprint."""
        import torch

        if not self._losses:
            return {}
        kept = self._losses if self._losses[-1] is self._last_loss else [*self._losses, self._last_loss]
        if isinstance(kept[0], torch.Tensor):
            kept = torch.stack([loss.reshape(()) for loss in kept]).tolist()
        losses = [float(loss) for loss in kept]
        return {"loss": losses, "fingerprint": losses[:_FINGERPRINT]}

    def count(self, batch: Batch) -> StepCounts:
        """Count the forward and backward passes of one step, and what the optimizer reads and writes.

        The optimizer's element-wise work counts as no operations.
        """
        from torchstone.plugins.tasks import _flops

        once = _flops.count(self._shapes, self._plain_loss, batch.tensors, self._configuration.get("precision"))
        if once.flops is None or once.traffic_bytes is None or once.operators is None:
            return once
        own = (p.to_local() if hasattr(p, "to_local") else p for p in self._parameters)  # of FSDP2: a rank's own part
        weights_bytes = sum(p.numel() * p.element_size() for p in own)
        times = self._accumulation
        return StepCounts(
            times * once.flops, times * once.traffic_bytes + self._passes * weights_bytes, times * once.operators
        )


def _unmarked(_phase: str) -> None:
    """Judging is not cut into phases."""


class Train(FedEngine):
    """Engine for task train."""

    describes = "forward, backward and optimizer steps, issued back to back"
    axes: tuple[str, ...] = (
        *SIZES,
        *("precision", "compile", "optimizer", "learning_rate", "grad_accumulation", "grad_clip"),
        *("lora", "gradient_checkpointing", "channels_last", "fused", "sdpa", "threads"),
        *("world_size", "nodes", "strategy", "backend"),
        *(*LOADER, "feed"),
    )

    def preload(self) -> None:
        from torchstone.plugins.tasks.train import strategies  # noqa: F401

        super().preload()

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        return PreparedTraining(case, model, device)

    def peak_memory(self, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device) -> PeakMemory:
        from torchstone.plugins.tasks import _peak_memory
        from torchstone.plugins.tasks.train import strategies

        if (name := case.configuration.get("optimizer")) in EIGHT_BIT:
            strategies.in_eight_bits(str(name))  # what it makes while it is imported must have data
        return _peak_memory.step_peak_memory(self, case, model, drawn, device)


PLUGIN: Engine = Train()
