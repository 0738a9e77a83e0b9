"""SLURM: an array of jobs by a script that people can read and edit, and one that merges after all have ended.

`submitit` was tried: it pickles functions, wants accounting for its states, and one of nine runs hung. A script is also
what a cluster's users know how to read.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.ranks import most_nodes
from torchstone.core.schema.submission import Job, Phase, ShareState, Submission
from torchstone.plugins.machine_protocols import Cluster, HalfSubmitted, Node

# What SLURM says of the tasks of an array: by its accounting where that answers, else by its controller.
#
# Small sites keep no accounting: `sacct` then fails, and `scontrol` forgets a job some minutes after its end
# (MinJobAge). What neither knows is over; the file that the job script wrote has its exit status.

_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
_REASON = re.compile(r"\bReason=(?!None|\(null\))(.+?) Dependency=")  # some have blanks
_MOST_S = 60.0


def call_slurm(command: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what one of SLURM's commands answered. Raises MissingError where it is not installed or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_MOST_S, check=False, env=env)
    except FileNotFoundError:
        raise MissingError(
            f"{command[0]} not found: type this on a machine of the cluster that has SLURM's commands; --dry-run "
            "prints the scripts without it"
        ) from None
    except subprocess.TimeoutExpired as fault:  # sbatch asks again and again where there are too many jobs
        said = bytes(fault.stderr or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = said or "is SLURM's controller up?"
        raise MissingError(f"{command[0]} did not answer within {_MOST_S:g} s: {why}") from None


def states(job: Job, env: dict[str, str]) -> dict[int, ShareState]:
    """Return the state of each task of an array that SLURM still knows. Raises MissingError as `call_slurm` does."""
    found = _by_accounting(job, env)
    for task, state in _by_controller(job.job_id, env):  # it knows of a requeue at once, the accounting later
        known = found.get(task)
        found[task] = msgspec.structs.replace(state, node_s=known.node_s if known is not None else None)
    return found


def _by_accounting(job: Job, env: dict[str, str]) -> dict[int, ShareState]:
    """Return the newest state of each task, with the seconds on nodes of all its restarts."""
    found: dict[int, ShareState] = {}
    fields = "--format=Submit,JobID,State,ElapsedRaw,NNodes"
    # All restarts, but no job of former years that had the same number. Local time: the day before is early enough.
    since = f"--starttime={datetime.fromisoformat(job.submitted_utc) - timedelta(days=1):%Y-%m-%d}"
    plain = ("--noheader", "--parsable2", "--allocations", "--duplicates")
    words = ("sacct", f"--jobs={job.job_id}", since, *plain, fields)
    try:
        told = call_slurm(words, env)
    except MissingError:  # not every site has it
        return found
    rows = [line.split("|") for line in told.stdout.splitlines()] if told.returncode == 0 else []
    for _, name, word, elapsed, nodes in sorted(row for row in rows if len(row) == 5):
        node_s = float(elapsed) * float(nodes) if elapsed.isdigit() and nodes.isdigit() else None
        for task, state in _tasks(job.job_id, name.partition("_")[2], word):
            before = found[task].node_s if task in found else 0.0
            both = None if before is None or node_s is None else before + node_s
            found[task] = msgspec.structs.replace(state, node_s=both)
    return found


def _by_controller(job_id: str, env: dict[str, str]) -> Iterator[tuple[int, ShareState]]:
    told = call_slurm(("scontrol", "show", "job", job_id, "--oneliner"), env)
    if told.returncode != 0:
        if "Invalid job id" in told.stderr:
            return  # forgotten
        raise MissingError(f"SLURM does not answer: {told.stderr.strip().rpartition(chr(10))[2]}")
    for line in told.stdout.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if fields.get("ArrayJobId") == job_id:
            why = reason[1] if (reason := _REASON.search(line)) is not None else None
            yield from _tasks(job_id, fields.get("ArrayTaskId", ""), fields.get("JobState", ""), why)


def _tasks(job_id: str, which: str, word: str, why: str | None = None) -> Iterator[tuple[int, ShareState]]:
    """Yield the tasks that `3`, `5-11` or `[1,5-11%2]` means."""
    word = word.split(maxsplit=1)[0] if word.split() else "UNKNOWN"  # "CANCELLED by 1000"
    phase = Phase.WAITING if word in _WAITING else Phase.RUNNING if word in _RUNNING else Phase.OVER
    for part in which.strip("[]").partition("%")[0].split(","):
        if (ends := re.fullmatch(r"(\d+)(?:-(\d+))?", part)) is not None:
            for task in range(int(ends[1]), int(ends[2] or ends[1]) + 1):
                yield task, ShareState(phase, word, f"{job_id}_{task}", why if phase == Phase.WAITING else None)


# The batch scripts: an array of shares, and the job that merges what they recorded.
#
# They are written to be read and edited. What is submitted later, by `torchstone resume`, is the same file.

_AS_TYPED = ("partition", "account", "qos", "gres", "constraint", "time", "reservation")
_OPTIONS = {**{name: name for name in _AS_TYPED}, "cpus": "cpus-per-task", "memory": "mem"}
# What people have in their shell for sbatch: it becomes a line of the script, where it is seen and not typed otherwise.
# The last counts.
_OF_SHELL = {
    "partition": ("SBATCH_PARTITION",),
    "account": ("SLURM_ACCOUNT", "SBATCH_ACCOUNT"),
    "qos": ("SBATCH_QOS",),
    "gres": ("SBATCH_GRES",),
    "constraint": ("SBATCH_CONSTRAINT",),
    "memory": ("SBATCH_MEM_PER_NODE",),
    "time": ("SBATCH_TIMELIMIT",),
    "reservation": ("SBATCH_RESERVATION",),
}
# Lines of the user's own that would take from torchstone what it needs of a job.
_OURS = {
    "--array": "-a",
    "--chdir": "-D",
    "--output": "-o",
    "--error": "-e",
    "--open-mode": "",
    "--wait": "-W",
    "--wrap": "",
    "--test-only": "",
}
_SHORTEST = 4  # letters of an option that sbatch takes for the whole

_ARRAY = """\
share=$SLURM_ARRAY_TASK_ID
attempt=$SLURM_ARRAY_JOB_ID-${{SLURM_RESTART_COUNT:-0}}
folder=$PWD
{keep}
# Settings of an outer allocation (SLURM_CPU_BIND and others) would bind or slow down what is measured.
unset ${{!SLURM*}} ${{!SBATCH_*}} ${{!SRUN_*}}
{export}
{setup}# At the time limit SLURM sends SIGTERM: this shell then waits, so that the exit status below is written.
trap : TERM

