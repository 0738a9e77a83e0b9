"""Slices of cards, from recorded answers of NVML."""

from types import SimpleNamespace

import pytest

from torchstone.plugins.devices import cuda
from torchstone.plugins.devices._mig import slices_of
from torchstone.plugins.devices.cuda import Cuda, _uuid


class Absent(Exception):
    """What pynvml raises."""


def nvml(*, answers=True):
    """Two cards, the second divided into two slices (places 0 and 2)."""

    def start():
        if not answers:
            raise Absent

    def most(card):
        if card == 0:
            raise Absent  # not supported
        return 7

    def one(card, number):
        if number not in (0, 2):
            raise Absent  # not found
        return f"slice{number}"

    return SimpleNamespace(
        NVMLError=Absent, nvmlInit=start, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index, nvmlDeviceGetMaxMigDeviceCount=most,
        nvmlDeviceGetMigDeviceHandleByIndex=one, nvmlDeviceGetUUID=lambda handle: f"MIG-{handle}",
        nvmlDeviceGetName=lambda handle: "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    )  # fmt: skip


def test_every_slice_is_listed_with_its_card():
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb of card 1"
    assert Cuda(nvml=nvml()).slices() == {"MIG-slice0": name, "MIG-slice2": name}


def test_without_nvml_there_is_none():
    assert slices_of(nvml(answers=False)) == {}


class Props:
    uuid = "8a5f0c1e-0000"

    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("name", "uuid"), [("NVIDIA H200", "GPU-8a5f0c1e-0000"), ("NVIDIA A100 MIG 1g.5gb", "MIG-8a5f0c1e-0000")]
)
def test_a_slice_has_the_uuid_of_a_slice(name, uuid):
    assert _uuid(Props(name)) == uuid
    assert cuda.PLUGIN.describes
