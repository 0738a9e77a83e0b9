import platform
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

from torchstone.core.errors import Unsupported
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.execution import inspection
from torchstone.plugins import registry


def a_vendor(probe, missing, seen=tuple):
    return SimpleNamespace(probe=probe, missing=missing, seen=seen, slices=dict)


def test_here_the_cpu_is_found_and_every_absent_kind_has_a_reason():
    told = inspection.inspect()
    kinds = {device.kind for device in told.devices}
    assert "cpu" in kinds
    assert kinds | set(told.missing) == set(registry.names("devices"))
    assert not kinds & set(told.missing)
    assert told.software["python"] == platform.python_version()
    assert {"torch", "cuda", "rocm", "cudnn", "transformers", "numpy", "torchstone"} <= set(told.software)


def test_a_plugin_that_breaks_costs_only_itself(monkeypatch):
    def probe():
        raise RuntimeError("driver in a bad state")

    plugins = {
        "good": a_vendor(probe=lambda: (DeviceInfo("good", "cpu", "x", 0, "one"),), missing=lambda: "never asked"),
        "bad": a_vendor(probe=probe, missing=lambda: "never asked"),
        "none": a_vendor(probe=lambda: (), missing=lambda: "no such card"),
    }
    monkeypatch.setattr(registry, "names", lambda family: tuple(plugins))
    monkeypatch.setattr(registry, "load", lambda family, name: plugins[name])
    told = inspection.inspect()
    assert [device.kind for device in told.devices] == ["good"]
    assert told.missing["none"] == "no such card"
    assert "RuntimeError: driver in a bad state" in told.missing["bad"]


def test_without_torch_its_versions_are_missing(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(inspection, "import_module", refuse)
    monkeypatch.setattr(inspection, "version", lambda name: (_ for _ in ()).throw(PackageNotFoundError(name)))
    told = inspection.software()
    assert [told[name] for name in ("torch", "cuda", "rocm", "cudnn", "numpy")] == [None] * 5


@pytest.mark.parametrize(("number", "text"), [(91002, "9.10.2"), (8907, "8.9.7"), (None, None)])
def test_cudnn_writes_its_version_in_two_ways(number, text):
    assert inspection._cudnn(number) == text


def test_the_versions_that_a_build_of_torch_was_made_for(monkeypatch):
    monkeypatch.setattr("torch.version.cuda", "12.8")
    monkeypatch.setattr("torch.version.hip", "6.4.1")
    told = inspection.software()
    assert (told["cuda"], told["rocm"]) == ("12.8", "6.4.1")


def test_a_card_that_cannot_be_used_is_told_with_what_shows_it(monkeypatch):
    def refuse():
        raise Unsupported("torch 2.13.0 cannot start the device: driver too old")

    cards = lambda: ("NVIDIA H200 (by NVML)", "NVIDIA H200 (by NVML)", "an NVIDIA card at 0000:01:00.0 (no driver)")
    here = DeviceInfo("used", "cpu", "x", 0, "one")
    plugins = {
        "refused": a_vendor(probe=refuse, missing=lambda: "never asked", seen=cards),
        "broken": a_vendor(probe=lambda: 1 // 0, missing=lambda: "never asked", seen=lambda: ("a card",)),
        "absent": a_vendor(probe=lambda: (), missing=lambda: "no such card", seen=lambda: ()),
        "used": a_vendor(probe=lambda: (here,), missing=lambda: "never asked", seen=lambda: ("this one",)),
        "silent": a_vendor(probe=lambda: (), missing=lambda: "cannot tell"),
    }
    monkeypatch.setattr(registry, "names", lambda family: tuple(plugins))
    monkeypatch.setattr(registry, "load", lambda family, name: plugins[name])
    told = inspection.inspect()
    assert told.missing["refused"] == "torch 2.13.0 cannot start the device: driver too old"
    shown = "2 × NVIDIA H200 (by NVML), an NVIDIA card at 0000:01:00.0 (no driver)"
    assert told.seen == {"refused": shown, "broken": "a card"}
    assert told.unusable == (
        f"torch cannot use {shown}: torch 2.13.0 cannot start the device: driver too old; torch cannot use a card: "
        "looking for it failed (ZeroDivisionError: integer division or modulo by zero)"
    )
    assert Inspected((), {}, {}).unusable is None
