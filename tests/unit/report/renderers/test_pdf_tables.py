"""Blocks of tables in PDF: numbers in one piece, rows counted over the whole document."""

import json

from torchstone.report.document import Column, Document, Facts, Section, Table, Text
from torchstone.report.renderers import pdf as module
from torchstone.report.renderers.pdf import _DATA, _TURNED, _UPRIGHT, _Draft, _Fonts


def blocks(*tables):
    draft = _Draft(_Fonts.SHIPPED)
    return [block for table in tables for block in draft._table(table)]


def blocks_of(document):
    return json.loads(_Draft(_Fonts.SHIPPED).files_of(document)[_DATA])["blocks"]


def test_a_number_is_not_broken_from_its_unit_where_columns_are_many():
    columns = [Column(f"peak memory {n}", ("76.3 MiB*",), n) for n in range(20)]
    found = blocks(Table(tuple(columns)))
    assert len(found) > 1
    assert all(sum(block["characters"]) <= _UPRIGHT for block in found)
    assert all(cell == "76.3\xa0MiB*" for block in found for row in block["rows"] for cell in row)


def test_a_long_table_that_is_wide_is_turned_and_a_short_one_is_not():
    def wide(rows):
        return Table(tuple(Column(f"figure {n}", ("123,456.7 ms",) * rows, n) for n in range(9)))

    (turned,) = blocks(wide(30))
    assert turned["turned"]
    assert _UPRIGHT < sum(turned["characters"]) <= _TURNED
    assert not any(block["turned"] for block in blocks(wide(3)))


def test_rows_of_all_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 5)
    three = Table((Column("n", ("1", "2", "3")),))
    found = blocks(three, three, three)
    assert [len(block["rows"]) if block["kind"] == "table" else block["text"] for block in found] == [
        3, 2, "and 1 more row: torchstone report --format csv", "and 3 more rows: torchstone report --format csv",
    ]  # fmt: skip


def test_a_document_without_end_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CELLS", 5)
    facts = Facts(tuple((str(n), "x") for n in range(9)))
    text, shown, rest = blocks_of(Document("t", (Text("a"), facts, Text("b"))))
    assert text["text"] == "a"
    assert [name for name, _ in shown["rows"]] == ["0", "1", "2"]
    assert rest["text"] == "The report continues: torchstone report --format md"
    assert len(blocks_of(Document("t", (Text("a"), Text("b"))))) == 2


def test_what_follows_a_section_on_its_level_is_set_apart():
    document = Document("t", (Section("a", (Text("in"),)), Text("out"), Section("", (Text("x"),)), Text("y")))
    kinds = [block["kind"] for block in _Draft(_Fonts.SHIPPED)._blocks(document.parts, 2)]
    assert kinds == ["heading", "body", "gap", "body", "body", "body"]
