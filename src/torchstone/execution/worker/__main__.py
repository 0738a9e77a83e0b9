"""`once FD`: one request on stdin, events on FD. `template FD MODELS…`: fork a trial for each request on FD."""

from __future__ import annotations

import sys

import msgspec

from torchstone.core.schema.message import Request
from torchstone.execution.worker import pinning  # noqa: F401  before torch, which may bind the main thread
from torchstone.execution.worker.pipe import EventPipe


def main(arguments: list[str]) -> None:
    """Run one of the two modes. stdout is given to stderr: what a model prints must not end up in `--json`."""
    import os

    os.dup2(2, 1)
    mode, descriptor, *models = arguments
    if mode == "template":
        from torchstone.execution.worker.template import serve

        serve(int(descriptor), models)
        return
    from torchstone.execution.worker.execution import carry_out
    from torchstone.execution.worker.pipe import prepare

    prepare(int(descriptor))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    carry_out(request, EventPipe(int(descriptor)))
    sys.stderr.flush()
    os._exit(0)  # a trial has nothing left to say: tearing down torch would only keep the next one waiting


if __name__ == "__main__":
    main(sys.argv[1:])
