"""`submit --on ray` through a real Ray of two nodes: the same answer as on one machine."""

import json
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from slurm_cluster import until

from torchstone.core.schema.trial import Status
from torchstone.storage.record_reader import read_record

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.long]  # its port is fixed; it takes seconds to start

MODEL = """
import os, torch
from pathlib import Path

def load():
    names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
    seen = [name for name in os.environ if name in names or name.startswith("RAY_")]
    Path("seen").open("a").write(" ".join(sorted(seen)) + "\\n")
    if Path("broken").exists():
        os.kill(os.getppid(), 9)
    return {"model": torch.nn.Linear(8, 8), "example": torch.randn(4, 8)}
"""
FILE = """
task: infer
model: py:net.py:load
device: cpu
axes: {batch_size: [1, 2, 3, 4]}
procedure: {trials: 1, iterations: 2, warmup: 0, isolation: fork, phases: false}
"""


@pytest.fixture(scope="module")
def address():
    """The address of a cluster of two nodes, with an A100 and an H100 by name."""
    if find_spec("ray") is None:
        pytest.skip("NO RAY HERE: pip install 'torchstone[ray]'")
    folder = tempfile.mkdtemp(prefix="ts_ray_", dir="/tmp")
    script = Path(__file__).parents[1] / "ray_cluster.py"
    cluster = subprocess.Popen(
        [sys.executable, str(script), "16900", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert cluster.stdin
        assert cluster.stdout
        line = cluster.stdout.readline().strip()
        assert line, "Ray did not start"
        yield line
    finally:
        cluster.communicate(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_OUTPUT", "outputs")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    Path("net.py").write_text(MODEL)
    Path("sweep.yaml").write_text(FILE)
    return tmp_path


def torchstone(*words):
    command = [sys.executable, "-m", "torchstone", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def the_record(folder="outputs"):
    (path,) = Path(folder, "records").glob("*.jsonl")
    return read_record(path)


def test_the_same_plan_here_and_on_ray(work, address):
    assert torchstone("run", "sweep.yaml", "--quiet", "--output-dir", "here").returncode == 0
    here = the_record("here")
    Path("seen").unlink()
    on_ray = ("submit", "sweep.yaml", "--on", "ray", "--address", address, "--no-rehearsal")
    done = torchstone(*on_ray, "--cases-per-job", "2")
    assert done.returncode == 0, done.stderr
    run = the_record()
    assert run.head.plan == here.head.plan
    assert sorted((t.case_id, t.number) for t in run.trials) == sorted((t.case_id, t.number) for t in here.trials)
    assert {t.outcome.status for t in run.trials} == {Status.OK}
    assert len({t.trial_id for t in run.trials}) == len(run.trials)
    assert len({t.facts.job for t in run.trials}) == 2
    # What Ray sets reaches nothing that is measured; the affinity mask is recorded.
    assert set(Path("seen").read_text().splitlines()) == {""}
    assert "OMP_NUM_THREADS" not in run.head.machine.settings
    assert run.head.machine.settings["cpu_affinity"] is not None

    # By kind of accelerator; one that no node has is refused before anything is submitted.
    done = torchstone(*on_ray, "--accelerator-type", "H100", "--cases-per-job", "4", "--output-dir", "h100")
    assert done.returncode == 0, done.stderr
    assert len(the_record("h100").trials) == 4
    done = torchstone(*on_ray, "--accelerator-type", "H200", "--output-dir", "h200")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--accelerator-type H200: no node has one. Here: A100, H100" in done.stderr
    done = torchstone(*on_ray, "--cpus", "64", "--output-dir", "h200")
    assert "no node of the Ray cluster has num_cpus=64" in done.stderr
    assert not list(Path("h200").rglob("plan.json"))


def test_a_task_that_is_lost_is_told_and_resumed(work, address):
    Path("broken").touch()
    done = torchstone(
        "submit", "sweep.yaml", "--on", "ray", "--address", address, "--no-rehearsal", "--cases-per-job", "4"
    )
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    (plan,) = Path("outputs/submitted").glob("*/plan.json")
    assert f"torchstone resume {plan.parent.name}" in done.stdout
    Path("broken").unlink()
    done = torchstone("resume", plan.parent.name, "--address", "127.0.0.1:16999")  # where the cluster is no more
    assert (done.returncode, "no Ray cluster at 127.0.0.1:16999" in done.stderr) == (3, True)
    done = torchstone("resume", plan.parent.name, "--address", address)
    assert done.returncode == 0, done.stderr
    assert "raylet" not in done.stderr
    assert sorted(t.outcome.status for t in the_record().trials) == [Status.OK] * 4
    jobs = [json.loads(path.read_bytes())["shares"] for path in (plan.parent / "jobs").glob("*.json")]
    assert jobs == [[0], [0]]
    of_ray = ["pgrep", "--full", "torchstone run --plan /tmp/torchstone_ray_"]
    until(lambda: not subprocess.run(of_ray, capture_output=True, check=False).stdout)