cd {folder} || exit 3
{measure}
echo "$status" >"$folder/ended/$share.$attempt"
{again}exit "$status"
"""
_TYPED = 'run --plan "$folder/plan.json" --share "$share" --attempt "$attempt" --when-busy {busy} --quiet'

_KEEP = "job=$SLURM_JOB_ID nodes=$SLURM_JOB_NODELIST here=$SLURMD_NODENAME conf=${SLURM_CONF:-}\n"
_CONF = """
[ -z "$conf" ] || export SLURM_CONF=$conf
"""
_NODES = """
# The further nodes of this job are reached by `srun --jobid`.
export SLURM_JOB_ID=$job SLURM_JOB_NODELIST=$nodes SLURMD_NODENAME=$here
"""

_APPTAINER = """\
apptainer=$(command -v apptainer || command -v singularity) || {{
    echo "torchstone: no apptainer on this node: --setup 'module load apptainer' may bring it" >&2
    exit 3
}}
set -- "$apptainer" exec {card}--bind "$PWD,$folder" --pwd "$PWD" {image} python3"""
# The step has all that the job has; what srun sets for it would reach what is measured.
_PYXIS = """\
set -- srun --jobid="$job" --overlap --nodes=1 --ntasks=1 --cpu-bind=none --mpi=none \\
    --container-image={image} --container-mounts="$PWD:$PWD,$folder:$folder" --container-workdir="$PWD" \\
    bash -c 'unset ${{!SLURM*}} ${{!SRUN_*}}; exec "$@"' bash python3"""
_CARD = {"cuda": "--nv ", "rocm": "--rocm "}

# 90 s before the end, and SLURM may be 30 s early; the trial that runs then is lost, and taken by the next attempt.
_WARNED = "#SBATCH --signal=B:USR1@90"
_AT_LIMIT = """\
limit=
trap 'limit=reached; {stop}' USR1
{command} &
running=$!
wait "$running"
status=$?
while [ "$status" -gt 128 ] && kill -0 "$running" 2>/dev/null; do # a signal ends `wait`, too
    wait "$running"
    status=$?
