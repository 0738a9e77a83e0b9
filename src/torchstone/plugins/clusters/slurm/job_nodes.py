"""The nodes of the job that this process is in, and the command that starts another process on one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torchstone.core.errors import MissingError
from torchstone.plugins.cluster_protocol import Node
from torchstone.plugins.clusters.slurm.states import asked

JOB, NODES, HERE = "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"
_ADDRESS = re.compile(r"\bNodeAddr=(\S+)")


def nodes_of_job(environment: Mapping[str, str], plain: dict[str, str]) -> Sequence[Node]:
    """Return the nodes of the job, this one first; none outside a job, or on a machine that is no node of it (salloc).

    `plain`: the environment that SLURM's commands are asked in. Raises MissingError where SLURM does not answer.
    """
    job, nodes, here = (environment.get(name, "") for name in (JOB, NODES, HERE))
    names = _told(("scontrol", "show", "hostnames", nodes), plain).split() if job and nodes and here else []
    if here not in names:
        return ()
    names.sort(key=lambda name: name != here)  # the others stay in their order
    return [Node(name, _address(name, plain), _command(job, name)) for name in names]


def _command(job: str, name: str) -> tuple[str, ...]:
    # --overlap: beside the step that measures on the first node. All cores of the node, none bound: torchstone does
    # that. Without --exact the step has all of the job's resources there, its GPUs among them.
    return (
        "srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={name}", "--cpu-bind=none",
        "--mpi=none", "--unbuffered", "--quit-on-interrupt",
    )  # fmt: skip


def _address(name: str, plain: dict[str, str]) -> str:
    """Return the address by which SLURM itself reaches a node: its name may mean nothing to the others."""
    found = _ADDRESS.search(_told(("scontrol", "show", "node", name, "--oneliner"), plain))
    return found[1] if found is not None else name


def _told(command: Sequence[str], plain: dict[str, str]) -> str:
    told = asked(command, plain)
    if told.returncode != 0:
        raise MissingError(f"SLURM does not answer: {told.stderr.strip().rpartition(chr(10))[2]}")
    return told.stdout
