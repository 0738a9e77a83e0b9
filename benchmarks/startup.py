"""How soon torchstone is there: `--help`, `list`, `show` as whole processes, and one trial after another.

python benchmarks/startup.py [--runs 21] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torchstone.core.schema.message import Event, Live
from torchstone.core.schema.run import Slot
from torchstone.core.schema.trial import Trial
from torchstone.execution.controller.observer import Silent

COMMANDS = (["--help"], ["run", "--help"], ["list"], ["runs"], ["show"])


class Gaps(Silent):
    """A Watcher that notes when a trial is in the record, and when the next one is live."""

    def __init__(self) -> None:
        self.ended_s: float | None = None
        self.round = -1
        self.gaps_s: list[float] = []

    def starts(self, slot: Slot, order: int) -> None:
        """A new round has a new template: its first trial is another question."""
        if slot.number != self.round:
            self.round, self.ended_s = slot.number, None

    def heard(self, event: Event) -> None:
        """Note the gap."""
        if isinstance(event, Live) and self.ended_s is not None:
            self.gaps_s.append(time.perf_counter() - self.ended_s)
            self.ended_s = None

    def finished(self, trial: Trial) -> None:
        """Note the end."""
        self.ended_s = time.perf_counter()


def gaps_between_trials(folder: Path) -> list[float]:
    """Run 24 short trials of a small net and return the seconds from one's end to the next one's first event."""
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.procedure import Procedure
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.workflows.run.planned_run import Campaign

    work = WorkloadRequest("infer", "builtin:cnn", None, {}, {"batch_size": tuple(range(1, 13)), "image_size": (32,)})
    watcher = Gaps()
    Campaign(RunRequest((work,), procedure=Procedure(trials=2, iterations=5)), watcher).carry_out(folder, ["startup"])
    return watcher.gaps_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "startup.json")
    options = parser.parse_args()
    # With this set, nothing is cached and every start compiles every module again: not what a user has.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    torchstone = str(Path(sys.executable).parent / "torchstone")
    with tempfile.TemporaryDirectory() as folder:
        gaps_s = gaps_between_trials(Path(folder))
        environment["TORCHSTONE_OUTPUT"] = folder
        times_s: dict[str, list[float]] = {" ".join(words): [] for words in COMMANDS}
        for turn in range(options.runs + 1):
            for words in COMMANDS:
                begin = time.perf_counter()
                subprocess.run([torchstone, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
                if turn:  # the first turn fills the caches
                    times_s[" ".join(words)].append(time.perf_counter() - begin)
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "commands_s": times_s, "gaps_s": gaps_s}))
    for command, measured in times_s.items():
        print(f"torchstone {command:<12} {_shown(measured)}")
    print(f"next trial live         {_shown(gaps_s)}")


def _shown(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.3f} s  ({min(seconds):.3f} to {max(seconds):.3f}), n={len(seconds)}"


if __name__ == "__main__":
    main()
