"""Products, memory, transfers, launches, disk and decoding on this machine's CPU, briefly; and what is not there."""

import builtins
import os
import time
from types import SimpleNamespace

import pytest
import torch

from torchstone.core.errors import Unsupported
from torchstone.execution.worker import peaks
from torchstone.execution.worker.peaks import MatmulShape, Products, _fast_accumulation
from torchstone.plugins import registry

CLOCK = time.perf_counter


@pytest.fixture
def cpu():
    return registry.load("devices", "cpu").open(0)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "int8", "fp8"])
@pytest.mark.parametrize("transposed", [True, False])
def test_products_have_a_rate_in_every_format_that_torch_has(cpu, precision, transposed):
    try:
        products = Products(cpu, precision, 1 << 14)
    except Unsupported:
        assert precision in ("int8", "fp8"), "torch has had the others for long"
        return
    assert 1e6 < products.block(MatmulShape(64, 128, 96, transposed)) < 1e14


@pytest.mark.parametrize(
    ("kind", "words", "asked"),
    [
        ("cuda", ("scale_a", "use_fast_accum"), {"use_fast_accum": True}),
        ("cuda", ("scale_a",), {}),
        ("cpu", ("scale_a", "use_fast_accum"), {}),
    ],
)
def test_fp8_sums_fast_where_a_card_and_its_torch_can(kind, words, asked):
    schema = SimpleNamespace(arguments=[SimpleNamespace(name=word) for word in words])
    operator = SimpleNamespace(default=SimpleNamespace(_schema=schema))
    torch_of = SimpleNamespace(ops=SimpleNamespace(aten=SimpleNamespace(_scaled_mm=operator)))
    assert _fast_accumulation(torch_of, kind) == asked
    assert _fast_accumulation(torch, "cuda") == {"use_fast_accum": True}, "torch has had it since 2.1"


def test_numbers_are_normally_distributed(cpu):
    products = Products(cpu, "fp32", 1 << 14)
    assert abs(float(products._a.std()) - 1.0) < 0.1
    assert len(products._a.unique()) > 10_000, "predictable numbers run faster"


def test_a_format_without_products_says_so_and_a_shape_that_fails_has_no_rate(cpu, monkeypatch):
    products = Products(cpu, "fp32", 1 << 14)

    def fails(*_args, **_named):
        raise RuntimeError("not implemented for 'Half'\nand a trace")

    monkeypatch.setattr(torch, "mm", fails)
    assert products.block(MatmulShape(64, 64, 64)) == 0.0
    with pytest.raises(Unsupported, match=r"no fp32 matrix product here \(not implemented for 'Half'\)$"):
        Products(cpu, "fp32", 1 << 14)


def test_memory_is_timed_beyond_the_cache_or_says_that_it_is_not(cpu):
    copy, triad = peaks.memory_rates(cpu, 3 << 20, 0.02, CLOCK)
    assert (copy.name, triad.name, copy.unit) == ("memory_copy", "memory_triad", "bytes/s")
    assert min(copy.value or 0.0, triad.value or 0.0) > 1e5
    assert "caches help" in copy.how
    (large, _) = peaks.memory_rates(cpu, 3 * 4 * (peaks.last_cache_bytes(cpu) or 1 << 24), 0.01, CLOCK)
    assert "caches help" not in large.how


def test_the_last_cache_is_the_largest_that_the_system_names(cpu, tmp_path):
    for index, size in enumerate(("32K", "1024K", "32768K", "strange")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}/size").write_text(f"{size}\n")
    assert peaks.last_cache_bytes(cpu, tmp_path) == 32 << 20
    assert peaks.last_cache_bytes(cpu, tmp_path / "nothing") is None


def test_without_an_accelerator_there_is_no_pinned_memory(cpu, monkeypatch):
    monkeypatch.setattr(peaks, "_TRANSFER_BYTES", 1 << 16)
    rates = {rate.name: rate for rate in peaks.transfers(cpu, 0.02, CLOCK)}
    assert set(rates) == {
        f"{way}_{kind}" for way in ("host_to_device", "device_to_host") for kind in ("pinned", "pageable")
    }
    assert rates["host_to_device_pageable"].value
    if not torch.accelerator.is_available():
        assert rates["device_to_host_pinned"].value is None
        assert "no pinned memory" in rates["device_to_host_pinned"].how


