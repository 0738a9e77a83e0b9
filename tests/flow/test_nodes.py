"""Ranks on several nodes of an allocation: measured together, and whatever happens on one of them is told.

Both nodes are this machine, so that faults can be provoked; tests/flow/test_slurm.py has a real SLURM.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from allocated import an_allocation
from warm_templates import TORCHSTONE

from torchstone.core.over_ranks import over_ranks
from torchstone.core.schema.trial import Status
from torchstone.storage.record_reader import read_record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked")
# Does in the 8th step of rank 1, which is on n2, what the file `fault` says.
MODEL = """
import os, psutil, signal, time, torch
from pathlib import Path

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.steps = torch.nn.Linear(32, 4), 0

    def forward(self, x):
        self.steps += 1
        fault = Path("fault")
        if self.steps == 8 and os.environ.get("RANK") == "1" and fault.exists():
            match fault.read_text():
                case "die": os.kill(os.getpid(), signal.SIGKILL)
                case "raise": raise MemoryError("no more")
                case "hang": time.sleep(600)
                case "lose": psutil.Process().parent().kill()  # what srun has started there
        return self.layer(x)

def load():
    example = (torch.randn(8, 32), torch.randint(0, 4, (8,)))
    return {"model": Net(), "example": example, "loss": torch.nn.functional.cross_entropy}
"""
SHORT = ["--trials", "1", "--iterations", "20", "--warmup", "2", "--device", "cpu", "--quiet", "--json"]


@pytest.fixture
def allocation(tmp_path, monkeypatch):
    """A folder with a model, in an allocation of two nodes; no process is left when it is over."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_OUTPUT", "outputs")
    an_allocation(tmp_path, monkeypatch)
    Path("net.py").write_text(MODEL)
    yield tmp_path
    ends = time.monotonic() + 5.0
    while left := _processes(tmp_path):
        assert time.monotonic() < ends, f"left behind: {left}"
        time.sleep(0.1)


def _processes(folder):
    here = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.cwd() == str(folder):
                here.append(process.cmdline())
        except psutil.Error:
            continue
    return here


def run(*words, start=TORCHSTONE):
    return subprocess.run(
        [*start, "run", "--task", "train", "--model", "py:net.py:load", *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def the_trial(done):
    (case,) = json.loads(done.stdout)["cases"]
    return case["trials"][0]


def test_two_nodes_train_together(allocation):
    done = run("--axis", "world_size=2", "--axis", "nodes=2", "--axis", "strategy=ddp,fsdp2", *SHORT)
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert {case["configuration"]["strategy"] for case in cases} == {"ddp", "fsdp2"}
    for case in cases:
        (trial,) = case["trials"]
        assert case["placement"] == {"device": "cpu", "index": 0, "count": 1, "nodes": 2}
        assert trial["facts"]["node_by_rank"] == ["n1", "n2"]
        assert trial["facts"]["ranks"] == 2
        assert case["estimates"]["total_items"]["value"] == 20 * 2 * 8
        assert "communication_time_s" in case["estimates"]
        assert not {"rss_bytes", "package_energy_j"} & set(case["estimates"])  # of one node, and no figure of both


def test_cases_of_one_node_are_measured_in_the_same_run(allocation):
    done = run("--axis", "world_size=1,2", "--axis", "nodes=1,2", *SHORT)
    assert done.returncode == 0, done.stderr
    cases = {
        (c["configuration"]["world_size"], c["configuration"]["nodes"]): c for c in json.loads(done.stdout)["cases"]
    }
    assert sorted(cases) == [(1, 1), (2, 1), (2, 2)]
    here, spread = (losses(cases[key]["case_id"]) for key in ((2, 1), (2, 2)))
    assert spread == pytest.approx(here, rel=1e-6)  # the same training, wherever it runs


def losses(case_id):
    (record,) = Path("outputs/records").glob("*.jsonl")
    (trial,) = (over_ranks(trial) for trial in read_record(record).trials if trial.case_id == case_id)
    return next(m.values for m in trial.measurements if m.metric == "fingerprint")


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("die", "crashed", "node n2: rank 1: killed by SIGKILL"),
        ("raise", "out_of_memory", "node n2: rank 1: MemoryError: no more at net.py:16 in forward"),
    ],
)
def test_a_rank_that_fails_on_another_node_is_named(allocation, fault, status, says):
    Path("fault").write_text(fault)
    began = time.monotonic()
    trial = the_trial(run("--axis", "world_size=2", "--axis", "nodes=2", *SHORT))
    assert (trial["outcome"]["status"], trial["outcome"]["message"][: len(says)]) == (status, says)
    assert time.monotonic() - began < 60.0


@pytest.mark.parametrize("trials", [1, 3])
def test_a_node_that_is_lost_ends_the_run_and_its_trial_is_measured_again(allocation, trials):
    Path("fault").write_text("lose")
    words = ["--axis", "world_size=2", "--axis", "nodes=2", *SHORT]
    words[words.index("--trials") + 1] = str(trials)
    done = run(*words)
    said = "node n2 is lost; `torchstone resume` goes on in another allocation" if trials > 1 else "remaining 1 trial"
    assert (done.returncode, said in done.stderr.splitlines()[-1]) == (3 if trials > 1 else 1, True)
    (record,) = Path("outputs/records").glob("*.jsonl")
    (lost,) = read_record(record).trials
    assert (lost.outcome.status, lost.outcome.message) == (Status.INTERRUPTED, "node n2: lost")
    Path("fault").unlink()
    resumed = subprocess.run([*TORCHSTONE, "resume"], capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stderr
    assert [trial.outcome.status for trial in read_record(record).trials] == [Status.OK] * trials


def test_a_rank_that_hangs_on_another_node_ends_the_trial_at_its_timeout(allocation):
    Path("fault").write_text("hang")
    # Stacks are read, and one in a warm template has a line of warm_templates.py where others have none.
    cold = (sys.executable, "-m", "torchstone")
    trial = the_trial(run("--axis", "world_size=2", "--axis", "nodes=2", "--timeout", "16", *SHORT, start=cold))
    assert trial["outcome"]["status"] == "timed_out"
    assert "in rank 1 at net.py:17 in forward" in trial["outcome"]["message"]
    assert trial["duration_s"] < 21.0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--axis", "world_size=3", "--axis", "nodes=2"], "world_size=3 does not divide among 2 nodes"),
        (["--axis", "world_size=3", "--axis", "nodes=3"], "nodes=3: the allocation has 2: n1, n2"),
    ],
)
def test_what_the_allocation_has_not_is_refused_in_one_line(allocation, words, says):
    refused = run(*words, *SHORT)
    assert refused.returncode == 2
    assert says in refused.stderr.splitlines()[-1]
    assert not list(Path("outputs").rglob("*.jsonl"))


def test_outside_an_allocation_it_says_what_to_type(allocation, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID")
    refused = run("--axis", "world_size=2", "--axis", "nodes=2", *SHORT)
    assert refused.returncode == 2
    assert "nodes=2 needs an allocation of a cluster: torchstone submit" in refused.stderr.splitlines()[-1]


def test_a_node_that_cannot_start_a_worker_is_named(allocation):
    Path("bin/srun").write_text("#!/bin/sh\necho 'srun: error: Unable to create step' >&2; exit 1\n")
    refused = run("--axis", "world_size=2", "--axis", "nodes=2", *SHORT)
    assert refused.returncode == 3
    assert "node n2 could not be inspected: exited with code 1" in refused.stderr.splitlines()[-1]
