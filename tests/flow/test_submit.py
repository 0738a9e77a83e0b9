"""`submit` without a cluster: what jobs type, typed here; a wrong request is told before anything is written."""

import os
from pathlib import Path

import msgspec
import pytest
from build import a_submission

from torchstone.cli import main
from torchstone.core.schema.trial import Status
from torchstone.storage.record_reader import read_record
from torchstone.storage.submissions import (
    attempt_records,
    find_submission,
    jobs,
    note_job,
    part_path,
    read_plan,
    write_submission,
)
from torchstone.workflows.submit.submitting import standings

MODEL = """
import torch

def load():
    return {"model": torch.nn.Linear(8, 8), "example": torch.randn(4, 8)}
"""
FILE = """
task: infer
model: py:net.py:load
device: cpu
axes: {batch_size: [1, 2]}
procedure: {trials: 2, iterations: 2, warmup: 0, isolation: fork, phases: false}
"""
SBATCH = '#!/bin/sh\necho "$@" >>said\necho 17\n'
GONE = "#!/bin/sh\necho 'Invalid job id specified' >&2; exit 1\n"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with a sweep, and a SLURM that takes every job and forgets it at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_OUTPUT", "outputs")
    (tmp_path / "bin").mkdir()
    for name, text in {"sbatch": SBATCH, "scontrol": GONE, "sacct": GONE, "sinfo": GONE}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    Path("net.py").write_text(MODEL)
    Path("sweep.yaml").write_text(FILE)
    return tmp_path


def typed(*words):
    return main(["submit", "sweep.yaml", "--on", "slurm", *words])


def test_what_a_job_types_measures_its_share_and_only_what_is_missing_of_it(work, capfd):
    assert typed("--no-rehearsal") in (0, 1, 2)  # the jobs are forgotten: nothing is recorded yet
    (plan,) = Path("outputs/submitted").glob("*/plan.json")
    share = ["run", "--plan", str(plan), "--quiet"]
    assert main([*share, "--share", "0", "--attempt", "17-0"]) == 0
    assert "share 0: trials measured: 2, missing: 0" in capfd.readouterr().out

    # Two jobs cannot write one record; what another attempt has recorded is not measured again.
    assert main([*share, "--share", "1", "--attempt", "18-0"]) == 0
    record = part_path(plan.parent, 1, "18-0")
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:2]) + lines[2][:99])  # its head, a trial, and what a kill leaves of the next
    capfd.readouterr()
    assert main([*share, "--share", "1", "--attempt", "18-0"]) == 2
    assert "exists already: a record is written once" in capfd.readouterr().err
    assert main([*share, "--share", "1", "--attempt", "18-1"]) == 0
    assert "share 1: trials measured: 1, missing: 0" in capfd.readouterr().out
    assert main([*share, "--share", "1", "--attempt", "18-2"]) == 0
    assert "share 1: trials measured: 0, missing: 0" in capfd.readouterr().out

    assert main(["submit", "--merge", plan.parent.name]) == 0
    run = read_record(Path("outputs/records") / f"{plan.parent.name}.jsonl")
    assert [t.outcome.status for t in run.trials] == [Status.OK] * 4
    assert len({(t.case_id, t.number) for t in run.trials}) == 4
    assert main(["show", plan.parent.name, "--full"]) == 0

    # Code that has changed since is not what was submitted.
    Path("net.py").write_text(MODEL.replace("8, 8", "8, 9"))
    capfd.readouterr()
    assert main([*share, "--share", "0", "--attempt", "19-0"]) == 2
    assert "its file has changed; submit it again" in capfd.readouterr().err


def test_resume_submits_only_what_is_over_and_incomplete(work, capfd):
    typed("--no-rehearsal")
    (plan,) = Path("outputs/submitted").glob("*/plan.json")
    assert main(["run", "--plan", str(plan), "--share", "1", "--attempt", "1-0", "--quiet"]) == 0
    Path("said").unlink()
    capfd.readouterr()
    main(["resume", "sweep"])
    said = capfd.readouterr()
    assert "1 case in 1 job submitted to slurm." in said.out
    assert "--array=0 " in Path("said").read_text()
    assert [job.shares for job in jobs(plan.parent)] == [(0, 1), (0,)]
    assert main(["resume", "sweep", "--address", "x:1"]) == 2
    assert "--address is not an option of slurm" in capfd.readouterr().err
    assert main(["resume", "sweep", "--force"]) == 2
    assert "is measured by jobs: edit" in capfd.readouterr().err
    assert main(["resume", "sweep", "--push"]) == 2
    assert "push the merged run, `torchstone push 2" in capfd.readouterr().err


