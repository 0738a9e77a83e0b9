"""What a person gets who types one line: wall time, half-width and verdict, beside other tools in the same wall time.

The one-liners of the README as they are typed, in rounds, each in turn; after each that has a step of its own (STEPS in
peers/default_step.py), the peers time that step until as much wall time has passed as the line took in that round:

    bare loop              time.perf_counter around each step; the median ± half its interval over steps, as if these
                           were independent
    torch.utils.benchmark  blocked_autorange; the median ± half the interquartile range, which is what it prints
    pyperf                 as many processes as fit; the mean ± the standard deviation, which is what it prints.
                           Without it (`make bench-defaults` gets it) its rows are left out

Does the stated half-width tell the truth? Beside it stands how far the answers of one tool lie apart (CV), and of all
pairs of its answers the share whose intervals do not even touch: of honest 95 % intervals about 1 in 170.

    python benchmarks/defaults.py [--rounds 5] [--only CASE …] [--json FILE]    adds a campaign to FILE
    python benchmarks/defaults.py --show [--json FILE]                          the table of the last one
    python benchmarks/defaults.py --smoke                                       tiny budgets, one round: does it work?
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "defaults.json"
PYPERF = HERE / "peers" / ".pyperf"  # in a folder of its own, beside what torchstone runs with
OURS = "torchstone"
Row = dict[str, Any]

MEASURE = """
import msgspec, torch, torchstone
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
loader = DataLoader(TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,))), batch_size=32, shuffle=True)
run = torchstone.measure(model, loader, task="train", loss=nn.CrossEntropyLoss(), output_dir=FOLDER)
print(msgspec.json.encode(run).decode())
"""


class Line(NamedTuple):
    """One line as it is typed: words of the command, or a program. `step`: what peers time. `smoke`: shorter."""

    words: tuple[str, ...] = ()
    program: str | None = None
    step: str | None = None
    smoke: tuple[str, ...] = ()


BRIEF = ("--trials", "2", "--budget", "200ms", "--warmup-budget", "50ms")
LINES: Mapping[str, Line] = {
    "distilbert": Line(
        ("run", "distilbert", "--task", "infer", "--axis", "batch_size=1"), step="distilbert", smoke=BRIEF
    ),
    "cnn": Line(("run", "--task", "train", "--model", "builtin:cnn"), step="cnn", smoke=BRIEF),
    "demo": Line(("run", "demo"), smoke=BRIEF),
    "diagnose": Line(
        ("diagnose", "--task", "train", "--model", "builtin:cnn", "--data", "digits"), smoke=("--budget", "3s")
    ),
    "tune": Line(
        ("tune", "--task", "train", "--model", "builtin:cnn", "--data", "digits", "--quick"),
        smoke=("--only", "num_workers"),
    ),
    "measure": Line(program=MEASURE),
}


class Peer(NamedTuple):
    """Another tool: its command for a step and an amount of wall time, what is read of its output, its environment."""

    command: Callable[[str, float, Path], Sequence[str]]
    read: Callable[[str, Path], Row]
    environment: Callable[[str], Mapping[str, str]] = lambda _step: {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=tuple(LINES), metavar="CASE", help=", ".join(LINES))
    parser.add_argument("--smoke", action="store_true", help="tiny budgets, one round, nothing kept")
    parser.add_argument("--show", action="store_true", help="measure nothing, print the last campaign of --json")
    parser.add_argument("--json", type=Path, default=DATA)
    options = parser.parse_args()
    if options.show:
        print(table(json.loads(options.json.read_text())[-1]))
        return
    campaign: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "rows": []}
    earlier = json.loads(options.json.read_text()) if options.json.exists() else []
    tools = peers()
    for number, name in itertools.product(range(1 if options.smoke else options.rounds), options.only or LINES):
        for row in turn(name, tools, smoke=options.smoke):
            campaign["rows"].append({"round": number, **row})
            print(f"round {number} {said(row)}", file=sys.stderr, flush=True)
        if not options.smoke:  # as they come: what was measured is kept if this is cut off
            options.json.write_text(json.dumps([*earlier, campaign], indent=1) + "\n")
    print(table(campaign))


def machine() -> dict[str, Any]:
    """Return what the figures hang on."""
    names = ("torchstone", "torch", "transformers")
    found: dict[str, Any] = {name: version(name) for name in names}
    if PYPERF.exists():
        (about,) = PYPERF.glob("pyperf-*.dist-info")
        found["pyperf"] = about.name.removeprefix("pyperf-").removesuffix(".dist-info")
    cpu = next((x.split(":")[1].strip() for x in lines_of("/proc/cpuinfo") if x.startswith("model name")), "")
    return {**found, "python": platform.python_version(), "cpu": cpu, "cores": os.cpu_count()}


def lines_of(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def turn(name: str, tools: Mapping[str, Peer], *, smoke: bool) -> Iterator[Row]:
    """Run a line, then every peer for as long as it took. Yields a row each."""
    line = LINES[name]
    ours = run_line(name, line, smoke=smoke)
    yield ours
    for tool, peer in tools.items() if line.step is not None else ():
        yield run_peer(name, str(line.step), tool, peer, 3.0 if smoke else ours["wall_s"])


def run_line(name: str, line: Line, *, smoke: bool) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        if line.program is not None:
            words = ["-c", line.program.replace("FOLDER", repr(folder))]
        else:
            short = line.smoke if smoke else ()
            words = ["-m", "torchstone", *line.words, *short, "--json", "--quiet", "--output-dir", folder]
        done, wall_s = timed([sys.executable, *words], folder, {})
    row: Row = {"case": name, "tool": OURS, "wall_s": wall_s, "exit": done.returncode}
    if done.returncode != 0:
        return {**row, "failed": done.stderr.strip()[-600:]}
    return {**row, "answers": list(answers(json.loads(done.stdout)))}


def answers(run: Mapping[str, Any]) -> Iterator[Row]:
    """Yield what a document states: of a diagnosis its gain, else the throughput, of a tune that it recommends."""
    found = run.get("answer") or run.get("diagnosis") or {}  # the second until November 2026
    if "causes" in found:
        causes, applied = found["causes"], found["applied"]
        first = causes[0]["id"] if causes else "no cause"
        yield answer(first, (applied or {}).get("gain"), (applied or {}).get("verdict"))
    elif found:
        chosen = found["recommended"]
        rate = {"value": chosen["throughput"], "low": chosen["throughput_low"], "high": chosen["throughput_high"]}
        yield answer(" ".join(f"{axis}={value}" for axis, value in chosen["point"].items()), rate, None)
    else:
        for case in run["cases"]:
            work, size = case["workload"], case["configuration"].get("batch_size")
            named = f"{work['task']} {work['model']} batch {size}"
            yield answer(named, case["estimates"].get("throughput"), case["verdict"])


def answer(name: str, found: Mapping[str, Any] | None, verdict: str | None) -> Row:
    value, low, high = (found.get(key) if found is not None else None for key in ("value", "low", "high"))
    return {"name": name, "value": value, "low": low, "high": high, "verdict": verdict}


def run_peer(name: str, step: str, tool: str, peer: Peer, wall_s: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        command = peer.command(step, wall_s, Path(folder))
        done, took_s = timed(command, folder, peer.environment(step))
        row: Row = {"case": name, "tool": tool, "wall_s": took_s, "exit": done.returncode}
        if done.returncode != 0:
            return {**row, "failed": done.stderr.strip()[-600:]}
        found = peer.read(done.stdout, Path(folder))
    rates = {"value": 1.0 / found["seconds"], "low": None, "high": None}
    if found["low"] is not None and found["high"] is not None and found["low"] > 0.0:
        rates.update(low=1.0 / found["high"], high=1.0 / found["low"])
    return {**row, "answers": [{"name": f"{step} steps/s", **rates, "verdict": None}]}


def timed(
    command: Sequence[str], folder: str, more: Mapping[str, str]
) -> tuple[subprocess.CompletedProcess[str], float]:
    # Without its cache of compiled modules every start would compile them all again: not what a user has.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | dict(more)
    begin_s = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done, time.monotonic() - begin_s


def peers() -> dict[str, Peer]:
    """Return the tools that are here."""
    script = str(HERE / "peers" / "default_step.py")

    def plain(tool: str) -> Peer:
        def command(step: str, wall_s: float, _folder: Path) -> Sequence[str]:
            return [sys.executable, script, tool, step, repr(time.monotonic() + wall_s)]

        return Peer(command, lambda out, _folder: json.loads(out))

    found = {"bare loop": plain("bare"), "torch.utils.benchmark": plain("torch")}
    if PYPERF.exists():
        found["pyperf"] = Peer(
            lambda step, wall_s, folder: [
                sys.executable, script, "--copy-env", "--quiet", "--output", str(folder / "found.json"),
                "--processes", str(processes(script, step, wall_s, folder)),
            ],
            lambda _out, folder: of_pyperf(folder / "found.json"),
            with_pyperf,
        )  # fmt: skip
    else:
        print("without pyperf, which is not here: make bench-defaults gets it", file=sys.stderr)
    return found


def with_pyperf(step: str) -> Mapping[str, str]:
    paths = [str(PYPERF), os.environ.get("PYTHONPATH")]
    return {"DEFAULT_STEP": step, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


_PROCESS_S: dict[str, float] = {}  # what one of pyperf's processes takes, by step


def processes(script: str, step: str, wall_s: float, folder: Path) -> int:
    """Return how many of pyperf's processes fit; one more than asked for calibrates. Its own default is 20."""
    if step not in _PROCESS_S:
        words = [sys.executable, script, "--copy-env", "--quiet", "--processes", "1"]
        done, took_s = timed(words, str(folder), with_pyperf(step))
        if done.returncode != 0:
            raise SystemExit(f"pyperf: {done.stderr.strip()[-600:]}")
        _PROCESS_S[step] = took_s / 2.0
    return max(2, round(wall_s / _PROCESS_S[step]) - 1)


