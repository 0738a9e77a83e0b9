"""Pictures in parts: as many panels as can be read, those of a group in rows of their own, none lost in silence."""

import pytest

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.report.pictures import parts


def a_picture(count, columns=3, groups=("",)):
    x, y = vl.number_axis("x", "x"), vl.number_axis("y", "images/s")
    panels = tuple(vl.panel(str(n), x, y, (vl.line(),), (), group=groups[n % len(groups)]) for n in range(count))
    return Picture("t", panels, columns=columns)


def titles(found):
    return [[panel.title for panel in picture.panels] for picture in found]


def test_a_picture_that_fits_stays_whole():
    found, left_out = parts(a_picture(3), 2000.0, 700.0)
    assert found == [a_picture(3)]
    assert left_out == 0


@pytest.mark.parametrize(("wide", "columns"), [(100.0, 1), (390.0, 1), (430.0, 2), (493.0, 2), (880.0, 3)])
def test_columns_are_as_many_as_can_be_read(wide, columns):
    found, _ = parts(a_picture(6), wide, 10_000.0)
    assert {picture.columns for picture in found} == {columns}


def test_rows_that_have_no_room_follow_in_further_parts():
    found, left_out = parts(a_picture(7, columns=1), 390.0, 650.0)
    assert titles(found) == [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]
    assert left_out == 0


def test_a_group_begins_with_a_row_of_its_own():
    found, _ = parts(a_picture(6, columns=2, groups=("a", "b")), 780.0, 650.0)
    assert titles(found) == [["0", "2", "4"], ["1", "3", "5"]]


def test_panels_without_end_are_bounded_and_counted():
    found, left_out = parts(a_picture(100, columns=1), 390.0, 320.0)
    assert len(found) == 30
    assert left_out == 70
    assert parts(Picture("t", ()), 390.0, 320.0) == ([Picture("t", ())], 0)
