"""SLURM: an array of jobs by a script that people can read and edit, and one that merges after all have ended.

`submitit` was tried: it pickles functions, wants accounting for its states, and one of nine runs hung. A script is also
what a cluster's users know how to read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.submission import Job, ShareState, Submission
from torchstone.plugins.cluster_protocol import Cluster, HalfSubmitted, Node


class Slurm(Cluster):
    """Submits by sbatch; no library of SLURM is needed."""

    describes = "SLURM: generated sbatch scripts, an array of jobs, a dependent job that merges"
    takes: tuple[str, ...] = (
        "partition", "account", "qos", "gres", "constraint", "cpus", "memory", "time", "sbatch", "at_most", "requeue",
        "setup", "container", "requeue_at_limit",
    )  # fmt: skip

    spreads = True

    def allocation(self) -> Sequence[Node]:
        from torchstone.plugins.clusters.slurm.job_nodes import nodes_of_job

        return nodes_of_job(os.environ, environment())

    def scripts(self, submission: Submission, folder: Path) -> Mapping[str, str]:
        from torchstone.plugins.clusters.slurm.scripts import scripts

        return scripts(submission, folder, os.environ)

    def submit(self, submission: Submission, folder: Path, shares: Sequence[int]) -> str:
        from torchstone.plugins.clusters.slurm.scripts import array_of

        array = [f"--array={array_of(submission, shares)}"] if len(shares) < len(submission.shares) else []
        job_id = self._sbatch([*array, str(folder / "job.sbatch")])
        try:
            self._sbatch([f"--dependency=afterany:{job_id}", str(folder / "merge.sbatch")])
        except TorchstoneError as fault:  # also a controller that answers the second time no more
            said = f"{fault}; this was the job that merges: job {job_id} is submitted, `scancel {job_id}` ends it"
            raise HalfSubmitted(job_id, said) from None
        return job_id

    def states(self, job: Job, folder: Path) -> Mapping[int, ShareState]:
        from torchstone.plugins.clusters.slurm.states import states

        return states(job, environment())

    def _sbatch(self, words: Sequence[str]) -> str:
        from torchstone.plugins.clusters.slurm.states import asked

        told = asked(("sbatch", "--parsable", *words), environment())
        if told.returncode != 0:
            why = told.stderr.strip().replace("sbatch: error: ", "").splitlines() or [f"exit status {told.returncode}"]
            raise UsageError(f"SLURM refused the job: {'; '.join(why)}{_instead(told.stderr)}")
        job_id = told.stdout.strip().partition(";")[0]
        if not job_id.isdigit():  # --test-only, or a wrapper around sbatch
            raise UsageError(f"sbatch named no job: {(told.stdout or told.stderr).strip()[:200]!r}")
        return job_id


def environment() -> dict[str, str]:
    """Return the environment of SLURM's commands: without the settings of an allocation that this may run in.

    Without those of the user's shell, too, which would go before what the script says: it has them as lines.
    """
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {
        name: value for name, value in os.environ.items()
        if name in kept or not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))
    }  # fmt: skip


def _instead(complaint: str) -> str:
    """Return what there is, for a partition that there is not; how many fit, for an array that is too large."""
    from torchstone.plugins.clusters.slurm.states import asked

    if "partition" in complaint:
        found = asked(("sinfo", "--noheader", "--format=%R"), environment()).stdout.split()
        return f". Partitions here: {', '.join(sorted(set(found)))}" if found else ""
    return "; --cases-per-job N makes fewer jobs" if re.search("array|MaxSubmit|submit limit", complaint) else ""


PLUGIN: Cluster = Slurm()
