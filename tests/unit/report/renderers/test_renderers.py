"""One Document in every renderer: the answer first, nothing lost, and nothing of a stranger's that could steer."""

import json

import pytest

from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import fit_columns, terminal
from torchstone.report.rendering import renderer

HOSTILE = "a|b\x1b[31m<script>`x`"
RATES = Table((
    Column("batch size", ("8", "16"), left=True),
    Column("images/s", ("1,000", "1,900")),
    Column("±", ("±2.0 %", "–"), 1, of=1),
    Column("memory", ("1 GiB", "2 GiB"), 2),
    Column("energy", ("", ""), 3),
))  # fmt: skip
WHOLE = Document("run of cnn", (
    Text("Fastest: batch size 16, 1,900 images/s.", Role.HEADLINE),
    RATES,
    Text("twice the batch, nearly twice the rate", Role.NOTE),
    Doubt(Severity.WARNING, "batch 16", "others were busy", "measure again"),
    CommandLine("torchstone run cnn --trials 10"),
    Fields((("record", "outputs/records/x.jsonl"), ("more", "torchstone show x"))),
    Section("4 more workloads", (Text("the rest"),), folded=True),
    Chart("speed", "images/s rise with the batch size", Picture("", ())),
))  # fmt: skip


def test_the_answer_is_the_first_line_of_the_terminal_and_the_first_paragraph_of_the_page():
    assert terminal(WHOLE, 80).startswith("Fastest: batch size 16, 1,900 images/s.\n\n")
    assert markdown(WHOLE).startswith("# run of cnn\n\n**Fastest: batch size 16, 1,900 images/s.**\n\n")
    assert WHOLE.headline == "Fastest: batch size 16, 1,900 images/s."
    assert Document("empty", ()).headline is None


def test_a_table_on_the_terminal():
    shown = terminal(Document("", (RATES,)), 80).splitlines()
    assert shown == [
        "batch",
        "size   images/s       ±  memory",
        "─" * 31,
        "8         1,000  ±2.0 %   1 GiB",
        "16        1,900       –   2 GiB",
    ]


def test_columns_leave_by_rank_and_are_named_but_not_an_empty_one_and_no_value_stays_without_its_interval():
    shown = terminal(Document("", (RATES,)), 30)
    assert "1 GiB" not in shown
    assert "more columns in a wider" in shown
    assert "memory" in terminal(Document("", (RATES,)), 30, every=True)
    assert "energy" not in shown
    kept, gone = fit_columns(RATES.columns, 20)
    assert [c.title for c in kept] == ["batch size", "images/s", "±"]
    assert [c.title for c in gone] == ["memory"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_what_is_to_be_copied(width):
    (command,) = (part for part in WHOLE.parts if isinstance(part, CommandLine))
    copied = f"  {command.words}"
    assert [
        line for line in terminal(WHOLE, width, every=True).splitlines() if len(line) > width and line != copied
    ] == []


def test_what_is_folded_is_told_with_what_to_type_and_shown_where_all_is_asked_for():
    assert "4 more workloads: --full\n" in terminal(WHOLE, 80)
    assert "the rest" not in terminal(WHOLE, 80)
    assert "the rest" in terminal(WHOLE, 80, every=True)
    assert "<details><summary>4 more workloads</summary>\n\nthe rest\n\n</details>" in markdown(WHOLE)


def test_a_stranger_s_text_steers_neither_terminal_nor_page():
    told = Document(HOSTILE, (Text(HOSTILE), Table((Column(HOSTILE, (HOSTILE,)),)), CommandLine(HOSTILE)))
    assert "\x1b" not in terminal(told, 80)
    page = markdown(told)
    assert "\x1b" not in page
    assert "<script>" not in page.replace("```\na|b�[31m<script>`x`\n```", "")
    assert page.count("\n| ") == 2, "a bar in a cell does not make a column"


def test_every_part_is_in_the_json_by_its_kind():
    told = json.loads(renderer("json").render(WHOLE))
    kinds = [part["kind"] for part in told["parts"]]
    assert kinds == ["text", "table", "text", "doubt", "command", "facts", "section", "chart"]
    assert told["parts"][1]["columns"][2]["cells"] == ["±2.0 %", "–"]


def test_columns_of_different_lengths_are_a_mistake_of_ours():
    with pytest.raises(ValueError, match="different lengths"):
        Table((Column("a", ("1",)), Column("b", ())))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("num_workers=4 on cuda:0", "num_workers=4 on cuda:0"),
        ("3.82 [3.70, 3.94] times, #1 of 3", "3.82 [3.70, 3.94] times, \\#1 of 3"),
        ("[x] done", "[x] done"),
        ("[a](b) [a][b] [a]: b", "[a\\](b) [a\\][b] [a\\]: b"),
        ("__init__ and _x_", "\\_\\_init\\_\\_ and \\_x\\_"),
        ("a * b ~~c~~ `d` C:\\x", "a \\* b \\~\\~c\\~\\~ \\`d\\` C:\\\\x"),
        ("1. first", "1\\. first"),
        ("3.5 ms", "3.5 ms"),
        ("- a list", "\\- a list"),
        ("-5 %", "-5 %"),
        ("---", "\\---"),
        ("> a quotation", "\\> a quotation"),
        ("two\nlines \t here\x1b", "two lines here�"),
    ],
)
def test_text_is_text_on_a_page_and_no_more_is_escaped_than_must_be(text, shown):
    assert markdown(Document("t", (Text(text),))) == f"# t\n\n{shown}\n"


def test_details_are_a_list_below_their_text():
    told = Document("t", (Text("a cause"), Text("usually", Role.DETAIL), Text("try", Role.DETAIL), Text("another")))
    assert markdown(told) == "# t\n\na cause\n\n- usually\n- try\n\nanother\n"


def test_a_picture_is_named_with_its_suffix_and_what_it_says_cannot_end_the_link():
    told = Document("t", (Chart("x", "see [1](evil)", Picture("", ()), ".png"),))
    assert markdown(told) == "# t\n\n![see (1)(evil)](x.png)\n"


def test_a_title_that_is_folded_away_has_no_markup():
    told = Document("t", (Section("<b>", (Text("x"),), folded=True),))
    assert "<summary>&lt;b&gt;</summary>" in markdown(told)
