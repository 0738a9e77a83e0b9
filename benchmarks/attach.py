"""What `torchstone attach` costs the program that it looks at: windows with it and without it, in turns.

A convolutional net is trained with a thread on each core, the worst case: whatever looks at it takes a core away. The
order within each pair of windows is drawn. Said: how many times as long a step takes while it is looked at, with its
95 % interval over pairs, the CPU time of py-spy as a share of all cores, and what was left behind in the program.

    python benchmarks/attach.py [--pairs 10] [--seconds 30]    writes benchmarks/data/attach.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from pathlib import Path

from torchstone.core.stats.interval import over_trials
from torchstone.execution.program.attached import RATE_HZ, find, watch

DATA = Path(__file__).parent / "data/attach.json"
PROGRAM = """
import sys, time, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
x = torch.randn(8, 3, 32, 32); model(x)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with open(sys.argv[1], "w", buffering=1) as ends:
    while True:
        model(x).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
        print(time.monotonic(), file=ends)
"""


def main() -> None:
    """Take the pairs, one after another, and say what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ends = Path(folder) / "ends"
        program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(ends)])
        try:
            time.sleep(options.seconds)  # it imports torch, and warms up
            threads, dice = _threads(program.pid), random.Random(0)
            windows = [_pair(program.pid, options.seconds, dice.random() < 0.5) for _ in range(options.pairs)]
            left = {"threads_before": threads, "threads_after": _threads(program.pid), "alive": program.poll() is None}
        finally:
            program.kill()
            program.wait()
        moments = [float(line) for line in ends.read_text().splitlines()[:-1]]
    pairs = [_told(pair, moments) for pair in windows]
    if not all(pair["on_steps_per_s"] and pair["off_steps_per_s"] for pair in pairs):
        sys.exit("a window has no step: the machine is too busy to measure anything")
    ratio = over_trials([pair["off_steps_per_s"] / pair["on_steps_per_s"] for pair in pairs])
    share = sum(pair["cost_s"] for pair in pairs) / sum(pair["on_s"] for pair in pairs) / (os.cpu_count() or 1)
    found = {
        "rate_hz": RATE_HZ, "ratio": ratio.value, "low": ratio.low, "high": ratio.high, "cpu_share": share,
        "load_average": os.getloadavg(), "cores": os.cpu_count(), **left, "pairs": pairs,
    }  # fmt: skip
    DATA.write_text(json.dumps(found, indent=1) + "\n")
    print({name: value for name, value in found.items() if name != "pairs"})


def _pair(pid: int, seconds: float, first: bool) -> dict[str, tuple[float, float, float]]:
    """Return when the two windows began and ended, and the CPU time of py-spy in them."""
    found = {}
    for on in (first, not first):
        began_s, cost_s = time.monotonic(), 0.0
        if on:
            cost_s = watch(find(pid), seconds, time.monotonic, time.sleep).cost_s
        else:
            time.sleep(seconds)
        found["on" if on else "off"] = began_s, time.monotonic(), cost_s
    return found


def _told(pair: dict[str, tuple[float, float, float]], moments: list[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, (began_s, ended_s, cost_s) in pair.items():
        steps = bisect(moments, ended_s) - bisect(moments, began_s)
        found |= {f"{name}_s": ended_s - began_s, f"{name}_steps_per_s": steps / (ended_s - began_s)}
        found |= {"cost_s": cost_s} if name == "on" else {}
    return found


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


if __name__ == "__main__":
    main()