done"""
_AGAIN = """\
if [ -n "$limit" ] && [ "$status" -ne 0 ]; then
    if [ "${{attempt##*-}}" -ge {most} ]; then
        echo "torchstone: time limit reached, and --requeue-at-limit {most} is used up" >&2
    elif ! scontrol requeue "${{attempt%-*}}_$share"; then
        echo "torchstone: time limit reached, and SLURM did not requeue the job" >&2
    fi
fi
"""

_MERGE = """\
{setup}cd {folder} || exit 3
{python} -m torchstone submit --merge {run_id} --output-dir {output}
{python} -m torchstone report {run_id} --format {formats} --output-dir {output}
"""


def scripts(submission: Submission, folder: Path, shell: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return job.sbatch and merge.sbatch. `shell`: the environment, for what it says to sbatch and nobody typed.

    Raises UsageError for words that would end a line, and for lines that would break the job.
    """
    found = {name: value for name, names in _OF_SHELL.items() for one in names if (value := (shell or {}).get(one))}
    submission = msgspec.structs.replace(submission, wanted={**found, **submission.wanted})
    for name, text in submission.wanted.items():
        rows = (
            text.replace("\t", " ").split("\n") if name == "setup" else text.split("\n") if name == "sbatch" else [text]
        )
        if not all(map(str.isprintable, rows)):
            raise UsageError(f"--{name.replace('_', '-')}: line breaks and control characters are not allowed")
    for line in filter(None, submission.wanted.get("sbatch", "").split("\n")):
        _check_line(line)
    setup = submission.wanted.get("setup", "").strip("\n")
    run_id, name = submission.head.run_id, submission.head.name
    nodes = most_nodes(case.configuration for case in submission.head.plan.cases)
    words = {
        "folder": shlex.quote(submission.folder),
        "python": shlex.quote(submission.python),
        "run_id": run_id,
        "output": shlex.quote(submission.output),
        "formats": shlex.quote(submission.formats),
        "setup": f"{setup}\n" if setup else "",
        **_measuring(submission, nodes),
    }
    # What a site demands of a job (--time, a card in a partition of cards) it demands of the one that merges, too.
    run_command = _sbatch_lines(submission)
    array = [*_common(f"torchstone-{name}", folder, "log/%A_%a.txt", nodes), *_array(submission), *run_command]
    merge = [*_common(f"torchstone-merge-{name}", folder, "log/merge_%j.txt"), *run_command]
    edited = f"# `torchstone resume {run_id}` submits this file again, as you have edited it, for the missing shares."
    return {
        "job.sbatch": "\n".join(["#!/bin/bash", edited, *array, "", _ARRAY.format(**words)]),
        "merge.sbatch": "\n".join(["#!/bin/bash", *merge, "", _MERGE.format(**words)]),
    }


def _measuring(submission: Submission, nodes: int) -> dict[str, str]:
    """Return the parts of the job's script that measure: here or in a container, once or again at the time limit."""
    image, most = submission.wanted.get("container"), int(submission.wanted.get("requeue_at_limit", "0"))
    before, python, stop = "", shlex.quote(submission.python), 'kill -TERM "$running"'
    if image is not None:
        if nodes > 1:
            raise UsageError("--container: ranks on several nodes are started by srun, which the container lacks")
        if any(c in submission.folder + submission.output for c in ":,"):
            raise UsageError(f"--container: a folder with : or , cannot be bound: {submission.folder}")
        card = _CARD.get(submission.head.plan.cases[0].placement.device, "")
        before = (_APPTAINER if _is_apptainers(image) else _PYXIS).format(image=shlex.quote(image), card=card) + "\n"
        python = '"$@"'
        if not _is_apptainers(image):  # SIGTERM makes srun kill its step; all but the controller ignore SIGINT
            stop = 'scancel --signal=INT "${attempt%-*}_$share"'
    asks = nodes > 1 or most or (image is not None and not _is_apptainers(image))  # SLURM's commands, in the job
    command = f"{python} -m torchstone {_TYPED.format(busy=shlex.quote(submission.when_busy))}"
    if most and submission.wanted.get("requeue") == "no":
        raise UsageError("--requeue-at-limit: SLURM does not requeue a job with --no-requeue; leave out one of them")
    return {
        "keep": _KEEP if asks else "",
        "export": (_NODES if nodes > 1 else "") + (_CONF if asks else ""),
        "measure": before + (_AT_LIMIT.format(command=command, stop=stop) if most else f"{command}\nstatus=$?"),
        "again": _AGAIN.format(most=most) if most else "",
    }