def test_an_operator_takes_microseconds(cpu):
    rate = peaks.launch_interval(cpu, 0.02, CLOCK)
    assert rate.value is not None
    assert 1e-7 < rate.value < 1e-3


def test_a_file_is_read_and_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(peaks, "_FILE_BYTES", 4 << 20)
    rate = peaks.disk_rate(tmp_path, 1.0, CLOCK)
    assert rate.value is not None
    assert rate.value > 1e6
    assert "page cache" in rate.how
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_gets_a_smaller_file_and_not_more_time(tmp_path, monkeypatch):
    """Each chunk takes the disk 0.2 s: within half of a second three of them are written, not 64."""
    now_s = [0.0]

    def flush(_descriptor):
        now_s[0] += 0.2

    monkeypatch.setattr(os, "fsync", flush)
    rate = peaks.disk_rate(tmp_path, 1.0, lambda: now_s[0])
    assert rate.how.startswith("12.0 MiB")
    assert now_s[0] < 0.7


def test_a_system_that_cannot_forget_and_a_folder_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(peaks, "_FILE_BYTES", 4 << 20)
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert "cannot drop a file" in peaks.disk_rate(tmp_path, 1.0, CLOCK).how
    missing = peaks.disk_rate(tmp_path / "no", 1.0, CLOCK)
    assert missing.value is None
    assert "no file could be created" in missing.how


def test_pictures_are_decoded_and_without_pillow_it_says_what_to_install(monkeypatch):
    rate = peaks.decode_rate(0.02, CLOCK)
    assert rate.value is not None
    assert 10.0 < rate.value < 1e5
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert peaks.decode_rate(0.02, CLOCK).how == "Pillow is not installed: pip install 'torchstone[models]'"


class Launching:
    """A stopwatch of a device that a lap begins idle: 5 µs until the first copy runs, 95 µs a copy."""

    asynchronous = True

    def __init__(self):
        self.copies, self.laps = 0, list[int]()

    def start(self):
        self._begun = self.copies

    def lap(self):
        self.laps.append(self.copies - self._begun)

    def stop(self):
        return [5e-6 + 95e-6 * self.laps[-1]]


def test_on_a_device_that_runs_behind_copies_are_timed_ten_at_a_time(monkeypatch):
    watch = Launching()
    device = SimpleNamespace(torch_device=torch.device("cpu"), stopwatch=lambda: watch)

    def copy(*_args, **_named):
        watch.copies += 1

    seconds, passes = peaks._best(device, copy, 0.0, CLOCK, 10)
    assert seconds == pytest.approx(95.5e-6), "one at a time it would be 100"
    assert (watch.laps, passes) == ([10], 10)


def test_memory_and_pinned_copies_ask_for_ten_and_pageable_ones_and_a_cpu_for_one(cpu, monkeypatch):
    asked: dict[str, int] = {}

    def best(device, work, budget_s, clock, times=1):
        asked[f"{len(asked)}"] = times
        return 1.0, times

    monkeypatch.setattr(peaks, "_best", best)
    monkeypatch.setattr(peaks, "_TRANSFER_BYTES", 1 << 16)
    real = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, pin_memory=False, **how: real(*shape, **how))  # noqa: PLW0108
    list(peaks.memory_rates(cpu, 3 << 20, 0.02, CLOCK))
    list(peaks.transfers(cpu, 0.02, CLOCK))
    assert list(asked.values()) == [10, 10, 10, 10, 1, 1]


def test_on_a_cpu_a_lap_is_one_copy(cpu):
    done: list[int] = []
    _, passes = peaks._best(cpu, lambda: done.append(1), 0.0, CLOCK, 10)
    assert passes == 1
    assert len(done) == 2, "the first is not timed"


def test_a_driver_that_does_not_tell_its_free_memory(monkeypatch):
    def refuse(_device):
        raise RuntimeError("The device (Intel) doesn't support querying the available free memory.")

    device = SimpleNamespace(torch_device=SimpleNamespace(type="xpu"))
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(mem_get_info=refuse))
    assert peaks.room_bytes(device) is None
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(mem_get_info=lambda _: (3, 8)))
    assert peaks.room_bytes(device) == 3
