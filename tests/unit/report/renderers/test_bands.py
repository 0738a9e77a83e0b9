"""Tables in bands: no column is lost, none leaves the one it needs, and no band is wider than the room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.report.document import Column
from torchstone.report.renderers._bands import Extent, bands


def measured(widths):
    """A measure in which a column's title is the number of its widths."""
    return lambda column: Extent(*widths[int(column.title)])


def columns_of(widths, ranks=None, of=None):
    ranks, of = ranks or [0] * len(widths), of or [None] * len(widths)
    return [Column(str(n), ("1",), ranks[n], of=of[n]) for n in range(len(widths))]


def titles(found):
    return [[column.title for column in band.columns] for band in found]


def test_what_fits_stands_beside_each_other_in_its_natural_width():
    (band,) = bands(columns_of([(10, 20), (10, 30)]), 60.0, measured([(10, 20), (10, 30)]))
    assert band.widths == (20, 30)


def test_the_widest_gives_way_first():
    widths = [(10, 20), (10, 200), (10, 100)]
    (band,) = bands(columns_of(widths), 100.0, measured(widths))
    assert band.widths[0] == 20
    assert band.widths[1] == pytest.approx(40, abs=0.5)
    assert band.widths[2] == pytest.approx(40, abs=0.5)


def test_what_does_not_fit_follows_by_rank_beside_the_names_of_the_rows():
    widths = [(20, 20), (30, 30), (30, 30), (30, 30)]
    found = bands(columns_of(widths, [0, 5, 1, 1]), 80.0, measured(widths))
    assert titles(found) == [["0", "2", "3"], ["0", "1"]]


def test_an_interval_stands_in_the_band_of_its_value():
    widths = [(20, 20), (30, 30), (30, 30), (30, 30), (30, 30)]
    found = bands(columns_of(widths, of=[None, None, 1, None, 3]), 100.0, measured(widths))
    assert titles(found) == [["0", "1", "2"], ["0", "3", "4"]]


def test_a_column_wider_than_the_room_cuts_its_words():
    (band,) = bands(columns_of([(300, 900)]), 100.0, measured([(300, 900)]))
    assert band.widths == (100,)


def test_a_column_without_values_is_left_out_unless_it_never_leaves():
    columns = [Column("0", ("",)), Column("1", ("–",), 3), Column("2", ("5",), 3)]
    assert titles(bands(columns, 100.0, measured([(10, 10)] * 3))) == [["0", "2"]]
    assert bands([], 100.0, measured([])) == []


def test_equal_columns_are_two():
    twice = [Column("0", ("1",)), Column("0", ("1",))]
    assert titles(bands(twice, 100.0, measured([(10, 10)]))) == [["0", "0"]]


@given(st.data())
def test_no_band_is_wider_than_the_room_and_no_column_is_lost(data):
    count = data.draw(st.integers(1, 20))
    least = [data.draw(st.floats(1.0, 200.0)) for _ in range(count)]
    widths = [(low, low * data.draw(st.floats(1.0, 5.0))) for low in least]
    ranks = [data.draw(st.integers(0, 4)) for _ in range(count)]
    of = [data.draw(st.sampled_from([None, n - 1])) if n and ranks[n] else None for n in range(count)]
    columns = columns_of(widths, ranks, of)
    room = data.draw(st.floats(50.0, 800.0))
    found = bands(columns, room, measured(widths))
    assert all(sum(band.widths) <= room * (1 + 1e-9) for band in found)
    assert {title for band in titles(found) for title in band} == {column.title for column in columns}
    for band in titles(found):
        assert band == sorted(band, key=int)
