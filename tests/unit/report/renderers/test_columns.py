"""Columns that fit: the important ones first, none without the one it needs, and what is left out is counted."""

from hypothesis import given
from hypothesis import strategies as st

from torchstone.report.document import Column
from torchstone.report.renderers._table import column_width, important_first, in_one_piece, that_fit


def columns_of(widths, ranks=None, of=None):
    ranks, of = ranks or [0] * len(widths), of or [None] * len(widths)
    return [Column(str(n), ("x" * (width - 2),), ranks[n], of=of[n]) for n, width in enumerate(widths)]


def titles(columns):
    return [column.title for column in columns]


def test_what_fits_stands_beside_each_other():
    kept, left_out = that_fit(columns_of([10, 20, 30]), 60)
    assert titles(kept) == ["0", "1", "2"]
    assert left_out == 0


def test_what_does_not_fit_leaves_by_rank_and_the_important_columns_come_first():
    kept, left_out = that_fit(columns_of([20, 30, 30, 30], [0, 5, 1, 0]), 100)
    assert titles(kept) == ["0", "2", "3"]
    assert left_out == 1


def test_an_interval_stands_behind_its_value_wherever_that_goes():
    ordered = important_first(columns_of([9, 9, 9, 9], [0, 2, 2, 1], [None, None, 1, None]))
    assert titles(ordered) == ["0", "3", "1", "2"]
    assert [one.of for one in ordered] == [None, None, None, 2]


def test_a_column_without_values_is_left_out_unless_it_never_leaves():
    columns = [Column("0", ("",)), Column("1", ("–",), 3), Column("2", ("5",), 3)]
    assert titles(that_fit(columns, 100)[0]) == ["0", "2"]
    assert that_fit([], 100) == ([], 0)


def test_a_column_is_as_wide_as_its_longest_cell_or_a_word_of_its_title_within_bounds():
    assert column_width(Column("throughput images/s", ("1",))) == 13
    assert column_width(Column("n", ("x" * 30,))) == 32
    assert column_width(Column("n", ("x" * 3000,))) == 46
    assert in_one_piece("76.3 MiB") == "76.3\N{NO-BREAK SPACE}MiB"


@given(st.lists(st.tuples(st.integers(3, 60), st.integers(0, 5)), min_size=1, max_size=30), st.integers(60, 200))
def test_what_is_kept_and_what_is_left_out_are_all(told, room):
    columns = columns_of([width for width, _ in told], [rank for _, rank in told])
    kept, left_out = that_fit(columns, room)
    assert len(kept) + left_out == len(columns)
    assert sum(map(column_width, kept)) <= room or all(column.rank == 0 for column in kept)
