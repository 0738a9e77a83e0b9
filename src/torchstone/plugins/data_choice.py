"""Which part of which data: the source of a bare file, its options checked, and the split that a task takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.batch import SPLITS, DataCard
from torchstone.plugins import registry
from torchstone.plugins.protocols import DataSource

EVERYBODYS = ("split", "limit")  # options of all data, which no source needs to know
_FIRST = {"train": SPLITS, "load": SPLITS}  # what a task would rather take
_OTHERS = ("validation", "test", "train")

_READS = {".h5": "hdf5", ".hdf5": "hdf5", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}


def with_source(data: str) -> str:
    """Return data with its source where the name of a bare file tells it: `hdf5:signals.h5` of `signals.h5`."""
    source = _READS.get(PurePath(data).suffix.lower())
    return data if source is None or data.partition(":")[0] in registry.names("data") else f"{source}:{data}"


def data_source_of(data: str) -> tuple[str, str]:
    """Return (source, what it is given) of data in the user's words. Raises UsageError naming the sources."""
    scheme, _, rest = data.partition(":")
    if scheme not in registry.names("data"):
        raise unknown("data source", scheme, registry.names("data"))
    return scheme, rest


def checked_options(data: str, source: DataSource, options: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the options with `limit` as a number. Raises UsageError naming those that there are."""
    known = (*source.options, *EVERYBODYS)
    for name in options:
        if name not in known:
            raise unknown(f"option of data {data}", name, known)
    checked = dict(options)
    if "limit" in checked:
        checked["limit"] = AXES["batch_size"].parse(checked["limit"], "option limit")  # a whole number from 1 up
    return checked


def with_split(task: str, data: str, card: DataCard, options: dict[str, Scalar]) -> dict[str, Scalar]:
    """Return the options with the split that the task takes: training that for training, all else the held-out one.

    Data in one piece has no split, and a word for one is refused.
    """
    asked = options.get("split")
    if not card.splits:
        if asked is not None:
            raise UsageError(f"data {data}: has no splits; leave out split={asked}")
        return options
    if asked is not None and asked not in card.splits:
        raise UsageError(f"data {data}: {unknown('split', str(asked), card.splits)}")
    chosen = asked or next(split for split in _FIRST.get(task, _OTHERS) if split in card.splits)
    return {**options, "split": chosen}


def has_end(data: str) -> bool:
    """Say whether data is a data set, of which there are epochs; what is made to measure, and examples, are none."""
    return data.partition(":")[0] not in ("synthetic", "example")
