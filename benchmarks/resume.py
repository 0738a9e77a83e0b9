"""Sweeps whose processes are killed at random, resumed until they are done: is a trial lost, or taken twice?

Killed with SIGKILL, in turn and at random moments: the controller, the process of a trial, the template that trials are
forked from, a process of a loader. After each sweep: every planned trial is in its record exactly once; every trial
that had been reported as finished is among them; what was killed was recorded as crashed; 2 s after the controller has
gone, no process of it is left. The driver is tests/faults/resuming.py, which the test suite uses, too.

    python benchmarks/resume.py [--kills 100] [--sizes 6] [--json FILE]        exit 1 if anything was wrong
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from faults.resuming import KilledSweep, Survived, victims

_KILLS_A_SWEEP = 7


def show(sweeps: list[Survived], trials: int) -> None:
    """Print what came of it."""
    kills = [kill for sweep in sweeps for kill in sweep.kills]
    ends: Counter[str] = Counter()
    for sweep in sweeps:
        ends.update(sweep.ends)
    hit = Counter(kill.victim for kill in kills if kill.hit is not None)
    print(f"{len(sweeps)} sweeps of {trials} trials, started {sum(sweep.starts for sweep in sweeps)} times")
    print(f"kills {hit.total()}: {', '.join(f'{victim} {count}' for victim, count in sorted(hit.items()))}")
    print(f"trials planned {len(sweeps) * trials}, in the records {ends.total()}: {dict(ends)}")
    print(f"reported as finished {sum(sweep.reported for sweep in sweeps)}")
    print(f"all processes gone after {max(s for sweep in sweeps for s in sweep.gone_after_s):.2f} s (worst)")
    print(f"sweeps in which something was wrong: {sum(bool(sweep.faults) for sweep in sweeps)}")
    for sweep in sweeps:
        for fault in sweep.faults:
            print(f"  {fault}")


def main() -> int:
    """Kill, resume, look, print; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--sizes", type=int, default=6, help="batch sizes; a sweep has 4 trials for each (default 6)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "resume.json")
    options = parser.parse_args()
    sweeps: list[Survived] = []
    done = 0
    while done < options.kills:
        seed = options.seed + len(sweeps)
        with tempfile.TemporaryDirectory() as folder:
            sweep = KilledSweep(Path(folder), options.sizes, seed)
            sweeps.append(sweep.survive(victims(min(_KILLS_A_SWEEP, options.kills - done), seed)))
        last = sweeps[-1]
        hit = sum(kill.hit is not None for kill in last.kills)
        done += hit
        said = "; ".join(last.faults) or "good"
        print(f"sweep {len(sweeps)}: {hit} kills, {last.starts} starts, {last.ends}: {said}", file=sys.stderr)
        if not hit:
            raise SystemExit("no process of the sweep was found: nothing is tested here")
    raw = [s._asdict() | {"kills": [kill._asdict() for kill in s.kills]} for s in sweeps]
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "trials": sweep.trials, "sweeps": raw}))
    show(sweeps, sweep.trials)
    return 1 if any(sweep.faults for sweep in sweeps) else 0


if __name__ == "__main__":
    sys.exit(main())
