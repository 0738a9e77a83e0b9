"""Ten unmodified scripts with one planted bottleneck each (programs/), and what hooks and `attach` cost a program.

diagnose   `torchstone diagnose -- python SCRIPT` of each: are cause and line named first? Wanted: in 9 of 10
attach     `torchstone attach PID` of each, for a minute at most: the same
hooks      the hooks of `-- COMMAND`, in µs: blocks of steps with them, with functions that do nothing in their places,
           and without, in turns, in one process; of a block the tenth percentile of its steps, which other work does
           not reach. Wanted: 5 µs a step and 1 µs a phase, told apart by steps of one and of four passes
cost       what `attach` costs: pairs of windows with it and without, in drawn order, of a convolutional net with a
           thread on each core, the worst case. Wanted: at most 0.5 %, the same losses, and nothing left behind
revisions  `torchstone ab base BRANCH -- python train.py`, 90 s a run: of equal code (wanted: 0 of 20 called different)
           and of a branch whose steps take 3 % longer (wanted: found in 9 of 10), of a Trainer of transformers
           (programs/revisions; it needs accelerate) or of nanoGPT, whose folder with data/shakespeare_char prepared
           `--nanogpt` names. Alone on the machine; stopped at any time, it goes on where it was

Each result is kept in benchmarks/data/scripts.json as it comes, with the load of the machine; what is there is not
measured again but with --again or --only. Figures of cost need a machine with no other work; a
verdict beside other work is that of the program's own causes (`busy`).

    python benchmarks/scripts.py [diagnose] [attach] [hooks] [cost] [revisions] [--only NAME …] [--again]
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from torchstone.core.stats.interval import over_trials
from torchstone.execution import program as of_programs
from torchstone.execution.program.attached import RATE_HZ, find_process, watch

HERE = Path(__file__).parent
DATA, PROGRAMS = HERE / "data/scripts.json", HERE / "programs"
PARTS = ("diagnose", "attach", "hooks", "cost", "revisions")


class Expected(NamedTuple):
    """Which causes are right, and text of one of the lines that are right; None: no line is at fault."""

    causes: tuple[str, ...]
    lines: tuple[str, ...] = ()


EXPECTED = {
    "slow_disk": Expected(("loader_waits", "loader"), ("time.sleep",)),
    "slow_transform": Expected(("loader_computes", "loader"), ("for a, b in zip", "for _ in range(200)")),
    "slow_csv": Expected(("outside",), ("csv.reader", "float(cell)")),
    "tiny_batch": Expected(("small_batch",)),
    "item_per_row": Expected(("waits", "outside"), ("row.item()", "for row, label")),
    "prints_tensors": Expected(("waits", "outside"), ("print(",)),
    "python_loop": Expected(("python_loop",), ("0.9 * state", "total + state", "in range(steps")),
    "many_threads": Expected(("threads",)),
    "many_tensors": Expected(("optimizer",)),
    "saves_each_step": Expected(("outside",), ("torch.save",)),
}
# From outside it is not seen how often a line runs, nor how long a step takes: a loop in Python is its lines.
FROM_OUTSIDE = {
    "python_loop": ("python_loop", "computing"),
    "tiny_batch": ("small_batch", "optimizer", "computing"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {' '.join(PARTS)} (default: all)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of the scripts: {', '.join(EXPECTED)}")
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    parser.add_argument("--seconds", type=float, default=30.0, help="of one look of attach")
    parser.add_argument("--pairs", type=int, default=10, help="of windows of cost")
    parser.add_argument("--nanogpt", type=Path, metavar="FOLDER", help="of revisions: instead of the Trainer")
    parser.add_argument("--within", default="90s", help="of a run of revisions")
    parser.add_argument("--equal", type=int, default=20, help="runs of equal code")
    parser.add_argument("--slower", type=int, default=10, help="runs of revisions that differ")
    options = parser.parse_args()
    if wrong := [*(set(options.parts) - {*PARTS}), *(set(options.only or ()) - EXPECTED.keys())]:
        parser.error(f"{wrong[0]}: there is no such part or script")
    found: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}

    def measure(part: str, name: str, how: Callable[[], dict[str, Any]]) -> None:
        kept = found.setdefault(part, {})
        if name in kept and not options.again and not options.only:
            return
        began_s = time.monotonic()
        kept[name] = {**how(), "wall_s": time.monotonic() - began_s, "load_average": os.getloadavg()[0]}
        DATA.write_text(json.dumps(found, indent=1) + "\n")
        told = {key: value for key, value in kept[name].items() if key not in ("pairs", "blocks")}
        print(f"{part} {name}: {told}", flush=True)

    for part in options.parts or PARTS:
        if part == "hooks":
            for kind in KINDS:
                measure(part, kind, lambda kind=kind: hooks_cost(kind))  # type: ignore[misc]
        elif part == "revisions":
            with revisions(options.nanogpt) as compared:
                for number in range(max(options.equal, options.slower)):  # in turns: what a machine does changes
                    for kind, count in (("equal", options.equal), ("slower", options.slower)):
                        if number < count:
                            name = f"{'nanogpt' if options.nanogpt else 'trainer'} {kind} {number:02d}"
                            measure(part, name, lambda kind=kind: compared(kind, options.within))  # type: ignore[misc]
        elif part == "cost":
            measure(part, "attach", lambda: attach_cost(options.pairs, options.seconds))
        else:
            for name in options.only or EXPECTED:
                by = diagnosed if part == "diagnose" else lambda name: attached(name, options.seconds)
                measure(part, name, lambda name=name, by=by: judged(name, by(name)))  # type: ignore[misc]
    print(table(found))


def table(found: dict[str, Any]) -> str:
    lines = []
    for part in ("diagnose", "attach"):
        rows = found.get(part, {})
        if not rows:
            continue
        right = sum(row["right"] for row in rows.values())
        lines.append(f"{part}: cause and line named first in {right} of {len(rows)} (wanted: 9 of 10)")
        lines += [
            f"  {'✓' if row['right'] else '✗'} {name:<16} {row['cause']!s:<16} {row['code'] or ''}"
            for name, row in rows.items()
        ]
    for name, row in found.get("hooks", {}).items():
        for arm in ("hooks", "empty"):
            cost = "{us:5.1f} [{low:.1f}, {high:.1f}]".format(**row[arm])
            lines.append(f"{arm}: {name:<13} {cost} µs of a step of {row['step_us']:.0f} µs")
    if {"one pass", "four passes"} <= found.get("hooks", {}).keys():
        for arm in ("hooks", "empty"):
            one, four = (found["hooks"][name][arm]["us"] for name in ("one pass", "four passes"))
            phase = (four - one) / 6  # three more forward and three more backward passes
            lines.append(f"{arm}: {one - 2 * phase:.1f} µs a step and {phase:.1f} µs a phase (wanted: 5 and 1)")
    for one in found.get("cost", {}).values():
        lines.append(f"attach: {one['ratio']:.4f} [{one['low']:.4f}, {one['high']:.4f}] of the step (wanted: 1.005)")
    runs = found.get("revisions", {})
    for script in dict.fromkeys(name.rsplit(maxsplit=1)[0] for name in runs):
        said = [one["verdict"] for name, one in runs.items() if name.startswith(f"{script} ")]
        right = ("worse",) if script.endswith("slower") else ("same", "unclear")
        wanted = "9 of 10" if script.endswith("slower") else "all"
        lines.append(f"revisions: {script}: right in {sum(map(right.count, said))} of {len(said)} (wanted: {wanted})")
    return "\n".join(lines)


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────────


def diagnosed(name: str) -> dict[str, Any]:
    """Return the answer of `diagnose -- python SCRIPT`; no remedy is measured."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["diagnose", "--json", "--quiet", "--budget", "0", "--output-dir", folder, "--", sys.executable]
        return answer_of([*words, f"{name}.py"])


