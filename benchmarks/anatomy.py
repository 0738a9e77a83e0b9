"""Is the anatomy of a step true? Known stalls are looked for in every phase, and loaders of known pace measured.

Stalls: a sleep or a spin of 1, 5 or 20 ms in data, forward, backward or optimizer of a tiny network's training step,
through the real engine and the real pass. Blocks with the stall there and with the same stall just beyond the end of
that phase in turn (so that caches are as cold in both), all in random order within each round; the stall notes its own
true length, for a sleep oversleeps. Found: the phase with the stall less the phase without.

Loaders: a data set that gives so many batches a second, whoever asks and however many processes load, through the
real engines: alone (task load), then before a compute step that is faster and one that is slower. Beside it the same
DataLoader in a bare loop, which also pays what torch takes for handing a batch over.

    python benchmarks/anatomy.py [--rounds 12] [--only stalls|loaders] [--json FILE]     exit 1 if a claim does not hold
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
import timeit
import warnings
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import torch
from known_pace import Compute, Paced, bare_loop
from known_stalls import PLACES, Stalled

from torchstone.analysis.advice.feeding import FeedPace, feeding
from torchstone.core.figures import figures
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import Event, Measured, TrialRequest
from torchstone.core.schema.metric import PHASES
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.timing.loop import Instrument, unmarked
from torchstone.execution.timing.segments import Segments
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.execution import measure_prepared
from torchstone.execution.worker.setup import Setup
from torchstone.plugins import registry

LENGTHS_S = (0.001, 0.005, 0.020)
STEPS = 10  # of a block
RATES, WORKERS = (100.0, 300.0, 1000.0), (0, 1, 2, 4)
WINDOW = Procedure(warmup_budget_s=0.15, target=None, budget_s=0.6, count_flops=False)


def case_of(task: str, **axes: Any) -> Case:
    values = {axis: AXES[axis].default for axis in registry.load("engines", task).axes} | axes
    return Case(Workload(Task(task), "bench:anatomy", "example", "sample"), values, Placement("cpu"))


# ── known stalls ────────────────────────────────────────────────────────────────────────────────────────────


class Block(NamedTuple):
    """One block: mean seconds a step of each phase, of the step and of the stall; steps by a clock outside ÷ by it."""

    phases_s: Mapping[str, float]
    step_s: float
    stall_s: float
    outside: float


class StalledStep:
    """The tiny network's training step with its stalls, set up by the real engine."""

    def __init__(self) -> None:
        self.net = Stalled()
        device = registry.load("devices", "cpu").open(0)
        case = case_of("train", batch_size=8, optimizer="sgd")
        engine = registry.load("engines", "train")
        prepared = engine.prepare(case, self.net.model, device)
        feed = engine.open_batches(case, self.net.model, None, device, 0)
        self._device = device
        self._began_s: list[float] = []

        def step(pull: Any, mark: Any) -> None:
            def ended(phase: str) -> None:
                mark(phase)
                self.net.after(f"beyond {phase}", None)

            self._began_s.append(time.perf_counter())
            prepared.step(pull, ended)

        self._instrument = Instrument(
            step, lambda: self.net.after("data", feed.next()), device.synchronize, time.perf_counter
        )

    def block(self, place: str, kind: str, length_s: float) -> Block:
        """Cut one block of steps with the stall at that place."""
        self.net.arm(place, kind, length_s)
        self._began_s.clear()
        steps = self._instrument.dissect(Segments(self._device.stopwatch()), STEPS, closed=False)
        # The beginnings of the first step that counts and of the last lie STEPS - 1 steps apart.
        outside = (self._began_s[STEPS] - self._began_s[1]) / sum(steps.steps_s[: STEPS - 1])
        phases_s = {phase: round(fmean(spent_s), 9) for phase, spent_s in steps.phases_s.items()}
        return Block(phases_s, round(fmean(steps.steps_s), 9), round(fmean(self.net.took_s[1:]), 9), round(outside, 7))


def stalls(rounds: int) -> dict[str, Any]:
    """Return the blocks of every round, by cell."""
    step = StalledStep()
    cells = list(itertools.product(PLACES, ("sleep", "spin"), LENGTHS_S))
    raw: dict[str, list[list[Block]]] = {f"{place} {kind} {length_s:g}": [] for place, kind, length_s in cells}
    dice = random.Random(0)
    for _ in range(3):
        step.block("data", "spin", 0.001)  # warm
    for _ in range(rounds):
        for place, kind, length_s in dice.sample(cells, len(cells)):
            pair = [step.block(f"beyond {place}", kind, length_s), step.block(place, kind, length_s)]
            raw[f"{place} {kind} {length_s:g}"].append(pair)
    return {"steps_a_block": STEPS, "rounds": rounds, "blocks": raw}


