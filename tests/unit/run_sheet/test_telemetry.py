import time
from itertools import accumulate
from types import SimpleNamespace

import pytest
from fake_steps import here
from run_sheet import telemetry
from run_sheet.products import Bench

MS = 1e-3


def ended(steps):
    return list(accumulate(steps))


def test_steps_that_are_even_from_the_first_have_settled_at_once():
    steps = [MS] * 3000
    assert telemetry.settled_after(steps, ended(steps), MS) == pytest.approx(MS)


def test_steps_have_settled_when_the_clock_has_risen():
    steps = [2 * MS] * 240 + [MS] * 2000  # 0.48 s at half the clock
    assert telemetry.settled_after(steps, ended(steps), MS) == pytest.approx(0.5)


def test_one_slow_step_unsettles_nothing():
    steps = [MS] * 500 + [9 * MS] + [MS] * 500
    assert telemetry.settled_after(steps, ended(steps), MS) == pytest.approx(MS)


def test_steps_that_stay_away_never_settle():
    steps = [MS * (1.0 + 0.03 * (n // 250 % 2)) for n in range(2000)]
    assert telemetry.settled_after(steps, ended(steps), MS) is None


def test_a_ramp_is_told_by_clock_and_by_steps():
    steps = [1.5 * MS] * 200 + [MS] * 5700  # 0.3 s, then 5.7 s
    readings = [(0.01 * n, 345e6 if n < 25 else 1980e6) for n in range(600)]
    step = here()
    telemetry.tell_ramp(step, readings, ended(steps))
    assert step.told["clock_busy_hz"] == 1980e6
    assert step.told["clock_risen_s"] == pytest.approx(0.25)
    assert step.told["step_settled_s"] == pytest.approx(0.25)
    assert step.told["step_us_by_quarter_second"].split()[:5] == ["1500", *["1000"] * 4]
    assert step.told["first_step_over_steady"] == pytest.approx(1.5)


class Counter:
    """An energy counter that ticks every 100 ms of a clock, at 700 W."""

    def __init__(self, clock):
        self._clock = clock

    def read(self):
        return 700.0 * (self._clock.now // 0.1) * 0.1


class FakeBench(Bench):
    """A device on a clock of its own: a product takes 1 ms."""

    def __init__(self):  # no device is opened
        self.now = 0.0

    def synchronize(self):
        pass

    def seconds(self, work, count):
        self.now += MS * count
        return MS


@pytest.mark.parametrize(("length_s", "most"), [(0.6, 0.2), (10.0, 0.011)])
def test_a_counter_that_ticks_is_good_to_a_tick_over_the_window(length_s, most):
    bench = FakeBench()
    counter = Counter(bench)
    found = []
    for _ in range(20):
        bench.now += 0.037  # windows begin anywhere between two ticks
        found.append(telemetry._joules_a_product(bench, lambda: None, counter, length_s, MS))
    assert max(abs(joules / 0.7 - 1.0) for joules in found) <= most


class Gauge:
    def __init__(self, read):
        self.read = read


class Napping:
    def __init__(self, _):
        pass

    def synchronize(self):
        pass

    def side_for(self, wanted_s):
        return 1

    def product(self, side):
        return lambda: time.sleep(MS)

    def steady_seconds(self, work):
        return MS

    def seconds(self, work, count):
        for _ in range(count):
            work()
        return MS


@pytest.fixture
def short(monkeypatch):
    """The same steps in a second, on a device whose product is a nap of 1 ms, with gauges of our own."""
    from torchstone.core.schema.machine import DeviceInfo

    began = time.perf_counter()
    there = {
        "device_energy_j": Gauge(lambda: 700.0 * ((time.perf_counter() - began) // 0.01) * 0.01),
        "device_clock_hz": Gauge(lambda: 1.98e9), "device_power_w": Gauge(lambda: None),
    }  # fmt: skip
    for name, value in (
        ("_WINDOWS", ((0.05, 2), (0.1, 2))), ("_CLOSED_S", 0.05), ("_READS", 3), ("_TICKS_S", 0.6), ("_IDLE_S", 0.05),
        ("_STEPS_S", 0.3), ("gauges", lambda *_: there),
        ("opened", lambda _: SimpleNamespace(info=DeviceInfo("cpu", "cpu", "Bead Inc.", 0, "B13"))), ("Bench", Napping),
    ):  # fmt: skip
        monkeypatch.setattr(telemetry, name, value)
    return here(device="cpu", torch_kind="cpu", on_cpu=True, quick=True)


def test_costs_ticks_windows_and_disturbance_are_told(short):
    telemetry.costs(short)
    told = short.told
    assert {"idle_all_s", "busy_all_s", "busy_longest_s", "busy_device_energy_j_s", "spread_0.05_s"} <= set(told)
    assert told["energy_ticks"] > 5
    assert told["energy_tick_s"] < 0.2  # 0.02 where nothing else is busy
    assert told["joules_a_product_0.1_s"] > 0.0
    assert 0.2 < told["mean_on_over_off"] < 5.0
    assert told["p99_on_over_off"] > 0.0


def test_a_ramp_is_logged_while_steps_run(short):
    telemetry.ramp(short)
    assert short.told["clock_busy_hz"] == short.told["clock_idle_hz"] == 1.98e9
    assert short.told["clock_risen_s"] < 0.2
    assert short.told["first_step_over_steady"] > 0.0
