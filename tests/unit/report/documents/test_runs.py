"""The list of stored runs, what was imported, and where a run was exported to."""

from pathlib import Path

import pytest
from results import HOSTILE

from torchstone.report.documents.runs import exported_document, imported_document, runs_document
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.index import Problem
from torchstone.storage.query import RunRow

NAME = "resnet50-" + "x" * 44 + "-second"


def rows(name=NAME):
    return [
        RunRow(f"2026112{n}-100000-beef", name, "2026-11-22T10:00:00Z", "interrupted", "a-host", "cuda:0", 3, 9, 8, "x")
        for n in range(3)
    ]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_runs_with_a_long_name_keep_their_columns(width):
    lines = terminal(runs_document(rows(), (), Path("outputs")), width).splitlines()
    assert all(len(line) <= width for line in lines)
    first = next(line for line in lines if "20261120" in line)
    assert all(word in first for word in ("20261120-100000-beef", "resnet50", "second", "cuda:0", "8/9", "interrupted"))
    assert (NAME in first) is (width == 160)


def test_an_empty_store_says_how_to_begin():
    assert terminal(runs_document((), (), Path("here")), 80) == (
        "No runs in here. To make one:\n  torchstone run smoke\n"
    )  # fmt: skip


def test_what_cannot_be_read_is_named_and_a_name_steers_nothing():
    text = terminal(runs_document(rows(HOSTILE), (Problem("junk.jsonl", "not a record"),), Path("outputs")), 80)
    assert "unreadable: junk.jsonl: not a record\n" in text
    assert "\x1b" not in text


def test_of_each_imported_run_whether_it_was_new():
    text = terminal(imported_document([("20261121-100000-abcd", True), ("20261122-100000-beef", False)]), 80)
    assert text == (
        "1 run imported, 1 already stored.\n\n20261121-100000-abcd imported\n20261122-100000-beef already stored\n"
    )
    assert terminal(imported_document([]), 80) == "No runs imported.\n"


def test_an_exported_run_is_its_path_alone():
    path = Path("a folder/of mine/cases.csv")
    assert terminal(exported_document(path), 80) == f"{path}\n"
