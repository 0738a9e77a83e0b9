"""One of two ranks dies, hangs or lacks memory: one Outcome that names it, in time, and no process is left."""

import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from faults import rank_ends

from torchstone.core.schema.trial import Status, Trial
from torchstone.storage.record_reader import read_record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked, and looked for in /proc")

FILE = Path(rank_ends.__file__)
TIMEOUT_S, BEYOND_S = 8.0, 5.0
DDP = {"world_size": [2]}
AXES = {"well": {"world_size": [2], "strategy": ["fsdp2"]}}
CRASHED, NO_MEMORY = Status.CRASHED, Status.OUT_OF_MEMORY
MARK = "TORCHSTONE_TEST_OF_RANKS"


def trials_of(folder: Path, *ends: str) -> dict[str, Trial]:
    """Run models with these ends on two ranks by the real command line; no process that it started is left after."""
    mark, file = uuid.uuid4().hex, folder / "ends.json"
    workloads = [{"model": f"py:{FILE}:load_{end}", "task": "train", "axes": AXES.get(end, DDP)} for end in ends]
    file.write_text(json.dumps({"workloads": workloads}))
    subprocess.run(
        [sys.executable, "-m", "torchstone", "run", "--config", str(file), "--device", "cpu", "--trials", "1",
         "--iterations", "5", "--warmup", "4", "--timeout", f"{TIMEOUT_S:g}s", "--isolation", "fork"],
        capture_output=True, text=True, timeout=150, check=False,
        env=os.environ | {"TORCHSTONE_OUTPUT": str(folder), MARK: mark},
    )  # fmt: skip
    assert not left(mark)
    (path,) = (folder / "records").glob("*.jsonl")
    run = read_record(path)
    models = {case.case_id: case.workload.model.rpartition("load_")[2] for case in run.head.plan.cases}
    return {models[trial.case_id]: trial for trial in run.trials}


def left(mark: str) -> list[int]:
    """Return the processes that carry the mark, once those that are ending have had a moment."""
    for _ in range(20):
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # it has ended, or is another user's
                continue
        if not found:
            break
        time.sleep(0.1)
    return found


def line_of(end: str) -> str:
    lines = FILE.read_text().splitlines()
    return f"{FILE.name}:{next(n for n, line in enumerate(lines, 1) if line.endswith(f'# line of {end}'))}"


def check(trial: Trial, status: Status, says: str) -> None:
    where = re.sub(r"LINE of (\w+)", lambda found: re.escape(line_of(found[1])), says)
    assert trial.outcome.status == status, trial.outcome
    assert re.fullmatch(where, trial.outcome.message or "")
    assert trial.duration_s < TIMEOUT_S  # nobody waited for it


def test_a_rank_that_is_killed_ends_the_trial_at_once(tmp_path):
    trial = trials_of(tmp_path, "kill")["kill"]
    check(
        trial,
        CRASHED,
        "rank 1: killed by SIGKILL during warm-up, .*by the kernel's out-of-memory killer",
    )


def test_the_first_rank_that_fails_says_why_and_the_others_are_measured(tmp_path):
    trials = trials_of(tmp_path, "memory", "raise", "segfault", "nan", "leave", "interrupt", "well")
    check(trials["memory"], NO_MEMORY, "rank 1: RuntimeError: .*memory.* at LINE of memory in fill")
    check(trials["raise"], CRASHED, "rank 1: ValueError: too many rows at LINE of raise in fail")
    check(trials["segfault"], CRASHED, "rank 1: killed by SIGSEGV during warm-up.*")
    check(trials["leave"], CRASHED, "rank 1: exited with code 0 during warm-up, before it finished")
    check(trials["interrupt"], CRASHED, "rank 1: killed by SIGINT during warm-up")
    check(trials["nan"], CRASHED, r"the loss is nan from step 6 of \d+, of 2 ranks first in 1")
    assert {m.rank for m in trials["nan"].measurements if m.metric == "step_time_s"} == {0, 1}  # as in one process
    well = trials["well"]
    assert well.outcome.status == Status.OK, well.outcome
    assert {m.rank for m in well.measurements if m.metric == "step_time_s"} == {0, 1}
    assert well.facts.ranks == 2
    assert all(threads and threads > 0 for threads in well.facts.threads_by_rank)
    assert all(re.fullmatch(r"[-,\d]+", str(cores)) for cores in well.facts.cores_by_rank)
    assert all(rate > 0.0 for rate in well.facts.items_per_s_by_rank)
    assert [len(each) for each in (well.facts.threads_by_rank, well.facts.cores_by_rank)] == [2, 2]
    assert len(well.facts.items_per_s_by_rank) == 2
    assert set(well.facts.reshard_after_forward) <= {"yes", "no", "no weights of its own"}
    assert well.facts.reshard_after_forward


def test_a_rank_that_hangs_ends_the_trial_at_its_timeout_and_is_named(tmp_path):
    trials = trials_of(tmp_path, "hang", "stop")
    assert trials["stop"].outcome.message == (
        "timed out after 8 s during warm-up in rank 1: no answer, stopped by a signal (SIGSTOP)"
    )
    trial = trials["hang"]
    assert trial.outcome.status == Status.TIMED_OUT
    assert trial.outcome.message == f"timed out after 8 s during warm-up in rank 1 at {line_of('hang')} in hang"
    assert trial.duration_s <= TIMEOUT_S + BEYOND_S
