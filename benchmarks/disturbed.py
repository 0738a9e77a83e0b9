"""What a person gets on a busy machine: one line, typed beside planted disturbances, against the quiet truth.

The truth is measured in turns with the run, a trial each: a second run of the same line, the reference, with nothing
beside it. While one has its turn the other is frozen, with what is planted beside it, by a control group (Linux, root),
and the clock of the run stands still. So a machine whose speed changes from minute to minute changes it for both. The
truth is the geometric mean of the reference's trials; a claim whose truth has a standard error above 3.5 % is not
judged. A run *claims* a figure where its case is VALID; else it says that the machine was busy.

    good         the figure lies within 5 % of the truth, be that not known better, or none is claimed
    off          mean and standard deviation of the claimed figures' differences from the truth, and in brackets the
                 truth's own standard error
    ±10 %        within 60 (90) seconds of its own there is a VALID interval of at most ±10 %
    covered      of the claimed intervals those that hold the truth, give or take twice its standard error

    python benchmarks/disturbed.py [--runs 20] [--minutes M] [--only WORD …]    adds to benchmarks/data/disturbed.json
    python benchmarks/disturbed.py --peers [--runs 3] …                         what other tools say there
    python benchmarks/disturbed.py --show                                       its tables

It goes on where it was ended: the cell with the fewest runs is measured next; cells in which others take half of the
time or more get a third of the runs, as no figure is claimed there. Nothing else may run beside it.

Peers time DistilBERT's inference for about as long as a run takes, each in turns with itself beside nothing: the mean
and the median of a bare loop (6 processes of 5 s), pyperf (6 processes: its mean, claimed unless `pyperf check` warns)
and hyperfine (10 processes of 10 steps each: its mean, claimed unless it warns of outliers). Their ± is a standard
deviation. pyperf is taken from `make bench-defaults`, hyperfine from PATH.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from defaults import of_pyperf, with_pyperf

from torchstone.core.estimates import estimates, priors_of
from torchstone.core.figures import figures
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import ended_well, estimation_trials, is_of_busy_machine
from torchstone.storage.record_reader import read_record

DATA = Path(__file__).resolve().parent / "data" / "disturbed.json"
QUIET = "none"
_TURN_S = 20.0  # the longest turn of a side
_LIVED_S = 0.4  # a process that lived for so long was a trial
_REPORTED_S = 0.03  # until what a process had to say is read; the next one is hardly started then
_KNOWN = 0.035  # a truth is known where its standard error is less
_PEER_ERROR = 0.01  # what a peer's one quiet figure, of as long as its run, is taken to be worth
_LONGEST_S = 600.0  # of one run
Row = dict[str, Any]

WORKLOADS: Mapping[str, tuple[str, ...]] = {
    "cnn training, b16": ("--task", "train", "--model", "builtin:cnn", "--axis", "batch_size=16"),
    "DistilBERT inference, b1": (
        "--task", "infer", "--model", "hf:distilbert-base-uncased", "--axis", "batch_size=1",
        "--axis", "sequence_length=128",
    ),
    "GPT-2 (tiny) training, b8": (
        "--task", "train", "--model", "gpt2-tiny", "--axis", "batch_size=8", "--axis", "sequence_length=64",
    ),
}  # fmt: skip

SPIN = """
import os, random, sys, time
on, off, parent = float(sys.argv[1]), float(sys.argv[2]), os.getppid()
skipped = random.uniform(0.0, on + off)  # the command may begin anywhere in the period
time.sleep(max(0.0, skipped - on))
until = time.monotonic() + (on if skipped >= on else on - skipped)
while os.getppid() == parent:
    while time.monotonic() < until: pass
    time.sleep(off * random.uniform(0.5, 1.5))
    until = time.monotonic() + on
"""
MEMORY = """
import os, numpy
a, b, parent = numpy.zeros(32 << 20), numpy.zeros(32 << 20), os.getppid()
while os.getppid() == parent: numpy.copyto(a, b)
"""
WRITES = """
import os, sys
block, parent = os.urandom(1 << 20), os.getppid()
while os.getppid() == parent:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64): file.write(block)
        os.fsync(file.fileno())
