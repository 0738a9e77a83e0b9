"""The same inference measured by other tools, each as a user runs it: one command, one result.

BERT with 6 layers (bert6.py), batch 1, 128 tokens, fp32, 2 threads; a few seconds of steps each; the tools in an order
that rotates by one each round. Ratios are to the bare loop of the same round: the geometric mean over the rounds with
Student's t-interval. Wall time is from the command to its exit; peak RSS that of the largest process of the command.

    bash benchmarks/peers/setup.sh                                        once: the tools' own environment
    python benchmarks/peers/run.py [--rounds 7] [--only TOOL …] [--json FILE]
    python benchmarks/peers/run.py --show [--json FILE]                   the table of what was measured before

Traps on the way, each of which would have compared unlike things:
- optimum-benchmark 0.6.0 does not run with transformers 5, so all tools run in benchmarks/peers/.venv with 4.57.6.
- optimum-benchmark's `inter_op_num_threads` calls torch.set_num_threads and `intra_op_num_threads` calls
  torch.set_num_interop_threads: they are swapped. Two threads for operators is `inter_op_num_threads=2`.
- Its default launcher's parent polls its child in a loop without a pause, so it keeps a core busy for the whole
  measurement; that is the default, and therefore a row of its own beside `launcher=inline`.
- Its `model` may be a folder with config.json and weights; a tokenizer is not needed (a missing one becomes None), nor
  is `no_weights` (whose code asks the hub for config.json, which a folder does not have). `library`, `task` and
  `model_type` are given, because it asks the hub to infer them; HF_HUB_OFFLINE=1 is set for all.
- Its command does nothing, and exits with 0, where a benchmark_report.json lies in the working folder: each call
  has a folder of its own, and its output is kept there by hydra.run.dir.
- It warms up with 1 + `warmup_runs` steps and passes position_ids and token_type_ids; the bare loop does the same.
- torch.utils.benchmark's Timer uses one thread unless told otherwise; its statement runs in inference mode, as the
  other tools' steps do.
- torchstone stops early when the mean is known to --target; 0.1 % makes it use up its budget, as the others do.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchstone.core.stats.interval import over_trials

HERE = Path(__file__).resolve().parent
BIN = HERE / ".venv" / "bin"
BARE = "bare loop"
TOKENS, THREADS = 128, 2
Row = dict[str, Any]


class Job(NamedTuple):
    """One call of a tool: the model's folder, a folder of its own, and how many seconds of steps."""

    model: Path
    own: Path
    seconds: float

    @property
    def out(self) -> Path:
        """What the tool printed."""
        return self.own / "stdout.txt"


_OPTIMUM = """\
defaults: [benchmark, {scenario: inference}, {launcher: LAUNCHER}, {backend: pytorch}, _self_]
name: bert6
scenario:
  input_shapes: {batch_size: 1, sequence_length: TOKENS}
  duration: SECONDS
  iterations: 1
  warmup_runs: 10
  latency: true
  memory: false
backend:
  device: cpu
  model: FOLDER
  library: transformers
  task: text-classification
  model_type: bert
  inter_op_num_threads: THREADS
hydra: {run: {dir: "."}, output_subdir: null, job: {chdir: false}}
"""


def script(name: str) -> Callable[[Job], list[str]]:
    """Return the command of one of the scripts beside this one."""
    return lambda job: [str(BIN / "python"), str(HERE / name), f"{job.seconds:g}"]


def optimum(launcher: str) -> Callable[[Job], list[str]]:
    """Return the command of optimum-benchmark; writes its configuration first."""

    def command(job: Job) -> list[str]:
        words = {
            "LAUNCHER": launcher, "FOLDER": str(job.model), "SECONDS": str(max(1, round(job.seconds))),
            "TOKENS": str(TOKENS), "THREADS": str(THREADS),
        }  # fmt: skip
        text = _OPTIMUM
        for word, value in words.items():
            text = text.replace(word, value)
        (job.own / "bert6.yaml").write_text(text)
        return [str(BIN / "optimum-benchmark"), "--config-dir", str(job.own), "--config-name", "bert6"]

    return command


def torchstone(*more: str) -> Callable[[Job], list[str]]:
    """Return the command of torchstone."""
    what = ["--model", f"py:{HERE}/bert6.py:load", "--task", "infer", "--axis", "mode=latency"]
    how = ["--axis", f"threads={THREADS}", "--target", "0.1%", "--device", "cpu", "--json", "--quiet", *more]

    def command(job: Job) -> list[str]:
        where = ["--budget", f"{job.seconds:g}s", "--output-dir", str(job.own)]
        return [str(BIN / "torchstone"), "run", *what, *how, *where]

    return command


def read_line(job: Job) -> Row:
    """Return what a script printed last."""
    found: Row = json.loads(job.out.read_text().strip().splitlines()[-1])
    return found


def read_optimum(job: Job) -> Row:
    """Return the median of the forward latencies in optimum-benchmark's report."""
    values = json.loads((job.own / "benchmark_report.json").read_text())["forward"]["latency"]["values"]
    return {"median_s": statistics.median(values), "steps": len(values)}


def read_torchstone(job: Job) -> Row:
    """Return the latency of torchstone's one case, with its interval."""
    (case,) = json.loads(job.out.read_text())["cases"]
    found = case["estimates"]["latency_per_batch_p50_s"]
    steps = sum(t["figures"]["values"]["steps"] for t in case["trials"])
    return {"median_s": found["value"], "low_s": found["low"], "high_s": found["high"], "steps": int(steps)}


