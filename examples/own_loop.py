"""Measure a loop you already have, where it is: python examples/own_loop.py."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchstone


def main() -> None:
    """Train a small model for an epoch and say how fast the loop was, and how long it waited for data."""
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(8192, 64), torch.randint(0, 10, (8192,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)

    with torchstone.window("train") as window:
        for features, labels in window.batches(loader):  # waiting for a batch is the phase "data"
            with window.phase("forward"):
                loss = nn.functional.cross_entropy(model(features), labels)
            with window.phase("backward"):
                loss.backward()
            with window.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
    print(window.summary)

    # Or without a loop: a model and a batch.
    print(torchstone.measure(model, torch.randn(32, 64), budget_s=1.0))  # the model is then as it was before


if __name__ == "__main__":
    main()
