"""Ten planted bottlenecks: is the right cause named first, and does each advised gain come true when it is applied?

1. `torchstone diagnose` of each training in planted.py, a process of its own, with the budget that users have.
2. Of every setting that it says helps, and of the fixed twin where only the code can be changed: three more comparisons
   with the present settings, later and independent, for one ends as soon as it knows which is faster, and that is no
   sharp ratio. Does their geometric mean lie in the interval that was stated?

An fp32 training on a device made for bf16, and a transfer from pageable memory, need an accelerator: without one
their evidence is made up, and only the ranking is judged ([fake]). Alone on the machine it takes half an hour.
Raw data: benchmarks/data/diagnose.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from planted import CASES, Plant

from torchstone.analysis.advice.causes import causes_of
from torchstone.analysis.advice.rules import Evidence
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.interval import over_trials
from torchstone.execution import plan
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.workflows.diagnose.live_comparer import LiveComparer, with_settings
from torchstone.workflows.diagnose.live_comparer import short as short_trial
from torchstone.workflows.diagnose.target import brief_procedure

DATA = Path(__file__).parent / "data" / "diagnose.json"
PLANTED = Path(__file__).parent / "planted.py"
LATER = 3
FAKES = {"fp32 on a bf16 device": "precision", "unpinned transfer": "transfer"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the cases")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of what-ifs in a diagnosis")
    parser.add_argument("--later", type=float, default=45.0, help="seconds of each comparison that follows")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    names = options.only or [*CASES, *FAKES]
    rows = []
    for name in names:
        began_s = time.perf_counter()
        row = judged(name, CASES[name], options) if name in CASES else made_up(name)
        rows.append({**row, "wall_s": time.perf_counter() - began_s})
        print(f"{name}: {row['first']}", file=sys.stderr, flush=True)
    result = summed(rows)
    if options.only is None:
        DATA.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else table(result))


def judged(name: str, plant: Plant, options: argparse.Namespace) -> dict[str, Any]:
    """Diagnose one training, and apply what it advises."""
    diagnosis = diagnosed(plant, options.budget)
    causes = diagnosis["causes"]
    row = {
        "case": name, "expected": plant.cause, "first": causes[0]["id"] if causes else None,
        "right": bool(causes) and causes[0]["id"] == plant.cause, "made_up": False,
        "causes": [[c["id"], c["share"]] for c in causes], "evidence": causes[0]["evidence"] if causes else [],
        "tried": diagnosis["tried"],
    }  # fmt: skip
    return {**row, "gains": list(applied(plant, diagnosis, options.later))}


def diagnosed(plant: Plant, budget_s: float) -> dict[str, Any]:
    axes = [word for axis, value in plant.axes.items() for word in ("--axis", f"{axis}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "torchstone", "diagnose", "--task", "train", "--device", "cpu", "--heap", plant.heap,
            "--model", f"py:{PLANTED}:{plant.function}", *axes, "--budget", f"{budget_s:g}s", "--json", "--quiet",
            "--output-dir", folder,
        ]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)["answer"]
    return found


def applied(plant: Plant, diagnosis: Mapping[str, Any], later_s: float) -> Iterator[dict[str, Any]]:
    """Compare each advice with the present settings once more. Yields the stated interval beside the later ratio."""
    helped = [one for one in diagnosis["tried"] if one["verdict"] == "better" and not one["what_if"]["ceiling"]]
    together = diagnosis["applied"]
    if together is not None and together["gain"] is not None and together not in helped:
        helped.append(together)
    present = case_of(plant)
    for one in helped:
        candidate = with_settings(present, one["what_if"]["settings"])
        what = ", ".join(f"{k}={v}" for k, v in {**one["what_if"]["settings"], "heap": one["what_if"]["heap"]}.items()
                         if v is not None)  # fmt: skip
        later = compared(plant, present, candidate, one["what_if"]["heap"], later_s)
        yield beside(what, one["gain"], later)
    first = diagnosis["causes"][0] if diagnosis["causes"] else None
    if first is not None and first["own_code"]:
        later = compared(plant, present, case_of(plant, fixed=True), None, later_s)
        yield beside("the code without it", first["bound"], later)


def beside(what: str, stated: Mapping[str, Any], later: tuple[float, float | None, float | None]) -> dict[str, Any]:
    value = later[0]
    return {
        "what": what, "stated": [stated["value"], stated["low"], stated["high"]], "later": list(later),
        "inside": stated["low"] <= value <= stated["high"],
    }  # fmt: skip


def case_of(plant: Plant, *, fixed: bool = False) -> Case:
    options = {"fixed": True} if fixed else {}
    ask = WorkloadRequest(
        "train", f"py:{PLANTED}:{plant.function}", options=options, axes={a: (v,) for a, v in plant.axes.items()}
    )
    sketch = plan.sketch(ask)
    return Case(sketch.workload, sketch.configurations[0], Placement("cpu"))


def compared(
    plant: Plant, present: Case, candidate: Case, heap: str | None, budget_s: float
) -> tuple[float, float | None, float | None]:
    """Return (times as fast, low, high) of the candidate over LATER experiments, each with templates of its own."""
    return over_trials([ratio_of(plant, present, candidate, heap, budget_s, 1_000 + n) for n in range(LATER)])[:3]


def ratio_of(plant: Plant, present: Case, candidate: Case, heap: str | None, budget_s: float, seed: int) -> float:
    how = brief_procedure(Procedure(heap=plant.heap, seed=seed))
    with Session(how, [present.workload.model], Silent()) as session:

        def probe(case: Case) -> Trial:
            request = TrialRequest(case, short_trial(session.procedure), 0)
            return TrialDrive(request, None, Silent()).run(session.launcher, 0)

        compare = LiveComparer(present, session, probe, lambda _case, _trial: None)
        comparison, _ = compare(candidate, heap, budget_s)
    if comparison.ratio is None:
        raise SystemExit(f"{plant.function}: {comparison.why}")
    return 1.0 / comparison.ratio.value


def made_up(name: str) -> dict[str, Any]:
    """Rank the causes of a training on a card, by figures such as a card gives."""
    card = DeviceInfo("cuda", "cuda", "nvidia", 0, "a card", 80 * 10**9, precisions=("fp32", "tf32", "bf16", "fp16"))
    transfers = name == "unpinned transfer"
    phases = {"data": 0.02, "transfer": 0.38, "forward": 0.2, "backward": 0.35, "optimizer": 0.03, "rest": 0.02}
    if not transfers:
        phases = {"data": 0.01, "forward": 0.33, "backward": 0.6, "optimizer": 0.04, "rest": 0.02}
    step_s = 0.05
    configuration = {
        "batch_size": 256, "grad_accumulation": 1, "precision": "bf16" if transfers else "fp32", "compile": "off",
        "feed": "loader" if transfers else "resident", "num_workers": 8, "pin_memory": False, "fused": "auto",
        "optimizer": "adamw", "gradient_checkpointing": False, "channels_last": "auto", "threads": 0,
    }  # fmt: skip
    workload = Workload(Task.TRAIN, "timm:resnet50", "synthetic", "image")
    evidence = Evidence(
        Case(workload, configuration, Placement("cuda")),
        {"throughput": 256 / step_s, **{f"phase_{n}_s": share * step_s for n, share in phases.items()}},
        Facts(fused_optimizer=True), card, 16, larger=(1024, 3.9 * step_s), small_s=step_s,
    )  # fmt: skip
    causes = causes_of(evidence)
    return {
        "case": f"{name} [fake]", "expected": FAKES[name], "first": causes[0].id, "right": causes[0].id == FAKES[name],
        "made_up": True, "causes": [[c.id, c.share] for c in causes], "evidence": list(causes[0].evidence),
        "tried": [], "gains": [],
    }  # fmt: skip


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    gains = [gain for row in rows for gain in row["gains"]]
    return {
        "named_first": sum(row["right"] for row in rows), "of": len(rows), "wanted": 9,
        "gains_inside": sum(gain["inside"] for gain in gains),
        "gains": len(gains), "wanted_inside": 0.9, "rows": [msgspec.to_builtins(row) for row in rows],
    }  # fmt: skip


def table(result: Mapping[str, Any]) -> str:
    lines = []
    for row in result["rows"]:
        lines.append(f"{'✓' if row['right'] else '✗'} {row['case']:<34} {row['first']!s:<16} {row['wall_s']:6.0f} s")
        for gain in row["gains"]:
            stated, later = (" ".join(f"{x:.3g}" for x in gain[key]) for key in ("stated", "later"))
            lines.append(f"    {'in ' if gain['inside'] else 'OUT'} {gain['what']:<36} said {stated}, later {later}")
    share = result["gains_inside"] / result["gains"] if result["gains"] else float("nan")
    lines.append(f"\nnamed first: {result['named_first']} of {result['of']} (wanted: {result['wanted']})")
    lines.append(f"gains in their interval: {result['gains_inside']} of {result['gains']}, {share:.0%} (wanted: 90 %)")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
