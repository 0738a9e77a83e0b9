"""An allocation of two nodes that are both this machine, for tests: programs in the place of scontrol and srun."""

from __future__ import annotations

from pathlib import Path

import pytest

_SCONTROL = """#!/bin/sh
case "$2" in
  hostnames) printf 'n1\\nn2\\n' ;;
  node) echo "NodeName=$3 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=$3" ;;
esac
"""
# Leaves out its own options, and starts the command, as srun does on the node that it names.
_SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do case "$1" in --nodelist=*) SLURMD_NODENAME=${1#--nodelist=} ;; esac; shift; done
export SLURMD_NODENAME
exec "$@"
"""


def an_allocation(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have this process be in a job of the nodes n1, which it is on, and n2."""
    programs = folder / "bin"
    programs.mkdir()
    for name, text in {"scontrol": _SCONTROL, "srun": _SRUN}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    patch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n1"}.items():
        patch.setenv(name, value)
