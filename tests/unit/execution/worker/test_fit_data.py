"""What a training holds out of data that comes in one piece."""

from collections.abc import Mapping
from typing import Any

import pytest

from torchstone.core.errors import Unsupported
from torchstone.execution.worker.fit_data import divided


class Unlabelled:
    """40 items."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        raise AssertionError("no item is read for this")


class Rows(Unlabelled):
    """60 items of class 0, 30 of class 1, 10 of class 2, sorted by class."""

    def __len__(self) -> int:
        return 100

    def label(self, index: int) -> int:
        return 0 if index < 60 else 1 if index < 90 else 2


def test_of_each_class_the_same_share_is_held_out_and_nothing_twice():
    kept, held_out = divided(Rows(), 0.2, 3)
    assert sorted([*kept, *held_out]) == list(range(100))
    assert [sum(Rows().label(n) == label for n in held_out) for label in range(3)] == [12, 6, 2]
    assert divided(Rows(), 0.2, 3) == (kept, held_out), "evaluate finds the same items again"
    assert divided(Rows(), 0.2, 4)[1] != held_out


def test_without_classes_it_is_drawn_from_all():
    kept, held_out = divided(Unlabelled(), 0.25, 0)
    assert (len(kept), len(held_out)) == (30, 10)


def test_a_share_that_holds_out_next_to_nothing_is_refused():
    with pytest.raises(Unsupported, match="holds out 0"):
        divided(Unlabelled(), 0.01, 0)