TOOLS: Mapping[str, tuple[Callable[[Job], list[str]], Callable[[Job], Row]]] = {
    BARE: (script("bare.py"), read_line),
    "torch.utils.benchmark": (script("torch_benchmark.py"), read_line),
    "optimum, default": (optimum("process"), read_optimum),
    "optimum, inline": (optimum("inline"), read_optimum),
    "torchstone, 1 trial": (torchstone("--trials", "1"), read_torchstone),
    "torchstone, default": (torchstone(), read_torchstone),
}


def measure(tool: str, model: Path, seconds: float) -> Row:
    """Run one tool in a folder of its own and return what it reported and what it took."""
    command, read = TOOLS[tool]
    environment = os.environ | {"BERT6": str(model), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, every start compiles every module again
    with tempfile.TemporaryDirectory() as folder:
        job = Job(model, Path(folder), seconds)
        words = command(job)
        said = job.own / "stderr.txt"
        with job.out.open("wb") as stdout, said.open("wb") as stderr:
            began_s = time.perf_counter()
            process = subprocess.Popen(
                words, cwd=job.own, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )
            _, status, usage = os.wait4(process.pid, 0)  # ru_maxrss: the largest of it and of all it waited for
            wall_s = time.perf_counter() - began_s
        process.returncode = os.waitstatus_to_exitcode(status)
        row: Row = {"tool": tool, "wall_s": wall_s, "cpu_s": usage.ru_utime + usage.ru_stime}
        row["peak_rss_bytes"] = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        try:
            if process.returncode != 0:
                raise RuntimeError(f"exit {process.returncode}")
            return row | read(job)
        except (OSError, ValueError, LookupError, RuntimeError) as fault:
            return row | {"failed": f"{fault}: {said.read_text(errors='replace').strip()[-600:]}"}


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    rounds = len({r["round"] for r in rows})
    bare = {r["round"]: r["median_s"] for r in rows if r["tool"] == BARE and "failed" not in r}
    print(
        f"{rounds} rounds\n{'tool':<22} {'n':>3} {'reported':>10} {'to the bare loop of its round':>31} {'CV':>6}",
        end=" ",
    )
    print(f"{'steps':>6} {'wall':>7} {'CPU':>7} {'peak RSS':>9}  own interval")
    for tool in TOOLS:
        mine = [r for r in rows if r["tool"] == tool and "failed" not in r]
        for row in rows:
            if row["tool"] == tool and "failed" in row:
                print(f"{tool:<22} FAILED in round {row['round']}: {row['failed']}")
        if not mine:
            continue
        medians = [r["median_s"] for r in mine]
        against = [r["median_s"] / bare[r["round"]] for r in mine if r["round"] in bare]
        ratio = ""
        if against:
            found = over_trials(against)
            ratio = f"{found.value:.3f}"
            if found.low is not None and found.high is not None:
                ratio += f" [{found.low:.3f}, {found.high:.3f}]"
        spread = f"{statistics.stdev(medians) / statistics.fmean(medians):.1%}" if len(medians) > 1 else ""
        usual = {key: statistics.median(r[key] for r in mine) for key in ("steps", "wall_s", "cpu_s", "peak_rss_bytes")}
        halves = [(r["high_s"] / r["low_s"]) ** 0.5 - 1 for r in mine if r.get("low_s")]
        own = f"±{statistics.median(halves):.1%}" if halves else "none"
        print(f"{tool:<22} {len(mine):>3} {1e3 * statistics.median(medians):>7.1f} ms {ratio:>31} {spread:>6}", end=" ")
        print(f"{usual['steps']:>6.0f} {usual['wall_s']:>5.1f} s {usual['cpu_s']:>5.1f} s", end=" ")
        print(f"{usual['peak_rss_bytes'] / 1e6:>6.0f} MB  {own}")


def main() -> None:
    """Measure every tool in every round, keep the raw rows as they come, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="steady time each tool is given (default 5)")
    parser.add_argument("--only", nargs="+", choices=tuple(TOOLS), metavar="TOOL", help="; ".join(TOOLS))
    parser.add_argument("--show", action="store_true", help="measure nothing, print what --json holds")
    parser.add_argument("--json", type=Path, default=HERE.parent / "data" / "peers.json")
    options = parser.parse_args()
    if options.show:
        show(json.loads(options.json.read_text())["runs"])
        return
    if not (BIN / "python").exists():
        sys.exit(f"{BIN} is not there: bash {HERE / 'setup.sh'}")
    tools = options.only or list(TOOLS)
    data: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "seconds": options.seconds, "runs": []}
    with tempfile.TemporaryDirectory() as top:
        model = Path(top) / "bert6"
        subprocess.run([str(BIN / "python"), str(HERE / "bert6.py"), str(model)], check=True)
        for number in range(options.rounds):
            turn = number % len(tools)
            for tool in tools[turn:] + tools[:turn]:
                row = measure(tool, model, options.seconds) | {"round": number}
                data["runs"].append(row)
                options.json.write_text(json.dumps(data))
                said = row.get("failed") or f"{1e3 * row['median_s']:.1f} ms"
                print(f"round {number} {tool:<22} {row['wall_s']:5.1f} s  {said}", file=sys.stderr)
    show(data["runs"])


if __name__ == "__main__":
    main()