"""
SOURCE = "int f{0}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * x % {0}3; return s; }}\n"


ENDLESS = ("--within", "2h", "--target", "0.01%")  # with windows as short as the run's own

# The time limit of a run counts while it runs: its clock stands still while it is frozen.
PACED = """
import sys, time
from msgspec.structs import replace
from torchstone.cli import main
from torchstone.execution.controller.active_run import ActiveRun
frozen_s = sys.argv.pop(1)
before_s, record = 0.0, ActiveRun._record
def clock(): return time.perf_counter() - float(open(frozen_s).read() or 0.0)
def keep(self, case, trial, purpose):  # a trial that was frozen while it started took as long less
    global before_s
    now_s = float(open(frozen_s).read() or 0.0)
    trial = replace(trial, duration_s=max(0.1, trial.duration_s - now_s + before_s))
    before_s = now_s
    return record(self, case, trial, purpose)
ActiveRun._record = keep
ActiveRun.__init__.__defaults__ = ((), clock, None)
sys.exit(main())
"""


class Side:
    """A command and what is planted beside it, in two control groups that can be frozen."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.groups = [Path("/sys/fs/cgroup/freezer") / f"disturbed_{os.getpid()}_{name}_{n}" for n in range(2)]
        for group in self.groups:
            group.mkdir()
        self.planted: list[subprocess.Popen[bytes]] = []

    def start(self, words: Sequence[str], more: Mapping[str, str]) -> None:
        """Start the command. Its locks are its own, so that nothing is known of the other side."""
        # Without its cache of compiled modules every start would compile them all again: not what a user has.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | dict(more)
        environment["TMPDIR"] = str(self.folder)
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            self.command = self._popen(0, words, cwd=self.folder, env=environment, stdout=out, stderr=err)

    def plant(self, words: Sequence[str], cwd: str | None = None) -> None:
        """Start a process beside the command."""
        self.planted.append(self._popen(1, words, cwd=cwd))

    def _popen(self, number: int, words: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        inside = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.groups[number] / "cgroup.procs"), *words]
        return subprocess.Popen(inside, **how)

    def freeze(self, state: str = "FROZEN") -> None:
        """Stop all processes of both groups at once, or with "THAWED" let them go on; wait until that is so."""
        for group in self.groups:
            (group / "freezer.state").write_text(state)
        while any((group / "freezer.state").read_text().strip() != state for group in self.groups):
            time.sleep(0.001)

    def processes(self) -> set[str]:
        """Return the identifiers of the command and all below it."""
        return set((self.groups[0] / "cgroup.procs").read_text().split())

    def end_turn(self, limit_s: float = _TURN_S) -> None:
        """Return when a process below the command that lived for a while has ended: a trial, or so; freeze the side.

        Returns without freezing where the command has ended. A turn of `limit_s` is over, too.
        """
        first_seen: dict[str, float] = {}
        until_s = time.monotonic() + limit_s
        while self.command.poll() is None and (now_s := time.monotonic()) < until_s:
            running = self.processes()
            if any(now_s - seen_s > _LIVED_S for process, seen_s in first_seen.items() if process not in running):
                time.sleep(_REPORTED_S)
                break
            first_seen = {process: first_seen.get(process, now_s) for process in running}
            time.sleep(0.01)
        if self.command.poll() is None:
            self.freeze()

    def close(self) -> None:
        """Kill what is left of the side."""
        self.freeze("THAWED")
        deadline_s = time.monotonic() + 10.0
        while (left := [p for g in self.groups for p in (g / "cgroup.procs").read_text().split()]) or self._unwaited():
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            if time.monotonic() > deadline_s:
                raise SystemExit(f"processes {left} do not end")
            time.sleep(0.05)
        for group in self.groups:
            group.rmdir()

    def _unwaited(self) -> bool:
        return any(process.poll() is None for process in (self.command, *self.planted))


class Disturbance(NamedTuple):
    """What disturbs a side whose command runs; the share of the time that it takes."""

    during: Callable[[Side], contextlib.AbstractContextManager[None]]
    share: float


