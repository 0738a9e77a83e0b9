"""How a terminal lays parts out: in cells, whatever the characters; what belongs together together, what not apart."""

import pytest

from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.estimate import Severity
from torchstone.core.units import plain
from torchstone.report.document import Chart, Column, CommandLine, Document, Doubt, Fields, Role, Section, Table, Text
from torchstone.report.renderers._table import cell_width, fit_columns, wrapped
from torchstone.report.renderers.terminal import terminal

WIDE = "模型"


def lines(*parts, width=80, every=False):
    return terminal(Document("", parts), width, every=every).splitlines()


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_wide_character_takes_two_cells_and_a_combining_one_none():
    assert (cell_width("cnn"), cell_width(WIDE), cell_width("e\u0301"), cell_width("±–×")) == (3, 4, 1, 3)


@pytest.mark.parametrize("text", ["a b " * 40, f"{WIDE} " * 30, WIDE * 60, "x" * 200, f"short {'y' * 90} short"])
@pytest.mark.parametrize("width", [20, 40, 80])
def test_text_is_broken_where_the_terminal_ends_and_nothing_is_lost(text, width):
    told = list(wrapped(text, width, first="  ", rest="    "))
    assert max(map(cell_width, told)) <= width
    assert "".join("".join(told).split()) == "".join(text.split())
    assert told[0].startswith("  ")
    assert all(line.startswith("    ") for line in told[1:])


def test_a_number_keeps_its_percent_sign():
    assert list(wrapped("usual: 70 to 95 % of it", 16)) == ["usual: 70 to", "95 % of it"]


def test_what_fits_is_left_as_it_is_with_its_blanks():
    assert list(wrapped("a  b", 80)) == ["a  b"]


def test_what_is_to_be_copied_is_whole():
    path, command = "outputs/" + "x" * 60, "torchstone show " + "x" * 60
    folded = Section("more", (Text("a"),), folded=True, how=command)
    shown = lines(Fields((("record", path),)), CommandLine(command), folded, width=40)
    assert shown == [f"record    {path}", f"  {command}", "", "more:", f"  {command}"]


@pytest.mark.parametrize("steering", ["\x1b[31m", "\r", "\x07", "\x9b", "\u202e", "\u2028", "\ud800", "\ue000"])
def test_control_characters_become_a_sign_that_something_was_there(steering):
    assert plain(f"a{steering[0]}b") == "a\N{REPLACEMENT CHARACTER}b"
    hostile = f"a{steering}b"
    shown = terminal(Document(hostile, (
        Text(hostile, Role.HEADLINE), CommandLine(hostile), Fields(((hostile, hostile),)),
        Table((Column(hostile, (hostile, hostile)), Column("n", ("1*", "2")))),
        Doubt(Severity.ERROR, hostile, hostile, hostile),
        Section(hostile, (
            Section(hostile, (Text(hostile),)), Section(hostile, (Text("a"),), folded=True, how=hostile),
        )),
    )), 80)  # fmt: skip
    assert steering[0] not in shown


def test_a_line_break_in_a_text_breaks_no_line():
    told = lines(Text("a\nb"), Table((Column("", ("c\nd",)),)))
    assert told == ["a\N{REPLACEMENT CHARACTER}b", "", "c\N{REPLACEMENT CHARACTER}d"]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_columns_of_one_rank_leave_together():
    columns = [
        Column("a", ("x" * 30,)), Column("b", ("x" * 30,), 2), Column("±", ("x" * 5,), 2, of=1), Column("c", ("x",), 1)
    ]  # fmt: skip
    kept, gone = fit_columns(columns, 50)
    assert [c.title for c in kept] == ["a", "c"]
    assert [c.title for c in gone] == ["b", "±"]
    assert lines(Table(tuple(columns)), width=50)[-1] == "more columns in a wider terminal"


def test_of_the_last_rank_one_figure_stays_with_its_interval():
    columns = [Column("a", ("x" * 9,))]
    for place, name in enumerate("bcd"):
        columns += [Column(name, ("y" * 9,), 1), Column("±", ("3 … 7",), 1, of=1 + 2 * place)]
    kept, gone = fit_columns(columns, 50)
    assert [c.title for c in kept] == ["a", "b", "±", "c", "±"]
    assert [c.title for c in gone] == ["d", "±"]


def test_a_table_fits_to_the_cell():
    columns = (Column("a", ("x" * 10,), left=True), Column("b", ("y" * 10,), 1))
    assert lines(Table(columns), width=22)[-1] == f"{'x' * 10}  {'y' * 10}"
    assert [c.title for c in fit_columns(columns, 21)[0]] == ["a"]


def test_wide_characters_do_not_break_the_columns():
    shown = lines(Table((Column("model", (WIDE, "cnn"), left=True), Column(f"{WIDE}/s", ("1", "1,000")))))
    assert [cell_width(line) for line in shown] == [13, 13, 13, 13]
    assert shown[-2:] == [f"{WIDE}        1", "cnn     1,000"]


