"""Which split a task takes, and what may be said of data."""

from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import DataCard
from torchstone.plugins.choices import checked_options, has_end, with_source, with_split

SPLIT = DataCard("image", splits={"train": 100, "test": 20})


@pytest.mark.parametrize(("task", "split"), [("train", "train"), ("load", "train"), ("infer", "test")])
def test_a_task_takes_what_it_is_for(task, split):
    assert with_split(task, "d", SPLIT, {}) == {"split": split}
    assert with_split(task, "d", SPLIT, {"split": "test"}) == {"split": "test"}


def test_a_split_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="test"):
        with_split("train", "d", SPLIT, {"split": "tset"})
    with pytest.raises(UsageError, match="has no splits"):
        with_split("train", "d", DataCard("image", 9), {"split": "test"})


def test_options_are_the_sources_and_everybodys():
    source: Any = SimpleNamespace(options=("label",))
    assert checked_options("csv:x", source, {"label": "y", "limit": "12"}) == {"label": "y", "limit": 12}
    with pytest.raises(UsageError, match="Did you mean 'label'"):
        checked_options("csv:x", source, {"lable": "y"})
    with pytest.raises(UsageError, match="limit"):
        checked_options("csv:x", source, {"limit": 0})


def test_the_name_of_a_bare_file_tells_its_source():
    told = {
        "/path/to/data.h5": "hdf5:/path/to/data.h5", "S.HDF5": "hdf5:S.HDF5", "a/train.tsv": "tsv:a/train.tsv",
        "reviews.csv": "csv:reviews.csv", "x.parquet": "parquet:x.parquet",
    }  # fmt: skip
    assert {data: with_source(data) for data in told} == told
    for data in ("hdf5:data.h5", "images:photos.csv", "photos", "digits", "synthetic:full", "mine.bin"):
        assert with_source(data) == data


def test_what_is_made_to_measure_has_no_epoch():
    assert [has_end(data) for data in ("synthetic", "synthetic:full", "example", "digits", "tsv:a.tsv")] == [
        False, False, False, True, True,
    ]  # fmt: skip
