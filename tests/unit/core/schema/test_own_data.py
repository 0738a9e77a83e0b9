"""What a user's own data decide for axes that nobody named."""

from build import a_case

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.model import OwnData

OPEN = ("batch_size", "num_workers", "pin_memory", "prefetch_factor", "feed")
ASKED: dict[str, Scalar] = {"batch_size": 1, "num_workers": 0, "prefetch_factor": 2, "feed": "resident"}
LOADER = OwnData(True, {"batch_size": 32, "num_workers": 2, "prefetch_factor": 4, "pin_memory": True})


def test_real_data_come_through_the_loader_with_the_settings_that_it_has():
    filled = LOADER.fill(Task.TRAIN, ASKED, OPEN)
    assert filled == {"batch_size": 32, "num_workers": 2, "prefetch_factor": 4, "feed": "loader"}
    assert LOADER.filled(a_case(ASKED), OPEN).configuration == filled


def test_what_was_named_stays():
    assert LOADER.fill(Task.TRAIN, {**ASKED, "num_workers": 1}, ("feed",)) == {
        **ASKED, "num_workers": 1, "feed": "loader",
    }  # fmt: skip


def test_resident_batches_have_the_loaders_size_and_no_workers():
    without_feed = tuple(axis for axis in OPEN if axis != "feed")
    assert LOADER.fill(Task.INFER, ASKED, without_feed) == {**ASKED, "batch_size": 32}
    alone = {"batch_size": 1, "num_workers": 0}
    assert LOADER.fill(Task.LOAD, alone, without_feed) == {"batch_size": 32, "num_workers": 2}, "it has no feed axis"


def test_an_example_batch_decides_its_size_and_nothing_else():
    assert OwnData().fill(Task.TRAIN, ASKED, OPEN) == ASKED
    example = OwnData(settings={"batch_size": 16})
    assert example.fill(Task.TRAIN, ASKED, OPEN) == {**ASKED, "batch_size": 16}
    assert example.fill(Task.TRAIN, ASKED, ("feed",)) == ASKED, "a size was named"


def test_a_fixed_value_cannot_be_another_and_resident_batches_need_no_workers():
    data = OwnData(True, fixed={"batch_size": 8, "num_workers": 0}, why=Statement("as_they_come", {"kind": "list"}))
    assert data.refuses({"batch_size": 8, "num_workers": 0, "feed": "loader"}) is None
    assert data.refuses({"batch_size": 8, "num_workers": 2, "feed": "loader"}) == "num_workers"
    assert data.refuses({"batch_size": 8, "num_workers": 2, "feed": "resident"}) is None
    assert data.refuses({"batch_size": 4, "num_workers": 2, "feed": "resident"}) == "batch_size"