def test_a_title_is_broken_in_two_where_its_cells_are_narrow():
    told = (Column("first token p95", ("1", "2")), Column("batch size", ("a" * 12, "b")), Column("n", ("1", "2")))
    assert lines(Table(told))[:2] == ["    first", "token p95    batch size  n"]


def test_marks_do_not_move_the_digits():
    assert lines(Table((Column("rate", ("1,000*", "900=", "80", "–")),)))[-4:] == ["1,000*", "  900=", "   80", "    –"]


def test_a_table_without_titles_has_no_head():
    assert lines(Table((Column("", ("a", "bb"), left=True), Column("", ("1", "2"), left=True)))) == ["a   1", "bb  2"]


def test_a_cell_that_is_wider_than_the_terminal_is_broken_and_whole():
    shown = lines(Table((Column("", ("name",), left=True), Column("", ("word " * 20,), left=True))), width=30)
    assert max(map(len, shown)) <= 30
    assert " ".join(" ".join(shown).split()) == "name " + " ".join(["word"] * 20)


def test_rows_are_listed_where_even_the_columns_that_stay_have_no_room():
    columns = tuple(Column(f"machine {n}", (f"{n}.5 ms", f"{n}.7 ms")) for n in range(40))
    shown = lines(Table(columns), width=40)
    assert max(map(len, shown)) <= 40
    assert shown[:2] == ["machine 0: 0.5 ms", "  machine 1: 1.5 ms"]
    assert len(shown) == 80


def test_rows_beyond_the_most_are_counted_with_what_to_type():
    table = Table((Column("n", tuple("12345")),), most=2, how="--all")
    assert lines(table)[-3:] == ["1", "2", "and 3 more: --all"]
    assert lines(table, every=True)[-1] == "5"


def test_an_empty_table_is_its_head_and_no_table_is_nothing():
    assert lines(Table((Column("a", ()),))) == ["a", "─"]
    assert lines(Table(())) == []


# ── what stands beside what ─────────────────────────────────────────────────────────────────────────────────


def test_what_belongs_together_has_no_empty_line_between():
    shown = lines(
        Text("The answer.", Role.HEADLINE), Text("Another.", Role.HEADLINE), Text("of both", Role.DETAIL),
        Text("a run"), Text("a host"), Section("a table", (Text("how", Role.DETAIL), Table((Column("a", ("1",)),)))),
        Text("first", Role.NOTE), Text("second", Role.NOTE), Text("type"), CommandLine("torchstone runs"),
    )  # fmt: skip
    assert shown == [
        "The answer.", "Another.", "  of both", "",
        "a run", "a host", "",
        "a table", "  how", "a", "─", "1", "",
        "note: first", "note: second", "",
        "type", "  torchstone runs",
    ]  # fmt: skip


def test_sections_are_headed_by_how_deep_they_are():
    case = Section("case one", (Text("x=1", Role.DETAIL), Section("SPEED", (Text("fast"),))))
    shown = lines(Section("REPORT", (Section("SYSTEM", (Text("Linux"), Text("cpu"))), case)))
    assert shown == [
        "REPORT", "======", "", "[SYSTEM]", "  Linux", "  cpu", "", "── case one", "  x=1", "", "[SPEED]", "  fast"
    ]  # fmt: skip


def test_facts_stand_below_each_other_and_indented_under_a_title():
    facts = Fields((("record", "a.jsonl"), ("a longer name", "b")))
    assert lines(facts) == ["record        a.jsonl", "a longer name b"]
    assert lines(Section("files", (facts,))) == ["files", "  record        a.jsonl", "  a longer name b"]
    long = Fields((("n" * 50, "value"), ("a", "b")))
    assert lines(long, width=60) == ["n" * 50, "          value", "a         b"]


def test_a_finding_that_changes_no_verdict_is_a_note():
    told = [Doubt(severity, "a case", "seen", "do this") for severity in Severity]
    said = "a case: seen; do this"
    assert lines(*told) == [f"note: {said}", f"warning {said}", f"error {said}"]


def test_pictures_leave_no_trace_nor_do_sections_of_nothing_else():
    chart = Chart("speed", "what it shows", Picture("Speed", ()))
    pictures = Section("Pictures", (chart, Section("more", (chart,)), Section("folded", (chart,), folded=True)))
    for every in (False, True):
        assert lines(Text("one"), chart, pictures, Text("two"), every=every) == ["one", "two"]
    both = Section("of both", (Text("words"), chart))
    assert lines(Section("top", (pictures, both))) == lines(Section("top", (Section("of both", (Text("words"),)),)))
    assert lines(Section("empty", ())) == ["empty"], "what is empty for another reason is told"
