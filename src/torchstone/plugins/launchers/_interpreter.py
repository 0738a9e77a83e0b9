"""Starts a new interpreter for one request: 5 to 8 s to import, nothing inherited."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.message import Request
from torchstone.plugins.launchers._process import PipedTrial, line_to_a_trial


def started(
    request: Request, environment: Mapping[str, str], folder: Path | None, facts: Mapping[str, Scalar] | None = None
) -> PipedTrial:
    """Start `python -m torchstone.execution.worker once` on a request. `facts`: how it was started."""
    ours, theirs = line_to_a_trial()
    process = subprocess.Popen(
        [sys.executable, "-m", "torchstone.execution.worker", "once", str(theirs)],
        stdin=subprocess.PIPE, pass_fds=(theirs,), env=dict(environment), cwd=folder, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    if process.stdin is not None:
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
    return PipedTrial(process.pid, ours, lambda: _status_of(process), facts)


def _status_of(process: subprocess.Popen[bytes]) -> int:
    code = process.wait()
    return -code if code < 0 else code << 8  # back to the form of a wait status