def of_pyperf(file: Path) -> Row:
    """Return mean and standard deviation of the values (seconds a call) in pyperf's file."""
    (benchmark,) = json.loads(file.read_text())["benchmarks"]
    values = [value for run in benchmark["runs"] for value in run.get("values", ())]
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    return {"seconds": mean, "low": mean - spread, "high": mean + spread}


def half(one: Mapping[str, Any]) -> float | None:
    """Return the relative half-width of an answer; None where it states none."""
    if one["value"] is None or one["low"] is None or one["high"] is None:
        return None
    return float(one["high"] - one["low"]) / 2.0 / float(one["value"])


def said(row: Row) -> str:
    if "failed" in row:
        return f"{row['case']:<11} {row['tool']:<22} {row['wall_s']:6.1f} s  exit {row['exit']}: {row['failed']}"
    parts = [
        f"{one['name']} {'–' if one['value'] is None else format(one['value'], '.4g')} {percent(half(one))}"
        for one in row["answers"]
    ]
    return f"{row['case']:<11} {row['tool']:<22} {row['wall_s']:6.1f} s  {'; '.join(parts)}"


def percent(share: float | None) -> str:
    return "no interval" if share is None else f"±{100.0 * share:.1f} %"


def apart(found: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many pairs of answers have intervals that do not touch, and how many pairs have intervals."""
    stated = [(one["low"], one["high"]) for one in found if half(one) is not None]
    pairs = list(itertools.combinations(stated, 2))
    return sum(a[1] < b[0] or b[1] < a[0] for a, b in pairs), len(pairs)


def table(campaign: Mapping[str, Any]) -> str:
    """Return the campaign as lines: a row for each question that a tool answered."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in campaign["rows"]:
        for number, one in enumerate(row.get("answers", ())):
            found.setdefault((row["case"], row["tool"], number), []).append({**one, "wall_s": row["wall_s"]})
    lines = [
        f"{campaign['date']}, " + ", ".join(f"{name} {value}" for name, value in campaign["machine"].items()),
        f"{'line':<11} {'tool':<22} {'n':>2} {'wall':>7}  {'states':>11} {'worst':>11} {'CV':>7} {'apart':>8}  answers",
    ]
    for (case, tool, _), ones in found.items():
        halves = [share for one in ones if (share := half(one)) is not None]
        values = [one["value"] for one in ones if one["value"] is not None]
        spread = f"{100 * statistics.stdev(values) / statistics.fmean(values):.1f} %" if len(values) > 1 else "–"
        told, pairs = apart(ones)
        words = ", ".join(dict.fromkeys(" ".join(filter(None, (one["name"], one["verdict"]))) for one in ones))
        lines.append(
            f"{case:<11} {tool:<22} {len(ones):>2} {statistics.median(one['wall_s'] for one in ones):>5.0f} s "
            f"{percent(statistics.median(halves) if halves else None):>12} "
            f"{percent(max(halves) if len(halves) == len(ones) else None):>11} {spread:>7} "
            f"{f'{told} of {pairs}' if pairs else '–':>8}  {words}"
        )
    lines += [f"FAILED {said(row)}" for row in campaign["rows"] if "failed" in row]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
