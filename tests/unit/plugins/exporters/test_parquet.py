import sys

import pyarrow.parquet as pq
import pytest
from build import a_run

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins import registry


def test_a_column_of_several_types_gets_one(tmp_path):
    rows: list[dict[str, Scalar]] = [
        {"mixed": "off", "number": 1, "flag": True, "none": None, "big": 2**70},
        {"mixed": 3, "number": 0.5, "flag": None, "none": None, "big": 1},
    ]
    registry.load("exporters", "parquet").write(a_run(), rows, tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [
        {"mixed": "off", "number": 1.0, "flag": True, "none": None, "big": float(2**70)},
        {"mixed": "3", "number": 0.5, "flag": None, "none": None, "big": 1.0},
    ]


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingError, match=r"pip install 'torchstone\[data\]'"):
        registry.load("exporters", "parquet").write(a_run(), [], tmp_path / "x.parquet")
