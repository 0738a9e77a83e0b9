"""A model with its data: torchstone run --task train --model py:examples/own_data.py:load --axis batch_size=8,32.

And from Python, under a name of its own: python examples/own_data.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchstone

Loader = DataLoader[tuple[torch.Tensor, ...]]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def make_optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer as you use it."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def load(hidden: int = 128) -> tuple[nn.Module, Loader, Callable[..., torch.optim.Optimizer], Loss]:
    """Return model, data, optimizer, loss. `hidden` is an option: --option hidden=512."""
    model = nn.Sequential(nn.Linear(64, int(hidden)), nn.ReLU(), nn.Linear(int(hidden), 10))
    data = TensorDataset(torch.randn(2048, 64), torch.randint(0, 10, (2048,)))
    return model, DataLoader(data, batch_size=32, shuffle=True), make_optimizer, nn.functional.cross_entropy


if __name__ == "__main__":  # each trial is a fresh process that imports this file
    torchstone.register_model("mine", load)
    found = torchstone.benchmark(
        "mine", family="custom", device="cpu", batch_size=[8, 32], options={"hidden": 256},
        procedure=torchstone.Procedure(trials=1, iterations=20),
    )  # fmt: skip
    print(found)