def attached(name: str, seconds: float) -> dict[str, Any]:
    """Return the answer of `attach PID` to the script as it runs."""
    words = [sys.executable, f"{name}.py"]
    with tempfile.TemporaryDirectory() as folder, running(words, cwd=PROGRAMS) as process:
        time.sleep(10.0)  # it imports torch, and warms up
        threads = threads_of(process.pid)
        told = answer_of(
            ["attach", str(process.pid), "--for", f"{seconds:g}s", "--json", "--quiet", "--output-dir", folder]
        )
        return {**told, "left": threads_of(process.pid) - threads, "alive": process.poll() is None}


def answer_of(words: list[str], folder: Path = PROGRAMS) -> dict[str, Any]:
    typed = [sys.executable, "-m", "torchstone", *words]
    done = subprocess.run(typed, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"causes": [], "failed": done.stderr.strip().splitlines()[-1]}
    answer: dict[str, Any] = json.loads(done.stdout)["answer"]
    return answer


def judged(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Compare the first cause and its first line with what was planted; beside other work, the program's own first."""
    expected, every = EXPECTED[name], answer["causes"]
    causes = [cause for cause in every if cause["id"] != "neighbours"]
    first = causes[0] if causes else None
    rights = expected.causes if answer.get("attached") is None else FROM_OUTSIDE.get(name, expected.causes)
    code = first["where"][0]["code"] if first and first["where"] else None
    right = first is not None and first["id"] in rights
    if expected.lines:
        right = right and code is not None and any(one in code for one in expected.lines)
    told = {key: answer[key] for key in ("left", "alive", "failed", "disturbance") if answer.get(key) is not None}
    shares = [[cause["id"], cause["share"]] for cause in every]
    busy = len(every) > len(causes)
    return {"right": right, "cause": first and first["id"], "code": code, "causes": shares, "busy": busy, **told}


@contextmanager
def running(words: list[str], cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def threads_of(pid: int) -> int:
    folder = Path(f"/proc/{pid}/task")
    return len(list(folder.iterdir())) if folder.exists() else 0


# ── what the hooks cost ─────────────────────────────────────────────────────────────────────────────────────

KINDS = {"one pass": 1, "four passes": 4, "with a loader": 1}
_STEPS, _BLOCKS = 100, 40


def hooks_cost(kind: str) -> dict[str, Any]:
    """Return the time of a step with the hooks, and with empty ones, less that of one without, over blocks."""
    sys.path.insert(0, str(Path(of_programs.__file__).parent / "hooks"))
    import _torchstone_hooks as hooks  # type: ignore[import-not-found]  # in a folder of the program's path
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = torch.randn(2 * (_STEPS + 60), 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=2)

    def steps(number: int) -> list[float]:
        batches, ends = iter(loader) if kind == "with a loader" else None, [time.perf_counter()]
        for _ in range(number):
            for _ in range(KINDS[kind]):
                model(rows[:2] if batches is None else next(batches)[0]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            ends.append(time.perf_counter())
        return sorted(b - a for a, b in itertools.pairwise(ends))

    @contextmanager
    def hooked() -> Iterator[None]:
        hooks.watch(torch, {"budget_s": 1e9, "warmup_s": 0.0}, lambda *_, **__: None, model)
        yield
        hooks._program.stop()
        hooks.unwatch()

    arms: dict[str, Callable[[], AbstractContextManager[None]]]
    arms = {"off": nullcontext, "empty": lambda: empty_hooks(model), "hooks": hooked}
    dice, blocks = random.Random(0), []
    gc.disable()
    for _ in range(_BLOCKS):
        took = {}
        for arm in dice.sample([*arms], len(arms)):
            with arms[arm]():
                steps(50)
                took[arm] = 1e6 * steps(_STEPS)[_STEPS // 10]
        blocks.append(took)
    gc.enable()
    found: dict[str, Any] = {"step_us": sorted(took["off"] for took in blocks)[_BLOCKS // 2], "blocks": blocks}
    for arm in ("hooks", "empty"):
        differences = sorted(took[arm] - took["off"] for took in blocks)[_BLOCKS // 10 : -_BLOCKS // 10]
        value, low, high, _ = over_trials(differences, logs=False)  # without a neighbour's moments
        found[arm] = {"us": value, "low": low, "high": high}
    return found


@contextmanager
def empty_hooks(model: Any) -> Iterator[None]:
    """Have functions that do nothing where the hooks are: before and after a step, around the passes and a batch."""
    import torch
    from torch.optim import optimizer as optimizers
    from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterating

    def around(call: Any) -> Any:
        def empty(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        return empty

    def step(*_: Any) -> None:
        pass

    iterating: Any = Iterating
    autograd: Any = torch.autograd
    backward, following = autograd.backward, iterating.__next__
    autograd.backward, iterating.__next__ = around(backward), around(following)
    model.__dict__["_compiled_call_impl"] = around(model._call_impl)
    handles = [optimizers.register_optimizer_step_pre_hook(step), optimizers.register_optimizer_step_post_hook(step)]
    yield
    for handle in handles:
        handle.remove()
    del model.__dict__["_compiled_call_impl"]
    autograd.backward, iterating.__next__ = backward, following


# ── what attach costs ───────────────────────────────────────────────────────────────────────────────────────

CONVOLUTIONS = """
import sys, time, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
x = torch.randn(8, 3, 32, 32); model(x)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with open(sys.argv[1], "w", buffering=1) as ends:
    for _ in range(int(sys.argv[2])):
        loss = model(x).square().mean(); loss.backward(); optimizer.step(); optimizer.zero_grad()
        print(time.monotonic(), loss.item().hex(), file=ends)
"""


def attach_cost(count: int, seconds: float) -> dict[str, Any]:
    """Take the pairs, one after another; the losses up to the end of the first are computed again without attach."""
    with tempfile.TemporaryDirectory() as folder:
        ends, bare = Path(folder) / "ends", Path(folder) / "bare"
        with running([sys.executable, "-c", CONVOLUTIONS, str(ends), str(10**9)]) as program:
            time.sleep(seconds)  # it imports torch, and warms up
            threads, dice = threads_of(program.pid), random.Random(0)
            windows = [_windows(program.pid, seconds, dice.random() < 0.5) for _ in range(count)]
            left = {"left": threads_of(program.pid) - threads, "alive": program.poll() is None}
        rows = [line.split() for line in ends.read_text().splitlines()[:-1]]
        moments = [float(moment) for moment, _ in rows]
        steps = bisect(moments, max(ended_s for _, ended_s, _ in windows[0].values()))
        subprocess.run([sys.executable, "-c", CONVOLUTIONS, str(bare), str(steps)], check=True)
        again = [line.split()[1] for line in bare.read_text().splitlines()]
    pairs = [_rates(pair, moments) for pair in windows]
    if not all(pair["on_steps_per_s"] and pair["off_steps_per_s"] for pair in pairs):
        sys.exit("a window has no step: the machine is too busy to measure anything")
    value, low, high, _ = over_trials([pair["off_steps_per_s"] / pair["on_steps_per_s"] for pair in pairs])
    share = sum(pair["cost_s"] for pair in pairs) / sum(pair["on_s"] for pair in pairs) / (os.cpu_count() or 1)
    return {
        "rate_hz": RATE_HZ, "ratio": value, "low": low, "high": high, "cpu_share": share, "cores": os.cpu_count(),
        **left, "same_losses": _digest(again) == _digest([loss for _, loss in rows[:steps]]), "losses": steps,
        "pairs": pairs,
    }  # fmt: skip


def _digest(losses: list[str]) -> str:
    return hashlib.sha256(" ".join(losses).encode()).hexdigest()


def _windows(pid: int, seconds: float, first: bool) -> dict[str, tuple[float, float, float]]:
    """Return when the two windows began and ended, and the CPU time of py-spy in them."""
    found = {}
    for on in (first, not first):
        began_s, cost_s = time.monotonic(), 0.0
        if on:
            cost_s = watch(find_process(pid), seconds, time.monotonic, time.sleep).cost_s
        else:
            time.sleep(seconds)
        found["on" if on else "off"] = began_s, time.monotonic(), cost_s
    return found


def _rates(pair: dict[str, tuple[float, float, float]], moments: list[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, (began_s, ended_s, cost_s) in pair.items():
        steps = bisect(moments, ended_s) - bisect(moments, began_s)
        found |= {f"{name}_s": ended_s - began_s, f"{name}_steps_per_s": steps / (ended_s - began_s)}
        found |= {"cost_s": cost_s} if name == "on" else {}
    return found


# ── revisions ───────────────────────────────────────────────────────────────────────────────────────────────

# 3 % of what lies between the end of a step of the optimizer and the next one, waiting for a turn left out.
PLANTED = """
import time
import torch
from torch.optim import optimizer as _optimizers
_ended_s = [time.perf_counter()]
def _longer(*_):
    until_s = time.perf_counter() + 0.03 * (time.perf_counter() - _ended_s[0])
    while _ended_s[0] and time.perf_counter() < until_s:
        pass
def _ended(*_):
    _ended_s[0] = time.perf_counter()
_optimizers.register_optimizer_step_pre_hook(_longer)
_optimizers.register_optimizer_step_post_hook(_ended)
"""
NANOGPT = shlex.split(
    "config/train_shakespeare_char.py --device=cpu --compile=False --dtype=float32 --eval_iters=1 --log_interval=1000 "
    "--block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=100000 --lr_decay_iters=100000 "
    "--dropout=0.0"
)


@contextmanager
def revisions(nanogpt: Path | None) -> Iterator[Callable[[str, str], dict[str, Any]]]:
    """Make a repository with the branches base and slower, and give what compares them in it."""
    git = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "repository"
        shutil.copytree(nanogpt or PROGRAMS / "revisions", folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        script = folder / "train.py"
        for branch, text in (("base", script.read_text()), ("slower", PLANTED + script.read_text())):
            script.write_text(text)
            for words in (["init", "--quiet"], ["checkout", "--quiet", "-b", branch], ["add", "--force", "."]):
                subprocess.run([*git, *words], cwd=folder, check=True)
            subprocess.run([*git, "commit", "--quiet", "-m", branch], cwd=folder, check=True)
        command = [sys.executable, "train.py", *(NANOGPT if nanogpt else ())]

        def compare(kind: str, within: str) -> dict[str, Any]:
            branch = "slower" if kind == "slower" else "base"
            words = [
                "ab",
                "base",
                branch,
                "--within",
                within,
                "--output-dir",
                made,
                "--json",
                "--quiet",
                "--",
                *command,
            ]
            answer = answer_of(words, folder)
            if "failed" in answer:
                sys.exit(answer["failed"])
            found, course = answer["comparison"], answer["course"]
            return {"verdict": found["verdict"], "ratio": found["ratio"], "why": found["why"], **course}

        yield compare


if __name__ == "__main__":
    main()
