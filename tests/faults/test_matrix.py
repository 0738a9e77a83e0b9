"""Every kind of end, provoked for real in the middle of a sweep of 12: it has its Outcome, 11 others are measured."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from faults import ends

from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial
from torchstone.execution import plan
from torchstone.execution.controller.active_run import take_all
from torchstone.execution.controller.session import Session
from torchstone.storage.record_reader import read_record

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc and control groups"),
    pytest.mark.xdist_group("matrix"),  # what runs out of memory counts for the whole control group, other tests too
]

SIZES = list(range(1, 13))
QUICK = Procedure(trials=1, warmup=0, iterations=3, warmup_budget_s=0.0, count_flops=False, phases=False)
TIMEOUT_S = 4.0
FILE = Path(ends.__file__)
CRASHED, NO_MEMORY, TIMED_OUT = Status.CRASHED, Status.OUT_OF_MEMORY, Status.TIMED_OUT
NO_GROUP = "no memory control group may be made here"

# name, axes, status, message (a pattern; LINE: the file and line whose comment is "line of <name>")
ENDS = [
    ("segfault", {}, CRASHED, "killed by SIGSEGV during warm-up at LINE in segfault"),
    ("segfault_beside_a_loader", {"num_workers": 2}, CRASHED, "killed by SIGSEGV during warm-up at LINE in .*"),
    ("abort", {}, CRASHED, "killed by SIGABRT during warm-up at LINE in abort"),
    ("kill", {}, CRASHED, "killed by SIGKILL during warm-up, not by the kernel's out-of-memory killer"),
    ("sys_exit", {}, CRASHED, "SystemExit: exit code 7 at LINE in sys_exit"),
    ("os_exit", {}, CRASHED, "exited with code 9 during warm-up"),
    ("os_exit_0", {}, CRASHED, "exited with code 0 during warm-up, before it finished"),
    ("exception", {}, CRASHED, "ValueError: too many rows at LINE in exception"),
    ("hang", {}, TIMED_OUT, "timed out after 4 s during warm-up at LINE in hang"),
    ("out_of_torchs_memory", {}, NO_MEMORY, "RuntimeError: .*memory.* at LINE in out_of_torchs_memory"),
    ("out_of_pythons_memory", {}, NO_MEMORY, "MemoryError at .* in _fill"),
    ("out_of_threads", {}, NO_MEMORY, "RuntimeError: can't start new thread at LINE in out_of_threads"),
    ("out_of_the_hosts_memory", {}, NO_MEMORY, "killed by the kernel's out-of-memory killer during warm-up"),
    ("lose_the_device", {}, CRASHED, "the device was lost: RuntimeError: CUDA error: .* at LINE in lose_the_device"),
    ("nan", {}, CRASHED, "the loss is nan from step 1 of 4"),
    ("kill_the_loader", {"num_workers": 1}, CRASHED, r"RuntimeError: DataLoader worker .*killed by signal: Killed.*"),
    ("loader_raises", {"num_workers": 1}, CRASHED,
     "KeyError: 'no such row', in a DataLoader worker, at LINE in loader_raises"),
    ("loader_exits", {"num_workers": 1}, CRASHED, "RuntimeError: DataLoader worker .* exited unexpectedly.*"),
    ("loader_segfault", {"num_workers": 1}, CRASHED, "RuntimeError: DataLoader worker .*: Segmentation fault.*"),
    ("loader_out_of_the_hosts_memory", {"num_workers": 1}, NO_MEMORY,
     "a DataLoader worker was killed by the kernel's out-of-memory killer"),
]  # fmt: skip


@pytest.fixture(scope="module")
def group() -> Iterator[str | None]:
    """A control group whose processes may have 64 MiB more than they came with; None where none may be made."""
    mine = next((line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()
                 if "memory" in line.split(":")[1].split(",")), None)  # fmt: skip
    folder = Path(f"/sys/fs/cgroup/memory{mine}/torchstone-test-{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(64 << 20))
        yield str(folder)
    except OSError:  # not root, or cgroup v2, where a group with processes cannot be given a part of its own
        yield None
    finally:
        if folder.is_dir():
            folder.rmdir()


@pytest.fixture(scope="module")
def session(group):
    os.environ[ends.GROUP] = group or ""
    with Session(QUICK, [f"py:{FILE}:load_segfault"]) as opened:
        yield opened, *opened.inspect()
    del os.environ[ends.GROUP]


def sweep(session, folder: Path, name: str, axes) -> Run:
    opened, machine, found = session
    ask = WorkloadRequest(
        "train", f"py:{FILE}:load_{name}", axes={"batch_size": SIZES, **{n: [v] for n, v in axes.items()}}
    )
    placement = plan.place("cpu", found, machine)
    whole = plan.arrange([plan.sketch(ask)], [placement], machine, 1, 0)
    timeout_s = TIMEOUT_S if name == "hang" else QUICK.timeout_s
    opened.procedure = msgspec.structs.replace(opened.procedure, timeout_s=timeout_s)
    return take_all(opened, opened.head(whole, machine, name, ["test"]), folder)


def line_of(name: str) -> str:
    source = FILE.read_text().splitlines()
    number = next(n for n, line in enumerate(source, 1) if line.endswith(f"# line of {name}"))
    return f"{FILE.name}:{number}"


@pytest.mark.parametrize(("name", "axes", "status", "message"), ENDS, ids=[end[0] for end in ENDS])
def test_the_sweep_goes_on(session, group, tmp_path, name, axes, status, message):
    if name.endswith("out_of_the_hosts_memory") and group is None:
        pytest.skip(NO_GROUP)
    run = sweep(session, tmp_path, name, axes)
    bad = next(case.case_id for case in run.head.plan.cases if case.configuration["batch_size"] == ends.BAD_BATCH)
    (trial,) = run.of_case(bad)
    others = [t for t in run.trials if t is not trial]
    assert run.end is not None
    assert run.end.status == "done"
    assert [t.outcome.status for t in others] == [Status.OK] * 11, [t.outcome.message for t in others]
    assert all(t.values("step_time_s") for t in others)
    assert 0 < [t.trial_id for t in run.trials].index(trial.trial_id) < 11, "not in the middle"
    assert trial.outcome.status == status, trial.outcome
    wanted = message.replace("LINE", line_of(name)) if "LINE" in message else message
    assert re.fullmatch(wanted, str(trial.outcome.message)), trial.outcome
    # Were the pipe held open by a loader's processes, a trial would last until torch's watchdog ends them, after 5 s.
    assert trial.duration_s < 4.5 or status == TIMED_OUT
    _findings_fit(run, trial)
    assert read_record(next(tmp_path.glob("records/*.jsonl"))).trials == run.trials or name == "nan"


def _findings_fit(run: Run, trial: Trial) -> None:
    found = {finding.check for finding in run.findings if finding.subject == trial.case_id}
    message = str(trial.outcome.message)
    assert ("out_of_memory" in found) == (trial.outcome.status == Status.OUT_OF_MEMORY)
    assert ("device_lost" in found) == message.startswith("the device was lost")
    assert ("nan_loss" in found) == message.startswith("the loss is nan")
    if "nan_loss" in found:
        assert len(trial.values("step_time_s")) == 3, "what was measured is kept"


@pytest.mark.long
def test_on_the_command_line_it_is_data_and_strict_makes_it_the_exit_code(tmp_path):
    words = ["run", "--task", "train", "--model", f"py:{FILE}:load_out_of_torchs_memory"]
    sizes = ["--batch-sizes", *map(str, SIZES), "--iterations", "3", "--warmup", "0", "--no-phases"]
    command = [sys.executable, "-m", "torchstone", *words, *sizes, "--quiet", "--json"]
    for more, code in ((["--trials", "1"], 0), (["--trials", "2", "--strict"], 1)):
        answer = subprocess.run([*command, *more], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert answer.returncode == code, answer.stderr
        cases = {case["configuration"]["batch_size"]: case for case in json.loads(answer.stdout)["cases"]}
        bad = cases.pop(ends.BAD_BATCH)
        assert [t["outcome"]["status"] for t in bad["trials"]] == ["out_of_memory", "skipped"][: len(bad["trials"])]
        assert bad["verdict"] == "INVALID"
        assert {t["outcome"]["status"] for case in cases.values() for t in case["trials"]} == {"ok"}
        assert len(cases) == 11
