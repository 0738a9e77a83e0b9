"""SLURM: scripts that sbatch reads as they are meant, states with and without accounting."""

import subprocess
from pathlib import Path

import msgspec
import pytest
from build import a_submission

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.submission import Job, Phase
from torchstone.plugins import registry
from torchstone.plugins.clusters.slurm import array_of, scripts, slurm_environment
from torchstone.storage.submissions import exit_status

SLURM = registry.load("clusters", "slurm")
JOB = Job("17", (0, 1, 2, 3), "2026-11-23T19:00:00+00:00")
DISABLED = "#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2; exit 1\n"
FORGOTTEN = "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Put programs of these names and texts first in the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(**texts):
        for name, text in texts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    return put


def lines(text, **wanted):
    return [line for line in scripts(a_submission(wanted=wanted), Path("/out"))[text].splitlines() if "#SBATCH" in line]


def test_every_option_is_a_line_of_the_script():
    asked = {"partition": "gpu", "account": "me", "gres": "gpu:a100:1", "time": "1:00:00", "cpus": "8", "memory": "16G"}
    found = lines("job.sbatch", **asked, sbatch="--exclusive\n--mail-type=END", at_most="3")
    for line in (
        "--partition=gpu", "--account=me", "--gres=gpu:a100:1", "--time=1:00:00", "--cpus-per-task=8", "--mem=16G",
        "--exclusive", "--mail-type=END", "--array=0-3%3", "--requeue", "--output=log/%A_%a.txt", "--chdir=/out",
    ):  # fmt: skip
        assert f"#SBATCH {line}" in found
    merge = lines("merge.sbatch", **asked, sbatch="--exclusive\n--mail-type=END")
    for line in (
        "--partition=gpu", "--account=me", "--gres=gpu:a100:1", "--time=1:00:00", "--cpus-per-task=8", "--mem=16G",
        "--exclusive", "--mail-type=END",
    ):  # fmt: skip
        assert f"#SBATCH {line}" in merge  # what a site demands of the one it demands of the other
    assert not any("array" in line or "requeue" in line for line in merge)


def test_what_a_job_does_while_its_cores_are_busy_is_in_the_script():
    assert "--when-busy wait:10m --quiet" in scripts(a_submission(when_busy="wait:10m"), Path("/out"))["job.sbatch"]


@pytest.mark.parametrize(
    "line", ["--array=0-3", "--arr=0-3", "-a0-3", "--chdir=/tmp", "-D /tmp", "--exclusive -o x", "--test-only", "-e/x"]
)
def test_a_line_that_would_break_the_job_is_refused(line):
    with pytest.raises(UsageError, match="torchstone itself sets --"):
        lines("job.sbatch", sbatch=line)


@pytest.mark.parametrize("line", ["exclusive", "--comment='x"])
def test_a_line_that_is_no_option_is_refused(line):
    with pytest.raises(UsageError, match="--sbatch="):
        lines("job.sbatch", sbatch=line)


def test_lines_that_only_look_alike_are_taken():
    for line in ("--wait-all-nodes=1", "--exclude=n1", "-d afterok:1", "--export=NONE"):
        assert f"#SBATCH {line}" in lines("job.sbatch", sbatch=line)


def test_what_the_shell_says_to_sbatch_is_a_line_unless_it_is_typed():
    shell = {
        "SBATCH_PARTITION": "long",
        "SBATCH_ACCOUNT": "def-me",
        "SLURM_ACCOUNT": "def-you",  # of srun's, where sbatch has none
        "SBATCH_RESERVATION": "night",
        "SBATCH_ARRAY_INX": "9",
    }
    made = scripts(a_submission(wanted={"partition": "gpu"}), Path("/out"), shell)
    for text in made.values():
        for line in ("--partition=gpu", "--account=def-me", "--reservation=night"):
            assert f"#SBATCH {line}\n" in text
        assert "long" not in text
    assert "--array=0-3\n" in made["job.sbatch"]


def test_a_preempted_job_is_left_alone_where_that_is_asked_for():
    assert "#SBATCH --no-requeue" in lines("job.sbatch", requeue="no")


@pytest.mark.parametrize("name", ["account", "partition", "sbatch"])
def test_what_would_be_a_line_of_its_own_is_refused(name):
    with pytest.raises(UsageError, match="line breaks and control characters"):
        lines("job.sbatch", **{name: "a\r#SBATCH --uid=0" if name == "sbatch" else "a\n#SBATCH --uid=0"})


