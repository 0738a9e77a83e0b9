"""The guided search on surfaces whose top is known, with a clock that moves only as the products take."""

import math
import random
import statistics
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fakes import FakeClock

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.worker import peaks
from torchstone.execution.worker.peaks import MatmulShape, Products, ShapeSearch
from torchstone.plugins import registry

GIGA = 1e9


class Hill:
    """A device: rates fall off log-quadratically from one shape, with steps of tiles, and blocks may be disturbed."""

    def __init__(self, clock: FakeClock, top: tuple[int, int, int], noise: float = 0.0, seed: int = 0) -> None:
        self._clock, self._top, self._noise, self._dice = clock, top, noise, random.Random(seed)
        self.asked: list[MatmulShape] = []

    def true(self, shape: MatmulShape) -> float:
        away = sum(math.log2(size / best) ** 2 for size, best in zip(shape[:3], self._top, strict=True))
        tiles = math.prod(size / (64 * math.ceil(size / 64)) for size in shape[:3])
        return 200.0 * GIGA * math.exp(-0.05 * away) * tiles * (1.0 if shape.transposed else 0.9)

    def block(self, shape: MatmulShape) -> float:
        self.asked.append(shape)
        rate = self.true(shape) / (1.0 + abs(self._dice.gauss(0.0, self._noise)))
        self._clock.sleep(max(0.02, shape.flops / rate))
        return rate


def searched(top, noise=0.0, seed=0, budget_s=7.0, numbers=1 << 24, most_s=0.3):
    clock = FakeClock()
    hill = Hill(clock, top, noise, seed)
    return ShapeSearch(hill.block, numbers, most_s, clock).run(budget_s), hill, clock


@pytest.mark.parametrize("top", [(1024, 1024, 1024), (1536, 768, 3072), (4096, 512, 512), (320, 320, 320)])
def test_it_comes_within_2_percent_of_the_top_in_seven_seconds(top):
    found, hill, clock = searched(top)
    assert hill.true(found.shape) > 0.98 * hill.true(MatmulShape(*top))
    assert clock.now_s < 7.5
    assert found.rate == hill.true(found.shape)


def test_it_comes_near_where_blocks_are_disturbed():
    """A block takes up to half as long again, as beside a neighbour: the best of several blocks sees through most."""
    reached = []
    for seed in range(30):
        found, hill, _ = searched((1536, 768, 3072), noise=0.2, seed=seed)
        reached.append(hill.true(found.shape) / (200.0 * GIGA))
    assert statistics.median(reached) > 0.95
    assert min(reached) > 0.85


def test_no_matrix_is_larger_and_no_product_longer_than_allowed():
    found, hill, _ = searched((8192, 8192, 8192), numbers=1 << 22, most_s=0.1)
    assert max(shape.largest for shape in hill.asked) <= 1 << 22
    assert max(shape.flops / 200e9 for shape in hill.asked) <= 0.1
    assert found.shape.flops / 200e9 > 0.02, "yet it goes as far as it may"


def test_shapes_that_the_device_refuses_are_passed_over():
    clock = FakeClock()
    hill = Hill(clock, (1024, 1024, 1024))
    refusing = ShapeSearch(lambda s: 0.0 if s.transposed else hill.block(s), 1 << 24, 0.3, clock)
    found = refusing.run(3.0)
    assert not found.shape.transposed
    assert found.rate > 0.0


def test_a_device_too_small_for_any_seed_is_an_error():
    with pytest.raises(ValueError, match="no product"):
        searched((1024, 1024, 1024), numbers=100)


def test_warming_up_leaves_no_trace():
    clock = FakeClock()
    hill = Hill(clock, (1024, 1024, 1024))
    search = ShapeSearch(hill.block, 1 << 24, 0.3, clock)
    search.warm_up(1.0)
    warm = len(hill.asked)
    found = search.run(2.0)
    assert warm > 10
    assert found.blocks == len(hill.asked) - warm


class Events:
    """A stopwatch of device events: the device needs 3 ms a lap, whatever the host's clock says."""

    asynchronous = True

    def start(self):
        self._laps = 0

    def lap(self):
        self._laps += 1

    def hold(self, most_s, *, read):
        """It is never far behind."""

    def stop(self):
        return [0.003] * self._laps


class Accelerator:
    torch_device = torch.device("cpu")

    def __init__(self):
        self.synchronized = 0

    def stopwatch(self):
        return Events()

    def synchronize(self):
        self.synchronized += 1

    def preference(self, axis, configuration):
        return None


