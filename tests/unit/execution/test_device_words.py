"""Devices by their UUID; slices of cards (MIG), of which CUDA shows a process one."""

import msgspec
import pytest
from build import a_machine
from stored import CARD

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import Inspected
from torchstone.execution.device_words import show_slice
from torchstone.execution.plan import place

UUIDS = ("GPU-8a5f0c1e-0000", "GPU-8a5f0c1e-1111", "GPU-77777777-0000")
SLICES = {"MIG-1c2d-aaaa": "NVIDIA A100 MIG 1g.5gb of card 3", "MIG-1c2d-bbbb": "NVIDIA A100 MIG 2g.10gb of card 3"}
MACHINE = a_machine(
    devices=tuple(msgspec.structs.replace(CARD, index=index, uuid=uuid) for index, uuid in enumerate(UUIDS))
)
FOUND = Inspected(MACHINE.devices, {}, {}, slices=SLICES)


def test_a_uuid_or_its_beginning_names_a_device():
    assert place(UUIDS[1], FOUND, MACHINE) == Placement("cuda", 1)
    assert place("GPU-7", FOUND, MACHINE) == Placement("cuda", 2)


def test_a_slice_that_is_shown_is_a_device():
    slice_ = msgspec.structs.replace(CARD, uuid="MIG-1c2d-aaaa")
    assert place("MIG-1c2d-a", FOUND, a_machine(devices=(slice_,))) == Placement("cuda", 0)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("GPU-8a5f0c1e", "2 devices begin so: GPU-8a5f0c1e-0000 (cuda:0)"),
        ("GPU-nothing", "no such device here. Found: GPU-8a5f0c1e-0000 (cuda:0)"),
        (
            "MIG-1c2d-b",
            "NVIDIA A100 MIG 2g.10gb of card 3 is not shown to this process; type CUDA_VISIBLE_DEV",
        ),
        ("MIG-1c2d", "no such device here"),
        ("MIG-1c2d", "MIG-1c2d-bbbb (NVIDIA A100 MIG 2g.10gb of card 3)"),
    ],
)
def test_what_is_not_here_is_told_in_one_line(word, said):
    with pytest.raises(UsageError) as caught:
        place(word, FOUND, MACHINE)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_slice_is_shown_to_the_processes_of_the_command():
    environment: dict[str, str] = {}
    show_slice(["cuda:0", "GPU-1"], environment)
    assert environment == {}
    show_slice(["MIG-1c2d-aaaa"], environment)
    assert environment == {"CUDA_VISIBLE_DEVICES": "MIG-1c2d-aaaa"}
    show_slice(["MIG-1c2d-bbbb"], environment)
    assert environment == {"CUDA_VISIBLE_DEVICES": "MIG-1c2d-aaaa"}, "what the user has set stands"
    with pytest.raises(UsageError, match="one slice"):
        show_slice(["MIG-1c2d-aaaa", "MIG-1c2d-bbbb"], {})