NO_MERGE = """#!/bin/sh
case "$*" in *afterany*) echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1;; esac
echo "$@" >>said
echo 17
"""
PENDING = "JobId=17 ArrayJobId=17 ArrayTaskId=0-1 JobState=PENDING Reason=Priority Dependency=(null)"
WAITING = f"#!/bin/sh\necho '{PENDING}'\n"


def test_a_merge_job_that_is_refused_leaves_the_others_known(work, capfd):
    (work / "bin" / "sbatch").write_text(NO_MERGE)
    assert typed("--no-rehearsal") == 2
    line = capfd.readouterr().err
    (plan,) = Path("outputs/submitted").glob("*/plan.json")
    assert "QOSMaxSubmitJobPerUserLimit; --cases-per-job N makes fewer jobs; this was the job that merges" in line
    assert "job 17 is submitted, `scancel 17` ends it" in line
    assert f"`torchstone submit --merge {plan.parent.name} --follow` merges it" in line
    assert [(job.job_id, job.shares) for job in jobs(plan.parent)] == [("17", (0, 1))]
    (work / "bin" / "scontrol").write_text(WAITING)
    assert "Priority" in str([one.state for one in standings(plan.parent)])
    assert main(["resume", "sweep"]) == 2
    assert "still waiting (Priority) or running" in capfd.readouterr().err  # none is submitted twice
    assert len(Path("said").read_text().splitlines()) == 1
    (work / "bin" / "scontrol").write_text(GONE)
    assert main(["resume", "sweep"]) == 2
    assert "job 17 is submitted" in capfd.readouterr().err
    assert [job.shares for job in jobs(plan.parent)] == [(0, 1), (0, 1)]


def test_jobs_that_are_refused_leave_nothing(work, refused):
    (work / "bin" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: no' >&2; exit 1\n")
    assert "SLURM refused the job: no" in refused("submit", "sweep.yaml", "--on", "slurm", "--no-rehearsal")
    assert not list(Path("outputs").rglob("plan.json"))


def test_a_dry_run_leaves_scripts_to_edit_that_resume_submits(work, capfd):
    Path("cluster.sh").write_text("module load cuda/12.4\nif true; then\n\tconda activate bench\nfi\n")
    assert typed("--dry-run", "--setup", "cluster.sh", "--setup", "export A=1") == 0
    said = capfd.readouterr()
    (folder,) = Path("outputs/submitted").iterdir()
    assert not Path("said").exists()
    assert not jobs(folder)
    assert said.err.startswith("torchstone: nothing is submitted: edit the scripts in ")
    for name in ("job.sbatch", "merge.sbatch"):
        text = (folder / name).read_text()
        assert text in said.out
        assert (
            "module load cuda/12.4\nif true; then\n\tconda activate bench\nfi\nexport A=1\n" in text.partition("cd ")[0]
        )
    main(["resume", folder.name])  # the job is forgotten: nothing is recorded
    assert [job.shares for job in jobs(folder)] == [(0, 1)]
    assert Path("said").read_text().splitlines()[0] == f"--parsable {(folder / 'job.sbatch').absolute()}"


def test_your_own_code_is_tried_before_anything_is_submitted(work, refused):
    Path("net.py").write_text(MODEL.replace("torch.nn.Linear", "torch.nn.Linaer"))
    said = refused("submit", "sweep.yaml", "--on", "slurm", lines=20)
    assert "Linaer" in said
    assert not Path("said").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the cluster: --on NAME (known: ray, slurm)"),
        (("--on", "slrum"), "unknown cluster 'slrum'. Did you mean 'slurm'?"),
        (("--on", "slurm", "--address", "x:1"), "--address is not an option of slurm"),
        (("--on", "ray", "--partition", "gpu"), "--partition is not an option of ray"),
        (("--on", "ray", "--setup", "x"), "--setup is not an option of ray"),
        (("--on", "slurm", "--setup", "a\rb"), "--setup: line breaks and control characters"),
        (("--on", "slurm", "--when-busy", "wat"), "Did you mean 'wait'"),
        (
            ("--on", "slurm", "--device", "auto", "--gres", "gpu:1"),
            "name the kind of device that the jobs get: --device",
        ),
        (("--on", "slurm", "--axis", "precision=auto"), "precision=auto is decided by a device that only the job sees"),
        (("--on", "slurm", "--cpus", "many"), "--cpus many: a number, 1 or more"),
        (("--on", "slurm", "--cases-per-job", "0"), "--cases-per-job 0 is too small"),
        (("--on", "slurm", "--report", "word"), "--report word: known are"),
        (("--on", "slurm", "--axis", "batch_sise=1"), "batch_sise"),
    ],
)
def test_a_wrong_request_is_one_line(work, refused, words, said):
    assert said in refused("submit", "sweep.yaml", "--no-rehearsal", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--on", "ray", "--axis", "nodes=2"), "nodes: a task of ray measures on one machine; --on slurm"),
        (("--on", "slurm", "--axis", "nodes=3"), "world_size=2 does not divide among 3 nodes"),
    ],
)
def test_nodes_that_a_job_cannot_have_are_refused(work, refused, words, said):
    ranks = ("--task", "train", "--model", "builtin:mlp", "--device", "cpu", "--axis", "world_size=2")
    assert said in refused("submit", *ranks, *words)
    assert not Path("said").exists()