def show_stalls(result: Mapping[str, Any]) -> bool:
    """Print what was found of each stall; return whether each claim holds."""
    print(f"\nknown stalls, {result['rounds']} rounds: found less true, median of rounds; asked ±2 % or ±50 µs")
    print(f"{'place':<11}{'kind':<7}{'true':>10}{'found':>11}{'off':>11}{'off':>9}")
    good = True
    for name, pairs in result["blocks"].items():
        place, kind, _ = name.split()
        found_s = [with_it.phases_s[place] - without.phases_s[place] for without, with_it in pairs]
        true_s = median(with_it.stall_s for _, with_it in pairs)
        off_s = median(found - pair[1].stall_s for found, pair in zip(found_s, pairs, strict=True))
        holds = abs(off_s) <= max(0.02 * true_s, 50e-6)
        good &= holds
        print(
            f"{place:<11}{kind:<7}{1e3 * true_s:>7.3f} ms{1e3 * median(found_s):>8.3f} ms{1e6 * off_s:>+8.1f} µs"
            f"{100 * off_s / true_s:>+7.2f} %{'' if holds else '   MISSED'}"
        )
    blocks = [block for pairs in result["blocks"].values() for pair in pairs for block in pair]
    inside = max(abs(sum(b.phases_s.values()) / b.step_s - 1.0) for b in blocks)
    outside = sorted(abs(b.outside - 1.0) for b in blocks)
    print(f"parts against their step, worst of {len(blocks)} blocks: {100 * inside:.7f} % (asked ≤ 0.5 %)")
    print(
        f"parts against a clock outside: median {100 * median(outside):.3f} %, p99 "
        f"{100 * outside[int(0.99 * len(outside))]:.3f} %, worst {100 * outside[-1]:.3f} %"
    )
    return good and inside <= 0.005 and outside[int(0.99 * len(outside))] <= 0.005


# ── loaders of a known pace ─────────────────────────────────────────────────────────────────────────────────


def trial(task: str, compute: Compute, samples: Paced | None, **axes: Any) -> Mapping[str, float]:
    """Return the figures of one real trial in this process."""
    example = {"input": torch.zeros(4, 6)}
    model = LoadedModel(torch.nn.Identity(), compute.forward, None, InputSpec("own"), example)
    case = case_of(task, batch_size=1, threads=1, **axes)
    engine, device = registry.load("engines", task), registry.load("devices", "cpu").open(0)
    prepared, batches = (
        engine.prepare(case, model, device),
        engine.open_batches(case, model, samples, device, 0),
    )
    events: list[Event] = []
    try:
        setup = Setup(case, engine, model, prepared, device, Collector(case))
        measure_prepared(TrialRequest(case, WINDOW, 0), setup, batches, events.append)
    finally:
        batches.close()
    (told,) = [event for event in events if isinstance(event, Measured)]
    return figures(Trial("t", "c", 0, 0, "", 0.0, Outcome(Status.OK), told.facts, told.measurements)).values


def compute_of(rate: float, *, fast: bool) -> Compute:
    """Return a step well faster, or well slower, than that many batches a second.

    The slow one takes 30 ms: next to it the 0.1 to 0.3 ms that torch takes to hand a batch over are small.
    """
    return Compute(0.4 / rate if fast else 0.03)


def loaders(rounds: int) -> dict[str, Any]:
    """Return, for each rate and count of workers, the rates of every round."""
    cells = list(itertools.product(RATES, WORKERS))
    raw: dict[str, list[dict[str, Any]]] = {f"{rate:g} {workers}": [] for rate, workers in cells}
    dice = random.Random(0)
    for _ in range(rounds):
        alone = {
            (rate, fast): trial("infer", compute_of(rate, fast=fast), None, mode="throughput", feed="resident")
            for rate, fast in itertools.product(RATES, (True, False))
        }
        for rate, workers in dice.sample(cells, len(cells)):
            row: dict[str, Any] = {"bare": bare_loop(rate, workers, WINDOW.budget_s)[0]}
            row["loader"] = trial("load", Compute(0.0), Paced(rate, workers), num_workers=workers)["throughput"]
            for fast in (True, False):
                compute = compute_of(rate, fast=fast)
                whole = trial(
                    "infer", compute, Paced(rate, workers, compute),
                    mode="throughput", feed="loader", num_workers=workers,
                )  # fmt: skip
                beside = compute_of(rate, fast=fast)
                bare, bare_waits = bare_loop(rate, workers, WINDOW.budget_s, beside)
                row["fast" if fast else "slow"] = {
                    "bare": bare, "bare_waits": bare_waits,
                    "compute": compute.rate, "device": alone[rate, fast]["throughput"], "whole": whole["throughput"],
                    "waits": whole["data_wait_share"],
                    "data_phase": whole["phase_data_s"] / whole["anatomy_step_s"],
                    "sum": sum(whole.get(f"phase_{p}_s", 0.0) for p in PHASES) / whole["anatomy_step_s"],
                }  # fmt: skip
            raw[f"{rate:g} {workers}"].append(row)
    return {"rounds": rounds, "window_s": WINDOW.budget_s, "cells": raw}


