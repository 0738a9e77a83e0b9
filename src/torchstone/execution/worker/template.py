"""The template: a process that has imported torch and the models' libraries, and forks a trial for each request.

It holds no device context and runs no parallel operation (an OpenMP pool does not survive a fork), so a trial starts
from a clean state and is live in under 0.1 s. What it imports may initialise a driver all the same, whose device no
child could then use: it looks before each fork, and says why there is none. When its socket closes, or its controller
dies, it ends its trials.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence

import msgspec

from torchstone.core.lifetime import end_with
from torchstone.core.schema.message import Request
from torchstone.execution.worker import crash_handler
from torchstone.execution.worker.execution import carry_out
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.preload_watch import PreloadWatch
from torchstone.plugins import registry

_LARGEST_REQUEST = 1 << 20
# Lets torch.cuda.is_available count devices through NVML, which initialises nothing (vllm-project/vllm#15951). It is
# for what is imported here alone: trials have the environment of their user.
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


def serve(descriptor: int, models: Sequence[str]) -> None:
    """Import, say "ready", then fork for every request until the socket closes."""
    end_with(os.getppid())
    control = socket.socket(fileno=descriptor)
    if _is_closed(control):  # the controller was killed before the line above could ask for the kernel's help
        return
    watch = _import_for(models)
    gc.collect()
    gc.freeze()  # what was imported stays shared with the children instead of being copied when their collector runs
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to answer
    living: set[int] = set()
    try:
        control.sendall(b'{"ready":1}\n')
    except BrokenPipeError:  # Ctrl-C while this was importing
        return
    while True:
        waiting: list[socket.socket | int] = [control, wake_read]
        readable, _, _ = select.select(waiting, [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
            if not _report_ended(control, living):
                break
        if control in readable and not _fork_for_request(control, living, watch):
            break
    for pid in living:
        _end(pid)


def _import_for(models: Sequence[str]) -> PreloadWatch:
    """Import what these models and every task need; return what was seen of drivers meanwhile."""
    before = os.environ.get(_COUNT_BY_NVML)
    os.environ.setdefault(_COUNT_BY_NVML, "1")
    with PreloadWatch() as watch:
        for model in models:
            scheme, _, name = model.partition(":")
            watch.begins(model)
            registry.load("models", scheme).preload(name)
        for task, engine in registry.usable("engines"):
            watch.begins(f"task {task}")
            engine.preload()
    if before is None:
        del os.environ[_COUNT_BY_NVML]
    return watch


def _fork_for_request(control: socket.socket, living: set[int], watch: PreloadWatch) -> bool:
    """Read one request and its descriptor, fork, tell the pid; or tell why there is no fork.

    Returns False when the controller has gone.
    """
    try:
        data, descriptors, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 1)
    except ConnectionResetError:  # it went without having read what it was told last
        return False
    if not data:
        return False
    while not data.endswith(b"\n"):
        data += control.recv(_LARGEST_REQUEST)
    if (reason := watch.reason()) is not None:
        os.close(descriptors[0])
        return _tell(control, msgspec.json.encode({"unforkable": reason}) + b"\n")
    template = os.getpid()
    pid = os.fork()
    if pid == 0:
        control.close()
        _be_trial(data, descriptors[0], template)
    os.close(descriptors[0])
    living.add(pid)
    return _tell(control, b'{"pid":%d}\n' % pid)


def _be_trial(data: bytes, descriptor: int, template: int) -> None:
    status = 1
    try:
        os.setsid()  # a session of its own: a scheduler group of its own, and one signal ends all its processes
        end_with(template)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        crash_handler.prepare(descriptor)
        carry_out(msgspec.json.decode(data, type=Request), EventPipe(descriptor))
        sys.stderr.flush()
        status = 0
    finally:
        os._exit(status)


def _is_closed(control: socket.socket) -> bool:
    try:
        return control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:  # it lives, and has asked for nothing yet
        return False


def _report_ended(control: socket.socket, living: set[int]) -> bool:
    """Tell which trials have ended. Returns False when the controller has gone."""
    there = True
    for pid in list(living):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            living.discard(pid)
            _end(pid)  # what it started and left behind
            there = _tell(control, b'{"ended":%d,"status":%d}\n' % (pid, status)) and there
    return there


def _tell(control: socket.socket, line: bytes) -> bool:
    """Send a line to the controller. Returns False when it has gone: Ctrl-C ends it at any moment."""
    try:
        control.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _end(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left of it
