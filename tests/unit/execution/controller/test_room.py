"""Whether two processes find room on one device, with a telemetry source that says what it is told to."""

from types import SimpleNamespace

import pytest

from torchstone.core.errors import MissingError
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.controller.session import holds_two, refuse_unshared, room_of, with_room
from torchstone.plugins import registry

GIB = 2**30
CARD = DeviceInfo("cuda", "cuda", "NVIDIA", 1, "a card", memory_bytes=80 * GIB)


@pytest.fixture
def told(monkeypatch):
    """Return a function that sets what room is told; one source does not know the card."""

    def say(room):
        sources = [SimpleNamespace(room=lambda device: None), SimpleNamespace(room=lambda device: room)]
        monkeypatch.setattr(registry, "usable", lambda family: [(str(n), one) for n, one in enumerate(sources)])

    return say


def test_the_first_source_that_knows_the_device_is_believed(told):
    room = Room(True, 3, 4)
    told(room)
    assert room_of(CARD) == room
    assert room_of(None) is None
    told(None)
    assert room_of(CARD) is None


def test_a_device_for_one_process_is_refused_in_one_line(told):
    told(Room(False, 80 * GIB, 80 * GIB))
    with pytest.raises(MissingError) as refused:
        refuse_unshared(CARD)
    said = str(refused.value)
    assert said.startswith("cuda:1 accepts one process only (compute mode exclusive)")
    assert "torchstone compare" in said
    assert "\n" not in said
    for room in (Room(True, 0, 80 * GIB), None):
        told(room)
        refuse_unshared(CARD)
    refuse_unshared(None)


@pytest.mark.parametrize(
    ("room", "one_bytes", "holds"),
    [
        (Room(True, 70 * GIB, 80 * GIB), 35 * GIB, True), (Room(True, 70 * GIB, 80 * GIB), 37 * GIB, False),
        (Room(False, 70 * GIB, 80 * GIB), 1, False), (Room(True, 70 * GIB, 80 * GIB), None, True),
        (None, 35 * GIB, True), (None, 37 * GIB, False), (None, None, True),
    ],
)  # fmt: skip
def test_two_fit_where_twice_the_memory_of_one_does(told, room, one_bytes, holds):
    told(room)
    assert holds_two(CARD, one_bytes) is holds
    assert holds_two(None, one_bytes), "nothing is known of a device that is not named"


def test_a_side_that_runs_out_of_memory_is_told_what_the_other_left():
    room = Room(True, 9 * GIB, 80 * GIB)
    ended = with_room(Outcome(Status.OUT_OF_MEMORY, "OutOfMemoryError: CUDA out of memory.", "line"), room)
    assert ended.message == (
        "OutOfMemoryError: CUDA out of memory.; both sides share the device, and the first left 9.00 GiB of "
        "80.0 GiB free: use smaller batches, or measure one after the other: `torchstone run` of each, then "
        "`torchstone compare`"
    )
    assert (ended.status, ended.traceback) == (Status.OUT_OF_MEMORY, "line")
    assert with_room(Outcome(Status.OUT_OF_MEMORY, "no room"), None).message == "no room", "it was alone on the device"
    assert with_room(Outcome(Status.CRASHED, "wrong shape"), room).message == "wrong shape"
