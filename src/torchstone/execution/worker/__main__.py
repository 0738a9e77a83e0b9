"""The process of a trial: one request and its events, or a template that forks a trial for each request.

`once FD`: a request on stdin, events on FD. `node`: a request in the first line of stdin, events on stdout; a further
line asks for the stack, and the end of stdin ends the trial. `template FD MODELS…`: requests on FD.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading

import msgspec

from torchstone.core.schema.message import ASK_WHERE, Request
from torchstone.execution.worker import pinning  # noqa: F401  before torch, which may bind the main thread
from torchstone.execution.worker.pipe import EventPipe, prepare_process


def main(arguments: list[str]) -> None:
    """Run one of the modes. stdout is given to stderr: what a model prints must not end up in `--json`."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    # transformers imports torchao, which warns of kernels for other machines.
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)
    mode, *words = arguments
    if mode == "template":
        from torchstone.execution.worker.template import serve

        serve(int(words[0]), words[1:])
        return
    from torchstone.execution.worker.execution import carry_out

    descriptor = stdout if mode == "node" else int(words[0])
    prepare_process(descriptor)
    data = sys.stdin.buffer.readline() if mode == "node" else sys.stdin.buffer.read()
    if mode == "node":
        threading.Thread(target=_obey, daemon=True).start()
    carry_out(msgspec.json.decode(data, type=Request), EventPipe(descriptor))
    sys.stderr.flush()
    os._exit(0)  # a trial has nothing left to say: tearing down torch would only keep the next one waiting


def _obey() -> None:
    """Show the stack for each further line on stdin; end this process, and so its ranks, when stdin closes."""
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setpgrp()
    while os.read(0, 1):
        os.kill(os.getpid(), signal.Signals[ASK_WHERE])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
