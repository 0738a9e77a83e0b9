"""Models for the sheet's comparisons: so many equal products a step, and one that holds so many bytes of a device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Products(nn.Module):
    """`count` products of a square matrix with what came before; shape as given. One more of a hundred is 1 % more."""

    def __init__(self, count: int, side: int) -> None:
        super().__init__()
        self.count = count
        # Of orthogonal columns: whatever the count, numbers neither grow nor vanish, and no product draws less power.
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(side, side))[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after every product."""
        for _ in range(self.count):
            x = x @ self.weight
        return x


class Holding(Products):
    """The same, and from the first step on so many bytes of the device it computes on."""

    def __init__(self, hold_bytes: int) -> None:
        super().__init__(20, 512)
        self.hold_bytes = hold_bytes
        self.held: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after every product."""
        if self.held is None:
            self.held = torch.empty(self.hold_bytes, dtype=torch.uint8, device=x.device)
        return super().forward(x)


def products(count: int = 100, side: int = 2048) -> tuple[nn.Module, dict[str, torch.Tensor], Any]:
    """Return the module, its example batch, and a loss that nobody trains with."""
    return Products(int(count), int(side)), {"x": torch.randn(int(side), int(side))}, _square


def holding(hold_bytes: int = 1 << 20) -> tuple[nn.Module, dict[str, torch.Tensor], Any]:
    """Return the module that holds memory, its example batch, and a loss that nobody trains with."""
    return Holding(int(hold_bytes)), {"x": torch.randn(512, 512)}, _square


def _square(module: Any, batch: Any) -> torch.Tensor:
    loss: torch.Tensor = module(batch["x"]).square().mean()
    return loss
