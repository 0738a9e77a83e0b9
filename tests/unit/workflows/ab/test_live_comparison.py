"""A live comparison from its request to its experiment, with a pool and a lock that are made up."""

from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from build import a_machine, a_run
from fakes import FakeClock

from torchstone.config.run_file import RunRequest
from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution.controller import session
from torchstone.workflows.ab import live_comparison
from torchstone.workflows.ab.sides import SideRequest
from torchstone.workflows.run import planned_run

A = SideRequest("A", RunRequest(name="x", workloads=(WorkloadRequest("infer", "builtin:mlp"),), device="cpu"))


class SessionPool:
    """A pool and its only session."""

    def __init__(self, *_: object) -> None:
        """Nothing to open."""

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def session(self, _folder):
        return self

    def inspect(self):
        cpu = DeviceInfo("cpu", "cpu", "a vendor", 0, "a processor")
        return a_machine(devices=(cpu,)), Inspected((cpu,), {}, {})

    def head(self, *_: object, **_about: object):
        return a_run().head


class Stopped(Exception):
    """The experiment was to begin now."""


def put(monkeypatch: pytest.MonkeyPatch, **fakes: Any) -> None:
    """Put fakes into the two modules that a live comparison begins in, wherever their names are used."""
    for name, fake in fakes.items():
        used = [module for module in (planned_run, live_comparison) if hasattr(module, name)]
        assert used, name
        for module in used:
            monkeypatch.setattr(module, name, fake)


def test_waiting_for_the_device_is_no_part_of_the_budget(tmp_path, monkeypatch):
    clock, began_s = FakeClock(), []

    @contextmanager
    def waits(*_: object):
        clock.sleep(300.0)
        yield

    def experiment(*given: Any, **_how: Any):
        began_s.append(given[4])
        raise Stopped

    put(monkeypatch, SessionPool=SessionPool, held=waits, system_clock=clock, Experiment=experiment)
    with pytest.raises(Stopped):
        live_comparison.AbCampaign((A, A), Rules()).carry_out(tmp_path, ("ab",))
    assert began_s == [300.0]


def test_two_files_that_ask_for_other_conditions_are_refused():
    procedure = msgspec.structs.replace(A.request.procedure, heap="default")
    b = SideRequest("B", msgspec.structs.replace(A.request, procedure=procedure))
    with pytest.raises(UsageError, match="differ in heap: fixed and default"):
        live_comparison.AbCampaign((A, b), Rules())


def test_two_files_of_which_one_pins_its_threads_are_told_the_flag():
    sides = [
        SideRequest("A", msgspec.structs.replace(A.request, procedure=msgspec.structs.replace(how, pin_threads=pin)))
        for how, pin in ((A.request.procedure, True), (A.request.procedure, False))
    ]
    with pytest.raises(UsageError, match="pin_threads: True and False; set it for both: --pin-threads"):
        live_comparison.AbCampaign((sides[0], sides[1]), Rules())


@pytest.mark.parametrize(
    ("asked", "measured"), [((True, True), [False, False]), ((True, False), [True, False])], ids=["both", "one"]
)
def test_page_locked_memory_without_effect_is_left_out_unless_it_is_what_is_compared(
    tmp_path, monkeypatch, asked, measured
):
    sides: list[Any] = []

    def experiment(*given: Any, **_how: Any):
        sides.extend(given[:2])
        raise Stopped

    @contextmanager
    def free(*_: object):
        yield

    put(monkeypatch, SessionPool=SessionPool, held=free, Experiment=experiment)
    works = [WorkloadRequest("train", "builtin:mlp", axes={"pin_memory": (pinned,)}) for pinned in asked]
    a, b = (msgspec.structs.replace(A.request, workloads=(one,)) for one in works)
    with pytest.raises(Stopped):
        live_comparison.AbCampaign((SideRequest("A", a), SideRequest("B", b)), Rules()).carry_out(tmp_path, ("ab",))
    assert [side.case.configuration["pin_memory"] for side in sides] == measured


class OnCards(SessionPool):
    """A machine with two cards."""

    def inspect(self):
        cards = tuple(DeviceInfo("cuda", "cuda", "NVIDIA", index, f"card {index}") for index in (0, 1))
        return a_machine(devices=cards), Inspected(cards, {}, {})


@pytest.mark.parametrize(("devices", "refused"), [(("cuda", "cuda:0"), True), (("cuda:0", "cuda:1"), False)])
def test_two_sides_on_a_card_for_one_process_are_refused_before_the_first(tmp_path, monkeypatch, devices, refused):
    def experiment(*_: object, **__: object):
        raise Stopped

    @contextmanager
    def held(*_: object):
        yield

    put(monkeypatch, SessionPool=OnCards, held=held, Experiment=experiment)
    monkeypatch.setattr(session, "room_of", lambda device: Room(False, 1, 1))
    sides = [SideRequest("x", msgspec.structs.replace(A.request, device=device)) for device in devices]
    with pytest.raises(MissingError if refused else Stopped):
        live_comparison.AbCampaign((sides[0], sides[1]), Rules()).carry_out(tmp_path, ("ab",))
