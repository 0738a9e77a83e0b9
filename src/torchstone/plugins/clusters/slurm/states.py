"""What SLURM says of the tasks of an array: by its accounting where that answers, else by its controller.

Small sites keep no accounting: `sacct` then fails, and `scontrol` forgets a job some minutes after its end
(MinJobAge). What neither knows is over; the file that the job script wrote has its exit status.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from torchstone.core.errors import MissingError
from torchstone.core.schema.submission import Job, Phase, ShareState

_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
_REASON = re.compile(r"\bReason=(?!None|\(null\))(.+?) Dependency=")  # some have blanks
_MOST_S = 60.0


def asked(command: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
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
    """Return the state of each task of an array that SLURM still knows. Raises MissingError as `asked` does."""
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
        told = asked(words, env)
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
    told = asked(("scontrol", "show", "job", job_id, "--oneliner"), env)
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
