"""What the first node says to the agents of further ones, and they answer: a JSON line each, over stdin and stdout."""

from __future__ import annotations

import msgspec

from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Ended, NodeRequest
from torchstone.core.schema.procedure import Procedure


class Open(msgspec.Struct, frozen=True, tag="open", tag_field="word"):
    """Get ready to start trials of these models, and answer with Ready."""

    procedure: Procedure
    preload: tuple[str, ...]


class Start(msgspec.Struct, frozen=True, tag="start", tag_field="word"):
    """Start this trial's ranks of your node, and answer with Over when they have ended."""

    request: NodeRequest


class Kill(msgspec.Struct, frozen=True, tag="kill", tag_field="word"):
    """End the trial."""


class AskWhere(msgspec.Struct, frozen=True, tag="where", tag_field="word"):
    """Ask the trial for its Stack, and answer with Where if it gives one."""


Word = Open | Start | Kill | AskWhere


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="answer"):
    """The agent can start trials on this Machine."""

    machine: Machine


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="answer"):
    """The agent cannot start trials, and why."""

    why: str


class Where(msgspec.Struct, frozen=True, tag="where", tag_field="answer"):
    """The stacks of a trial's ranks, innermost frame first."""

    lines: tuple[str, ...]


class Over(msgspec.Struct, frozen=True, tag="over", tag_field="answer"):
    """The trial `number` of this agent has ended. `ended`: what it said last; `wrong`: its signal or exit code."""

    number: int
    ended: Ended | None
    wrong: str | None


Answer = Ready | Refused | Where | Over
