"""What every Document owes every renderer, and every renderer every Document: tests/zoo.py has them."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest
from over import over
from words import old_words
from zoo import ZOO

from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import MissingError
from torchstone.core.units import plain
from torchstone.plugins import registry
from torchstone.report.document import Column, CommandLine, Document, Fields, Part, Role, Section, Table, Text
from torchstone.report.renderers._table import cell_width, wrapped
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal
from torchstone.report.rendering import formats, renderer

each = over("make", ZOO)
LAID_OUT = ("pdf", "pptx")
TEXTS = ("md", "terminal")  # formats that people read as they are
WRITTEN = [name for name in formats() if renderer(name).folder is None]  # those: test_pictures.py
NAMES = re.compile("|".join(registry.names("checks")))  # which stay as they are typed
widths = over("width", [40, 80, 120])


def parts_of(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Every part, those in sections too."""
    for part in parts:
        yield part
        if isinstance(part, Section):
            yield from parts_of(part.parts)


def first_of(document: Document) -> Part:
    """The first part that says something."""
    part = document.parts[0]
    while isinstance(part, Section) and not part.title:
        part = part.parts[0]
    return part


def copied(document: Document) -> Iterator[str]:
    """What a terminal has to leave whole: commands, what to type for more, and facts of one word, as paths are."""
    for part in parts_of(document.parts):
        if isinstance(part, CommandLine):
            yield part.words
        elif isinstance(part, Section | Table):
            yield part.how
        elif isinstance(part, Fields):
            yield from (value for _, value in part.rows if len(plain(value).split()) == 1)


def texts_of(value: object) -> Iterator[str]:
    """Every text in a Document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from texts_of(one)
    elif isinstance(value, msgspec.Struct) and not isinstance(value, Picture):  # which knows no terminal anyway
        for name in value.__struct_fields__:
            yield from texts_of(getattr(value, name))


def test_their_names_are_their_own():
    names = [name for name, _ in ZOO]
    assert len(set(names)) == len(names) > 10


# Catalogues: nothing was asked that one sentence would answer.
LISTS = ("runs", "runs, 40 and a broken one", "list")


@over("make", [one for one in ZOO if one[0] not in LISTS])
def test_the_answer_comes_first(make):
    document = make()
    first = first_of(document)
    assert isinstance(first, Text)
    assert first.role == Role.HEADLINE
    assert first.text
    assert terminal(document, 80).splitlines()[0] == next(wrapped(first.text, 80))
    heading, _, answer, *_ = markdown(document).split("\n")
    assert heading.startswith("# ")
    assert answer.startswith("**")
    assert answer.endswith("**")


@each
@widths
@over("every", [False, True])
def test_no_line_is_wider_than_the_terminal_but_what_is_to_be_copied(make, width, every):
    document = make()
    whole = {plain(text).strip() for text in copied(document)}
    wide = [line for line in terminal(document, width, every=every).splitlines() if cell_width(line) > width]
    assert [line for line in wide if line.strip() not in whole and line.split()[-1] not in whole] == []


@each
@over("every", [False, True])
def test_nothing_steers_the_terminal_or_becomes_markup(make, every):
    document = make()
    assert all(c.isprintable() or c == "\n" for c in terminal(document, 80, every=every))
    page = markdown(document)
    assert all(c.isprintable() or c == "\n" for c in page)
    outside_of_code = re.sub(r"^(`{3,})\n.*?\n\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?<!\\)<(?!/?details>|/?summary>)", outside_of_code)


@pytest.mark.parametrize("name", WRITTEN)
@over("number", range(len(ZOO)), lambda number: ZOO[number][0])
def test_every_renderer_draws_every_document(number, name):
    if name in LAID_OUT and number % 7:
        return  # typst and python-pptx take seconds for what other documents showed already
    document = ZOO[number][1]()
    try:
        file = renderer(name).render(document)
    except MissingError as fault:
        pytest.skip(str(fault))
    assert number % 28 or file == renderer(name).render(document), "the same again"
    if name in TEXTS:
        text = file.decode()
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), "nothing that steers"
        assert re.sub(r"[\W_]+", "", plain(document.headline or "")) in re.sub(r"[\W_]+", "", text), (
            "the answer is there"
        )


@each
def test_the_json_is_the_document(make):
    document = make()
    text = renderer("json").render(document)
    assert msgspec.json.decode(text, type=Document) == document
    told = json.loads(text)
    assert set(told) == {"title", "parts"}
    assert all("kind" in part for part in told["parts"])


@each
def test_a_table_in_markdown_has_as_many_columns_in_every_row(make):
    rows = [line for line in markdown(make()).splitlines() if line.startswith("|")]
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in rows]
    rules = [n for n, line in enumerate(rows) if re.fullmatch(r"\|(:---\||---:\|)+", line)]
    for begin, end in pairwise([*rules, len(rows) + 1]):
        assert set(bars[begin - 1 : end - 1]) == {bars[begin]}


@each
def test_a_terminal_that_is_wide_enough_loses_no_cell(make):
    document = make()
    shown = terminal(document, 10_000, every=True)
    for part in parts_of(document.parts):
        if isinstance(part, Table):
            cell_texts = (cell for column in part.columns if is_there(column) for cell in column.cells)
            assert all(plain(cell).strip() in shown for cell in cell_texts)
        if isinstance(part, Text):
            assert plain(part.text).strip() in shown


def is_there(column: Column) -> bool:
    """Whether a column says something: one without a value in any row is left out wherever there is a terminal."""
    return column.rank == 0 or any(cell not in ("", "–") for cell in column.cells)


@each
def test_no_text_in_a_document_knows_a_terminal(make):
    texts = {text for text in texts_of(make()) if "script>" not in text}  # but those that strangers brought
    assert texts
    assert {text for text in texts if "\n" in text or text != text.strip() or "  " in text} == set()
    assert not any(c in text for text in texts for c in "─│┃━")


@each
def test_what_people_read_is_in_the_field_s_words(make):
    texts = [re.sub(NAMES, "", text) for text in texts_of(make()) if "script>" not in text]
    assert [found for text in texts for found in old_words(text)] == []