INFO = DeviceInfo(
    "cuda", "cuda", "NVIDIA", 1, "NVIDIA H200", memory_bytes=1 << 26, uuid="GPU-1", precisions=("fp32", "bf16")
)


@pytest.fixture
def accelerator(monkeypatch):
    vendor = SimpleNamespace(open=lambda index: Accelerator(), probe=lambda: [INFO])
    real = registry.load
    monkeypatch.setattr(registry, "load", lambda family, name: vendor if family == "devices" else real(family, name))
    monkeypatch.setattr(peaks, "_MOST_NUMBERS_ELSEWHERE", 1 << 16)
    monkeypatch.setattr(peaks, "_TRANSFER_BYTES", 1 << 16)
    monkeypatch.setattr(peaks, "_COPIES", 1)  # the arrays are as large as the cache of this machine wants them
    monkeypatch.setattr(
        "torchstone.execution.worker.peaks._MOST_IN_BLOCK", 50
    )  # these events take no longer for more of them
    monkeypatch.setattr(peaks, "_FILE_BYTES", 1 << 20)


def test_everything_is_measured_within_the_budget(accelerator, tmp_path):
    stages: list[str] = []
    began_s = time.perf_counter()
    rated = peaks.peaks_of(Placement("cuda", 1), 0.5, tmp_path, stages.append)
    assert time.perf_counter() - began_s < 40.0  # of measuring 2 s; the rest is a busy machine
    told = ["products in fp32", "products in bf16", "products in fp8", "products in int8"]
    assert stages == [*told, "memory", "transfers", "launch", "disk", "decoding"]
    names = [rate.name for rate in rated.rates]
    kept_up = ["matmul_fp32", "sustained_matmul_fp32", "matmul_bf16", "sustained_matmul_bf16"]
    assert names[:6] == [*kept_up, "matmul_fp8", "matmul_int8"], "what is kept up is asked of a case's formats"
    assert {"host_to_device_pinned", "device_to_host_pageable"} <= set(names)
    assert (rated.kind, rated.index, rated.device_name, rated.uuid) == ("cuda", 1, "NVIDIA H200", "GPU-1")
    assert rated.torch == str(torch.__version__)
    assert rated.value("matmul_fp32") is not None
    assert "the fastest of" in rated.rates[0].how


def test_the_devices_own_time_counts_and_not_the_hosts():
    device: Any = Accelerator()
    rate = Products(device, "fp32", 1 << 14).block(MatmulShape(64, 64, 64))
    count = 2  # products of 3 ms that fill 4 ms
    assert rate == pytest.approx(2.0 * 64**3 * count / 0.003)


def test_a_device_with_fewer_threads_worth_having_gets_those(accelerator, monkeypatch, tmp_path):
    set_to: list[int] = []
    monkeypatch.setattr(Accelerator, "preference", lambda self, axis, configuration: (1, "one a core"))
    monkeypatch.setattr(torch, "set_num_threads", set_to.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    peaks.peaks_of(Placement("cuda", 1), 0.1, tmp_path, lambda _: None)
    assert set_to == [1]


class Capped:
    """A stopwatch of a card whose power limit takes half of its clock after 10 ms of products of a millisecond."""

    asynchronous = True

    def __init__(self, clock):
        self._clock, self.products = clock, 0
        self.gaps_s: list[float] = []

    def start(self):
        self._laps_s, self._begun, self._worked_s = list[float](), self.products, 0.0

    def lap(self):
        lap_s = 0.0
        for _ in range(self.products - self._begun):
            lap_s += 0.001 if self._worked_s < 0.010 else 0.002
            self._worked_s += 0.001
        self._begun = self.products
        self._laps_s.append(lap_s)
        self._clock.sleep(lap_s)

    def hold(self, most_s, *, read):
        assert most_s <= 0.1

    def stop(self):
        return self._laps_s


def test_what_a_card_keeps_up_is_less_than_its_bursts(monkeypatch):
    clock = FakeClock()
    watch, device = Capped(clock), Accelerator()
    monkeypatch.setattr(Accelerator, "stopwatch", lambda self: watch)
    products = Products(device, "fp32", 1 << 14)  # type: ignore[arg-type]

    def multiply(a, b, shape):
        watch.products += 1

    products._multiply = multiply
    shape = MatmulShape(64, 64, 64)
    assert products.block(shape) == pytest.approx(shape.flops / 0.001)
    assert products.sustained(shape, 3.0, clock) == pytest.approx(shape.flops / 0.002)
    assert clock.now_s >= 3.0
