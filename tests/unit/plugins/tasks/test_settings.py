"""What the name of a number format leaves open is said beside it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchstone.plugins.tasks._settings import in_effect


@pytest.mark.parametrize(
    ("precision", "kind", "hip", "said"),
    [
        ("fp32", "cuda", None, "fp32: TF32 is off in products and in cuDNN's convolutions (torch's default has it on"),
        ("tf32", "cuda", None, "tf32: products and cuDNN's convolutions take fp32 numbers as TF32"),
        ("bf16", "cuda", None, "bf16: autocast; weights"),
        ("fp16", "xpu", None, "fp16: autocast; weights"),
        ("bf16", "cpu", None, "bf16: autocast; weights"),
        ("fp32", "cuda", "7.0", None),
        ("fp32", "cpu", None, None),
    ],
)
def test_how_a_precision_is_carried_out(monkeypatch, precision, kind, hip, said):
    monkeypatch.setattr(torch.version, "hip", hip)
    device: Any = SimpleNamespace(torch_device=torch.device(kind))
    told = in_effect({"precision": precision}, device)["precision_in_effect"]
    assert told is None if said is None else str(told).startswith(said)
