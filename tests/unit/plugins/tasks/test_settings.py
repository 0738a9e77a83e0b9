"""What the name of a number format leaves open is said beside it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchstone.plugins.tasks._settings import in_effect


@pytest.mark.parametrize(
    ("precision", "kind", "hip", "said"),
    [
        ("fp32", "cuda", None, "tf32_off"),
        ("tf32", "cuda", None, "tf32_on"),
        ("bf16", "cuda", None, "autocast"),
        ("fp16", "xpu", None, "autocast"),
        ("bf16", "cpu", None, "autocast"),
        ("fp32", "cuda", "7.0", None),
        ("fp32", "cpu", None, None),
    ],
)
def test_how_a_precision_is_carried_out(monkeypatch, precision, kind, hip, said):
    monkeypatch.setattr(torch.version, "hip", hip)
    device: Any = SimpleNamespace(torch_device=torch.device(kind))
    assert in_effect({"precision": precision}, device).precision_in_effect == said
