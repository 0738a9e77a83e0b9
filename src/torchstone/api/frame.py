"""Rows as a pandas DataFrame, where there is pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from torchstone.core.schema.axis import Scalar


def frame_of(rows: Sequence[Mapping[str, Scalar]]) -> Any:
    """Return the rows as a DataFrame; as a list where pandas is not installed (pip install 'torchstone[frames]')."""
    try:
        pandas: Any = import_module("pandas")
    except ImportError:
        return list(rows)
    frame = pandas.DataFrame(list(rows))
    for name in frame.columns:  # whole numbers stay whole where one is missing
        values = [row[name] for row in rows]
        if None in values and all(type(value) is int for value in values if value is not None):
            frame[name] = frame[name].astype("Int64")
    return frame
