"""A pair of processes that are made up: what is left for the second side, and which sides are stopped."""

import os
import random
import socket
import threading
from typing import Any

import pytest
from build import a_case

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.message import Ended, Event, Live, Ready
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.controller.observer import Silent
from torchstone.workflows.ab import pair
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import Variant, take_pair

CARD = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "a card")
NO_ROOM = Ended(Outcome(Status.OUT_OF_MEMORY, "CUDA out of memory."))


class Side:
    """A launcher and its only trial: it says what it is told to, and is done when it hears the first word."""

    describes = "says what it is told to"

    def __init__(self, *script: Event, facts: Facts | None = None) -> None:
        self.script, self.facts, self.pid = script, facts or Facts(), os.getpid()
        self.ours, self.theirs = socket.socketpair()

    def start(self, _request):
        threading.Thread(target=self._talk, daemon=True).start()
        return self

    def _talk(self):
        for event in self.script:
            self.theirs.sendall(encode(event) + b"\n")
        if not isinstance(self.script[-1], Ended):
            self.theirs.recv(4096)
            self.theirs.sendall(encode(Ended(Outcome(Status.CRASHED, "that is all"))) + b"\n")
        self.theirs.close()

    def fileno(self):
        return self.ours.fileno()

    def events(self):
        data = self.ours.recv(1 << 20)
        return [decode(line, Event) for line in data.splitlines()] if data else None

    def kill(self):
        self.theirs.close()

    def ending(self):
        self.ours.close()


def taken(first: Side, second: Side, placement: str, device: DeviceInfo | None = None):
    case = a_case(placement=Placement(placement))
    sides: Any = [(Variant("A", case, None, device), first), (Variant("B", case, None, device), second)]
    dice = random.Random(1)
    dice.randrange = lambda *_: 0  # type: ignore[method-assign]  # A is first
    return take_pair(sides, 0, Procedure(telemetry_period_s=0.0), TurnPlan(bind=False), dice, Silent(), Facts())


@pytest.mark.parametrize(("device", "told"), [(CARD, True), (None, False)])
def test_the_second_side_is_told_what_the_first_has_left_it(monkeypatch, device, told):
    asked = []

    def room_of(of):
        asked.append(of)
        return Room(True, 1 << 30, 80 << 30) if of is not None else None

    monkeypatch.setattr(pair, "room_of", room_of)
    found = taken(Side(Live(), Ready(0.01, 0, 1)), Side(Live(), NO_ROOM), "cuda", device)
    assert asked == [device], "once, when the first side is warm"
    assert ("the first left 1.00 GiB of 80.0 GiB" in str(found.trials[1].outcome.message)) is told
    assert found.trials[0].outcome.message == "that is all"


@pytest.mark.parametrize(("facts", "stops"), [(Facts(), True), (Facts(not_forked=Statement("intel")), False)])
def test_only_a_fork_is_stopped_while_it_waits(monkeypatch, facts, stops):
    sent = []
    monkeypatch.setattr(pair, "stop", lambda pid: sent.append("stop"))
    monkeypatch.setattr(pair, "go_on", lambda pid: sent.append("go on"))
    monkeypatch.setattr(pair, "is_stopped", lambda case, procedure: True)
    taken(Side(Live(), Ready(0.01, 0, 1), facts=facts), Side(Live(), NO_ROOM, facts=facts), "cpu")
    assert sent == (["stop", "go on"] if stops else [])
