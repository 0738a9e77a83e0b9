"""One real tune on this machine against everything tried: the same answer, at which share of the time?

1. `torchstone tune` over a space of batch size × loader workers × precision, training a small CNN on real images.
2. `torchstone run` over every point of the same space, one trial each, by the same Procedure.
3. The two answers against each other in interleaved rounds: their ratio with its interval.

Alone on the machine it takes about a quarter of an hour. Raw data: benchmarks/data/tune.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Plan, Run
from torchstone.execution.controller.active_run import ActiveRun
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.storage.query import find
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.tune.answering import gain, run_rounds, worth_of

DATA = Path(__file__).parent / "data" / "tune.json"
WORKLOAD = ["--task", "train", "--model", "builtin:cnn", "--data", "digits"]
AXES = {"batch_size": "4,8,16,32,64,128,256,512", "num_workers": "0,1,2,4", "precision": "fp32,bf16"}
PROCEDURE = ["--budget", "2s", "--warmup-budget", "1.5s"]
ROUNDS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the last comparison")
    parser.add_argument("--image-size", type=int, default=32)
    options = parser.parse_args()
    axes = [word for axis, values in AXES.items() for word in ("--axis", f"{axis}={values}")]
    fixed = ["--axis", f"image_size={options.image_size}"]
    with tempfile.TemporaryDirectory() as folder:
        tuned, tune_wall_s = torchstone(["tune", *WORKLOAD, *axes, *fixed, *PROCEDURE], folder)
        loader = ["--axis", "feed=loader", "--trials", "1", "--no-phases"]
        grid, grid_wall_s = torchstone(["run", *WORKLOAD, *axes, *fixed, *PROCEDURE, *loader], folder)
        cases = {case.case_id: case for run in (tuned, grid) for case in plan_of(folder, run["run_id"])}
        answer = tuned["answer"]["recommended"]["case_id"]
        best = max(measured(grid), key=lambda case: case["estimates"]["throughput"]["value"])["case_id"]
        compared = final_round(Path(folder), cases[answer], cases[best], options.rounds) if answer != best else None
    rates = {case["case_id"]: case["estimates"]["throughput"]["value"] for case in measured(grid)}
    trial_s = {run["run_id"]: sum(t["duration_s"] for c in run["cases"] for t in c["trials"]) for run in (tuned, grid)}
    result = {
        "points": len(grid["cases"]), "image_size": options.image_size,
        "answer": cases[answer].configuration, "best_of_grid": cases[best].configuration,
        "same_point": answer == best, "answer_over_best_in_grid": rates[answer] / rates[best],
        "answer_over_best_interleaved": compared,
        "search_share_of_trial_seconds": tuned["answer"]["searched_s"] / trial_s[grid["run_id"]],
        "tune_share_of_trial_seconds": trial_s[tuned["run_id"]] / trial_s[grid["run_id"]],
        "tune_wall_s": tune_wall_s, "grid_wall_s": grid_wall_s, "wall_share": tune_wall_s / grid_wall_s,
        "gain_over_present": tuned["answer"]["gain"], "probes": tuned["answer"]["probes"],
        "grid_rates": [[case["configuration"], rates[case["case_id"]]] for case in measured(grid)],
        "machine": tuned["machine"]["host"]["processor"],
    }  # fmt: skip
    DATA.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "grid_rates"}, indent=1))


def torchstone(words: list[str], folder: str) -> tuple[dict[str, Any], float]:
    began_s = time.perf_counter()
    command = [sys.executable, "-m", "torchstone", *words, "--json", "--output-dir", folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout), time.perf_counter() - began_s


def plan_of(folder: str, run_id: str) -> tuple[Case, ...]:
    return find(Path(folder), run_id).head.plan.cases


def measured(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [case for case in run["cases"] if "throughput" in case["estimates"]]


def final_round(folder: Path, answer: Case, best: Case, rounds: int, objective: str = "throughput") -> dict[str, Any]:
    """Take both in interleaved rounds, and return the ratio of the answer to the grid's best."""
    spec = TuneSpec(objective, "adaptive", answer, {}, final_trials=rounds)
    procedure = find(folder, "latest").head.procedure
    with Session(procedure, [answer.workload.model], Silent()) as session:
        machine, _ = session.inspect()
        head = session.head(Plan((), ()), machine, "final round", sys.argv)
        with RecordWriter(record_path(folder, head.run_id), head) as writer:
            found = run_rounds(
                [answer, best], spec, ActiveRun(session, writer, Run(head, (), (), None), folder), seed=1
            )
        assert read_record(record_path(folder, head.run_id)).trials
    ratio = gain(found[answer.case_id], found[best.case_id], spec)
    return {
        "ratio": json.loads(encode(ratio)) if ratio is not None else None,
        "worth": {"answer": worth_of(found[answer.case_id], spec), "best": worth_of(found[best.case_id], spec)},
    }


if __name__ == "__main__":
    main()
