"""Stacks of equal layers: one layer more of a hundred is one hundredth more work, whatever the machine does just now.

A slowdown that is really there, for benchmarks/aa.py: `--option layers=103` computes 3 % more than `layers=100`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Stack(nn.Module):
    """Layers of one shape, one after another, each added to what went in."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.between: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input after every layer; shape as given."""
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def _square(module: Any, batch: Any) -> torch.Tensor:
    loss: torch.Tensor = module(batch["x"]).square().mean()
    return loss


def mlp(
    layers: int = 100, width: int = 128, rows: int = 64, pad: int = 0
) -> tuple[nn.Module, dict[str, torch.Tensor], Any]:
    """Return linear layers. `pad`: bytes taken between one layer and the next: the same work, laid out anew."""
    made: list[nn.Module] = []
    between: list[torch.Tensor] = []
    for _ in range(int(layers)):
        between.append(torch.zeros(max(int(pad), 1), dtype=torch.uint8))
        made.append(nn.Linear(width, width))
    stack = Stack(made)
    stack.between = between
    return stack, {"x": torch.randn(int(rows), width)}, _square


def conv(layers: int = 100, channels: int = 16, side: int = 16) -> tuple[nn.Module, dict[str, torch.Tensor], Any]:
    """Return convolutions."""
    stack = Stack([nn.Conv2d(channels, channels, 3, padding=1) for _ in range(int(layers))])
    return stack, {"x": torch.randn(4, channels, int(side), int(side))}, _square


class Attention(nn.Module):
    """Self-attention of one head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        nn.init.normal_(self.project.weight, std=0.01)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each position took from the others; shape as given."""
        q, k, v = self.project(x).chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(q, k, v)


def attention(layers: int = 100, width: int = 64, length: int = 64) -> tuple[nn.Module, dict[str, torch.Tensor], Any]:
    """Return attention layers."""
    return Stack([Attention(width) for _ in range(int(layers))]), {"x": torch.randn(4, int(length), width)}, _square


def transformer(layers: int = 33, width: int = 96, length: int = 32) -> tuple[nn.Module, dict[str, torch.Tensor], Any]:
    """Return encoder blocks of a transformer, four heads each."""
    blocks = [
        nn.TransformerEncoderLayer(int(width), 4, 2 * int(width), 0.0, batch_first=True) for _ in range(int(layers))
    ]
    return nn.Sequential(*blocks), {"x": torch.randn(8, int(length), int(width))}, _square