def show_loaders(result: Mapping[str, Any]) -> bool:
    """Print both tables; return whether each claim holds."""
    print(f"\nthe loader alone, batches/s, median of {result['rounds']} rounds; asked: within 2 %")
    print(f"{'asked':>6}{'workers':>9}{'bare loop':>12}{'torchstone':>12}{'off':>9}")
    good = True
    for name, rows in result["cells"].items():
        rate, workers = name.split()
        bare, loader = median(row["bare"] for row in rows), median(row["loader"] for row in rows)
        off = loader / float(rate) - 1.0
        deliverable = abs(bare / float(rate) - 1.0) <= 0.02
        holds = abs(off) <= 0.02 or (not deliverable and abs(loader / bare - 1.0) <= 0.02)
        good &= holds
        note = "" if holds else "   MISSED"
        print(
            f"{rate:>6}{workers:>9}{bare:>12.1f}{loader:>12.1f}{100 * off:>+7.2f} %"
            f"{note or ('' if deliverable else '   torch cannot deliver more')}"
        )
    print("\nloader and compute together, and a bare loop of both; asked: rate within 3 %, who waits named right")
    print(f"{'asked':>6}{'workers':>9}{'compute':>10}{'bare loop':>10}{'together':>10}{'off':>9}", end="")
    print(f"{'bare waits':>15}{'wait':>9}{'phase':>9}   pace")
    for name, rows in result["cells"].items():
        rate, workers = name.split()
        for speed in ("fast", "slow"):
            good &= _show_together(rate, int(workers), speed, rows)
    return good


def _show_together(rate: str, workers: int, speed: str, rows: list[dict[str, Any]]) -> bool:
    compute, device, whole, waits, phase = (
        median(row[speed][key] for row in rows) for key in ("compute", "device", "whole", "waits", "data_phase")
    )
    loader = median(row["loader"] for row in rows)
    expected, share = median(row[speed]["bare"] for row in rows), median(row[speed]["bare_waits"] for row in rows)
    off = median(row[speed]["whole"] / row[speed]["bare"] for row in rows) - 1.0  # of a round: torch's pace drifts
    told = feeding(loader, device, whole, waits, workers)
    right = {FeedPace.LOADER if speed == "fast" else FeedPace.DEVICE} if workers else {FeedPace.TURNS}
    if not workers and expected > 0.92 * min(loader, compute):
        right.add(FeedPace.DEVICE)  # loading takes so little that turns are hardly felt
    sums = max(abs(row[speed]["sum"] - 1.0) for row in rows)
    holds = abs(off) <= 0.03 and told.pace in right and sums <= 0.005
    print(
        f"{rate:>6}{workers:>9}{compute:>10.1f}{expected:>10.1f}{whole:>10.1f}{100 * off:>+7.2f} %"
        f"{100 * share:>13.1f} %{100 * waits:>7.1f} %{100 * phase:>7.1f} %   {told.pace}{'' if holds else '   MISSED'}"
    )
    return holds


# ── what a mark costs ───────────────────────────────────────────────────────────────────────────────────────


def marks() -> float:
    """Return seconds a step that a mark of every phase takes, where it does nothing."""

    def every() -> None:
        for phase in PHASES:
            unmarked(phase)

    return min(timeit.repeat(every, number=1000, repeat=50)) / 1000


def main() -> int:
    """Measure, keep the raw data, print; return 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="of stalls; of loaders a quarter (default 12)")
    parser.add_argument("--only", choices=("stalls", "loaders"))
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "anatomy.json")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # 4 workers on 2 cores are asked for
    torch.set_num_threads(1)
    kept: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "marks_s_a_step": marks()}
    good = kept["marks_s_a_step"] < 1e-6
    print(f"{len(PHASES)} marks that do nothing: {1e6 * kept['marks_s_a_step']:.2f} µs a step (asked < 1 µs)")
    if options.only != "loaders":
        kept["stalls"] = stalls(options.rounds)
        good &= show_stalls(kept["stalls"])
    if options.only != "stalls":
        kept["loaders"] = loaders(max(1, options.rounds // 4))
        good &= show_loaders(kept["loaders"])
    options.json.write_text(json.dumps(kept))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
