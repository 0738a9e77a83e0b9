"""Does a load's p99 agree with the latency mode, and is goodput within 5 % of a fine scan over rates?

Two claims, each on this machine, in trials of the real command line:

1. The p99 of SingleStream (MLPerf LoadGen asks) and that of the latency mode (our own closed loop) have overlapping
   95 % confidence intervals over trials.
2. The rate that `torchstone goodput` finds is within 5 % of what a fine scan finds: rates 2.5 % apart, from 0.85 to
   1.15 times that rate, each loaded several times; of the scan, the highest rate up to which no more than 1 % of all
   queries at any rate were late.

The model sleeps by default: its service time is then that of a clock, and the queue is M/D/1 whatever else the machine
does. `--model builtin:cnn` is a real one, which wants a quiet machine.

    python benchmarks/load.py [--model builtin:cnn] [--p99 50ms] [--within 3m] [--loads 4] [--seconds 6] [--json FILE]
                                                                                       exit 1 if a claim does not hold
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SLEEPER = """
import time, torch

class Sleeper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        time.sleep(0.005)
        return self.linear(x)

def load():
    return Sleeper(), torch.zeros(4, 4)
"""
AGREEMENT_TRIALS, STEPS, APART = 6, range(-6, 7), 0.05


def told(folder: Path, *words: str) -> dict[str, Any]:
    """Run torchstone; return its JSON."""
    command = [sys.executable, "-m", "torchstone", *words, "--json", "--quiet", "--output-dir", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def interval(case: dict[str, Any], figure: str) -> dict[str, float]:
    """Return value, low and high of a figure of a case."""
    return {name: case["estimates"][figure][name] for name in ("value", "low", "high")}


def agreement(folder: Path, model: str, seconds: float) -> dict[str, Any]:
    """Return the p99 of both closed loops with their intervals, and whether these overlap."""
    same = (
        "--axis",
        "threads=1",
        "--batch-sizes",
        "1",
        "--trials",
        str(AGREEMENT_TRIALS),
        "--budget",
        f"{seconds}s",
        "--no-phases",
    )
    # So long a window of the latency mode as that of LoadGen, which has no target of its own.
    loop = told(folder, "run", "--model", model, "--axis", "mode=latency", "--target", "0.01%", *same)
    load = told(folder, "run", "--model", model, "--task", "loadgen", *same)
    ours, theirs = (interval(loop["cases"][0], "latency_per_batch_p99_s"),
                    interval(load["cases"][0], "query_latency_p99_s"))  # fmt: skip
    results = [trial["facts"]["loadgen_result"] for trial in load["cases"][0]["trials"]]
    overlap = ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"]
    return {"latency_mode_p99_s": ours, "single_stream_p99_s": theirs, "loadgen": results, "holds": overlap}


def scan(folder: Path, model: str, bound: str, found: dict[str, Any], loads: int, seconds: float) -> dict[str, Any]:
    """Return what a fine scan over rates finds, beside what the search found."""
    rates = sorted({float(f"{found['rate'] * (1.0 + 0.025 * step):.3g}") for step in STEPS})
    axes = (
        "scenario=server",
        f"latency_bound_s={found['bound_s']}",
        f"target_qps={','.join(map(str, rates))}",
        "threads=1",
    )
    flags = ["--batch-sizes", "1", *(word for axis in axes for word in ("--axis", axis))]  # as goodput has it
    run = told(folder, "run", "--model", model, "--task", "loadgen", *flags, "--trials", str(loads),
               "--budget", f"{seconds}s", "--within", "1h")  # fmt: skip
    rows = []
    for case in sorted(run["cases"], key=lambda case: case["configuration"]["target_qps"]):
        facts = [trial["facts"] for trial in case["trials"] if trial["outcome"]["status"] == "ok"]
        late, queries = (sum(fact[name] for fact in facts) for name in ("loadgen_late", "loadgen_queries"))
        valid = sum(fact["loadgen_result"] == "VALID" for fact in facts)
        rows.append(
            {"rate": case["configuration"]["target_qps"], "late": late / queries, "valid": valid, "loads": len(facts)}
        )
    met = []
    for row in rows:
        if row["late"] > 0.01:
            break
        met.append(row["rate"])
    highest = max(met, default=None)
    # The scan knows the limit to its own step: between its highest rate that met the bound and the next.
    between = (
        None if highest is None else (highest, next((row["rate"] for row in rows if row["rate"] > highest), highest))
    )
    holds = between is not None and between[0] * (1.0 - APART) <= found["rate"] <= between[1] * (1.0 + APART)
    return {"bound": bound, "found": found["rate"], "low": found["low"], "high": found["high"], "scan": rows,
            "highest": highest, "holds": holds}  # fmt: skip


def main() -> int:
    """Measure, print, and say whether both claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--p99", default="40ms")
    parser.add_argument("--within", default="3m")
    parser.add_argument("--loads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torchstone_load_") as place:
        folder = Path(place)
        (folder / "sleeper.py").write_text(SLEEPER, encoding="utf-8")
        model = options.model or f"py:{folder / 'sleeper.py'}:load"
        closed = agreement(folder / "outputs", model, options.seconds)
        print(json.dumps(closed, indent=1))
        run = told(folder / "outputs", "goodput", "--model", model, "--p99", options.p99, "--axis", "threads=1",
                   "--within", options.within, "--budget", f"{options.seconds}s")  # fmt: skip
        (found,) = run["goodput"]
        if found["rate"] is None:
            print("goodput: not known")
            return 1
        scanned = scan(folder / "outputs", model, options.p99, found, options.loads, options.seconds)
        print(json.dumps(scanned, indent=1))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"model": options.model or "sleeps 5 ms", "agreement": closed, "goodput": scanned})
        )
    return 0 if closed["holds"] and scanned["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
