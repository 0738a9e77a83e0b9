"""What a Trainer of transformers and a LightningModule bring with them: module, data, step and optimizer.

Neither library is imported here: what a user's function returns is looked at.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from torchstone.core.errors import UsageError

_LIGHTNING = ("lightning", "pytorch_lightning")


def unfolded(where: str, returned: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return (module, data, loss, optimizer) of a Trainer, or of a LightningModule alone or with data; None of others.

    A LightningModule that comes with a loss of its own is a module like others. Raises UsageError for what only a
    library's own loop can do.
    """
    if _is(returned, "Trainer", ("transformers",)):
        return _of_trainer(returned)
    if _is(returned, "Trainer", _LIGHTNING):
        raise UsageError(f"{where} returned a Trainer of Lightning: return (LightningModule, LightningDataModule)")
    parts = list(returned) if isinstance(returned, tuple | list) else [returned]
    if parts and _is(parts[0], "LightningModule", _LIGHTNING) and len(parts) <= 2:
        return _of_lightning(where, *parts)
    return None


def _is(value: Any, name: str, packages: tuple[str, ...]) -> bool:
    return any(c.__name__ == name and c.__module__.partition(".")[0] in packages for c in type(value).__mro__)


def _of_trainer(trainer: Any) -> tuple[Any, Any, Any, Any]:
    def loss(model: Any, batch: Any) -> Any:
        return trainer.compute_loss(model, batch)

    def optimizer(model: Any) -> Any:  # noqa: ARG001  the name says that it wants the module, which the trainer has
        trainer.optimizer = None
        return trainer.create_optimizer()

    return trainer.model, trainer.get_train_dataloader(), loss, trainer.optimizer or optimizer


class TrainingStep(torch.nn.Module):
    """A LightningModule whose call in training is its training step, so that compiling and spreading it take it in."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self._numbered = len(inspect.signature(inner.training_step).parameters) > 1

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the loss of a batch in training, else what the module itself returns."""
        if not self.training:
            return self.inner(*inputs, **named)
        return self.inner.training_step(*inputs, 0) if self._numbered else self.inner.training_step(*inputs)


def forward_of(module: Any) -> Any:
    """Return the forward of a module as its user wrote it."""
    return (module.inner if isinstance(module, TrainingStep) else module).forward


def _of_lightning(where: str, module: Any, data: Any = None) -> tuple[Any, Any, Any, Any]:
    if not getattr(module, "automatic_optimization", True):
        raise UsageError(
            f"{where}: {type(module).__name__} optimizes by hand: measure its fit() with torchstone.window"
        )
    if _is(data, "LightningDataModule", _LIGHTNING):
        data.prepare_data()
        data.setup("fit")
    if data is None or _is(data, "LightningDataModule", _LIGHTNING):
        data = (module if data is None else data).train_dataloader()

    def loss(model: Any, batch: Any) -> Any:
        return model(batch)

    def optimizer(model: Any) -> Any:  # noqa: ARG001  as above
        return _one_optimizer(where, module.configure_optimizers())

    return TrainingStep(module), data, loss, optimizer


def _one_optimizer(where: str, configured: Any) -> Any:
    """Return the optimizer of what `configure_optimizers` may return; its schedule is left out."""
    if isinstance(configured, tuple) and configured and isinstance(configured[0], list):
        configured = configured[0]  # ([optimizers], [schedules])
    found = list(configured) if isinstance(configured, tuple | list) else [configured]
    found = [one["optimizer"] if isinstance(one, dict) else one for one in found]
    if len(found) != 1 or not isinstance(found[0], torch.optim.Optimizer):
        raise UsageError(f"{where}: configure_optimizers() returns {len(found)} optimizers or none: one is measured")
    return found[0]
