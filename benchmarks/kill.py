"""What is left after `kill -9` of the controller at random moments: is a trial that was reported ever lost?

After each kill: every trial that had been reported as finished is in the record and readable; the record has at most
one trial more than was reported; no process of the run is left after 2 s; `torchstone show` prints what is there. The
driver is tests/faults/killing.py, which the test suite uses, too.

    python benchmarks/kill.py [--kills 50] [--cases 20] [--json FILE]        exit 1 if anything was wrong
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from faults.killing import KilledRun, Left, moments


def show(kills: list[Left], whole_s: float, trials: int) -> None:
    """Print what came of it."""
    wrong = [left for left in kills if left.faults]
    reported, recorded = sum(left.reported for left in kills), sum(left.recorded for left in kills)
    gone_s = [left.gone_after_s for left in kills]
    print(f"a whole run: {trials} trials, {whole_s:.1f} s")
    print(f"kills {len(kills)}, of them after the end {sum(left.ended_before for left in kills)}")
    print(f"before the first trial was reported {sum(left.reported == 0 for left in kills)}")
    print(f"trials reported {reported}, in the records {recorded}; torn last lines {sum(left.torn for left in kills)}")
    print(f"all processes gone after {statistics.median(gone_s):.2f} s (median), {max(gone_s):.2f} s (worst)")
    print(f"kills after which something was wrong: {len(wrong)}")
    for left in wrong:
        print(f"  {left.lived_s:.2f} s after the start, {left.reported} reported: {'; '.join(left.faults)}")


def main() -> int:
    """Kill, look, print; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cases", type=int, default=20, help="cases of the run, each tried twice (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "kill.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:

        def run(name: str) -> KilledRun:
            folder = Path(top) / name
            folder.mkdir()
            return KilledRun(folder, options.cases)

        whole = run("whole")
        whole_s = whole.whole()
        kills = []
        for number, moment in enumerate(moments(options.kills, whole.trials, whole_s, options.seed)):
            left = run(str(number)).killed(moment)
            kills.append(left)
            said = "; ".join(left.faults) or "good"
            print(f"{number + 1:>3} at {left.lived_s:6.2f} s, {left.reported:>2} reported: {said}", file=sys.stderr)
    found = {"date": time.strftime("%Y-%m-%d"), "whole_s": whole_s, "trials": whole.trials}
    options.json.write_text(json.dumps(found | {"kills": [left._asdict() for left in kills]}))
    show(kills, whole_s, whole.trials)
    return 1 if any(left.faults for left in kills) else 0


if __name__ == "__main__":
    sys.exit(main())