def test_ranks_of_a_submitted_run_have_their_strategy_decided(work):
    ranks = ("--task", "train", "--model", "builtin:mlp", "--device", "cpu", "--axis", "world_size=2")
    main(["submit", *ranks, "--on", "slurm", "--name", "ranks"])  # the job is forgotten: there is a plan, and no trial
    folder = find_submission(Path("outputs"), "ranks")
    assert folder is not None
    (case,) = read_plan(folder / "plan.json").head.plan.cases
    assert (case.configuration["strategy"], case.configuration["backend"], case.placement.count) == ("ddp", "gloo", 2)


def test_what_a_job_types_wrongly_is_one_line(work, refused):
    folder = Path("elsewhere")
    write_submission(folder, a_submission(), {})
    plan = str(folder / "plan.json")
    assert "--plan needs --share N" in refused("run", "--plan", plan)
    assert "has the shares 0 to 3" in refused("run", "--plan", plan, "--share", "4")
    assert "leave out the recipe" in refused("run", "smoke", "--plan", plan, "--share", "0")
    assert "--attempt '../x'" in refused("run", "--plan", plan, "--share", "0", "--attempt", "../x")
    assert "cannot read nowhere" in refused("run", "--plan", "nowhere", "--share", "0")
    (folder / "plan.json").write_text('{"record":"head","schema":4}')
    assert "not a torchstone plan" in refused("run", "--plan", plan, "--share", "0")
    (folder / "plan.json").write_text("{")
    assert "is not JSON" in refused("run", "--plan", plan, "--share", "0")
    assert "no submitted run 'x'" in refused("submit", "--merge", "x")


def test_a_plan_whose_shares_are_not_its_cases_is_refused(tmp_path, refused):
    write_submission(tmp_path, a_submission(shares=((0, 1), (1, 2))), {})
    assert "its shares are not its cases" in refused("run", "--plan", str(tmp_path / "plan.json"), "--share", "0")


def test_a_submitted_run_is_found_by_id_prefix_name_and_latest(tmp_path):
    assert find_submission(tmp_path, "latest") is None
    for number in (1, 2):
        head = msgspec.structs.replace(a_submission().head, run_id=f"2026112{number}-1")
        submission = a_submission(head=head)
        write_submission(tmp_path / "submitted" / submission.head.run_id, submission, {})
    newest = tmp_path / "submitted" / "20261122-1"
    assert find_submission(tmp_path, "latest") == find_submission(tmp_path, "sweep") == newest
    assert find_submission(tmp_path, "20261121") == tmp_path / "submitted" / "20261121-1"
    assert find_submission(tmp_path, "other") is None
    note_job(newest, "17", (0, 1))
    note_job(newest, "18", (1,))
    assert [(job.job_id, job.shares) for job in jobs(newest)] == [("17", (0, 1)), ("18", (1,))]
    (newest / "parts" / "0.17-0.part").touch()
    (newest / "parts" / "1.17-0.part").write_text('{"record":"head","sch')  # killed while it began
    assert not list(attempt_records(newest))
    assert read_plan(newest / "plan.json").head.name == "sweep"
