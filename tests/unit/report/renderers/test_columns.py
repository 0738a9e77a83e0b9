"""Tables in bands: no column is lost, none leaves the one it needs, and the names of the rows stand in each."""

from hypothesis import given
from hypothesis import strategies as st

from torchstone.report.document import Column
from torchstone.report.renderers._columns import bands, characters, in_one_piece


def columns_of(widths, ranks=None, of=None):
    ranks, of = ranks or [0] * len(widths), of or [None] * len(widths)
    return [Column(str(n), ("x" * (width - 2),), ranks[n], of=of[n]) for n, width in enumerate(widths)]


def titles(found):
    return [[column.title for column in band] for band in found]


def test_what_fits_stands_beside_each_other():
    assert titles(bands(columns_of([10, 20, 30]), 60)) == [["0", "1", "2"]]


def test_what_does_not_fit_follows_by_rank_beside_the_names_of_the_rows():
    assert titles(bands(columns_of([20, 30, 30, 30], [0, 5, 1, 1]), 80)) == [["0", "2", "3"], ["0", "1"]]
    two = bands(columns_of([10, 10, 30, 30, 30], [0, 0, 1, 1, 1]), 60)
    assert titles(two) == [["0", "1", "2"], ["0", "1", "3"], ["0", "1", "4"]]


def test_an_interval_stands_in_the_band_of_its_value():
    found = bands(columns_of([20, 30, 30, 30, 30], of=[None, None, 1, None, 3]), 100)
    assert titles(found) == [["0", "1", "2"], ["0", "3", "4"]]


def test_a_column_without_values_is_left_out_unless_it_never_leaves():
    columns = [Column("0", ("",)), Column("1", ("–",), 3), Column("2", ("5",), 3)]
    assert titles(bands(columns, 100)) == [["0", "2"]]
    assert bands([], 100) == []
    assert titles(bands(columns[:1], 100)) == [["0"]]


def test_a_column_is_as_wide_as_its_longest_cell_or_a_word_of_its_title_within_bounds():
    assert characters(Column("throughput images/s", ("1",))) == 13
    assert characters(Column("n", ("x" * 30,))) == 32
    assert characters(Column("n", ("x" * 3000,))) == 46
    assert in_one_piece("76.3 MiB") == "76.3\N{NO-BREAK SPACE}MiB"


@given(st.lists(st.tuples(st.integers(3, 60), st.integers(0, 5)), min_size=1, max_size=30), st.integers(60, 200))
def test_no_column_is_lost_and_none_but_the_names_stands_twice(told, room):
    columns = columns_of([width for width, _ in told], [rank for _, rank in told])
    found = titles(bands(columns, room))
    names = set.intersection(*map(set, found)) if len(found) > 1 else set()
    rest = [title for band in found for title in band if title not in names]
    assert len(rest) == len(set(rest))
    assert {*names, *rest} == {column.title for column in columns}
