"""Cards by the names people type, and what the vendors' documents say of them."""

import pytest
from over import over

from torchstone.core import datasheet
from torchstone.core.cards import CARDS, card
from torchstone.core.errors import UsageError

# Issue 15, deliver 6. Memory in GB and power in W as the vendor prints them; None: printed nowhere for one device.
ASKED = {
    "rtx3090": (24, 350), "rtx4090": (24, 450), "rtx5090": (32, 575), "a10": (24, 150), "l4": (24, 72),
    "l40s": (48, 350), "t4": (16, 70), "v100": (16, 300), "v100-32gb": (32, 300), "a100-40gb": (40, 400),
    "a100-80gb": (80, 400), "h100-pcie": (80, 350), "h100-sxm": (80, 700), "h200": (141, 700), "b200": (180, 1000),
    "gb200": (186, 1200), "mi210": (64, 300), "mi250x": (64, None), "mi300x": (192, 750), "mi325x": (256, 1000),
    "mi355x": (288, 1400), "b580": (12, 190), "max1550": (64, None), "m1": (16, None), "m1-max": (64, None),
    "m1-ultra": (128, None), "m2": (24, None), "m2-max": (96, None), "m2-ultra": (192, None), "m3": (24, None),
    "m3-max": (128, None), "m3-ultra": (512, None), "m4": (32, None), "m4-max": (128, None),
}  # fmt: skip


@over("word", ASKED)
def test_every_card_asked_for_has_memory_power_bandwidth_and_a_source(word):
    found = card(word)
    assert (found.memory_gib, found.power_w) == ASKED[word]
    assert found.source, "without a document there is no figure"
    assert datasheet.bandwidth(found.device_name, found.memory_bytes) is not None


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("h100-80gb", "NVIDIA H100 SXM 80 GB"), ("H100 80GB", "NVIDIA H100 SXM 80 GB"),
        ("h100", "NVIDIA H100 SXM 80 GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM 80 GB"), ("h100_pcie", "NVIDIA H100 PCIe 80 GB"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"), ("geforce-rtx-4090", "NVIDIA GeForce RTX 4090"),
        ("4090", "NVIDIA GeForce RTX 4090"), ("rtx4090", "NVIDIA GeForce RTX 4090"),
        ("a100-40gb", "NVIDIA A100 SXM 40 GB"), ("A100", "NVIDIA A100 SXM 80 GB"), ("Tesla T4", "NVIDIA T4"),
        ("mi300x", "AMD MI300X"), ("AMD Instinct MI300X", "AMD MI300X"), ("Arc B580", "Intel Arc B580"),
        ("m3-max", "Apple M3 Max 128 GB"), ("M3 Max 64GB", "Apple M3 Max 64 GB"), ("Apple M1", "Apple M1 16 GB"),
        ("max 1550", "Intel Max 1550, one stack"),
    ],
)  # fmt: skip
def test_the_forms_that_people_type(typed, title):
    assert card(typed).title == title


def test_a_size_is_a_card_of_that_size():
    found = card("24 GB")
    assert (found.memory_bytes, found.kind, found.source) == (24 * 2**30, "cuda", None)


@pytest.mark.parametrize(
    ("typed", "near"), [("h100-90gb", "h100-80gb"), ("rtx4080ti", "rtx4080"), ("mi300y", "mi300x"), ("h1", "h100")]
)
def test_a_wrong_name_is_one_line_with_near_names(typed, near):
    with pytest.raises(UsageError) as fault:
        card(typed)
    assert near in str(fault.value)
    assert "\n" not in str(fault.value)
    assert typed in str(fault.value)


def test_what_is_near_to_nothing_gets_them_all():
    with pytest.raises(UsageError, match="'24' is no card: write a size with its unit, such as 24gb"):
        card("24")
    with pytest.raises(UsageError, match=r"Known: .*rtx4090"):
        card("abacus")


def test_no_name_stands_for_two_cards():
    names = [name for one in CARDS for name in one.names]
    assert len(names) == len(set(names))
    assert all(card(name) is one for one in CARDS for name in one.names)


def test_a_driver_would_tell_the_same():
    hopper, volta, amd, apple = (card(word).info() for word in ("h100", "v100", "mi300x", "m1-max"))
    assert (hopper.kind, hopper.compute_capability, hopper.precisions) == (
        "cuda",
        "9.0",
        ("fp32", "tf32", "bf16", "fp16"),
    )
    assert volta.precisions == ("fp32", "fp16")
    assert (amd.kind, amd.torch_kind, amd.precisions) == ("rocm", "cuda", ("fp32", "bf16", "fp16"))
    assert apple.precisions == ("fp32", "fp16")
