import csv

from build import a_run

from torchstone.core.schema.axis import Scalar
from torchstone.plugins import registry


def test_text_that_a_spreadsheet_would_run_is_marked_and_numbers_are_not(tmp_path):
    rows: list[dict[str, Scalar]] = [
        {"=name": "=cmd|' /C calc'!A0", "a": "+1", "b": "-1", "c": "@x", "d": "\tx", "number": -1.5, "none": None}
    ]
    registry.load("exporters", "csv").write(a_run(), rows, tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        header, row = csv.reader(file)
    assert header[0] == "'=name"
    assert row == ["'=cmd|' /C calc'!A0", "'+1", "'-1", "'@x", "'\tx", "-1.5", ""]


def test_no_rows_is_an_empty_table(tmp_path):
    registry.load("exporters", "csv").write(a_run(), [], tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().strip() == ""
