"""The steps that the benchmarks time: real models, built the same way for torchstone and for a bare loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from torchstone.core.schema.model import InputSpec, LoadedModel


class Made(NamedTuple):
    """One workload: what torchstone is given, and the same step written by hand."""

    task: str
    model: LoadedModel
    bare_step: Callable[[dict[str, Any]], None]
    batch_size: int


def cnn(width: int, batch_size: int, device: str = "cpu") -> Made:
    """A three-layer convolutional net on 3×32×32 images, trained with SGD: about 2 ms or 20 ms by its width."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(width, 2 * width, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(2 * width, 2 * width, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(2 * width, 10),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    example = {"input": torch.randn(batch_size, 3, 32, 32), "target": torch.randint(0, 10, (batch_size,))}
    criterion = torch.nn.functional.cross_entropy

    def loss(network: Any, tensors: Any) -> Any:
        return criterion(network(tensors["input"]), tensors["target"])

    def bare_step(tensors: dict[str, Any]) -> None:
        criterion(module(tensors["input"]), tensors["target"]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def forward(network: Any, tensors: Any) -> Any:
        return network(tensors["input"])

    model = LoadedModel(module, forward, loss, InputSpec("own"), example, optimizer=lambda _: optimizer)
    return Made("train", model, bare_step, batch_size)


def distilbert(batch_size: int, device: str = "cpu") -> Made:
    """DistilBERT-base (6 layers, 768 wide, 66 M parameters) with random weights, inference at 128 tokens."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    module = DistilBertForSequenceClassification(DistilBertConfig()).eval().to(device)
    ids = torch.randint(0, 30000, (batch_size, 128))
    example = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def forward(network: Any, tensors: Any) -> Any:
        return network(**tensors).logits

    def bare_step(tensors: dict[str, Any]) -> None:
        with torch.inference_mode():
            module(**tensors)

    return Made("infer", LoadedModel(module, forward, None, InputSpec("own"), example), bare_step, batch_size)


WORKLOADS: dict[str, Callable[..., Made]] = {
    "train 2 ms": lambda device="cpu": cnn(4, 12, device),
    "train 20 ms": lambda device="cpu": cnn(36, 32, device),
    "distilbert b1": lambda device="cpu": distilbert(1, device),
}
