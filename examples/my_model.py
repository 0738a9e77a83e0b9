"""A model of your own: torchstone run --task train --model py:examples/my_model.py:load.

`load` is called in the fresh process of every trial. It returns the module, an example batch (tensors with the items
along dimension 0; batches of other sizes are made from it), how the loss is computed, and how the optimizer is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import nn

Batch = Mapping[str, torch.Tensor]


class Classifier(nn.Module):
    """Two layers over 64 features, 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))

    def forward(self, features: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the logits; the example batch's names are the arguments' names."""
        del labels
        logits: torch.Tensor = self.layers(features)
        return logits


def loss(module: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the scalar that training brings down."""
    return nn.functional.cross_entropy(module(batch["features"]), batch["labels"])


def make_optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer as you use it."""
    return torch.optim.AdamW(parameters, lr=1e-3)


def load() -> tuple[nn.Module, Batch, Callable[[nn.Module, Batch], torch.Tensor], Callable[..., torch.optim.Optimizer]]:
    """Return module, example batch, loss, optimizer."""
    example = {"features": torch.randn(8, 64), "labels": torch.randint(0, 10, (8,))}
    return Classifier(), example, loss, make_optimizer
