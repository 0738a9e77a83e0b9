"""A3: one product after another, timed by torchstone's stopwatch, by Triton's do_bench and by the host's clock."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from run_sheet.here import Here
from run_sheet.products import Bench, opened

_WANTED_S = {"10ms": 10e-3, "1ms": 1e-3, "20us": 20e-6}
_ROUND_S = 1.0
_ROUNDS = 3
_FEWEST, _MOST = 20, 20_000


def compare(here: Here) -> None:
    """Note for each length the seconds by each clock, and their ratios, medians over rounds that take turns."""
    bench, found = Bench(here), opened(here)
    here.note("reads", getattr(found.device.stopwatch(), "reads", None))
    for name, wanted_s in _WANTED_S.items():
        side = bench.side_for(wanted_s)
        product = bench.product(side)
        each_s = bench.steady_seconds(product, for_s=0.2, rounds=2)
        count = max(_FEWEST, min(_MOST, round((0.2 if here.quick else _ROUND_S) / each_s)))
        hosts, laps, totals = [], [], []
        for _ in range(_ROUNDS):
            hosts.append(bench.seconds(product, count))
            lap_s, total_s = by_torchstone(found.device, product, count)
            laps.append(lap_s)
            totals.append(total_s)
        here.note(f"side_{name}", side)
        here.note(f"host_{name}_s", median(hosts))
        here.note(f"laps_{name}_s", median(laps))
        here.note(f"laps_over_host_{name}", median(lap / host for lap, host in zip(laps, hosts, strict=True)))
        here.note(f"window_over_host_{name}", median(total / host for total, host in zip(totals, hosts, strict=True)))
        triton_s = by_do_bench(here, product)
        if triton_s is not None:
            here.note(f"do_bench_{name}_s", triton_s)
            here.note(f"laps_over_do_bench_{name}", median(laps) / triton_s)


def by_torchstone(device: Any, work: Callable[[], Any], count: int) -> tuple[float, float]:
    """Return the mean lap and the window over its steps, in seconds, of a window of torchstone's own loop."""
    from torchstone.core.schema.model import Batch
    from torchstone.execution.timing.clock import system_clock
    from torchstone.execution.timing.loop import Instrument
    from torchstone.execution.timing.stopping import FixedCount

    batch = Batch({}, 1)

    def step(pull: Any, _mark: Any) -> None:
        pull()
        work()

    instrument = Instrument(step, lambda: batch, device.synchronize, system_clock)
    window = instrument.window(device.stopwatch(), FixedCount(count))
    return sum(window.laps_s) / count, window.total_s / count


def by_do_bench(here: Here, work: Callable[[], Any]) -> float | None:
    """Return the median of Triton's do_bench in seconds; None without Triton, or on a device it has nothing for.

    It writes a buffer of the cache's size before each call: what is short enough to live in the cache reads slower.
    """
    if here.device not in ("cuda", "rocm", "xpu") or find_spec("triton") is None:
        return None
    found = import_module("triton.testing").do_bench(work, warmup=100, rep=300, return_mode="median")
    return 1e-3 * float(found)
