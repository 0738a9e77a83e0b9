"""`submit --on slurm` through a real SLURM: the same answer as on one machine, whatever happens to its jobs."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import slurm_cluster
from slurm_cluster import until

from torchstone.cli import main
from torchstone.cli.submit_command import _progress
from torchstone.core.schema.trial import Status
from torchstone.storage.record_reader import read_record
from torchstone.workflows.submit.planning import lasted_s
from torchstone.workflows.submit.submitting import node_hours, standings

pytestmark = pytest.mark.xdist_group("slurm")  # its ports are fixed

# Says which settings of SLURM it was started with, and takes as long as the file `pause` says.
MODEL = """
import os, time, torch
from pathlib import Path

def load():
    seen = sorted(name for name in os.environ if name.startswith(("SLURM_", "SBATCH_")))
    Path("seen").open("a").write(" ".join(seen) + "\\n")
    time.sleep(float(Path("pause").read_text()))
    return {"model": torch.nn.Linear(8, 8), "example": torch.randn(4, 8)}
"""
FILE = """
task: infer
model: py:net.py:load
device: cpu
axes: {batch_size: [%s]}
procedure: {trials: %s, iterations: 2, warmup: 0, isolation: fork, phases: false}
"""


@pytest.fixture(scope="module")
def slurm():
    yield from slurm_cluster.running()


@pytest.fixture
def work(slurm, tmp_path, monkeypatch):
    """A folder with a model of one layer and a sweep over it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_OUTPUT", "outputs")
    Path("net.py").write_text(MODEL)
    Path("pause").write_text("0")
    return tmp_path