def beside(code: str, *words: str) -> Callable[[Side], contextlib.AbstractContextManager[None]]:
    """Return what runs a Python program beside the command. It ends with this process, however that ends."""

    @contextlib.contextmanager
    def during(side: Side) -> Iterator[None]:
        side.plant([sys.executable, "-c", code, *words])
        yield

    return during


@contextlib.contextmanager
def compiling(side: Side) -> Iterator[None]:
    """Have `make -j2` build 40 small files again and again."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"f{number}" for number in range(40)]
        for number, name in enumerate(names, 1):
            (Path(folder) / f"{name}.c").write_text("".join(SOURCE.format(100 * number + n) for n in range(60)))
        rule = "%.o: %.c\n\tcc -O2 -c $< -o $@\n"
        (Path(folder) / "Makefile").write_text(f"all: {' '.join(f'{name}.o' for name in names)}\n{rule}")
        side.plant(["sh", "-c", "while [ -e Makefile ]; do make -s -j2 all; rm -f *.o; done"], cwd=folder)
        yield


@contextlib.contextmanager
def writing(side: Side) -> Iterator[None]:
    """Write 64 MiB to a file and wait until it is on the disk, again and again."""
    side.plant([sys.executable, "-c", WRITES, str(side.folder / "data")])
    yield


@contextlib.contextmanager
def quota(side: Side) -> Iterator[None]:
    """Give the command and all that it starts 80 % of the CPU."""
    group = Path("/sys/fs/cgroup/cpu") / f"disturbed_{os.getpid()}"
    cores = os.cpu_count() or 1
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(int(0.8 * cores * 100_000)))
        (group / "cgroup.procs").write_text(str(side.command.pid))
        yield
    finally:
        side.command.wait()
        deadline = time.monotonic() + 10.0
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()


@contextlib.contextmanager
def stopping(side: Side) -> Iterator[None]:
    """Stop what computes for 0.3 s, about every 5 s: the newest process of the command."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(random.uniform(2.5, 7.5)):
            newest = max(map(int, side.processes()), default=side.command.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(newest, signal.SIGSTOP)
                time.sleep(0.3)
                os.kill(newest, signal.SIGCONT)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def spinning(share: float, on_s: float) -> Disturbance:
    """Return one process that spins for so long, and for that share of the time in all."""
    off_s = on_s * (1.0 / share - 1.0)
    return Disturbance(beside(SPIN, str(on_s), str(off_s)), share)


DISTURBANCES: Mapping[str, Disturbance] = {
    QUIET: Disturbance(lambda _: contextlib.nullcontext(), 0.0),
    "spins 0.1 of the time, 5 s": spinning(0.1, 5.0),
    "spins 0.1 of the time, 0.2 s": spinning(0.1, 0.2),
    "spins 0.33 of the time, 5 s": spinning(1 / 3, 5.0),
    "spins 0.33 of the time, 0.2 s": spinning(1 / 3, 0.2),
    "spins all the time": spinning(1.0, 5.0),
    "make -j2": Disturbance(compiling, 1.0),
    "memory bandwidth": Disturbance(beside(MEMORY), 1.0),
    "disk writes": Disturbance(writing, 1.0),
    "CPU quota of 80 %": Disturbance(quota, 1.0),
    "stopped for 0.3 s": Disturbance(stopping, 0.06),
}


def absent() -> Mapping[str, str]:
    """Return which disturbances cannot be planted here, and why."""
    found = {}
    if not os.access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", os.W_OK):
        found["CPU quota of 80 %"] = "no control group may be made"
    if shutil.which("cc") is None or shutil.which("make") is None:
        found["make -j2"] = "there is no compiler"
    return found


class Turns(NamedTuple):
    """The folders of a run and of its reference (`out`, `err` and what they wrote), and when the run was frozen.

    `began_s`: when the run began. Times are seconds since the epoch.
    """

    run: Path
    reference: Path
    began_s: float
    ended_s: float
    frozen: Sequence[tuple[float, float]]


@contextlib.contextmanager
def in_turns(
    words: Sequence[str], reference: Sequence[str], disturbance: str, more: Mapping[str, str], *, ends: bool
) -> Iterator[Turns]:
    """Run a command beside a disturbance, and in turns with it a reference beside nothing; both have ended well.

    "{frozen_s}" among the words is a file that holds for how long the run was frozen. `ends`: the reference is waited
    for; otherwise it is killed when the run has ended.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        run, other = Side(Path(folder), "run"), Side(Path(folder), "reference")
        frozen: list[tuple[float, float]] = []
        frozen_s = Path(folder) / "frozen_s"
        frozen_s.write_text("0.0")
        stack.callback(other.close)
        other.start([word.format(frozen_s=os.devnull) for word in reference], more)
        other.end_turn(math.inf)
        stack.callback(run.close)
        began_s = time.time()
        run.start([word.format(frozen_s=frozen_s) for word in words], more)
        with DISTURBANCES[disturbance].during(run):
            while time.time() - began_s < _LONGEST_S:
                run.end_turn()
                if run.command.poll() is not None:
                    break
                frozen_from_s = time.time()
                other.freeze("THAWED")
                other.end_turn()
                frozen.append((frozen_from_s, time.time()))
                frozen_s.write_text(repr(math.fsum(end_s - start_s for start_s, end_s in frozen)))
                run.freeze("THAWED")
        ended_s = time.time()
        if ends:
            other.freeze("THAWED")
            other.command.wait(_LONGEST_S)
        for side in [run, other] if ends else [run]:
            if not (side.folder / "out").read_bytes() or (side.command.poll() or 0) > 1:
                raise SystemExit(
                    f"{words}, {disturbance}: {side.command.returncode}: {(side.folder / 'err').read_text()}"
                )
        yield Turns(run.folder, other.folder, began_s, ended_s, frozen)


def ours(workload: str, disturbance: str) -> Iterator[Row]:
    """Type the line once beside a disturbance; yield what it said, when it was sure, and the truth meanwhile."""
    line = [sys.executable, "-c", PACED, "{frozen_s}", "run", *WORKLOADS[workload], "--quiet", "--json"]
    with in_turns(line, [*line, *ENDLESS], disturbance, {}, ends=False) as turns:
        (case,) = json.loads((turns.run / "out").read_text())["cases"]
        run, reference = (
            read_record(next(folder.glob("outputs/records/*.jsonl"))) for folder in (turns.run, turns.reference)
        )
        rate = case["estimates"]["throughput"]
        yield {
            "workload": workload, "disturbance": disturbance, **when(turns),
            "value": rate["value"], "low": rate["low"], "high": rate["high"], "claims": case["verdict"] == "VALID",
            "findings": [one["check"] for one in case["findings"] if one["severity"] != "info"],
            "trials": len(run.trials), "disturbed": sum(trial.disturbed for trial in run.trials),
            "sure_s": sure_s(turns, run), "truth": rates(reference), "run": rates(run),
            "truth_disturbed": sum(trial.disturbed for trial in reference.trials),
        }  # fmt: skip


def rates(run: Run) -> list[float]:
    """Return the throughput of each trial that ended well."""
    return [float(f"{figures(trial).values['throughput']:.5g}") for trial in ended_well(run.trials)]


def when(turns: Turns) -> Row:
    """Return when a run began, and how long it took: in all, and of its own."""
    took_s, own = turns.ended_s - turns.began_s, own_s(turns, turns.ended_s)
    return {"started": round(turns.began_s), "took_s": round(took_s, 2), "own_s": round(own, 2)}


def own_s(turns: Turns, at_s: float) -> float:
    """Return how long a run has had by some moment, in seconds: what it was frozen for is left out."""
    return at_s - turns.began_s - math.fsum(max(0.0, min(end_s, at_s) - start_s) for start_s, end_s in turns.frozen)


STEP = str(Path(__file__).parent / "peers" / "default_step.py")
Answers = Mapping[str, tuple[float, float, bool]]  # seconds, standard deviation or 0, whether it has no warning


def bare(folder: Path) -> Answers:
    """Six processes of 5 s of steps each; all steps count alike."""
    found = [json.loads(line) for line in (folder / "out").read_text().splitlines()]
    mean_s, median_s = (statistics.fmean(one[name] for one in found) for name in ("mean", "seconds"))
    return {"bare loop, mean": (mean_s, 0.0, True), "bare loop, median": (median_s, 0.0, True)}


def pyperf(folder: Path) -> Answers:
    found = of_pyperf(folder / "found.json")
    check = [sys.executable, "-m", "pyperf", "check", str(folder / "found.json")]
    warned = subprocess.run(check, env={**os.environ, **with_pyperf("distilbert")}, capture_output=True, check=False)
    return {"pyperf": (found["seconds"], found["seconds"] - found["low"], b"WARNING" not in warned.stdout)}


def hyperfine(folder: Path) -> Answers:
    (found,) = json.loads((folder / "found.json").read_text())["results"]
    return {"hyperfine": (found["mean"], found["stddev"], b"outliers" not in (folder / "err").read_bytes())}


LOOPS = f"for n in 1 2 3 4 5 6; do {sys.executable} {STEP} bare distilbert +5; done"
# name → what is typed, how its answer is read. hyperfine does not time what it does before a process.
PEERS: Mapping[str, tuple[Sequence[str], Callable[[Path], Answers]]] = {
    "bare loop, mean": (("sh", "-c", LOOPS), bare),
    "pyperf": ((sys.executable, STEP, "--copy-env", "--processes", "6", "--output", "found.json"), pyperf),
    "hyperfine": (
        ("hyperfine", "--style", "basic", "--prepare", "sleep 0.2", "--export-json", "found.json",
         f"{sys.executable} {STEP} ten distilbert 0"), hyperfine,
    ),
}  # fmt: skip


def peer(tool: str, disturbance: str) -> Iterator[Row]:
    """Let another tool time a step once beside a disturbance; yield what it said, a row for each figure."""
    words, read = PEERS[tool]
    with in_turns(words, words, disturbance, with_pyperf("distilbert"), ends=True) as turns:
        found, quiet = read(turns.run), read(turns.reference)
        for name, (seconds, spread, claims) in found.items():
            yield {
                "workload": name, "disturbance": disturbance, **when(turns),
                "value": 1.0 / seconds, "low": 1.0 / (seconds + spread) if spread else None,
                "high": 1.0 / (seconds - spread) if 0.0 < spread < seconds else None, "claims": claims,
                "truth": [1.0 / quiet[name][0]],
            }  # fmt: skip


def sure_s(turns: Turns, run: Run, half: float = 0.1) -> float | None:
    """Return after how many seconds the trials gave an interval of at most ±10 % that is not of a busy machine."""
    usual = run.head.usual.deviation if run.head.usual is not None else None
    for count in range(3, len(run.trials) + 1):
        good = ended_well(run.trials[:count])
        if is_of_busy_machine(good):
            continue
        used = [figures(trial) for trial in estimation_trials(good)]
        (prior,) = priors_of([used], usual)
        found = estimates(used, priors=prior).get("throughput")
        if found is None or found.low is None or found.high is None:
            continue
        if max(found.high / found.value - 1.0, 1.0 - found.low / found.value) <= half:
            last = run.trials[count - 1]
            last_s = datetime.fromisoformat(last.started_utc).timestamp()
            return round(own_s(turns, last_s) + last.duration_s, 2)
    return None


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


def truth(row: Row) -> tuple[float, float] | None:
    """Return the quiet figure of a run's own minute, and twice its standard error (of 1); None: it is not known."""
    logs = [math.log(one) for one in row["truth"]]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else _PEER_ERROR
    return (math.exp(statistics.fmean(logs)), 2.0 * error) if error <= _KNOWN else None


def judged(row: Row) -> Row | None:
    """Return what a run is worth against the truth; None where it claims a figure, and the truth is not known."""
    if not row["claims"]:
        return {"good": True}
    known = truth(row)
    if known is None:
        return None
    value, error = known
    off = math.log(row["value"] / value)
    found = {"good": abs(math.expm1(off)) <= 0.05, "off": off, "error": error / 2.0}
    if row["low"] is None or row["high"] is None:
        return found
    covered = math.log(row["low"] / value) <= error and math.log(value / row["high"]) <= error
    half = max(row["high"] / row["value"] - 1.0, 1.0 - row["low"] / row["value"])
    return {**found, "covered": covered, "half": half}


def cells_of(cell: Sequence[Row]) -> str:
    """Return the columns of a table for some runs."""
    seen = [found for row in cell if (found := judged(row)) is not None]
    halves = [one["half"] for one in seen if "half" in one]
    offs = [one["off"] for one in seen if "off" in one]
    sure = [row.get("sure_s") if row["claims"] else None for row in cell]
    taken = sum(row.get("trials", 0) for row in cell)
    off = "–"
    if len(offs) > 1:
        error = math.sqrt(statistics.fmean(one["error"] ** 2 for one in seen if "error" in one))
        off = f"{100 * statistics.fmean(offs):+.1f} ± {100 * statistics.stdev(offs):.1f} ({100 * error:.1f}) %"
    columns = [
        f"{len(cell)}", f"{sum(row['claims'] for row in cell)}", f"{sum(one['good'] for one in seen)} of {len(seen)}",
        *(f"{sum(s is not None and s <= limit_s for s in sure)}" if taken else "–" for limit_s in (60.0, 90.0)),
        f"{sum(one['covered'] for one in seen if 'covered' in one)} of {len(halves)}" if halves else "–",
        f"{100 * statistics.median(halves):.1f} %" if halves else "–",
        off,
        f"{statistics.median(row['own_s'] for row in cell):.0f}",
        f"{sum(row['disturbed'] for row in cell)} of {taken}" if taken else "–",
    ]  # fmt: skip
    return " | ".join(columns)


def table(rows: Sequence[Row], workloads: Sequence[str]) -> Iterator[str]:
    """Yield the table, as Markdown: each cell, then together where others take less than half of the time, and more."""
    yield "| what | disturbance | runs | claims | good | ±10 % in 60 s | in 90 s | covered | ± | off | s | left out |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    measured = [row for row in rows if row["workload"] in workloads]
    for workload, disturbance in itertools.product(workloads, DISTURBANCES):
        if cell := [row for row in measured if (row["workload"], row["disturbance"]) == (workload, disturbance)]:
            yield f"| {workload} | {disturbance} | {cells_of(cell)} |"
    for name, is_of in (
        ("nothing beside", lambda share: share == 0.0), ("less than half of the time", lambda share: 0.0 < share < 0.5),
        ("half of the time or more", lambda share: share >= 0.5),
    ):  # fmt: skip
        if group := [row for row in measured if is_of(DISTURBANCES[row["disturbance"]].share)]:
            yield f"| all | {name} | {cells_of(group)} |"


def next_cell(rows: Sequence[Row], workloads: Sequence[str], runs: int, only: Sequence[str]) -> tuple[str, str] | None:
    """Return the cell that has the fewest of its runs; None where none is open."""
    missing = absent()
    wanted = {
        (w, d): runs if DISTURBANCES[d].share < 0.5 else math.ceil(runs / 3)
        for w, d in itertools.product(workloads, DISTURBANCES)
        if d not in missing and (not only or any(word in f"{w} {d}" for word in only))
    }
    had = collections.Counter((row["workload"], row["disturbance"]) for row in rows)
    open_cells = {cell: had[cell] / count for cell, count in wanted.items() if had[cell] < count}
    return min(open_cells, key=lambda cell: open_cells[cell], default=None)


def main() -> None:
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each cell where others take less than half")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--json", type=Path, default=DATA)
    options = parser.parse_args()
    rows: list[Row] = json.loads(options.json.read_text()) if options.json.exists() else []
    ends_s = time.monotonic() + 60.0 * options.minutes
    workloads, measure = (tuple(PEERS), peer) if options.peers else (tuple(WORKLOADS), ours)
    while not options.show and time.monotonic() < ends_s:
        cell = next_cell(rows, workloads, options.runs, options.only)
        if cell is None:
            break
        for row in measure(*cell):
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
        written = options.json.with_suffix(".writing")
        written.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        written.replace(options.json)
    for name, why in absent().items():
        print(f"not planted: {name} ({why})")
    for what in (tuple(WORKLOADS), (*PEERS, "bare loop, median")):
        print("\n".join(table(rows, what)))


if __name__ == "__main__":
    main()
