"""Rows as a DataFrame where pandas is, as they are where it is not."""

import sys
from typing import Any

import pytest

from torchstone.api.frame import frame_of

ROWS: list[dict[str, Any]] = [{"size": 8, "rate": 1.5, "why": None}, {"size": None, "rate": None, "why": "no room"}]


def test_a_data_frame_keeps_whole_numbers_whole():
    pytest.importorskip("pandas")
    frame = frame_of(ROWS)
    assert list(frame.columns) == ["size", "rate", "why"]
    assert str(frame["size"].dtype) == "Int64"
    assert frame["size"][0] == 8
    assert frame["rate"][0] == 1.5


def test_without_pandas_they_are_rows(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert frame_of(ROWS) == ROWS
