"""What a person gets on a busy machine: one line, typed beside planted disturbances, against the quiet truth.

Before and after each run the same line is typed with nothing beside it, for 20 s. The truth is the geometric mean of
these two references. A run whose references differ by more than 5 % is not judged: there is no truth to ±5 % then.
Runs with nothing beside them are judged in the same way. A run *claims* a figure where its case is VALID; else it says
that the machine was busy.

    good         the figure lies within 5 % of the truth, or none is claimed
    ±10 %        within 60 (90) seconds there is a VALID interval of at most ±10 %, reckoned from the record
    covered      of the claimed intervals those that hold the truth, which is known no better than its references differ

    python benchmarks/disturbed.py [--runs 20] [--minutes M] [--only WORD …]    adds to benchmarks/data/disturbed.json
    python benchmarks/disturbed.py --peers [--runs 3] …                         what other tools say there
    python benchmarks/disturbed.py --show                                       its tables

It goes on where it was ended: the cell with the fewest runs is measured next; cells in which others take half of the
time or more get a third of the runs, as no figure is claimed there. Nothing else may run beside it.

Peers time DistilBERT's inference for about as long as a run takes, each against its own quiet runs: the mean and the
median of a bare loop of 30 s, pyperf (6 processes: its mean, claimed unless `pyperf check` warns) and hyperfine (10
processes of 10 steps each: its mean, claimed unless it warns of outliers). Their ± is a standard deviation.
pyperf is taken from `make bench-defaults`, hyperfine from PATH.
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
from pathlib import Path
from typing import Any, NamedTuple

from defaults import of_pyperf, with_pyperf

from torchstone.core.estimates import estimates, priors_of
from torchstone.core.figures import figures
from torchstone.core.schema.trial import Trial, ended_well, estimation_trials, is_of_busy_machine
from torchstone.storage.record_reader import read_record

DATA = Path(__file__).resolve().parent / "data" / "disturbed.json"
QUIET, REFERENCE = "none", "reference"
_REFERENCE_S, _NEAR_S = 20, 240.0  # how long a reference takes at most; how far it may be from a run
_FRESH_S = 60.0  # a reference that ended so long ago serves as the one before a run
_BLOCK = 4  # runs of one workload in a row
_KNOWN = 0.05  # a truth is known where its two references differ by less
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


class Disturbance(NamedTuple):
    """A context manager that disturbs, given the process of the command; the share of the time that it takes."""

    during: Callable[[subprocess.Popen[bytes]], contextlib.AbstractContextManager[None]]
    share: float


def beside(code: str, *words: str) -> Callable[[subprocess.Popen[bytes]], contextlib.AbstractContextManager[None]]:
    """Return what runs a Python program beside the command. It ends with this process, however that ends."""

    @contextlib.contextmanager
    def during(_: subprocess.Popen[bytes]) -> Iterator[None]:
        process = subprocess.Popen([sys.executable, "-c", code, *words])
        try:
            yield
        finally:
            process.kill()
            process.wait()

    return during


@contextlib.contextmanager
def compiling(_: subprocess.Popen[bytes]) -> Iterator[None]:
    """Have `make -j2` build 40 small files again and again."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"f{number}" for number in range(40)]
        for number, name in enumerate(names, 1):
            (Path(folder) / f"{name}.c").write_text("".join(SOURCE.format(100 * number + n) for n in range(60)))
        rule = "%.o: %.c\n\tcc -O2 -c $< -o $@\n"
        (Path(folder) / "Makefile").write_text(f"all: {' '.join(f'{name}.o' for name in names)}\n{rule}")
        loop = "while :; do make -s -j2 all; rm -f *.o; done"
        process = subprocess.Popen(["sh", "-c", loop], cwd=folder, start_new_session=True)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def writing(_: subprocess.Popen[bytes]) -> Iterator[None]:
    """Write 64 MiB to a file and wait until it is on the disk, again and again."""
    with tempfile.TemporaryDirectory() as folder, beside(WRITES, str(Path(folder) / "data"))(_):
        yield


