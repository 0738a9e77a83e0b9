"""B3 and B4: what reading the driver costs, how often its energy counter ticks, how long the clocks take to rise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from run_sheet.here import Here, NotHere
from run_sheet.products import Bench, gauges, opened

_READS = 40
_WINDOWS = ((0.6, 8), (2.0, 5), (10.0, 2))  # seconds, how many
_CLOSED_S = 4.0
_TICKS_S = 3.0  # of looking at the counter every few milliseconds
_IDLE_S, _STEPS_S, _BIN_S = 30.0, 6.0, 0.25
_NEIGHBOUR = """
import sys, time
import torch
a = torch.ones(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    ends_s = time.perf_counter() + 2.0
    while time.perf_counter() < ends_s:
        a @ a
        torch.cuda.synchronize()
    print("done", flush=True)
"""
_READER = """
import sys, time
import msgspec
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
from torchstone.core.schema.machine import DeviceInfo
# Told of the device, as a controller is: one that asked torch would have a context of its own on it.
recorder = TelemetrySampler(int(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=DeviceInfo), 0.0, time.perf_counter)
print("ready", flush=True)
while True:
    recorder.read()
    time.sleep(0.5)
"""


def costs(here: Here) -> None:
    """B3. Note the cost of each gauge, the counter's tick, joules a product by windows of three lengths, and p99."""
    bench, found = Bench(here), opened(here)
    there = gauges(here, os.getpid(), found.info)
    product = bench.product(bench.side_for(1e-3))
    each_s = bench.steady_seconds(product)
    here.note("product_s", each_s)
    for when in ("idle", "busy"):
        spent = {}
        for metric, gauge in there.items():
            if when == "busy":
                _keep_busy(product, each_s, 0.5)
            spent[metric] = _costs_s(gauge, _READS)
            bench.synchronize()
        for metric, (middle_s, _) in spent.items():
            here.note(f"{when}_{metric}_s", middle_s)
        here.note(f"{when}_all_s", sum(middle_s for middle_s, _ in spent.values()))
        here.note(f"{when}_longest_s", max(longest_s for _, longest_s in spent.values()))
    if "device_energy_j" in there:
        _energy(here, bench, product, each_s, there["device_energy_j"])
    _disturbance(here, bench, product, found.info)
    if "device_working_processes" in there:
        _neighbours(here, lambda: bench.steady_seconds(product), found.info)


def _neighbours(here: Here, work: Callable[[], object], device: Any) -> None:
    """Note how many processes worked beside a trial that does nothing: this one, and one that it starts.

    The gauge is that of a third process: what a trial starts counts as the trial's own.
    """
    words = [sys.executable, "-c", _NEIGHBOUR]
    with (
        subprocess.Popen(["sleep", "60"]) as trial,
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        gauge = gauges(here, trial.pid, device)["device_working_processes"]
        if other.stdin is None or other.stdout is None or other.stdout.readline().strip() != "ready":
            raise RuntimeError("the process beside this one did not start")
        work()
        here.note("working_beside_own", gauge.read())
        time.sleep(2.0)  # the driver's samples lag
        gauge.read()
        time.sleep(2.0)
        here.note("working_beside_idle", gauge.read())
        other.stdin.write("go\n")
        other.stdin.flush()
        other.stdout.readline()
        here.note("working_beside_busy", gauge.read())
        other.stdin.close()
        trial.kill()


def _costs_s(gauge: Any, reads: int) -> tuple[float, float]:
    spent = []
    for _ in range(reads):
        began_s = time.perf_counter()
        gauge.read()
        spent.append(time.perf_counter() - began_s)
    return median(spent), max(spent)


def _keep_busy(product: Callable[[], Any], each_s: float, for_s: float) -> None:
    """Issue work for so long without waiting; a queue that is full makes the call itself wait, so it stays below."""
    for _ in range(min(900, round(for_s / each_s))):
        product()


def _energy(here: Here, bench: Bench, product: Callable[[], Any], each_s: float, counter: Any) -> None:
    seen: list[tuple[float, float]] = []
    ends_s = time.perf_counter() + _TICKS_S
    while time.perf_counter() < ends_s:
        _keep_busy(product, each_s, 0.02)
        seen.append((time.perf_counter(), float(counter.read() or 0.0)))
        time.sleep(0.005)
        bench.synchronize()
    ticks = [after for before, after in pairwise(seen) if after[1] != before[1]]
    here.note("energy_ticks", len(ticks))
    if len(ticks) > 2:
        here.note("energy_tick_s", median(after[0] - before[0] for before, after in pairwise(ticks)))
    for length_s, count in _WINDOWS:
        each_j = [_joules_a_product(bench, product, counter, length_s, each_s) for _ in range(count)]
        middle = fmean(each_j)
        here.note(f"joules_a_product_{length_s:g}_s", middle)
        here.note(f"spread_{length_s:g}_s", (max(each_j) - min(each_j)) / middle if middle > 0.0 else None)


def _joules_a_product(
    bench: Bench, product: Callable[[], Any], counter: Any, length_s: float, each_s: float
) -> float:  # fmt: skip
    """Return the counter's difference over a window a product, as whoever reads it at the window's ends has it."""
    count = max(1, round(length_s / each_s))
    bench.synchronize()
    before = float(counter.read() or 0.0)
    bench.seconds(product, count)
    return (float(counter.read() or 0.0) - before) / count


def _disturbance(here: Here, bench: Bench, product: Callable[[], Any], info: Any) -> None:
    """Note p99 and mean of a closed loop beside a process that reads every gauge twice a second, over those without."""
    import msgspec

    told = msgspec.json.encode(info).decode()
    words = [sys.executable, "-c", _READER, str(os.getpid()), told]
    laps: dict[str, list[float]] = {"off": [], "on": []}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        try:
            if reader.stdout is None or reader.stdout.readline().strip() != "ready":
                raise RuntimeError("the process that reads the gauges did not start")
            for _ in range(3):
                for name, what in (("off", signal.SIGSTOP), ("on", signal.SIGCONT)):
                    reader.send_signal(what)
                    laps[name] += _closed(bench, product, _CLOSED_S)
        finally:
            reader.send_signal(signal.SIGCONT)
            reader.kill()
    for word, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        here.note(f"{word}_on_over_off", _order(laps["on"], share) / _order(laps["off"], share))
    here.note("mean_on_over_off", fmean(laps["on"]) / fmean(laps["off"]))


def _closed(bench: Bench, product: Callable[[], Any], for_s: float) -> list[float]:
    laps = []
    ends_s = time.perf_counter() + for_s
    while (began_s := time.perf_counter()) < ends_s:
        product()
        bench.synchronize()
        laps.append(time.perf_counter() - began_s)
    return laps


def _order(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# ── B4 ──────────────────────────────────────────────────────────────────────────────────────────────────────


def ramp(here: Here) -> None:
    """B4. After half a minute of idling, note how long the clock and the steps take to reach where they stay."""
    bench, found = Bench(here), opened(here)
    clock = gauges(here, None, found.info).get("device_clock_hz")
    if clock is None:
        raise NotHere("the driver tells no clock")
    product = bench.product(bench.side_for(1e-3))
    bench.steady_seconds(product)
    time.sleep(_IDLE_S)
    here.note("clock_idle_hz", clock.read())
    readings: list[tuple[float, float]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            readings.append((time.perf_counter(), float(clock.read() or 0.0)))

    watcher = threading.Thread(target=look)
    began_s = time.perf_counter()
    watcher.start()
    ends = []
    try:
        while time.perf_counter() - began_s < _STEPS_S:
            product()
            bench.synchronize()
            ends.append(time.perf_counter() - began_s)
    finally:
        over.set()
        watcher.join()
    tell_ramp(here, [(at - began_s, hertz) for at, hertz in readings], ends)


def tell_ramp(here: Here, readings: Sequence[tuple[float, float]], ends_s: Sequence[float]) -> None:
    """Note when clock and step were first where they stayed. `ends_s`: when each step had ended, from the beginning."""
    last = [hertz for at, hertz in readings if at >= 2.0 / 3.0 * _STEPS_S]
    if last:
        busy = median(last)
        here.note("clock_busy_hz", busy)
        here.note("clock_risen_s", next((at for at, hertz in readings if hertz >= 0.98 * busy), None))
    steps = [after - before for before, after in pairwise([0.0, *ends_s])]
    steady = median(step for step, end in zip(steps, ends_s, strict=True) if end >= 2.0 / 3.0 * _STEPS_S)
    here.note("first_step_over_steady", steps[0] / steady)
    here.note("step_settled_s", settled_after(steps, ends_s, steady))
    here.note("step_us_by_quarter_second", " ".join(f"{1e6 * middle:.0f}" for _, middle in _bins(steps, ends_s)))


def settled_after(steps_s: Sequence[float], ends_s: Sequence[float], steady_s: float) -> float | None:
    """Return from when on the middle step of every quarter of a second is within 2 % of the steady one; None: never.

    A card at its power limit changes its clock all the time: nine steps of 1 ms on an H200 never kept within 2 %.
    """
    bins = _bins(steps_s, ends_s)
    away = [n for n, (_, middle_s) in enumerate(bins) if abs(middle_s / steady_s - 1.0) > 0.02]
    if not away:
        return ends_s[0]
    return bins[away[-1] + 1][0] if away[-1] + 1 < len(bins) else None


def _bins(steps_s: Sequence[float], ends_s: Sequence[float]) -> list[tuple[float, float]]:
    """Return of each quarter of a second its beginning and the median of the steps that end in it."""
    bins: dict[int, list[float]] = {}
    for step_s, end_s in zip(steps_s, ends_s, strict=True):
        bins.setdefault(int(end_s / _BIN_S), []).append(step_s)
    return [(number * _BIN_S, median(bins[number])) for number in sorted(bins)]
