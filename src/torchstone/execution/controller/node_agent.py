"""The agent of a further node: starts the ranks that the first node asks for, as that one starts its own.

`python -m torchstone.execution.controller.node_agent`, started by the cluster's command (srun), which carries stdin
and stdout between the nodes. When stdin closes, as the controller has ended or its node is lost, it ends its trial.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator

import msgspec

from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.message import Ended, Stack
from torchstone.execution.controller.nodes import (
    AgentOpen,
    AgentReady,
    AgentRefused,
    Answer,
    AskWhere,
    Kill,
    Over,
    Start,
    Where,
    Word,
)
from torchstone.execution.controller.outcome import TrialEnd
from torchstone.execution.controller.session import Session
from torchstone.plugins.machine_protocols import LiveTrial

_CHUNK_BYTES = 1 << 16


class _AgentLine:
    """stdin, word by word, and stdout, of which nothing else gets a copy: what models print goes to stderr."""

    def __init__(self) -> None:
        self._read, self._write = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._rest = b""

    def fileno(self) -> int:
        return self._read

    def words(self) -> Iterator[Word] | None:
        """Return the words of one read; None when nobody is there any more."""
        data = os.read(self._read, _CHUNK_BYTES)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return (msgspec.json.decode(line, type=Word) for line in lines)

    def say(self, answer: Answer) -> None:
        data = memoryview(msgspec.json.encode(answer) + b"\n")
        while data:
            data = data[os.write(self._write, data) :]


class _Agent:
    """Carries out one trial at a time. `session`: open."""

    def __init__(self, line: _AgentLine, session: Session) -> None:
        self._line, self._session = line, session
        self._live: LiveTrial | None = None
        self._ended: Ended | None = None
        self._number = 0
        self._ending = TrialEnd()

    def serve(self) -> None:
        """Do what is said until nobody says anything any more."""
        while True:
            both: list[_AgentLine | LiveTrial] = [self._line, *([self._live] if self._live is not None else [])]
            ready = select.select(both, [], [])[0]
            if self._live is not None and self._live in ready:
                self._hear(self._live)
            if self._line in ready:
                words = self._line.words()
                if words is None:
                    break
                for word in words:
                    self._do(word)
        if self._live is not None:
            self._live.kill()
            self._live.ending()

    def _do(self, word: Word) -> None:
        if isinstance(word, Start):
            self._ended, self._number, self._ending = None, self._number + 1, TrialEnd()
            self._live = self._session.launcher.start(word.request)
        elif self._live is not None and isinstance(word, Kill):
            self._live.kill()
        elif self._live is not None and isinstance(word, AskWhere):
            self._live.ask_where()

    def _hear(self, live: LiveTrial) -> None:
        events = live.events()
        for event in events or ():
            if isinstance(event, Stack):
                self._line.say(Where(event.lines))
            elif isinstance(event, Ended):
                # Here it is known whether this node's kernel killed for memory.
                self._ended = msgspec.structs.replace(event, outcome=self._ending.said(event.outcome))
        if events is None:
            self._live = None
            self._line.say(Over(self._number, self._ended, live.ending()))


def main() -> None:
    """Serve one controller."""
    line = _AgentLine()
    opened = _first(line)
    if opened is None:
        return
    with contextlib.ExitStack() as stack:
        try:
            session = stack.enter_context(Session(opened.procedure, opened.preload))
            machine, _ = session.inspect()
        except TorchstoneError as fault:
            line.say(AgentRefused(str(fault)))
            return
        line.say(AgentReady(machine))
        _Agent(line, session).serve()


def _first(line: _AgentLine) -> AgentOpen | None:
    while (words := line.words()) is not None:
        for word in words:
            if isinstance(word, AgentOpen):
                return word
    return None


if __name__ == "__main__":
    main()
