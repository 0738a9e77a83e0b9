"""A whole measuring on a fake accelerator: what is measured, in which order, on which budget."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fakes import FakeClock

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.worker.peaks import feeding, measuring, transfers
from torchstone.execution.worker.peaks.products import Products
from torchstone.execution.worker.peaks.shape_search import Shape
from torchstone.plugins import registry


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
    monkeypatch.setattr(measuring, "_MOST_NUMBERS_ELSEWHERE", 1 << 16)
    monkeypatch.setattr(transfers, "_TRANSFER_BYTES", 1 << 16)
    monkeypatch.setattr(transfers, "_COPIES", 1)  # the arrays are as large as the cache of this machine wants them
    monkeypatch.setattr(
        "torchstone.execution.worker.peaks.products._MOST_IN_BLOCK", 50
    )  # these events take no longer for more of them
    monkeypatch.setattr(feeding, "_FILE_BYTES", 1 << 20)


def test_everything_is_measured_within_the_budget(accelerator, tmp_path):
    stages: list[str] = []
    began_s = time.perf_counter()
    peaks = measuring.measure(Placement("cuda", 1), 0.5, tmp_path, stages.append)
    assert time.perf_counter() - began_s < 40.0  # of measuring 2 s; the rest is a busy machine
    told = ["products in fp32", "products in bf16", "products in fp8", "products in int8"]
    assert stages == [*told, "memory", "transfers", "launch", "disk", "decoding"]
    names = [rate.name for rate in peaks.rates]
    kept_up = ["matmul_fp32", "sustained_matmul_fp32", "matmul_bf16", "sustained_matmul_bf16"]
    assert names[:6] == [*kept_up, "matmul_fp8", "matmul_int8"], "what is kept up is asked of a case's formats"
    assert {"host_to_device_pinned", "device_to_host_pageable"} <= set(names)
    assert (peaks.kind, peaks.index, peaks.device_name, peaks.uuid) == ("cuda", 1, "NVIDIA H200", "GPU-1")
    assert peaks.torch == str(torch.__version__)
    assert peaks.value("matmul_fp32") is not None
    assert "the fastest of" in peaks.rates[0].how


def test_the_devices_own_time_counts_and_not_the_hosts():
    device: Any = Accelerator()
    rate = Products(device, "fp32", 1 << 14).block(Shape(64, 64, 64))
    count = 2  # products of 3 ms that fill 4 ms
    assert rate == pytest.approx(2.0 * 64**3 * count / 0.003)


def test_a_device_with_fewer_threads_worth_having_gets_those(accelerator, monkeypatch, tmp_path):
    set_to: list[int] = []
    monkeypatch.setattr(Accelerator, "preference", lambda self, axis, configuration: (1, "one a core"))
    monkeypatch.setattr(torch, "set_num_threads", set_to.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    measuring.measure(Placement("cuda", 1), 0.1, tmp_path, lambda _: None)
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
    shape = Shape(64, 64, 64)
    assert products.block(shape) == pytest.approx(shape.flops / 0.001)
    assert products.sustained(shape, 3.0, clock) == pytest.approx(shape.flops / 0.002)
    assert clock.now_s >= 3.0
