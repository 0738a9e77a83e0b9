"""What each lever of `ab` gains: the standard error of the same comparison (equal code) after 50 s, lever by lever.

    levers.py --rounds 6                     every lever in turn, again and again
    levers.py --layout --rounds 6            the trap: two programs of the same work, laid out differently
    levers.py --summary

In a round every lever gets one template and some pairs, in random order. The error after 50 s follows from the spread
of all its pairs (over all its templates) and what a pair took.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import msgspec
from aa import SLOW, WORKLOADS, append, case_of

from torchstone.core.schema.procedure import Procedure
from torchstone.core.stats.nested import trimmed_mean
from torchstone.workflows.ab.experiment import in_turns
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import SessionPool, Variant

DATA = Path(__file__).parent / "data" / "levers.json"
PLAIN: Mapping[str, Any] = {"couples": 40, "turn_s": 0.01, "shift_bytes": 1 << 20}
# lever → what it changes of the Procedure, and of the turns
LEVERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "as it is": ({}, {}),
    "new interpreters": ({"isolation": "spawn"}, {}),
    "the system's heap": ({"heap": "default"}, {}),
    "turns of 50 ms": ({}, {"turn_s": 0.05, "couples": 8}),
    "turns of 250 ms": ({}, {"turn_s": 0.25, "couples": 2}),
    "8 couples a pair": ({}, {"couples": 8}),
    "heap not moved": ({}, {"shift_bytes": 64}),
    "huge pages": ({"heap": "huge"}, {}),
    "not bound to cores": ({}, {"bind": False}),
}
_MEANS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "middle half": lambda logs: trimmed_mean(logs, 0.25), "mean": fmean, "median": median,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--layout", action="store_true")
    parser.add_argument("--lever", action="append", choices=sorted(LEVERS), help="only these")
    parser.add_argument("--workload", default="mlp train", choices=sorted({**WORKLOADS, **SLOW}))
    parser.add_argument("--couples", type=int, help="of turns in a pair (default 40, or what the lever says)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    names = options.lever or (["as it is", "heap not moved"] if options.layout else list(LEVERS))
    for _ in range(0 if options.summary else options.rounds):
        for name in dice.sample(names, len(names)):
            append(options.out, template_of(name, options, dice))
            print(".", end="", file=sys.stderr, flush=True)
    print(told(json.loads(options.out.read_text(encoding="utf-8"))))


def template_of(name: str, options: argparse.Namespace, dice: random.Random) -> dict[str, Any]:
    """Take some pairs of one template under one lever."""
    how, turns = LEVERS[name]
    procedure = in_turns(msgspec.structs.replace(Procedure(), **how))
    plan = TurnPlan(**{**PLAIN, **turns, **({"couples": options.couples} if options.couples else {})})
    a = case_of(options.workload, 100)
    b = case_of(options.workload, 100, {"pad": 4096 - 192}) if options.layout else a
    began = time.perf_counter()
    with SessionPool({None: [a.workload.model]}, procedure) as pool:
        opened = time.perf_counter()
        sides = [Variant("A", a), Variant("B", b)]
        pairs = [pool.take(sides, number, plan, dice, 0) for number in range(options.pairs)]
    took_s = (time.perf_counter() - opened) / options.pairs
    return {
        "lever": name, "layout": options.layout, "workload": options.workload, "pair_s": round(took_s, 3),
        "template_s": round(opened - began, 3), "logs": [[round(v, 5) for v in pair.logs] for pair in pairs],
    }  # fmt: skip


def told(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line a lever: the spread of its pairs and of its templates, and the error after 50 s."""
    lines = []
    workloads = dict.fromkeys(row["workload"] for row in rows)
    for workload, layout in itertools.product(workloads, (False, True)):
        for name in LEVERS:
            of = [row for row in rows if (row["lever"], row["layout"], row["workload"]) == (name, layout, workload)]
            if len(of) < 2:
                continue
            for mean, middle in _MEANS.items():
                if mean != "middle half" and (name != "as it is" or layout):
                    continue
                groups = [[middle(logs) for logs in row["logs"] if logs] for row in of]
                values = [v for group in groups for v in group]
                spread, pair_s = stdev(values), fmean(row["pair_s"] for row in of)
                templates = stdev(fmean(group) for group in groups)
                kind = "same work, other layout" if layout else "equal code"
                lines.append(
                    f"{workload}, {kind}, {name}, {mean}: {len(values)} pairs of {len(of)} templates, {pair_s:.2f} s a "
                    f"pair; pairs spread {spread:.2%}, means of templates {templates:.2%}, "
                    f"all in the mean {fmean(values):+.2%}; error after 50 s {spread * math.sqrt(pair_s / 50):.2%}"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
