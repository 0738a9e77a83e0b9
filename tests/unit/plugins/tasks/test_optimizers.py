"""The loss scaler of fp16: on which device, and where torch's cannot work."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchstone.core.errors import Unsupported
from torchstone.plugins.tasks.train import optimizers


def scaler_on(place, *, fused, fp64=True, monkeypatch=None, **configuration):
    if monkeypatch is not None:
        properties = SimpleNamespace(has_fp64=fp64)
        monkeypatch.setattr(torch.xpu, "get_device_properties", lambda _: properties)
    device: Any = SimpleNamespace(torch_device=place)
    return optimizers.scaler({"precision": "fp16", **configuration}, device, fused=fused)


def test_other_formats_need_none():
    assert scaler_on("cpu", fused=False, precision="bf16") is None
    assert scaler_on("cpu", fused=False)._device == "cpu"
    assert scaler_on("mps:0", fused=False)._device == "mps"


@pytest.mark.parametrize(("fused", "clip", "fits"), [(True, 0.0, True), (True, 1.0, False), (False, 0.0, False)])
def test_a_device_without_fp64_takes_fp16_where_the_update_undoes_the_scale(monkeypatch, fused, clip, fits):
    how = {"fused": fused, "grad_clip": clip, "monkeypatch": monkeypatch}
    assert scaler_on("xpu:0", fp64=True, **how)._device == "xpu"
    if fits:
        assert scaler_on("xpu:0", fp64=False, **how)._device == "xpu"
        return
    with pytest.raises(Unsupported, match=r"^precision=fp16: .*fp64, which this device lacks; use precision=bf16"):
        scaler_on("xpu:0", fp64=False, **how)
