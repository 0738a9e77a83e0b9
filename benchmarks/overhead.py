"""What torchstone adds to a step: its own loop against a bare hand-written one, and telemetry on against off.

One process a workload; the same module, optimizer and resident batches on both sides; blocks of steps in random order
within each round (bare, torchstone, torchstone with telemetry read by another process). A round gives one ratio of
block medians (and one of block means). Two summaries of the rounds' ratios, each with its 95 % interval: their median
with its distribution-free interval (rounds that a neighbour hit do not move it), their geometric mean with Student's t.

    python benchmarks/overhead.py [--rounds 150] [--block-s 0.4] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_READER = """
import sys, time
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
recorder = TelemetrySampler(int(sys.argv[1]), None, 0.0, time.perf_counter)
while True:
    recorder.read()
    time.sleep(float(sys.argv[2]))
"""


def bare_block(step: Any, batches: list[Any], steps: int, synchronize: Any) -> list[float]:
    """The loop a careful person writes: a stamp before and after each step (synchronised where there is a device)."""
    laps = []
    source = itertools.cycle(batches)
    clock = time.perf_counter
    synchronize()
    for _ in range(steps):
        begin = clock()
        step(next(source))
        synchronize()
        laps.append(clock() - begin)
    return laps


def measure(name: str, rounds: int, block_s: float, device_word: str) -> dict[str, Any]:
    """Run the rounds of one workload and return its raw block medians and means."""
    from steps import WORKLOADS

    from torchstone.api.recording import device_in_words
    from torchstone.core.schema.axis import AXES
    from torchstone.core.schema.case import Case, Task, Workload
    from torchstone.execution.timing.clock import LatencyStopwatch, system_clock
    from torchstone.execution.timing.loop import Instrument
    from torchstone.execution.timing.stopping import FixedCount
    from torchstone.plugins import registry

    opened = device_in_words(device_word)
    device, placement = opened.device, opened.placement
    made = WORKLOADS[name](device.torch_device)
    engine = registry.load("engines", made.task)
    values = {axis: AXES[axis].default for axis in engine.axes} | {"batch_size": made.batch_size}
    case = Case(Workload(Task(made.task), f"bench:{name}", "example", "sample"), values, placement)
    prepared = engine.prepare(case, made.model, device)
    feed = engine.open_batches(case, made.model, None, device, 0)
    batches = [feed.next().tensors for _ in range(4)]
    instrument = Instrument(prepared.step, feed.next, device.synchronize, system_clock)
    on_gpu = device_word != "cpu"

    def tool_block(steps: int) -> list[float]:
        # On a device the bare loop synchronises after each step, so the closed loop is its equal.
        watch = LatencyStopwatch(device.synchronize, system_clock) if on_gpu else device.stopwatch()
        return list(instrument.window(watch, FixedCount(steps)).laps_s)

    for _ in range(3):
        usual_s = statistics.median(bare_block(made.bare_step, batches, 12, device.synchronize))
    steps = max(3, round(block_s / usual_s))
    reader = subprocess.Popen([sys.executable, "-c", _READER, str(os.getpid()), "0.5"])
    time.sleep(1.0)
    reader.send_signal(signal.SIGSTOP)
    raw: dict[str, list[list[float]]] = {"bare": [], "tool": [], "telemetry": []}
    dice = random.Random(0)
    try:
        for _ in range(rounds):
            for arm in dice.sample(list(raw), 3):
                if arm == "telemetry":
                    reader.send_signal(signal.SIGCONT)
                bare = arm == "bare"
                laps = bare_block(made.bare_step, batches, steps, device.synchronize) if bare else tool_block(steps)
                if arm == "telemetry":
                    reader.send_signal(signal.SIGSTOP)
                raw[arm].append([statistics.median(laps), statistics.fmean(laps)])
    finally:
        reader.kill()
        reader.wait()
    return {"workload": name, "steps_a_block": steps, "usual_step_s": usual_s, "blocks": raw}


def compare(result: dict[str, Any], over: str, under: str, column: int) -> dict[str, float]:
    """Return the paired ratio of two arms over the rounds, with its 95 % interval."""
    from torchstone.core.stats.interval import over_trials
    from torchstone.core.stats.quantile import bounds

    blocks = result["blocks"]
    ratios = [a[column] / b[column] for a, b in zip(blocks[over], blocks[under], strict=True)]
    interval, middle = over_trials(ratios), bounds(ratios, 0.5)
    low, high = interval.low or math.nan, interval.high or math.nan
    return {
        "median": statistics.median(ratios),
        "median_low": middle.low or math.nan,
        "median_high": middle.high or math.nan,
        "mean": interval.value,
        "mean_low": low,
        "mean_high": high,
    }


def main() -> None:
    """Measure every workload in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--block-s", type=float, default=0.4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help="one workload, in this process; its raw data on stdout")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "overhead.json")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.rounds, options.block_s, options.device)))
        return
    results = []
    for name in ("train 2 ms", "train 20 ms", "distilbert b1"):
        settings = ["--rounds", str(options.rounds), "--block-s", str(options.block_s), "--device", options.device]
        command = [sys.executable, __file__, "--only", name, *settings]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        results.append(json.loads(answer.stdout.strip().splitlines()[-1]))
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "results": results}))
    print(
        "ratios with 95 % intervals: torchstone over the bare loop; telemetry on over off, medians and means of blocks"
    )
    for result in results:
        arms = (("tool", "bare", 0), ("telemetry", "tool", 0), ("telemetry", "tool", 1))
        cells = [compare(result, *arm) for arm in arms]
        for kind in ("median", "mean"):
            shown = "   ".join(f"{c[kind]:.4f} [{c[kind + '_low']:.4f}, {c[kind + '_high']:.4f}]" for c in cells)
            print(f"{result['workload']:<14} {1000 * result['usual_step_s']:>6.1f} ms  {kind + ' ratio':<12} {shown}")


if __name__ == "__main__":
    main()
