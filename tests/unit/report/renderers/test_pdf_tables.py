"""Blocks of tables in PDF: numbers in one piece, rows counted over the whole document."""

import json

from torchstone.report.document import Column, Document, Fields, Section, Table, Text
from torchstone.report.renderers import pdf as module
from torchstone.report.renderers.pdf import _ACROSS_CHARACTERS, _DATA, _Draft, _Fonts


def blocks(*tables):
    draft = _Draft(_Fonts.SHIPPED)
    return [block for table in tables for block in draft._table(table)]


def blocks_of(document):
    return json.loads(_Draft(_Fonts.SHIPPED).files_of(document)[_DATA])["blocks"]


def test_a_number_is_not_broken_from_its_unit_and_columns_without_room_are_counted():
    columns = [Column(f"peak memory {n}", ("76.3 MiB*",), n) for n in range(20)]
    table, rest = blocks(Table(tuple(columns)))
    assert sum(table["characters"]) <= _ACROSS_CHARACTERS
    assert {cell for row in table["rows"] for cell in row} == {"76.3\xa0MiB*"}
    assert rest["text"].startswith(f"{20 - len(table['titles'])} more columns")


def test_what_is_folded_is_named_and_not_set():
    document = Document("t", (Text("a"), Section("the rest", (Text("b"),), folded=True)))
    kinds = [(block["kind"], "the rest" in block["text"]) for block in blocks_of(document)]
    assert kinds == [("body", False), ("rest", True)]


def test_rows_of_all_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 5)
    three = Table((Column("n", ("1", "2", "3")),))
    found = blocks(three, three, three)
    assert [len(block["rows"]) if block["kind"] == "table" else block["text"] for block in found] == [
        3, 2, "1 more row in the CSV beside it", "3 more rows in the CSV beside it",
    ]  # fmt: skip


def test_a_document_without_end_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 5)
    facts = Fields(tuple((str(n), "x") for n in range(9)))
    text, shown, rest = blocks_of(Document("t", (Text("a"), facts, Text("b"))))
    assert text["text"] == "a"
    assert [name for name, _ in shown["rows"]] == ["0", "1", "2"]
    assert rest["text"] == "The report continues: torchstone report --format md"
    assert len(blocks_of(Document("t", (Text("a"), Text("b"))))) == 2


def test_what_follows_a_section_on_its_level_is_set_apart():
    document = Document("t", (Section("a", (Text("in"),)), Text("out"), Section("", (Text("x"),)), Text("y")))
    kinds = [block["kind"] for block in _Draft(_Fonts.SHIPPED)._blocks(document.parts, 2)]
    assert kinds == ["heading", "body", "gap", "body", "body", "body"]
