"""Page-locked memory without an accelerator: left out and said, unless it is what a sweep is about."""

import pytest

from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.request import effective, notes

CPU, MPS, CARD = Placement("cpu"), Placement("mps"), Placement("cuda", 1)
PINNED, PLAIN = {"batch_size": 8, "pin_memory": True}, {"batch_size": 8, "pin_memory": False}


@pytest.mark.parametrize("there", [CPU, MPS])
def test_without_an_accelerator_nothing_is_pinned(there):
    assert effective([PINNED, {**PINNED, "batch_size": 16}], there) == [PLAIN, {**PLAIN, "batch_size": 16}]


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ([PINNED], CARD), ([PLAIN], CPU), ([PINNED, PLAIN], CPU), ([PLAIN, PINNED], CPU), ([{"batch_size": 8}], CPU),
        ([], CPU),
    ],
    ids=["a card", "not asked for", "a sweep", "a sweep turned round", "no such axis", "nothing"],
)  # fmt: skip
def test_all_else_stays_as_it_was_asked_for(asked, there):
    assert effective(asked, there) == asked
    assert notes([asked], [there]) == []


def test_one_line_says_where_it_has_no_effect():
    (found,) = notes([[PINNED], [PINNED, PLAIN], [PINNED]], [CPU, CARD, CPU])
    assert (found.severity, found.subject) == (Severity.INFO, "run")
    assert found.message.startswith("pin_memory=true has no effect on cpu, which works in the host's own memory")
    assert found.message.endswith("measured with pin_memory=false")
