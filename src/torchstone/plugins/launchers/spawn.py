"""A new interpreter for every trial: 5 to 8 s to import, nothing inherited. For where forking is not safe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError
from torchstone.core.schema.message import Request
from torchstone.plugins.launchers._process import PipedTrial, environment, started
from torchstone.plugins.machine_protocols import Launcher, LiveTrial, Node

_ENDS_S = 5.0


class NodeTrial(PipedTrial):
    """The worker of a further node: its events come from the stdout of the cluster's command.

    An empty line on its stdin asks for its Stack; when stdin closes, it ends with all its ranks.
    """

    def __init__(self, node: Node, request: Request, environment: Mapping[str, str]) -> None:
        try:
            process = subprocess.Popen(  # in a session of its own: Ctrl-C is the controller's to answer
                [*node.command, sys.executable, "-m", "torchstone.execution.worker", "node"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
        except FileNotFoundError as fault:
            raise MissingError(f"node {node.name}: {fault.filename} not found") from None
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._process = process
        super().__init__(process.pid, os.dup(process.stdout.fileno()), self._exit_code)
        process.stdout.close()
        self._write(msgspec.json.encode(request))

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended; or it was ended here
            self._stdin.write(line + b"\n")
            self._stdin.flush()

    def ask_where(self) -> None:
        """Ask for the Stacks of its ranks."""
        self._write(b"")

    def kill(self) -> None:
        """End its ranks and it."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def _exit_code(self) -> int:
        try:
            code = self._process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return -code if code < 0 else code << 8


class Spawn(Launcher):
    """Starts `python -m torchstone.execution.worker once` for each request."""

    describes = "a new interpreter for every trial"

    def __init__(self) -> None:
        self._environment = environment("default")
        self._folder: Path | None = None

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Note the environment and the folder; there is nothing to preload."""
        self._environment, self._folder = environment(heap, folder, pin_threads=pin_threads), folder

    def ready(self) -> None:
        """Nothing to wait for."""

    def start(self, request: Request) -> PipedTrial:
        return started(request, self._environment, self._folder)

    def start_on(self, node: Node, request: Request) -> LiveTrial:
        """Start one request on a further node. Raises MissingError where the node's command is not installed."""
        return NodeTrial(node, request, self._environment)

    def close(self) -> None:
        """Nothing to end."""


PLUGIN: Launcher = Spawn()
