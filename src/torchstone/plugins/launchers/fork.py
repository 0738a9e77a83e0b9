"""Trials forked from a template process that has imported torch and the model's library: live in under 0.1 s.

The template holds no device context and has run no parallel operation; `execution/worker/template.py` is its other
side. Where what it imported has initialised a driver, no child of it could use the device: it says so, and trials are
new interpreters from then on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import Request
from torchstone.plugins.launchers._process import PipedTrial, environment, line_to_a_trial, started
from torchstone.plugins.machine_protocols import Launcher

_GRACE_S = 1.0  # a template ends its trials in a few ms; only one that still imports does not hear


class _Died(TorchstoneError):
    """The template is gone."""


class _Unforkable(TorchstoneError):
    """The template must not be forked; `statement` says why."""

    def __init__(self, statement: Statement) -> None:
        super().__init__(statement.id)
        self.statement = statement


class Fork(Launcher):
    """One template process, open between `open` and `close`."""

    describes = "trials forked from one template process, started in under 0.1 s"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._rest = b""
        self._statuses: dict[int, int] = {}
        self._begin: Callable[[], None] | None = None
        self._imports = False  # it was started, and has not said yet that it is ready
        self._environment: Mapping[str, str] = {}
        self._folder: Path | None = None
        self._unforkable: Statement | None = None

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Start the template, and leave it to import. Several may do so beside one another."""
        self._environment, self._folder = environment(heap, folder, pin_threads=pin_threads), folder
        self._begin = partial(self._start_template, tuple(preload))
        if self._unforkable is None:
            self._begin()
        else:  # another template would import the same
            self.close()

    def ready(self) -> None:
        """Wait until the template has imported everything. One that dies meanwhile is tried again once."""
        if self._imports:
            try:
                self._hear_ready()
            except _Died:
                self._again()

    def _start_template(self, preload: Sequence[str]) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torchstone.execution.worker", "template", str(theirs.fileno()), *preload],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=dict(self._environment),
            cwd=self._folder,
            start_new_session=True,
        )
        theirs.close()
        self._control, self._rest, self._statuses, self._imports = ours, b"", {}, True

    def _hear_ready(self) -> None:
        self._answer("ready")
        self._imports = False

    def _again(self) -> None:
        if self._begin is None:
            raise TorchstoneError("the template is not open")
        self._begin()
        self._hear_ready()

    def start(self, request: Request) -> PipedTrial:
        """Have the template fork one trial, or start a new interpreter where it must not be forked.

        A template that was killed since the last trial is replaced.
        """
        if self._begin is None:
            raise TorchstoneError("the template is not open")
        try:
            if self._unforkable is None:
                return self._forked(request)
        except _Unforkable as reason:
            self._unforkable = reason.statement
        return started(request, self._environment, self._folder, Facts(not_forked=self._unforkable))

    def _forked(self, request: Request) -> PipedTrial:
        self.ready()
        try:
            return self._start(request)
        except _Died:
            self._again()
            return self._start(request)

    def _start(self, request: Request) -> PipedTrial:
        ours, theirs = line_to_a_trial()
        try:
            if self._control is None:
                raise _Died("the template is not open")
            socket.send_fds(self._control, [msgspec.json.encode(request) + b"\n"], [theirs])
            pid = self._answer("pid")
        except (_Died, ConnectionError) as fault:
            os.close(ours)
            raise _Died("the template process died") from fault
        except _Unforkable:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return PipedTrial(pid, ours, lambda: self._status_of(pid))

    def close(self) -> None:
        """Close the template's socket: it ends its trials and then itself."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _status_of(self, pid: int) -> int:
        with contextlib.suppress(_Died, ConnectionError):
            while pid not in self._statuses:
                self._answer("ended")
        return self._statuses.pop(pid, signal.SIGKILL)  # what the kernel sends to the trials of a dead template

    def _answer(self, wanted: str) -> int:
        """Read the template's lines, noting endings, until one of them holds `wanted`.

        Raises _Unforkable where it says instead that it must not be forked.
        """
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if not newline:
                self._receive()
                continue
            self._rest = rest
            message = msgspec.json.decode(line, type=dict[str, int | Statement])
            if isinstance(reason := message.get("unforkable"), Statement):
                raise _Unforkable(reason)
            numbers = {name: value for name, value in message.items() if isinstance(value, int)}
            if "ended" in numbers:
                self._statuses[numbers["ended"]] = numbers["status"]
            if wanted in numbers:
                return numbers[wanted]

    def _receive(self) -> None:
        control = self._control
        data = control.recv(4096) if control is not None else b""
        if not data:
            raise _Died("the template process died: see the lines above; --isolation spawn does without it")
        self._rest += data


PLUGIN: Launcher = Fork()
