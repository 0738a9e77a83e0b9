"""How many items a batch has, where that can be known."""

from collections import UserDict
from types import SimpleNamespace

import pytest
import torch

from torchstone.api.window import batch_items

ROWS = torch.zeros(8, 3)


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        (ROWS, 8),
        ((ROWS, torch.zeros(8)), 8),
        ({"a": ROWS, "b": {"c": ROWS}, "length": 3}, 8),
        (UserDict(a=ROWS), 8),
        (SimpleNamespace(x=ROWS, y=torch.zeros(8), scale=torch.tensor(2.0)), 8),
        (ROWS.numpy(), 8),
        (["a", "few", "texts"], 3),
        (SimpleNamespace(x=torch.zeros(960, 4), y=torch.zeros(32)), None),
        ((torch.zeros(35, 20), torch.zeros(700)), None),
        ([torch.zeros(3, 8, 8), torch.zeros(3, 9, 9), {"boxes": torch.zeros(5, 4)}], None),
        (torch.tensor(1.0), None),
        ({"texts": ["a", "b"]}, None),
        ("text", None),
        (object(), None),
        (7, None),
        ([], None),
        (SimpleNamespace(x=ROWS, owner=SimpleNamespace(data=torch.zeros(1000))), 8),
    ],
)
def test_only_what_all_tensors_say_is_taken_for_the_number_of_items(batch, items):
    assert batch_items(batch) == items


def test_an_object_that_refers_to_itself_ends():
    batch = SimpleNamespace(x=ROWS)
    batch.self = batch
    assert batch_items(batch) == 8
