"""The first node's end of the line to the agent of a further one."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError
from torchstone.core.schema.codec import Malformed, decode
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import NodeRequest
from torchstone.execution.controller.nodes.words import Answer, Over, Ready, Refused, Start, Word
from torchstone.plugins.machine_protocols import Node

_CHUNK_BYTES = 1 << 16
_OPENS_S = 180.0  # a node's disk may be cold, and its file system far
_ENDS_S = 5.0
_AGENT = "torchstone.execution.controller.node_agent"


class Peer:
    """An agent on a node, started at once. `gone`: it has ended, or is lost. `trials`: how many it was asked for.

    Raises MissingError where the node's command is not installed.
    """

    def __init__(self, node: Node, opening: Word) -> None:
        self.node, self.gone, self.trials = node, False, 0
        self._machine: Machine | None = None
        self._rest = b""
        try:
            self._process = subprocess.Popen(  # in a session of its own: Ctrl-C is the controller's to answer
                [*node.command, sys.executable, "-m", _AGENT],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as fault:
            raise MissingError(f"node {node.name}: {fault.filename} not found") from None
        self.say(opening)

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are answers, or when the agent has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def ready(self) -> Machine:
        """Wait until it can start trials; return what it runs on. Raises MissingError where it cannot, or is silent."""
        ends = time.monotonic() + _OPENS_S
        while self._machine is None and not self.gone:
            if not select.select([self], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise MissingError(f"node {self.node.name}: no answer within {_OPENS_S:g} s")
            for answer in self.answers():
                if isinstance(answer, Refused):
                    raise MissingError(f"node {self.node.name}: {answer.why}")
                if isinstance(answer, Ready):
                    self._machine = answer.machine
        if self._machine is None:
            code = self._process.wait()
            raise MissingError(f"node {self.node.name}: its agent ended with exit code {code}; the lines above say why")
        return self._machine

    def start(self, request: NodeRequest) -> None:
        """Have it start the ranks of a trial."""
        self.trials += 1
        self.say(Start(request))

    def say(self, word: Word) -> None:
        """Say a word. An agent that is gone does not hear it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(word) + b"\n")
            self._process.stdin.flush()

    def answers(self) -> Sequence[Answer]:
        """Return the answers of one read; at the end there are none, and it is gone."""
        data = os.read(self.fileno(), _CHUNK_BYTES)
        self.gone = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[Answer] = []
        for line in lines:
            try:
                found.append(decode(line, Answer))
            except Malformed as fault:
                raise TorchstoneError(f"node {self.node.name} answered what is no answer: {line[:200]!r}") from fault
        return found

    def wait(self) -> None:
        """Wait a while until its trial has ended, and hear no more of it. One that goes on has its agent ended."""
        ends = time.monotonic() + _ENDS_S
        while not self.gone and select.select([self], [], [], max(0.0, ends - time.monotonic()))[0]:
            if any(isinstance(answer, Over) and answer.number == self.trials for answer in self.answers()):
                return
        self.gone = True
        self.close()

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
