"""The batch scripts: an array of shares, and the job that merges what they recorded.

They are written to be read and edited. What is submitted later, by `torchstone resume`, is the same file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.ranks import most_nodes
from torchstone.core.schema.submission import Submission

_OPTIONS = {
    "partition": "partition", "account": "account", "qos": "qos", "gres": "gres", "constraint": "constraint",
    "cpus": "cpus-per-task", "memory": "mem", "time": "time", "reservation": "reservation",
}  # fmt: skip
# What people have in their shell for sbatch: it becomes a line of the script, where it is seen and not typed otherwise.
# The last counts.
_OF_SHELL = {
    "partition": ("SBATCH_PARTITION",), "account": ("SLURM_ACCOUNT", "SBATCH_ACCOUNT"), "qos": ("SBATCH_QOS",),
    "gres": ("SBATCH_GRES",), "constraint": ("SBATCH_CONSTRAINT",), "memory": ("SBATCH_MEM_PER_NODE",),
    "time": ("SBATCH_TIMELIMIT",), "reservation": ("SBATCH_RESERVATION",),
}  # fmt: skip
# Lines of the user's own that would take from torchstone what it needs of a job.
_OURS = {
    "--array": "-a", "--chdir": "-D", "--output": "-o", "--error": "-e", "--open-mode": "", "--wait": "-W",
    "--wrap": "", "--test-only": "",
}  # fmt: skip
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
        "folder": shlex.quote(submission.folder), "python": shlex.quote(submission.python), "run_id": run_id,
        "output": shlex.quote(submission.output), "formats": shlex.quote(submission.formats),
        "setup": f"{setup}\n" if setup else "", **_measuring(submission, nodes),
    }  # fmt: skip
    # What a site demands of a job (--time, a card in a partition of cards) it demands of the one that merges, too.
    asked = _asked(submission)
    array = [*_common(f"torchstone-{name}", folder, "log/%A_%a.txt", nodes), *_array(submission), *asked]
    merge = [*_common(f"torchstone-merge-{name}", folder, "log/merge_%j.txt"), *asked]
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
        f"#SBATCH --job-name={plain}", f"#SBATCH --chdir={_quoted(str(folder))}", f"#SBATCH --output={log}",
        "#SBATCH --open-mode=append",
        *([f"#SBATCH --nodes={nodes}", "#SBATCH --ntasks-per-node=1"] if nodes > 1 else ["#SBATCH --ntasks=1"]),
    ]  # fmt: skip


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


def _asked(submission: Submission) -> list[str]:
    given = submission.wanted
    more = [f"#SBATCH {line}" for line in given.get("sbatch", "").split("\n") if line]
    return [*(f"#SBATCH --{word}={_quoted(given[name])}" for name, word in _OPTIONS.items() if name in given), *more]


def _quoted(text: str) -> str:
    """Return a value as sbatch reads it in a line of a script: quoted where it is not plain."""
    if text and all(c.isalnum() or c in "/._-:,=+@%[]()*&|!" for c in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