@contextlib.contextmanager
def quota(command: subprocess.Popen[bytes]) -> Iterator[None]:
    """Give the command and all that it starts 80 % of the CPU."""
    group = Path("/sys/fs/cgroup/cpu") / f"disturbed_{os.getpid()}"
    cores = os.cpu_count() or 1
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(int(0.8 * cores * 100_000)))
        (group / "cgroup.procs").write_text(str(command.pid))
        yield
    finally:
        command.wait()
        deadline = time.monotonic() + 10.0
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()


@contextlib.contextmanager
def stopping(command: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop what computes for 0.3 s, about every 5 s: the process below the command that uses the most CPU."""
    done = threading.Event()

    def work() -> None:
        import psutil

        while not done.wait(random.uniform(2.5, 7.5)):
            with contextlib.suppress(psutil.Error, ValueError):
                command_itself = psutil.Process(command.pid)
                own = [command_itself, *command_itself.children(recursive=True)]
                busiest = max(own, key=lambda process: process.create_time())
                busiest.suspend()
                time.sleep(0.3)
                busiest.resume()

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
    REFERENCE: Disturbance(lambda _: contextlib.nullcontext(), 0.0),
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


def typed(words: Sequence[str], folder: str, disturbance: str, more: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Run a command beside a disturbance; return what it wrote to stdout and stderr."""
    # Without its cache of compiled modules every start would compile them all again: not what a user has.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | dict(more)
    command = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    with DISTURBANCES[disturbance].during(command):
        try:
            out, err = command.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            command.kill()
            out, err = command.communicate()
    if not out:
        raise SystemExit(f"{' '.join(words)}, {disturbance}: ended with {command.returncode}: {err[-600:].decode()}")
    return out, err


def ours(workload: str, disturbance: str) -> Iterator[Row]:
    """Type the line once beside a disturbance; yield what it said, and when it was sure."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(Path(sys.executable).parent / "torchstone"), "run", *WORKLOADS[workload], "--quiet", "--json"]
        words += ["--within", f"{_REFERENCE_S}s"] if disturbance == REFERENCE else []
        started = time.time()
        out, _ = typed(words, folder, disturbance, {})
        took_s = time.time() - started
        (case,) = json.loads(out)["cases"]
        run = read_record(next(Path(folder).glob("outputs/records/*.jsonl")))
    rate = case["estimates"]["throughput"]
    yield {
        "workload": workload, "disturbance": disturbance, "started": round(started), "took_s": round(took_s, 2),
        "value": rate["value"], "low": rate["low"], "high": rate["high"], "claims": case["verdict"] == "VALID",
        "findings": [one["check"] for one in case["findings"] if one["severity"] != "info"],
        "trials": len(run.trials), "disturbed": sum(trial.disturbed for trial in run.trials),
        "sure_s": sure_s(run.trials, started, run.head.usual.deviation if run.head.usual is not None else None),
    }  # fmt: skip


STEP = str(Path(__file__).parent / "peers" / "default_step.py")
BARE_S = 30.0


def peer(tool: str, disturbance: str) -> Iterator[Row]:
    """Let another tool time a step once beside a disturbance; yield what it said, a row for each figure."""
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        found = {"bare loop, mean": bare, "pyperf": pyperf, "hyperfine": hyperfine}[tool](folder, disturbance)
    took_s = time.time() - started
    for name, (seconds, spread, claims) in found.items():
        yield {
            "workload": name, "disturbance": disturbance, "started": round(started), "took_s": round(took_s, 2),
            "value": 1.0 / seconds, "low": 1.0 / (seconds + spread) if spread else None,
            "high": 1.0 / (seconds - spread) if 0.0 < spread < seconds else None, "claims": claims,
        }  # fmt: skip


Said = dict[str, tuple[float, float, bool]]  # seconds, standard deviation or 0, whether it has no warning


def bare(folder: str, disturbance: str) -> Said:
    words = [sys.executable, STEP, "bare", "distilbert", repr(time.monotonic() + BARE_S)]
    out = json.loads(typed(words, folder, disturbance, {})[0])
    return {"bare loop, mean": (out["mean"], 0.0, True), "bare loop, median": (out["seconds"], 0.0, True)}


def pyperf(folder: str, disturbance: str) -> Said:
    file = Path(folder) / "found.json"
    words = [sys.executable, STEP, "--copy-env", "--processes", "6", "--output", str(file)]
    typed(words, folder, disturbance, with_pyperf("distilbert"))
    found = of_pyperf(file)
    check = [sys.executable, "-m", "pyperf", "check", str(file)]
    warned = subprocess.run(check, env={**os.environ, **with_pyperf("distilbert")}, capture_output=True, check=False)
    return {"pyperf": (found["seconds"], found["seconds"] - found["low"], b"WARNING" not in warned.stdout)}


def hyperfine(folder: str, disturbance: str) -> Said:
    file = Path(folder) / "found.json"
    words = ["hyperfine", "--style", "basic", "--export-json", str(file), f"{sys.executable} {STEP} ten distilbert 0"]
    _, err = typed(words, folder, disturbance, {})
    (found,) = json.loads(file.read_text())["results"]
    return {"hyperfine": (found["mean"], found["stddev"], b"outliers" not in err)}


PEERS = ("bare loop, mean", "pyperf", "hyperfine")


def sure_s(trials: Sequence[Trial], began_s: float, usual: float | None, half: float = 0.1) -> float | None:
    """Return after how many seconds the trials gave an interval of at most ±10 % that is not of a busy machine."""
    from datetime import datetime

    for count in range(3, len(trials) + 1):
        good = ended_well(trials[:count])
        if is_of_busy_machine(good):
            continue
        used = [figures(trial) for trial in estimation_trials(good)]
        (prior,) = priors_of([used], usual)
        found = estimates(used, priors=prior).get("throughput")
        if found is None or found.low is None or found.high is None:
            continue
        if max(found.high / found.value - 1.0, 1.0 - found.low / found.value) <= half:
            last = trials[count - 1]
            return round(datetime.fromisoformat(last.started_utc).timestamp() + last.duration_s - began_s, 2)
    return None


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


def truth(rows: Sequence[Row], row: Row) -> tuple[float, float] | None:
    """Return the quiet figure around a run of the same rows, and by how much (of 1) it is not known; None: unknown."""
    own = [one for one in rows if one["workload"] == row["workload"] and one["disturbance"] == REFERENCE]
    began_s, ended_s = row["started"], row["started"] + row["took_s"]
    before = [one for one in own if 0.0 <= began_s - (one["started"] + one["took_s"]) + 1.0 <= _NEAR_S]
    after = [one for one in own if 0.0 <= one["started"] - ended_s + 1.0 <= _NEAR_S]
    if not before or not after:
        return None
    first, last = before[-1]["value"], after[0]["value"]
    off = abs(math.log(last / first))
    return (math.sqrt(first * last), off / 2.0) if off <= _KNOWN else None


def judged(row: Row, known: tuple[float, float]) -> Row:
    """Return what a run is worth against the truth."""
    value, error = known
    inside = abs(row["value"] / value - 1.0) <= 0.05
    covered, half = False, None
    if row["low"] is not None and row["high"] is not None:
        covered = math.log(row["low"] / value) <= error and math.log(value / row["high"]) <= error
        half = max(row["high"] / row["value"] - 1.0, 1.0 - row["low"] / row["value"])
    return {"claims": row["claims"], "good": inside or not row["claims"], "covered": covered, "half": half}


def cells_of(rows: Sequence[Row], cell: Sequence[Row]) -> str:
    """Return the columns of a table for some runs."""
    seen = [judged(row, known) for row in cell if (known := truth(rows, row)) is not None]
    claimed = [one for one in seen if one["claims"]]
    halves = [one["half"] for one in claimed if one["half"] is not None]
    sure = [row.get("sure_s") if row["claims"] else None for row in cell]
    taken = sum(row.get("trials", 0) for row in cell)
    columns = [
        f"{len(cell)}", f"{sum(row['claims'] for row in cell)}", f"{sum(one['good'] for one in seen)} of {len(seen)}",
        *(f"{sum(s is not None and s <= limit_s for s in sure)}" if taken else "–" for limit_s in (60.0, 90.0)),
        f"{sum(one['covered'] for one in claimed)} of {len(claimed)}" if halves else "–",
        f"{100 * statistics.median(halves):.1f} %" if halves else "–",
        f"{statistics.median(row['took_s'] for row in cell):.0f}",
        f"{sum(row['disturbed'] for row in cell)} of {taken}" if taken else "–",
    ]  # fmt: skip
    return " | ".join(columns)


def table(rows: Sequence[Row], workloads: Sequence[str]) -> Iterator[str]:
    """Yield the table, as Markdown: each cell, then together where others take less than half of the time, and more."""
    yield "| what | disturbance | runs | claims | good | ±10 % in 60 s | in 90 s | covered | ± | s | left out |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    measured = [row for row in rows if row["workload"] in workloads and row["disturbance"] != REFERENCE]
    for workload, disturbance in itertools.product(workloads, DISTURBANCES):
        if cell := [row for row in measured if (row["workload"], row["disturbance"]) == (workload, disturbance)]:
            yield f"| {workload} | {disturbance} | {cells_of(rows, cell)} |"
    for name, is_of in (
        ("nothing beside", lambda share: share == 0.0), ("less than half of the time", lambda share: 0.0 < share < 0.5),
        ("half of the time or more", lambda share: share >= 0.5),
    ):  # fmt: skip
        if group := [row for row in measured if is_of(DISTURBANCES[row["disturbance"]].share)]:
            yield f"| all | {name} | {cells_of(rows, group)} |"


def next_cell(rows: Sequence[Row], workloads: Sequence[str], runs: int, only: Sequence[str]) -> tuple[str, str] | None:
    """Return the cell to measure next: a reference before and after each run, else the one with the fewest runs."""
    missing = absent()
    wanted = {
        (w, d): runs if DISTURBANCES[d].share < 0.5 else math.ceil(runs / 3)
        for w, d in itertools.product(workloads, DISTURBANCES)
        if d not in missing and d != REFERENCE and (not only or any(word in f"{w} {d}" for word in only))
    }
    had = collections.Counter((row["workload"], row["disturbance"]) for row in rows)
    open_cells = {cell: had[cell] / count for cell, count in wanted.items() if had[cell] < count}
    last = rows[-1] if rows else None
    if last is not None and last["disturbance"] != REFERENCE:
        return last["workload"], REFERENCE
    if not open_cells:
        return None
    if last is not None and time.time() - last["started"] - last["took_s"] <= _FRESH_S:
        of_last = {cell: share for cell, share in open_cells.items() if cell[0] == last["workload"]}
        block = [row["workload"] for row in rows[-2 * _BLOCK - 1 :]]
        if of_last and block != [last["workload"]] * (2 * _BLOCK + 1):
            return min(of_last, key=lambda cell: of_last[cell])
    done = {w: statistics.fmean(s for (of, _), s in open_cells.items() if of == w) for w, _ in open_cells}
    return min(done, key=lambda w: done[w]), REFERENCE


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
    workloads, measure = (PEERS, peer) if options.peers else (tuple(WORKLOADS), ours)
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
    print("\n".join(table(rows, [*WORKLOADS, *PEERS, "bare loop, median"])))


if __name__ == "__main__":
    main()
