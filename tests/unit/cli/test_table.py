"""What is cut and what leaves so that a table fits the terminal."""

import pytest

from torchstone.cli import runs_command
from torchstone.cli._table import cut, show
from torchstone.storage.query import RunRow


@pytest.mark.parametrize(
    ("text", "most", "found"),
    [("name", 4, "name"), ("a-long-name", 7, "a-l…ame"), ("a-long-name", 6, "a-l…me"), ("a-long-name", 1, "…")],
)
def test_a_long_text_loses_its_middle(text, most, found):
    assert cut(text, most) == found
    assert len(found) <= most


@pytest.mark.parametrize("width", [80, 100, 160])
def test_runs_with_a_long_name_keep_their_columns(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    name = "resnet50-" + "x" * 44 + "-second"
    rows = [
        RunRow(f"2026112{n}-100000-beef", name, "2026-11-22T10:00:00Z", "interrupted", "a-host", "cuda:0", 3, 9, 8, "x")
        for n in range(3)
    ]
    show(runs_command._columns(rows))
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    first = next(line for line in lines if "20261120" in line)
    assert all(word in first for word in ("20261120-100000-beef", "resnet50", "second", "cuda:0", "8/9", "interrupted"))
    assert (name in first) is (width == 160)
