"""C1 to C3: live comparisons on a device: equal code, work that was put in, and two sides that do not both fit."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from run_sheet.here import Done, Here, Refused
from run_sheet.products import Bench

PLANTED = Path(__file__).with_name("planted_device.py")
_TRUE_RATIO = 1.03
_HELD = 0.57  # of the device's memory on each side: 80 GB of 141


def equal_code(here: Here) -> None:
    """C1. Compare a file with itself, three workloads, a minute each: no difference may be found.

    Raises Refused at the end where a side of one failed; the others are compared all the same.
    """
    if here.quick or here.on_cpu:
        works: Mapping[str, dict[str, Any]] = {
            "bert_tiny": _work("train", "hf:bert-tiny", batch_size=8, sequence_length=32)
        }
    else:
        works = {
            "distilbert": _work("train", "hf:distilbert-base-uncased", batch_size=32, sequence_length=128),
            "resnet": _work("infer", "hf:microsoft/resnet-50", batch_size=64, image_size=224, precision="bf16"),
            "gpt2": _work("train", "hf:gpt2", batch_size=8, sequence_length=512, precision="bf16"),
        }
    called = taken = 0
    failed: list[str] = []
    for name, work in works.items():
        files = [str(here.write(f"{name}_{side}.json", {"workloads": [work]})) for side in "ab"]
        done = here.torchstone("ab", *files, "--within", "20s" if here.quick else "60s", limit_s=90)
        here.note(f"took_{name}_s", done.took_s)
        try:
            found = compared(done)
        except Refused as why:
            failed.append(f"{name}: {why}")
            continue
        for key, value in found.items():
            here.note(f"{key}_{name}", value)
        called += found["verdict"] in ("better", "worse")
        taken += bool(found["pairs"])  # without a pair nothing was compared, and nothing is called different
    here.note("called_different", called)
    here.note("compared", taken)
    if failed:
        raise Refused("; ".join(failed))


def _work(task: str, model: str, **axes: Any) -> dict[str, Any]:
    return {"task": task, "model": model, "data": "synthetic", "axes": axes}


def compared(done: Done) -> dict[str, Any]:
    """Return verdict, ratio with its ends, and pairs of an ab. Raises Refused where a side failed."""
    answer = done.document()["answer"]
    found = answer["comparison"]
    ratio = found.get("ratio") or {}
    if found["verdict"] == "not_comparable":
        raise Refused(f"nothing was compared: {found.get('why')}")
    return {
        "verdict": found["verdict"], "ratio": ratio.get("value"), "low": ratio.get("low"), "high": ratio.get("high"),
        "pairs": answer["course"]["pairs"],
    }  # fmt: skip


def planted(here: Here) -> None:
    """C2. Put 3 % more products into side B: what `ab` says by itself, and by turns of 10 and 200 ms."""
    side = 64 if here.on_cpu else 2048
    files = []
    for name, count in (("a", 100), ("b", 103)):
        work = {
            "task": "infer", "model": f"py:{PLANTED}:products", "options": {"count": count, "side": side},
            "axes": {"mode": "throughput", "precision": "fp32" if here.on_cpu else "tf32"},
        }  # fmt: skip
        files.append(str(here.write(f"{name}.json", {"workloads": [work]})))
    if not here.quick:
        for key, value in compared(here.torchstone("ab", *files, "--within", "60s", limit_s=90)).items():
            here.note(f"ab_{key}", value)
    for name, turn_s in (("10ms", 0.01), ("200ms", 0.2))[here.quick :]:
        logs = _by_turns(here, side, turn_s, pairs=2 if here.quick else 6)
        here.note(f"pairs_{name}", len(logs))
        here.note(f"ratio_{name}", math.exp(fmean(logs)))
        if len(logs) > 1:
            here.note(f"spread_{name}", stdev(logs))
        here.note(f"off_{name}", abs(math.exp(fmean(logs)) / _TRUE_RATIO - 1.0))


def _by_turns(here: Here, side: int, turn_s: float, pairs: int) -> list[float]:
    """Return the logarithm of B over A of each pair, from turns of that length, as levers.py takes them."""
    from torchstone.core.schema.case import Case, Placement
    from torchstone.core.schema.procedure import Procedure
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.core.stats.nested import trimmed_mean
    from torchstone.execution import plan
    from torchstone.workflows.ab.experiment import as_ab_does, in_turns
    from torchstone.workflows.ab.interleaving import TurnPlan
    from torchstone.workflows.ab.pair import SessionPool, Variant

    def case_of(count: int) -> Any:
        axes = {"mode": ["throughput"], "precision": ["fp32" if here.on_cpu else "tf32"]}
        options = {"count": count, "side": side}
        sketch = plan.sketch(WorkloadRequest("infer", f"py:{PLANTED}:products", options=options, axes=axes))
        return Case(sketch.workload, sketch.configurations[0], Placement(here.device))

    how = Procedure(isolation=here.isolation or "auto")
    procedure, dice = in_turns(as_ab_does(how)), random.Random(0)
    turns = TurnPlan(couples=4 if here.quick else 8, turn_s=turn_s)
    sides = [Variant("A", case_of(100)), Variant("B", case_of(103))]
    with SessionPool({None: [sides[0].case.workload.model]}, procedure) as pool:
        taken = [pool.take(sides, number, turns, dice, 0) for number in range(pairs)]
    for pair in taken:
        if not pair.logs:
            raise Refused("; ".join(str(trial.outcome.message) for trial in pair.trials if trial.outcome.message))
    return [trimmed_mean(pair.logs, 0.25) for pair in taken]


def both_too_large(here: Here) -> None:
    """C3. Two sides, each of which takes more than half of the memory: one line says so, and nothing crashes."""
    bench = Bench(here)
    total = bench.total_bytes()
    if total is None:
        raise Refused("torch does not tell how much memory the device has")
    held = int(_HELD * total)
    here.note("held_bytes", held)
    files = []
    for name, count in (("a", held), ("b", held + 1)):
        work = {"task": "infer", "model": f"py:{PLANTED}:holding", "options": {"hold_bytes": count}}
        files.append(str(here.write(f"{name}.json", {"workloads": [work]})))
    done = here.torchstone("ab", *files, "--within", "40s", limit_s=100)
    told = done.err.strip()
    here.note("exit_code", done.code)
    here.note("has_traceback", "Traceback" in told)
    here.note("says", done.last_line[:300])
    here.note("names_memory", "memory" in (told + done.out).lower())
    alone = here.torchstone(
        "run", files[0], "--trials", "1", "--budget", "300ms", "--no-phases", limit_s=60
    ).document()  # fmt: skip
    here.note("status_alone", str(alone["cases"][0]["trials"][0]["outcome"]["status"]))
