"""The vendors' table: names as drivers print them, dense figures, and no figure where there is none."""

import itertools

import pytest

from torchstone.core import datasheet
from torchstone.core.datasheet import DatasheetPeak, bandwidth, dense_peak_flops

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")


@pytest.mark.parametrize(
    ("name", "precision", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4),
        ("NVIDIA H100 PCIe", "bf16", 756.5),
        ("NVIDIA H100 NVL", "bf16", 835.5),
        ("NVIDIA H200", "fp8", 1978.9),
        ("NVIDIA H200 NVL", "bf16", 835.5),
        ("NVIDIA GH200 480GB", "bf16", 989.4),
        ("NVIDIA B200", "bf16", 2250.0),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156.0),
        ("A100-PCIE-40GB", "fp16", 312.0),
        ("Tesla V100-SXM2-32GB", "fp16", 125.0),
        ("Tesla T4", "int8", 130.0),
        ("NVIDIA L4", "fp16", 121.0),
        ("NVIDIA GeForce RTX 4090", "bf16", 165.2),
        ("GeForce RTX 3090", "fp16", 71.2),
        ("NVIDIA GeForce RTX 4070", "fp32", 29.1),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "fp32", 44.1),
        ("NVIDIA GeForce RTX 5090", "fp8", 419.2),
        ("AMD Instinct MI300X", "bf16", 1307.4),
        ("AMD Instinct MI250X", "bf16", 191.5),
        ("AMD Radeon RX 7900 XTX", "fp16", 122.8),
        ("Intel(R) Data Center GPU Max 1100", "bf16", 355.5),
        ("Apple M2 Max", "fp32", 13.6),
    ],
)
def test_the_names_that_drivers_print_have_their_dense_figure(name: str, precision: str, tflops: float) -> None:
    peak = dense_peak_flops(name, precision)
    assert peak is not None
    assert peak.value == pytest.approx(tflops * 1e12)
    assert peak.source


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4070 Laptop GPU", "NVIDIA H100", "NVIDIA H1000",
        "AMD Instinct MI250X / MI250", "a processor", "", "Intel(R) Xeon(R)", "NVIDIA GeForce RTX 4090 D",
    ],
)  # fmt: skip
def test_a_name_that_is_not_wholly_known_has_no_figure(name: str) -> None:
    assert [dense_peak_flops(name, precision) for precision in PRECISIONS] == [None] * len(PRECISIONS)
    assert bandwidth(name) is None


def test_the_memory_decides_where_a_name_stands_for_several_cards() -> None:
    name = "Intel(R) Data Center GPU Max 1550"
    assert dense_peak_flops(name, "bf16") is None
    half, whole = dense_peak_flops(name, "bf16", 64 * 2**30), dense_peak_flops(name, "bf16", 128 * 2**30)
    assert half is not None
    assert whole is not None
    assert whole.value / half.value == pytest.approx(2.0, rel=1e-3)
    small = bandwidth("NVIDIA GeForce RTX 3080", 10 * 2**30)
    assert small is not None
    assert small.value == 760e9


def test_the_sparse_figure_stands_apart_and_is_never_of_fp32() -> None:
    peak = dense_peak_flops("NVIDIA H100 80GB HBM3", "bf16")
    assert peak == DatasheetPeak(989.4e12, peak.source if peak else "", 2 * 989.4e12)
    for name, precision in (("NVIDIA H100 80GB HBM3", "fp32"), ("Tesla V100-SXM2-16GB", "fp16")):
        without = dense_peak_flops(name, precision)
        assert without is not None
        assert without.sparse is None


def test_a_figure_that_was_not_published_is_missing() -> None:
    assert dense_peak_flops("Apple M4 Max", "fp32") is None
    of_memory = bandwidth("Apple M4 Max")
    assert of_memory is not None
    assert of_memory.value == 546e9
    assert dense_peak_flops("NVIDIA A100-SXM4-40GB", "fp8") is None
    assert dense_peak_flops("NVIDIA H200", "fp4") is None


def test_rows_are_sane() -> None:
    """Narrower formats are not slower, memory stays below 10 TB/s, rows of one name share no size of memory."""
    for row in datasheet._ROWS:
        rates = row.dense_t
        assert row.source
        assert set(rates) <= set(PRECISIONS)
        assert 50.0 < row.bandwidth_gb_s <= 10_000.0
        assert all(1.0 < rate < 10_000.0 for rate in rates.values())
        wide = [rates[p] for p in ("fp32", "tf32", "bf16", "fp8") if p in rates]
        assert wide == sorted(wide), row.name
    for row in datasheet._ROWS:
        same = [other for other in datasheet._ROWS if other.name == row.name]
        ends = sorted(other.gib for other in same)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends)), row.name