@pytest.mark.parametrize("folder", ["/a b/out", "/a'b", '/a"b', "/a$b`c`", "/결과"])
def test_any_folder_may_be_named(folder, tmp_path):
    text = scripts(a_submission(folder=folder, output=folder), Path("/out"))["job.sbatch"]
    script = tmp_path / "job.sbatch"
    script.write_text(text.replace("/usr/bin/python3 -m torchstone", "pwd #"))
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    (line,) = [line for line in text.splitlines() if line.startswith("cd ")]
    said = subprocess.run(
        ["bash", "-c", f'cd() {{ printf %s "$1"; }}; {line}'], capture_output=True, text=True, check=True
    )
    assert said.stdout == folder


def test_the_settings_of_an_outer_allocation_reach_neither_sbatch_nor_what_is_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_CPU_BIND", "quiet,mask_cpu:0x1")
    monkeypatch.setenv("SBATCH_PARTITION", "other")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/mine.conf")
    assert slurm_environment()["SLURM_CONF"] == "/etc/slurm/mine.conf"
    assert not {"SLURM_CPU_BIND", "SBATCH_PARTITION"} & slurm_environment().keys()
    (tmp_path / "python").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "python").chmod(0o755)
    text = scripts(a_submission(folder=str(tmp_path), python=str(tmp_path / "python")), tmp_path)["job.sbatch"]
    (tmp_path / "ended").mkdir()
    told = subprocess.run(
        ["bash"], input=text, capture_output=True, text=True, cwd=tmp_path, check=True,
        env={"PATH": "/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "17", "SLURM_CPU_BIND": "x"},
    )  # fmt: skip
    assert "SLURM" not in told.stdout
    assert (tmp_path / "ended" / "3.17-0").read_text() == "0\n"


def test_shares_are_an_array():
    plan = a_submission(cases=9)
    assert [array_of(plan, shares) for shares in ([4], [0, 1, 2], [1, 3, 4])] == ["4", "0-2", "1,3,4"]


def test_without_accounting_the_controller_is_asked(commands):
    shown = (
        "JobId=17 ArrayJobId=17 ArrayTaskId=2-3%1 JobName=x JobState=PENDING Reason=Nodes are DOWN Dependency=(null)\n"
        "JobId=18 ArrayJobId=17 ArrayTaskId=0 JobName=x JobState=COMPLETED Reason=None Dependency=(null)\n"
        "JobId=19 ArrayJobId=17 ArrayTaskId=1 JobName=x JobState=TIMEOUT\n"
    )
    commands(sacct=DISABLED, scontrol=f"#!/bin/sh\ncat <<'E'\n{shown}E\n")
    found = SLURM.states(JOB, Path())
    assert {n: (s.word, s.phase) for n, s in found.items()} == {
        0: ("COMPLETED", Phase.OVER), 1: ("TIMEOUT", Phase.OVER), 2: ("PENDING", Phase.WAITING),
        3: ("PENDING", Phase.WAITING),
    }  # fmt: skip
    assert found[1].job == "17_1"
    assert [found[n].why for n in range(4)] == [None, None, "Nodes are DOWN", "Nodes are DOWN"]


def test_the_accounting_knows_what_the_controller_has_forgotten(commands, tmp_path):
    told = """\
2026-11-23T19:30:00|17_0|COMPLETED|60|2
2026-11-23T19:00:00|17_0|TIMEOUT|600|2
2026-11-23T19:00:00|17_1|CANCELLED by 1000|0|1
2026-11-23T19:00:00|17_2|NODE_FAIL||1
2026-11-23T19:00:00|17_3|OUT_OF_MEMORY|30|1
2026-11-23T19:00:00|18|RUNNING|9|1
"""
    commands(sacct=f"#!/bin/sh\necho \"$@\" >{tmp_path}/asked\ncat <<'E'\n{told}E\n", scontrol=FORGOTTEN)
    found = SLURM.states(JOB, Path())
    words = {n: s.word for n, s in found.items()}
    assert words == {0: "COMPLETED", 1: "CANCELLED", 2: "NODE_FAIL", 3: "OUT_OF_MEMORY"}
    assert [found[n].node_s for n in range(4)] == [1320.0, 0.0, None, 30.0]  # on two nodes, twice
    assert "--starttime=2026-11-22 " in (tmp_path / "asked").read_text()  # not of a job that once had this number
    # The controller is asked for the state, the accounting for the time.
    shown = "JobId=18 ArrayJobId=17 ArrayTaskId=0 JobName=x JobState=RUNNING Reason=None Dependency=(null)"
    commands(scontrol=f"#!/bin/sh\necho '{shown}'\n")
    assert (SLURM.states(JOB, Path())[0].word, SLURM.states(JOB, Path())[0].node_s) == ("RUNNING", 1320.0)


def test_what_neither_knows_is_left_out(commands):
    commands(sacct=DISABLED, scontrol=FORGOTTEN)
    assert SLURM.states(JOB, Path()) == {}


def test_a_controller_that_is_down_is_no_end_of_a_job(commands):
    commands(sacct=DISABLED, scontrol="#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    with pytest.raises(MissingError, match="Unable to contact slurm controller"):
        SLURM.states(JOB, Path())


def test_without_sbatch_the_line_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"sbatch not found: .* --dry-run prints the scripts"):
        SLURM.submit(a_submission(), tmp_path, range(4))


def test_only_the_shares_asked_for_are_submitted_and_the_merge_waits_for_them(commands, tmp_path):
    commands(sbatch=f'#!/bin/sh\necho "$@" >>{tmp_path}/said\necho "17;cluster"\n')
    assert SLURM.submit(a_submission(), tmp_path, [1, 3]) == "17"
    assert SLURM.submit(a_submission(), tmp_path, range(4)) == "17"
    assert (tmp_path / "said").read_text().splitlines() == [
        f"--parsable --array=1,3 {tmp_path}/job.sbatch",
        f"--parsable --dependency=afterany:17 {tmp_path}/merge.sbatch",
        f"--parsable {tmp_path}/job.sbatch",
        f"--parsable --dependency=afterany:17 {tmp_path}/merge.sbatch",
    ]


def a_training_on(nodes, **wanted):
    plain = a_submission(cases=1, wanted=wanted)
    (case,) = plain.head.plan.cases
    ranks = {**case.configuration, "world_size": 4, "nodes": nodes, "strategy": "ddp"}
    plan = msgspec.structs.replace(plain.head.plan, cases=(msgspec.structs.replace(case, configuration=ranks),))
    return msgspec.structs.replace(plain, head=msgspec.structs.replace(plain.head, plan=plan))


def test_ranks_on_several_nodes_ask_for_them_and_know_their_job():
    one, two = (scripts(a_training_on(nodes), Path("/out")) for nodes in (1, 2))
    assert "#SBATCH --ntasks=1\n" in one["job.sbatch"]
    assert "export SLURM" not in one["job.sbatch"]
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n" in two["job.sbatch"]
    assert "--nodes" not in two["merge.sbatch"]
    before, _, after = two["job.sbatch"].partition("unset ")
    assert "job=$SLURM_JOB_ID nodes=$SLURM_JOB_NODELIST here=$SLURMD_NODENAME" in before
    assert "export SLURM_JOB_ID=$job SLURM_JOB_NODELIST=$nodes SLURMD_NODENAME=$here" in after
    assert subprocess.run(["bash", "-n"], input=two["job.sbatch"], text=True, check=False).returncode == 0


@pytest.mark.parametrize("lacks", ["SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"])
def test_outside_a_job_there_is_no_allocation(commands, monkeypatch, lacks):
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(lacks)
    commands(scontrol="#!/bin/sh\nprintf 'n1\\nn2\\n'\n")
    assert SLURM.allocation() == ()


def test_the_nodes_of_a_job_are_reached_by_their_addresses_and_this_one_comes_first(commands, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n2"}.items():
        monkeypatch.setenv(name, value)
    node = 'echo "NodeName=$3 NodeAddr=10.0.0.${3#n} NodeHostName=$3"'
    commands(scontrol=f"#!/bin/sh\n[ $2 = node ] && {{ {node}; exit; }}\nprintf 'n1\\nn2\\nn3\\n'\n")
    found = SLURM.allocation()
    assert [(node.name, node.address) for node in found] == [("n2", "10.0.0.2"), ("n1", "10.0.0.1"), ("n3", "10.0.0.3")]
    command = found[1].command
    assert command[:2] == ("srun", "--jobid=7")
    assert {"--overlap", "--nodelist=n1", "--cpu-bind=none"} <= set(command)


def test_a_silent_slurm_is_told(commands, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n2"}.items():
        monkeypatch.setenv(name, value)
    commands(scontrol="#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1\n")
    with pytest.raises(MissingError, match="SLURM does not answer: slurm_load_node error: Unable to contact"):
        SLURM.allocation()


@pytest.mark.parametrize(
    ("image", "runs"),
    [
        ("bench.sif", '"$apptainer" exec --bind "$PWD,$folder" --pwd "$PWD" bench.sif python3'),
        ("docker://a/b:1", '"$apptainer" exec --bind "$PWD,$folder" --pwd "$PWD" docker://a/b:1 python3'),
        ("/images/a sandbox", "--pwd \"$PWD\" '/images/a sandbox' python3"),
        (
            "nvcr.io#nvidia/pytorch:25.01-py3",
            "--container-image='nvcr.io#nvidia/pytorch:25.01-py3' --",
        ),
        ("./bench.sqsh", "--container-image=./bench.sqsh"),
        ("ubuntu", "--container-image=ubuntu"),
    ],
)
def test_the_form_of_an_image_says_what_runs_it(image, runs):
    text = scripts(a_submission(wanted={"container": image}), Path("/out"))
    assert runs in text["job.sbatch"]
    assert '"$@" -m torchstone run --plan' in text["job.sbatch"]
    assert ("srun" in text["job.sbatch"]) == ("--container-image" in runs)
    assert subprocess.run(["bash", "-n"], input=text["job.sbatch"], text=True, check=False).returncode == 0
    assert "/usr/bin/python3 -m torchstone submit --merge" in text["merge.sbatch"]  # it measures nothing


def test_a_container_sees_the_cards_of_its_case():
    plain = a_submission(cases=1, wanted={"container": "x.sif"})
    (case,) = plain.head.plan.cases
    for device, flag in (("cuda", "exec --nv --bind"), ("rocm", "exec --rocm --bind"), ("cpu", "exec --bind")):
        cases = (msgspec.structs.replace(case, placement=Placement(device)),)
        head = msgspec.structs.replace(plain.head, plan=msgspec.structs.replace(plain.head.plan, cases=cases))
        assert flag in scripts(msgspec.structs.replace(plain, head=head), Path("/out"))["job.sbatch"]


def test_what_a_container_cannot_do_is_refused():
    with pytest.raises(UsageError, match="--container: ranks on several nodes"):
        scripts(a_training_on(2, container="x.sif"), Path("/out"))
    with pytest.raises(UsageError, match="--container: a folder with : or , cannot be bound: /a:b"):
        scripts(a_submission(wanted={"container": "x.sif"}, folder="/a:b"), Path("/out"))


def test_a_job_at_its_time_limit_is_requeued_where_that_is_asked_for():
    plain, again = (scripts(a_submission(wanted=wanted), Path("/out")) for wanted in ({}, {"requeue_at_limit": "3"}))
    assert "--signal" not in plain["job.sbatch"]
    assert "scontrol" not in plain["job.sbatch"]
    assert "#SBATCH --signal=B:USR1@90\n" in again["job.sbatch"]
    assert "-ge 3 ]" in again["job.sbatch"]
    assert "--signal" not in again["merge.sbatch"]
    assert subprocess.run(["bash", "-n"], input=again["job.sbatch"], text=True, check=False).returncode == 0
    with pytest.raises(UsageError, match="--requeue-at-limit: SLURM does not requeue a job with --no-requeue"):
        scripts(a_submission(wanted={"requeue_at_limit": "3", "requeue": "no"}), Path("/out"))


def test_the_exit_status_is_of_the_newest_attempt_of_that_job(tmp_path):
    (tmp_path / "ended").mkdir()
    for name, status in {"1.17-9": 1, "1.17-10": 0, "1.170-0": 3, "11.17-0": 4, "2.ray7-abc": 5}.items():
        (tmp_path / "ended" / name).write_text(f"{status}\n")
    assert [exit_status(tmp_path, *of) for of in ((1, "17"), (1, "170"), (2, "ray7-abc"), (3, "17"))] == [0, 3, 5, None]