def _is_apptainers(image: str) -> bool:
    """Say whether Apptainer or pyxis has images of that form: x.sif, ./folder, docker://x; x.sqsh, nvcr.io#x, x:tag."""
    return "://" in image or image.endswith(".sif") or (image.startswith(("/", ".")) and not image.endswith(".sqsh"))


def _check_line(line: str) -> None:
    """Raise UsageError for a line of --sbatch that is no option, or one that torchstone itself sets."""
    try:
        words = shlex.split(line)
    except ValueError as fault:
        raise UsageError(f"--sbatch={line}: {fault}") from None
    if not words or not words[0].startswith("-"):
        raise UsageError(f"--sbatch={line}: it is no option of sbatch; write --sbatch=--NAME=VALUE")
    for word in words:
        name = word.partition("=")[0]
        for option, short in _OURS.items():
            long = name.startswith("--") and len(name) >= _SHORTEST and option.startswith(name)
            if long or (short and not name.startswith("--") and name.startswith(short)):
                raise UsageError(f"--sbatch={line}: torchstone itself sets {option} of its jobs; leave it out")


def _common(name: str, folder: Path, log: str, nodes: int = 1) -> list[str]:
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:100]
    return [
        f"#SBATCH --job-name={plain}",
        f"#SBATCH --chdir={_quoted(str(folder))}",
        f"#SBATCH --output={log}",
        "#SBATCH --open-mode=append",
        *([f"#SBATCH --nodes={nodes}", "#SBATCH --ntasks-per-node=1"] if nodes > 1 else ["#SBATCH --ntasks=1"]),
    ]


def _array(submission: Submission) -> list[str]:
    wanted = submission.wanted
    lines = [f"#SBATCH --array={array_of(submission, range(len(submission.shares)))}"]
    lines.append("#SBATCH --requeue" if wanted.get("requeue", "yes") == "yes" else "#SBATCH --no-requeue")
    return [*lines, _WARNED] if wanted.get("requeue_at_limit", "0") != "0" else lines


def array_of(submission: Submission, shares: Sequence[int]) -> str:
    """Return these shares as sbatch's --array wants them, with how many may run at once."""
    most = f"%{submission.wanted['at_most']}" if "at_most" in submission.wanted else ""
    row = len(shares) > 1 and list(shares) == list(range(shares[0], shares[-1] + 1))
    return (f"{shares[0]}-{shares[-1]}" if row else ",".join(map(str, shares))) + most


def _sbatch_lines(submission: Submission) -> list[str]:
    given = submission.wanted
    more = [f"#SBATCH {line}" for line in given.get("sbatch", "").split("\n") if line]
    return [*(f"#SBATCH --{word}={_quoted(given[name])}" for name, word in _OPTIONS.items() if name in given), *more]


