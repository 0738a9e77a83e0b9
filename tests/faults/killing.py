"""Kills the controller of a run with SIGKILL and looks at what is left: the record, the processes, `torchstone show`.

benchmarks/kill.py does it fifty times, tests/faults/test_kill.py a few.
"""

import contextlib
import os
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from torchstone.core.errors import UsageError
from torchstone.storage.record_reader import read_record

GONE_WITHIN_S = 2.0
EARLIEST_S = 0.5
_SLOWEST_S = 300.0
_MARK = "TORCHSTONE_KILLED_RUN"  # inherited by every process of the run, so that none is missed and none mistaken
FINISHED = re.compile(r"^trial (\w+) finished \(\d+/\d+\)", re.MULTILINE)


class Moment(NamedTuple):
    """When to kill: `after_s` seconds after this many trials were reported as finished (0: after the start)."""

    trials: int
    after_s: float


class Left(NamedTuple):
    """What one killed run left. `faults` is empty where all is as promised."""

    moment: Moment
    lived_s: float
    ended_before: bool
    reported: int
    recorded: int
    torn: bool
    gone_after_s: float
    faults: list[str]


def moments(count: int, trials: int, whole_s: float, seed: int = 0) -> list[Moment]:
    """Return random moments: in turn anywhere in the time of a whole run, and in the middle of its trials.

    Most of a run's time goes into imports; half of the kills shall fall where records are written.
    """
    dice = random.Random(seed)
    anywhere = [Moment(0, dice.uniform(EARLIEST_S, whole_s)) for _ in range(count)]
    among = [Moment(dice.randint(1, trials - 1), dice.uniform(0.0, 0.3)) for _ in range(count)]
    return [(anywhere, among)[i % 2][i] for i in range(count)]


class Marked:
    """The processes of one run, found by a mark in their environment: none is missed and none mistaken."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex

    def environment(self) -> dict[str, str]:
        return os.environ | {_MARK: self._mark}

    def living(self) -> list[int]:
        """Return the processes of this run that are alive, zombies left out."""
        mark = f"{_MARK}={self._mark}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's; a zombie's is empty
                if mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def gone_after_s(self) -> float:
        """Wait until all have ended, GONE_WITHIN_S at most, and return how long that took."""
        began_s = time.monotonic()
        while self.living() and time.monotonic() - began_s <= GONE_WITHIN_S:
            time.sleep(0.01)
        return time.monotonic() - began_s

    def names(self) -> list[str]:
        names = []
        for pid in self.living():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
                names.append(f"{pid} (of {parent}) {b' '.join(words[1:]).decode(errors='replace').strip()}")
        return names

    def end(self) -> None:
        """Kill what is left: it shall not disturb the next one."""
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


class KilledRun(Marked):
    """A run of `cases` cases of a small net, twice each, so that a template is renewed half-way."""

    def __init__(self, folder: Path, cases: int) -> None:
        super().__init__()
        self.folder = folder
        self.trials = 2 * cases
        self._cases = cases
        self._said = folder / "stderr.txt"

    def whole(self) -> float:
        """Let it run to its end and return its seconds. Raises AssertionError if not all went well."""
        with self._started() as process:
            began_s = time.monotonic()
            assert process.wait(_SLOWEST_S) == 0, self._said.read_text()
            whole_s = time.monotonic() - began_s
        assert len(self._reported()) == self.trials
        assert not self.living()
        return whole_s

    def killed(self, moment: Moment) -> Left:
        """Kill the controller at that moment and look at what is left."""
        with self._started() as process:
            began_s = time.monotonic()
            self._await(process, moment.trials)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment.after_s)
            ended_before = process.poll() is not None
            process.kill()
            lived_s = time.monotonic() - began_s
            process.wait()
        gone_after_s = self.gone_after_s()
        faults = [] if gone_after_s <= GONE_WITHIN_S else [f"processes left after {GONE_WITHIN_S:g} s: {self.names()}"]
        reported = self._reported()
        recorded, torn = self._look_at_record(reported, faults)
        self.end()
        return Left(moment, lived_s, ended_before, len(reported), recorded, torn, gone_after_s, faults)

    @contextlib.contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        axis = "batch_size=" + ",".join(str(n) for n in range(1, self._cases + 1))
        words = ["--model", "builtin:mlp", "--axis", axis, "--trials", "2", "--iterations", "3", "--warmup", "0"]
        where = ["--isolation", "fork", "--output-dir", str(self.folder)]
        with self._said.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "torchstone", "run", *words, *where],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                env=self.environment(),
            )  # fmt: skip
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _await(self, process: subprocess.Popen[bytes], trials: int) -> None:
        give_up_s = time.monotonic() + _SLOWEST_S
        while len(self._reported()) < trials and process.poll() is None and time.monotonic() < give_up_s:
            time.sleep(0.005)

    def _reported(self) -> list[str]:
        """Return the trials that were reported as finished: by then each must be safe."""
        return FINISHED.findall(self._said.read_text(errors="replace"))

    def _look_at_record(self, reported: list[str], faults: list[str]) -> tuple[int, bool]:
        """Add what is wrong with the record; return how many trials it holds and whether its last line is torn."""
        begun = "\nrun " in "\n" + self._said.read_text(errors="replace")
        paths = list((self.folder / "records").glob("*.jsonl"))
        if not paths:
            if begun or reported:
                faults.append("a run was reported, and there is no record")
            return 0, False
        (path,) = paths
        data = path.read_bytes()
        torn = bool(data) and not data.endswith(b"\n")
        try:
            recorded = [trial.trial_id for trial in read_record(path).trials]
        except UsageError as fault:
            if begun or reported:
                faults.append(f"unreadable: {fault}")
            return 0, torn
        if lost := sorted(set(reported) - set(recorded)):
            faults.append(f"reported as finished and lost: {', '.join(lost)}")
        if len(recorded) > len(reported) + 1:
            faults.append(f"{len(recorded)} trials in the record, {len(reported)} reported")
        for word in (str(path), "latest"):
            command = [sys.executable, "-m", "torchstone", "show", word, "--output-dir", str(self.folder)]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            if answer.returncode != 0:
                faults.append(f"show {word}: exit {answer.returncode}: {answer.stderr.strip()[-300:]}")
        return len(recorded), torn
