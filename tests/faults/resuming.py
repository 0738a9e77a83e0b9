"""Kills processes of a sweep at random, resumes it until it is done, and looks at what became of its trials.

benchmarks/resume.py does it a hundred times, tests/faults/test_resume.py a few.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from faults.killing import FINISHED, GONE_WITHIN_S, Marked

VICTIMS = ("controller", "trial", "template", "loader")
_PATIENCE_S = 120.0


class Kill(NamedTuple):
    """One SIGKILL: whom it hit, and how many trials had been reported by then in all. `hit` None: there was no such."""

    victim: str
    reported: int
    hit: int | None


class Survived(NamedTuple):
    """One sweep that was killed and resumed until it was done. `faults` is empty where all is as promised."""

    kills: list[Kill]
    starts: int
    reported: int
    ends: dict[str, int]
    gone_after_s: list[float]
    faults: list[str]


def victims(count: int, seed: int) -> list[str]:
    """Return whom to kill, one after the other: each kind in turn, in random order, a controller first."""
    dice = random.Random(seed)
    whom: list[str] = []
    while len(whom) < count:
        whom += dice.sample(VICTIMS, len(VICTIMS))
    return whom[:count]


class KilledSweep(Marked):
    """A sweep over batch sizes with and without a process that loads, twice each."""

    def __init__(self, folder: Path, sizes: int, seed: int = 0) -> None:
        super().__init__()
        self.folder = folder
        self.trials = 2 * 2 * sizes
        self._sizes = sizes
        self._dice = random.Random(seed)
        self._starts = 0
        self._said_last = folder
        self._gone_s: list[float] = []
        self._faults: list[str] = []

    def survive(self, whom: list[str]) -> Survived:
        """Kill each of `whom` while it runs, resume whenever the controller has gone, and look at the whole."""
        kills: list[Kill] = []
        waiting = list(whom)
        while True:
            process = self._started()
            try:
                while waiting and process.poll() is None:
                    kills.append(self._kill(process, waiting.pop(0)))
                    if kills[-1].victim == "controller":
                        break
                code = process.wait(_PATIENCE_S)
            finally:
                process.kill()
                process.wait()
            self._gone_s.append(self.gone_after_s())
            if self._gone_s[-1] > GONE_WITHIN_S:
                self._faults.append(f"left after {GONE_WITHIN_S:g} s: {self.names()}")
            self.end()
            said = self._said_last.read_text(errors="replace")
            if code == 0:
                break
            # Whoever kills what looks at the machine has begun nothing, and is told so.
            if code != -9 and not (code == 1 and "\nrun " not in "\n" + said):
                self._faults.append(f"exit {code}: {said.splitlines()[-1:]}")
                break
        reported = FINISHED.findall(self._said())
        return Survived(kills, self._starts, len(reported), self._ends(reported), self._gone_s, self._faults)

    def _started(self) -> subprocess.Popen[bytes]:
        axes = ["--axis", "batch_size=" + ",".join(map(str, range(1, self._sizes + 1))), "--axis", "num_workers=0,1"]
        words = ["run", "--model", "builtin:mlp", "--data", "digits", *axes, "--trials", "2", "--iterations", "5"]
        begun = any((self.folder / "out" / "records").glob("*.jsonl"))
        words = ["resume"] if begun else [*words, "--warmup", "0", "--isolation", "fork"]
        self._starts += 1
        self._said_last = self.folder / f"stderr_{self._starts:03}.txt"
        with self._said_last.open("wb") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "torchstone", *words, "--output-dir", str(self.folder / "out")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                env=self.environment() | {"TORCHSTONE_WHEN_BUSY": "share"},
            )  # fmt: skip

    def _said(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("stderr_*.txt")))

    def _kill(self, process: subprocess.Popen[bytes], victim: str) -> Kill:
        """Wait for a random moment and a process of that kind, and kill it."""
        before = len(FINISHED.findall(self._said()))
        wanted = before + self._dice.randint(0, 2)
        give_up_s = time.monotonic() + _PATIENCE_S
        while len(FINISHED.findall(self._said())) < wanted and process.poll() is None:
            time.sleep(0.005)
        time.sleep(self._dice.uniform(0.0, 0.05 if wanted > before else 1.5))
        while process.poll() is None and time.monotonic() < give_up_s:
            found = self._find(process.pid, victim)
            if found is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found, 9)
                    return Kill(victim, len(FINISHED.findall(self._said())), found)
            time.sleep(0.001)
        return Kill(victim, len(FINISHED.findall(self._said())), None)

    def _find(self, controller: int, victim: str) -> int | None:
        if victim == "controller":
            return controller
        generation = [controller]
        for _ in range(("template", "trial", "loader").index(victim) + 1):
            generation = [child for parent in generation for child in _children(parent)]
        return self._dice.choice(generation) if generation else None

    def _ends(self, reported: list[str]) -> dict[str, int]:
        """Return how many trials ended how; note what the record lacks or has twice. Its raw lines are looked at."""
        (path,) = (self.folder / "out" / "records").glob("*.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        trials = [line for line in lines if line["record"] == "trial"]
        twice = [key for key, n in Counter((t["case_id"], t["number"]) for t in trials).items() if n > 1]
        if twice:
            self._faults.append(f"taken twice: {twice}")
        if len(trials) != self.trials:
            self._faults.append(f"{len(trials)} trials of {self.trials}")
        if lost := set(reported) - {t["trial_id"] for t in trials}:
            self._faults.append(f"reported as finished and lost: {sorted(lost)}")
        if lines[-1].get("status") != "done":
            self._faults.append(f"the record ends with {str(lines[-1])[:80]}")
        return dict(Counter(t["outcome"]["status"] for t in trials))


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