def _quoted(text: str) -> str:
    """Return a value as sbatch reads it in a line of a script: quoted where it is not plain."""
    if text and all(c.isalnum() or c in "/._-:,=+@%[]()*&|!" for c in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


JOB, NODES, HERE = "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"
_ADDRESS = re.compile(r"\bNodeAddr=(\S+)")


def nodes_of_job(environment: Mapping[str, str], plain: dict[str, str]) -> Sequence[Node]:
    """Return the nodes of the job, this one first; none outside a job, or on a machine that is no node of it (salloc).

    `plain`: the environment that SLURM's commands are asked in. Raises MissingError where SLURM does not answer.
    """
    job, nodes, here = (environment.get(name, "") for name in (JOB, NODES, HERE))
    names = _output(("scontrol", "show", "hostnames", nodes), plain).split() if job and nodes and here else []
    if here not in names:
        return ()
    names.sort(key=lambda name: name != here)  # the others stay in their order
    return [Node(name, _address(name, plain), _command(job, name)) for name in names]


def _command(job: str, name: str) -> tuple[str, ...]:
    # --overlap: beside the step that measures on the first node. All cores of the node, none bound: torchstone does
    # that. Without --exact the step has all of the job's resources there, its GPUs among them.
    one = ("srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={name}")
    return (*one, "--cpu-bind=none", "--mpi=none", "--unbuffered", "--quit-on-interrupt")


def _address(name: str, plain: dict[str, str]) -> str:
    """Return the address by which SLURM itself reaches a node: its name may mean nothing to the others."""
    found = _ADDRESS.search(_output(("scontrol", "show", "node", name, "--oneliner"), plain))
    return found[1] if found is not None else name


def _output(command: Sequence[str], plain: dict[str, str]) -> str:
    told = call_slurm(command, plain)
    if told.returncode != 0:
        raise MissingError(f"SLURM does not answer: {told.stderr.strip().rpartition(chr(10))[2]}")
    return told.stdout


class Slurm(Cluster):
    """Submits by sbatch; no library of SLURM is needed."""

    describes = "SLURM: generated sbatch scripts, an array of jobs, a dependent job that merges"
    takes: tuple[str, ...] = (
        *_OPTIONS,
        *("sbatch", "at_most", "requeue", "setup", "container", "requeue_at_limit"),
    )

    spreads = True

    def allocation(self) -> Sequence[Node]:

        return nodes_of_job(os.environ, slurm_environment())

    def scripts(self, submission: Submission, folder: Path) -> Mapping[str, str]:

        return scripts(submission, folder, os.environ)

    def submit(self, submission: Submission, folder: Path, shares: Sequence[int]) -> str:

        array = [f"--array={array_of(submission, shares)}"] if len(shares) < len(submission.shares) else []
        job_id = self._sbatch([*array, str(folder / "job.sbatch")])
        try:
            self._sbatch([f"--dependency=afterany:{job_id}", str(folder / "merge.sbatch")])
        except TorchstoneError as fault:  # also a controller that answers the second time no more
            said = f"{fault}; this was the job that merges: job {job_id} is submitted, `scancel {job_id}` ends it"
            raise HalfSubmitted(job_id, said) from None
        return job_id

    def states(self, job: Job, folder: Path) -> Mapping[int, ShareState]:

        return states(job, slurm_environment())

    def _sbatch(self, words: Sequence[str]) -> str:

        told = call_slurm(("sbatch", "--parsable", *words), slurm_environment())
        if told.returncode != 0:
            why = told.stderr.strip().replace("sbatch: error: ", "").splitlines() or [f"exit status {told.returncode}"]
            raise UsageError(f"SLURM refused the job: {'; '.join(why)}{_instead(told.stderr)}")
        job_id = told.stdout.strip().partition(";")[0]
        if not job_id.isdigit():  # --test-only, or a wrapper around sbatch
            raise UsageError(f"sbatch named no job: {(told.stdout or told.stderr).strip()[:200]!r}")
        return job_id


def slurm_environment() -> dict[str, str]:
    """Return the environment of SLURM's commands: without the settings of an allocation that this may run in.

    Without those of the user's shell, too, which would go before what the script says: it has them as lines.
    """
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))
    }


def _instead(complaint: str) -> str:
    """Return what there is, for a partition that there is not; how many fit, for an array that is too large."""
    if "partition" in complaint:
        found = call_slurm(("sinfo", "--noheader", "--format=%R"), slurm_environment()).stdout.split()
        return f". Partitions here: {', '.join(sorted(set(found)))}" if found else ""
    return "; --cases-per-job N makes fewer jobs" if re.search("array|MaxSubmit|submit limit", complaint) else ""


PLUGIN: Cluster = Slurm()
