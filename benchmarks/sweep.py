"""What the tool itself costs in a long sweep of trivial trials, and whether its memory stays flat.

336 cases of a small network, one trial each, three steps a window: nearly all time is the tool's. Reported, a trial:

- wall minus measured: the whole command less what the trials measured of themselves (building the model, the first
  step, warm-up, windows, the pass for phases). What is left: imports, forks, telemetry, counting operations, records,
  checks, tables. The claim is about this one: at most 0.15 s.
- wall minus processes: the whole command less the time between asking for a trial and the end of its process.

Memory: resident bytes of the controller when trial 50 and trial 336 are reported.

    python benchmarks/sweep.py [--trials 336] [--json FILE]        exit 1 if a claim does not hold
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.storage.record_reader import read_record

MOST_S = 0.15
MOST_GROWTH_BYTES_A_TRIAL = 2**20 / 100
_SETTLED = 50  # trials after which every module is imported and every cache is warm
_FINISHED = re.compile(r"^trial \w+ finished \((\d+)/")
_OWN = ("model_load_time_s", "first_step_time_s", "step_time_s", "window_time_s", "anatomy_step_time_s")


def measured_s(trial: Trial) -> float:
    """Return what a trial measured of itself; the steps of a window are in its window_time_s."""
    return sum(
        sum(m.values) for m in trial.measurements
        if m.metric in _OWN and not (m.metric == "step_time_s" and m.stage == "steady")
    )  # fmt: skip


def swept(folder: Path, sizes: int, trials: int) -> tuple[float, dict[int, int]]:
    """Run the sweep; return its wall time, and the controller's memory after some trials."""
    axes = ["--axis", "batch_size=" + ",".join(str(n) for n in range(1, sizes + 1))]
    axes += ["--axis", "image_size=" + ",".join(str(n) for n in range(4, 4 + trials // sizes))]
    words = ["--model", "builtin:mlp", *axes, "--trials", "1", "--iterations", "3", "--warmup", "0"]
    rss_bytes: dict[int, int] = {}
    began_s = time.monotonic()
    with (folder / "stdout.txt").open("wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "torchstone", "run", *words, "--isolation", "fork", "--output-dir", str(folder)],
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if (found := _FINISHED.match(line)) and int(found[1]) % _SETTLED in (0, trials % _SETTLED):
                rss_bytes[int(found[1])] = _rss_bytes(process.pid)
        if process.wait() != 0:
            raise SystemExit("the sweep failed:\n" + "".join(said[-10:]))
    return time.monotonic() - began_s, rss_bytes


def _rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def the_record(folder: Path) -> Run:
    (path,) = (folder / "records").glob("*.jsonl")
    return read_record(path)


def main() -> int:
    """Sweep, print, keep the raw data; return 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=336, help="a multiple of 14 (default 336)")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "sweep.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        wall_s, rss_bytes = swept(Path(top), 14, options.trials)
        run = the_record(Path(top))
    count, ok = len(run.trials), sum(t.outcome.status == "ok" for t in run.trials)
    measured, processes = sum(map(measured_s, run.trials)), sum(t.duration_s for t in run.trials)
    tool_s = (wall_s - measured) / count
    found = {
        "date": time.strftime("%Y-%m-%d"), "trials": count, "ok": ok,
        "wall_s": wall_s, "measured_s": measured, "processes_s": processes,
        "wall_minus_measured_s_a_trial": tool_s,
        "wall_minus_processes_s_a_trial": (wall_s - processes) / count,
        "controller_rss_bytes": rss_bytes, "trial_s": [t.duration_s for t in run.trials],
    }  # fmt: skip
    options.json.write_text(json.dumps(found))
    first, last = min(rss_bytes), max(rss_bytes)
    growth = (rss_bytes[last] - rss_bytes[first]) / max(1, last - first)
    print(f"{count} trials ({ok} ok), wall {wall_s:.1f} s, measured {measured:.1f} s, processes {processes:.1f} s")
    print(f"wall minus measured   {tool_s * 1e3:6.1f} ms a trial (asked: at most {MOST_S * 1e3:.0f})")
    print(f"wall minus processes  {(wall_s - processes) / count * 1e3:6.1f} ms a trial")
    print(f"memory of the controller: {', '.join(f'{n}: {b / 2**20:.1f} MiB' for n, b in sorted(rss_bytes.items()))}")
    print(f"growth {growth * 100 / 2**20:.2f} MiB in 100 trials (asked: at most 1)")
    return 0 if tool_s <= MOST_S and growth <= MOST_GROWTH_BYTES_A_TRIAL else 1


if __name__ == "__main__":
    sys.exit(main())