@pytest.fixture
def put(work, monkeypatch):
    """Put programs of these names and texts first in the path, which jobs inherit."""
    (work / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{work / 'bin'}:{os.environ['PATH']}")

    def put(**texts):
        for name, text in texts.items():
            (work / "bin" / name).write_text(text)
            (work / "bin" / name).chmod(0o755)

    return put


def a_sweep(cases, trials):
    Path("sweep.yaml").write_text(FILE % (", ".join(str(n + 1) for n in range(cases)), trials))


def the_submitted():
    (plan,) = Path("outputs/submitted").glob("*/plan.json")
    return plan.parent


def job_of(folder):
    return json.loads(max((folder / "jobs").glob("*.json")).read_bytes())["job_id"]


def the_plan(folder):
    head = json.loads((folder / "plan.json").read_bytes())["head"]
    return head["plan"]["slots"]


def merged(folder):
    return read_record(Path("outputs/records") / f"{folder.name}.jsonl")


def equals_its_plan(run):
    """Every trial of the plan is there once, and ended well."""
    ids = [case.case_id for case in run.head.plan.cases]
    assert sorted((t.case_id, t.number) for t in run.trials) == sorted(
        (ids[s.case], s.number) for s in run.head.plan.slots
    )
    assert {t.outcome.status for t in run.trials} == {Status.OK}
    assert run.end.status == "done"
    return True


def test_the_same_plan_here_and_through_slurm(work, capfd, monkeypatch):
    a_sweep(cases=4, trials=1)
    assert main(["run", "sweep.yaml", "--name", "here", "--quiet"]) == 0
    (path,) = Path("outputs/records").glob("*.jsonl")
    here = read_record(path)
    monkeypatch.setenv("SLURM_CPU_BIND", "quiet,mask_cpu:0x1")  # of an allocation in which `submit` is typed
    Path("seen").unlink()
    capfd.readouterr()
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--cases-per-job", "2", "--follow", "--memory", "100M"]) == 0
    said = capfd.readouterr()
    assert "4 cases in 2 jobs submitted to slurm." in said.out
    assert "0/4 trials · jobs: " in said.err  # it ends with the last trial, whether or not SLURM has seen the job end
    assert "\n4/4 trials · jobs: 0 waiting, " in said.err

    folder = the_submitted()
    run = merged(folder)
    assert equals_its_plan(run)
    assert run.head.plan == here.head.plan  # cases, their order, and the order of the trials
    assert [case.case_id for case in run.head.plan.cases] == [case.case_id for case in here.head.plan.cases]
    assert {t.case_id for t in run.trials} == {t.case_id for t in here.trials}
    rehearsed, *measured = Path("seen").read_text().splitlines()
    assert "SLURM_CPU_BIND" in rehearsed  # here, before anything was submitted
    assert measured == [""] * 6  # nothing of SLURM reached what was measured: a rehearsal a job, and four trials
    assert len(run.head.machines) == 1
    assert run.head.machines[0].settings["cpu_affinity"] is not None
    assert {t.facts.machine for t in run.trials} == {0}
    assert len({t.facts.job for t in run.trials}) == 2

    # There is no accounting here: of node-hours the records know most.
    (told,) = [line for line in said.out.splitlines() if line.startswith("node hours")]
    assert re.search(r"at least (\S+), by the records$", told)
    hours, at_least = node_hours(standings(folder))
    parts = [read_record(path) for path in (folder / "parts").glob("*.part")]
    assert len(parts) == 2
    assert hours == pytest.approx(sum(map(lasted_s, parts)) / 3600)
    assert all(0 < lasted_s(part) < 60 for part in parts)
    assert at_least

    # Merged again and imported twice, nothing changes; there is nothing to resume.
    record = Path("outputs/records") / f"{folder.name}.jsonl"
    before = record.read_bytes()
    assert main(["submit", "--merge", folder.name]) == 0
    assert record.read_bytes() == before
    assert main(["import", str(record), "--output-dir", "elsewhere"]) == 0
    assert main(["import", "outputs", "--output-dir", "elsewhere"]) == 0
    assert len(list(Path("elsewhere/records").glob("*.jsonl"))) == 2  # this run and that of `run`: no parts
    assert main(["resume", folder.name]) == 2
    assert "nothing is missing" in capfd.readouterr().err
    until(
        lambda: bool([*Path("outputs").glob("report*"), *Path("outputs").rglob("*.md")]), 240.0
    )  # the dependent job's


def test_what_slurm_refuses_is_told_with_what_there_is(work, refused):
    a_sweep(cases=2, trials=1)
    line = refused("submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--partition", "nowhere")
    assert "invalid partition specified: nowhere" in line.lower()
    assert "Partitions here: debug" in line
    assert not list(Path("outputs").rglob("plan.json"))
    line = refused("submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--gres", "gpu:7", "--device", "cuda")
    assert "SLURM refused the job" in line
    line = refused("submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--account", "a\n#SBATCH --uid=0")
    assert "--account: line breaks and control characters" in line


# What a site's job_submit plug-in does: a job without a time limit is refused.
STRICT = """#!/bin/sh
for script; do :; done
grep -q '^#SBATCH --time' "$script" || { echo 'sbatch: error: Job needs --time' >&2; exit 1; }
exec %s "$@"
"""


def test_a_site_that_demands_a_time_limit_gets_it_of_every_job(work, put, capfd):
    put(sbatch=STRICT % shutil.which("sbatch"))
    a_sweep(cases=2, trials=1)
    set_up = ("--setup", "touch $folder/set-up")
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--time", "5", "--follow", *set_up]) == 0
    assert (the_submitted() / "set-up").exists()
    assert equals_its_plan(merged(the_submitted()))
    capfd.readouterr()


def test_what_can_never_start_is_told_with_slurms_reason(work, slurm, capfd):
    a_sweep(cases=1, trials=1)
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--cpus", "64"]) == 0
    folder = the_submitted()
    told = standings(folder)
    until(lambda: all("PartitionConfig" in str(one.state) for one in standings(folder)), 20)
    capfd.readouterr()
    assert main(["submit", "--merge", folder.name]) == 2
    assert "no job has recorded anything yet (waiting: PartitionConfig); `torchstone" in capfd.readouterr().err
    assert _progress(standings(folder)).endswith("jobs: 1 waiting (PartitionConfig), 0 running, 0 over")
    assert told[0].open
    slurm.ask("scancel", job_of(folder))
    capfd.readouterr()


def test_the_shells_own_words_to_sbatch_reach_the_job(work, monkeypatch, refused):
    a_sweep(cases=1, trials=1)
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    line = refused("submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal")
    assert "invalid partition specified: nowhere" in line.lower()


@pytest.mark.long
def test_twelve_cases_of_which_one_is_cancelled_one_requeued_and_a_node_lost(work, slurm, capfd):
    a_sweep(cases=12, trials=2)
    Path("pause").write_text("1.5")
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal"]) == 0
    folder = the_submitted()
    job = job_of(folder)
    slurm.ask("scancel", f"{job}_11")
    until(lambda: any((folder / "parts").glob("*.part")))
    until(lambda: any(slurm.state(job, task) == "RUNNING" and one_recorded(folder, task) for task in range(11)))
    requeued = next(t for t in range(11) if slurm.state(job, t) == "RUNNING" and one_recorded(folder, t))
    slurm.ask("scontrol", "requeue", f"{job}_{requeued}")
    slurm.kill("n2")
    capfd.readouterr()
    assert main(["resume", folder.name]) == 0  # what is over and lacks trials: the cancelled one
    assert "1 case in 1 job submitted to slurm." in capfd.readouterr().out
    until(lambda: slurm.ask("sinfo", "-h", "-n", "n2", "-o", "%T").strip() in ("down", "down*"), 90)
    Path("pause").write_text("0")
    slurm.start("n2")
    slurm.at_once(job)
    if main(["submit", "--merge", folder.name, "--follow"]) != 0:  # jobs of the lost node that SLURM gives up
        assert main(["resume", folder.name]) == 0
        assert main(["submit", "--merge", folder.name, "--follow"]) == 0
    assert main(["resume", folder.name]) == 2
    run = merged(folder)
    assert equals_its_plan(run)
    assert len(run.trials) == 24
    attempts = sorted(path.name for path in (folder / "parts").glob(f"{requeued}.*.part"))
    assert len(attempts) > 1  # the second attempt went on where the record of the first stopped
    taken = [
        t.number
        for path in attempts
        for t in read_record(folder / "parts" / path).trials
        if t.outcome.status == Status.OK
    ]
    assert sorted(taken) == [0, 1]
    capfd.readouterr()


def one_recorded(folder, task):
    return any(read_record(path).trials for path in (folder / "parts").glob(f"{task}.*.part") if path.stat().st_size)


@pytest.mark.long
def test_a_job_that_its_time_limit_ends_is_told_and_resumed(work, slurm, capfd):
    a_sweep(cases=2, trials=3)
    Path("pause").write_text("40")
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--time", "1", "--follow"]) == 1
    said = capfd.readouterr().out
    assert "TIMEOUT" in said
    folder = the_submitted()
    run = merged(folder)
    gone = [t for t in run.trials if t.outcome.status == Status.INTERRUPTED]
    assert gone
    assert all("TIMEOUT" in t.outcome.message for t in gone)
    assert f"torchstone resume {folder.name}" in said
    Path("pause").write_text("0")
    assert main(["resume", folder.name]) == 0
    assert main(["submit", "--merge", folder.name, "--follow"]) == 0
    assert equals_its_plan(merged(folder))
    assert os.listdir(folder / "ended")


# A container here is what these programs leave of their options: the same machine, with the python of these tests.
APPTAINER = """#!/bin/bash
echo "$@" >>{folder}/asked
while [ "$1" != image.sif ]; do shift; done
shift
IN=apptainer PATH={bin}:$PATH "$@" &  # it stays, and hands signals on
trap 'kill -TERM $!' TERM
wait $! || {{ s=$?; wait $! && s=$?; exit $s; }}
"""
SRUN = """#!/bin/bash
echo "$@" >>{folder}/asked
words=()
for word; do case $word in --container-*) ;; *) words+=("$word") ;; esac; done
IN=pyxis PATH={bin}:$PATH exec {srun} "${{words[@]}}"
"""


@pytest.mark.parametrize(("image", "kind"), [("image.sif", "apptainer"), ("nvcr.io#nvidia/pytorch:25.01-py3", "pyxis")])
def test_jobs_measure_in_a_container(work, put, image, kind):
    at = {"folder": work, "bin": Path(sys.executable).parent, "srun": shutil.which("srun")}
    put(**({"apptainer": APPTAINER.format(**at)} if kind == "apptainer" else {"srun": SRUN.format(**at)}))
    a_sweep(cases=2, trials=1)
    Path("net.py").write_text(MODEL.replace('("SLURM_"', '("IN", "SRUN_", "SLURM_"'))
    here = ("submit", "sweep.yaml", "--on", "slurm", "--container", image, "--cases-per-job", "2", "--follow")
    assert main([*here]) == 0  # nothing is rehearsed here: torch is in the container
    assert equals_its_plan(merged(the_submitted()))
    assert set(Path("seen").read_text().splitlines()) == {"IN"}  # and nothing of SLURM
    asked = Path("asked").read_text()
    folder = the_submitted().absolute()
    bound = f"--bind {work},{folder} --pwd {work} image.sif python3 -m torchstone run --plan {folder}/plan.json"
    mounts = f"--container-mounts={work}:{work},{folder}:{folder} --container-workdir={work} bash -c"
    assert (bound if kind == "apptainer" else f"--container-image={image} {mounts}") in asked


def test_a_node_without_the_container_program_is_told(work, monkeypatch, capfd):
    a_sweep(cases=1, trials=1)
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--container", "image.sif", "--follow"]) == 1
    said = " ".join(capfd.readouterr().out.split())
    assert "no apptainer on this node: --setup 'module load apptainer' may bring it" in said
    (trial,) = merged(the_submitted()).trials
    assert trial.outcome.status == Status.INTERRUPTED


def at_its_limit(slurm, folder, job, task=0):
    """Have a running job of which something is recorded told that its time ends, as SLURM tells it."""
    before = len(attempts(folder, task))
    until(lambda: slurm.state(job, task) == "RUNNING" and one_recorded(folder, task))
    slurm.ask("scancel", "--batch", "--signal=USR1", f"{job}_{task}")
    until(lambda: slurm.state(job, task) not in ("RUNNING", "COMPLETING"))
    return before


def attempts(folder, task=0):
    return sorted(path.name for path in (folder / "parts").glob(f"{task}.*.part"))


def test_a_job_at_its_time_limit_is_requeued_and_goes_on(work, slurm, put, capfd):
    # In a container of pyxis: others are ended as a job without a container is, which the next test ends.
    put(srun=SRUN.format(folder=work, bin=Path(sys.executable).parent, srun=shutil.which("srun")))
    a_sweep(cases=1, trials=4)
    Path("pause").write_text("1.5")
    again = ["--requeue-at-limit", "2", "--time", "10", "--container", "x:y"]
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", *again]) == 0
    folder = the_submitted()
    job = job_of(folder)
    at_its_limit(slurm, folder, job)
    assert slurm.state(job, 0) == "PENDING"
    first = read_record(folder / "parts" / f"0.{job}-0.part")
    assert first.end is not None  # in order
    assert first.end.status == "interrupted"
    slurm.at_once(job)  # SLURM starts it after two minutes
    Path("pause").write_text("0")
    assert main(["submit", "--merge", folder.name, "--follow"]) == 0
    assert equals_its_plan(merged(folder))
    assert attempts(folder) == [f"0.{job}-0.part", f"0.{job}-1.part"]
    second = read_record(folder / "parts" / f"0.{job}-1.part")
    taken = [t.number for run in (first, second) for t in run.trials if t.outcome.status == Status.OK]
    assert sorted(taken) == [0, 1, 2, 3]
    assert len(list((folder / "jobs").iterdir())) == 1
    capfd.readouterr()


def test_a_job_is_requeued_so_many_times_and_no_more(work, slurm, capfd):
    a_sweep(cases=2, trials=9)
    Path("pause").write_text("1")
    again = ["--requeue-at-limit", "1", "--cases-per-job", "2"]
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", *again]) == 0
    folder = the_submitted()
    job = job_of(folder)
    at_its_limit(slurm, folder, job)
    slurm.at_once(job)
    until(lambda: len(attempts(folder)) == 2)
    at_its_limit(slurm, folder, job)
    assert slurm.state(job, 0) == "FAILED"
    capfd.readouterr()
    assert main(["submit", "--merge", folder.name, "--follow"]) == 1
    assert "time limit reached, and --requeue-at-limit 1 is used up" in capfd.readouterr().out
    assert main(["resume", folder.name]) == 0  # what is missing, with as many requeues again
    slurm.ask("scancel", job_of(folder))
    capfd.readouterr()


@pytest.mark.long
def test_slurm_itself_says_when_the_time_limit_is_near(work, slurm, capfd):
    a_sweep(cases=1, trials=40)
    Path("pause").write_text("3")
    again = ["--requeue-at-limit", "1", "--time", "2"]
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", *again]) == 0
    folder = the_submitted()
    job = job_of(folder)
    until(lambda: slurm.state(job, 0) == "PENDING" and attempts(folder), 150)
    end = read_record(folder / "parts" / attempts(folder)[0]).end
    assert end is not None
    assert end.status == "interrupted"
    Path("pause").write_text("0")
    slurm.at_once(job)
    assert main(["submit", "--merge", folder.name, "--follow"]) == 0
    assert equals_its_plan(merged(folder))
    capfd.readouterr()


# What sacct says of the jobs that there are, of which it is asked.
SACCT = """#!/bin/bash
echo "$@" >>{folder}/asked
id=$(echo "$1" | sed 's/.*=//')
for task in 0 1; do echo "2026-11-24T10:00:0$task|${{id}}_$task|COMPLETED|900|1"; done
echo "2026-11-24T09:00:00|${{id}}_1|NODE_FAIL|1800|1"
"""


def test_node_hours_come_from_the_accounting_where_it_answers(work, put, capfd):
    put(sacct=SACCT.format(folder=work))
    a_sweep(cases=2, trials=1)
    assert main(["submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal", "--follow"]) == 0
    assert re.search(r"^node hours +1\.00$", capfd.readouterr().out, re.MULTILINE)
    assert main(["submit", "--merge", the_submitted().name, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["node_hours"], told["node_hours_are_at_least"]) == (1.0, False)


def test_two_nodes_of_a_job_train_together(work):
    net = "torch.nn.Linear(8, 8)"
    loss = "lambda given, wanted: (given - wanted).square().mean()"
    example = "(torch.randn(4, 8), torch.randn(4, 8))"
    Path("net.py").write_text(
        f"import torch\ndef load():\n    return {{'model': {net}, 'example': {example}, 'loss': {loss}}}\n"
    )
    axes = ["--axis", "world_size=1,2", "--axis", "nodes=1,2", "--cases-per-job", "3", "--no-rehearsal"]
    how = ["--trials", "2", "--iterations", "3", "--device", "cpu"]
    train = ["--task", "train", "--model", "py:net.py:load"]
    assert main(["submit", *train, *axes, *how, "--on", "slurm", "--follow"]) == 0
    run = merged(the_submitted())
    assert equals_its_plan(run)
    nodes = {case.case_id: case.placement.nodes for case in run.head.plan.cases}
    assert sorted(nodes.values()) == [1, 1, 2]
    places = {nodes[t.case_id]: t.facts.node_by_rank for t in run.trials}
    assert places[1] == ()
    assert sorted(places[2]) == ["n1", "n2"]
