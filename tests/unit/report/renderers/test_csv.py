"""Tables for spreadsheets: as RFC 4180 has them, below their titles, and nothing in them is a formula."""

import csv
import io

import pytest

from torchstone.report.document import Column, CommandLine, Document, Fields, Role, Section, Table, Text
from torchstone.report.rendering import renderer


def rows_of(*parts, title="run of cnn"):
    text = renderer("csv").render(Document(title, parts)).decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


RATES = Table((Column("batch size", ("8", "16"), left=True), Column("images/s, ±", ("1,000", '1"900'))))


def test_a_table_stands_below_the_titles_of_its_sections():
    found = rows_of(
        Text("Fastest: 16.", Role.HEADLINE),
        Section("train cnn", (Text("bf16"), RATES, CommandLine("x"), Section("", (Section("more", (RATES,)),)))),
    )
    table = [["batch size", "images/s, ±"], ["8", "1,000"], ["16", '1"900']]
    assert found == [
        ["# run of cnn"], ["# Fastest: 16."],
        [], ["# train cnn"], *table,
        [], ["# train cnn > more"], *table,
    ]  # fmt: skip


def test_facts_are_two_columns_and_a_table_without_titles_has_no_head():
    bare = Table((Column("", ("a", "b"), left=True), Column("", ("1", "2"))))
    assert rows_of(Fields((("record", "x.jsonl"),)), bare)[1:] == [
        [], ["#"], ["record", "x.jsonl"], [], ["#"], ["a", "1"], ["b", "2"],
    ]  # fmt: skip


def test_lines_end_as_the_standard_has_it():
    file = renderer("csv").render(Document("t", (RATES,)))
    assert file.startswith(b"\xef\xbb\xbf# t\r\n")
    assert file.count(b"\n") == file.count(b"\r\n") == 6


@pytest.mark.parametrize("text", ["-5", "+66.7 %", "-1,000.5", "-2e-05", "-3 ms", "-3 items/s", "+4", "5 = 5", "–"])
def test_a_number_stays_as_it_is(text):
    assert rows_of(Fields(((text, text),)))[-1] == [text, text]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1+1", "-1+1", "@SUM(1)", "-2+3+cmd|' /C calc'!A0", '=HYPERLINK("x")', "＝1", "-", "--help", " =1"],
)
def test_what_a_spreadsheet_would_compute_is_text(text):
    assert rows_of(Fields(((text, text),)))[-1] == [f"'{text.strip()}"] * 2


@pytest.mark.parametrize("text", ["\t=1", "a\rb", "a\nb", "\x00", "\u202e"])
def test_nothing_breaks_a_line_or_steers(text):
    (row,) = rows_of(Fields(((text, "x"),)))[-1:]
    assert row[0] == text.replace(text.strip("=1ab"), "\N{REPLACEMENT CHARACTER}")


def test_a_title_is_no_formula():
    assert rows_of(title="=1+1")[0] == ["# =1+1"]
