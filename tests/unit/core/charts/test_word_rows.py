"""Words beside vertical lines: which row, and on which side of the line."""

from torchstone.core.charts.picture import Coordinate, Divider, Dots, Kind, Panel
from torchstone.core.charts.word_rows import Place, in_rows

LONG = "torch 2.11.0 → 2.12.0"  # some 130 points


def rows(*words, width=600, kind=Kind.NUMBERS):
    """Return by place the words at these runs of a hundred."""
    mark = Divider("what", tuple({"run": at, "what": word} for at, word in words))
    values = ({"run": 0, "y": 1.0}, {"run": 100, "y": 1.0})
    panel = Panel("", Coordinate("run", "run", kind), (Dots(Coordinate("y", "y")), mark), values, width=width)
    return {place: [one["what"] for one in own] for place, own in in_rows(mark, panel).items()}


def test_words_that_have_room_stand_in_one_row():
    assert rows((10, "a"), (50, LONG), (90, "b")) == {Place(0, before=False): ["a", LONG, "b"]}


def test_a_word_that_would_cover_another_is_a_row_lower_and_the_next_that_has_room_at_the_top_again():
    found = rows((10, LONG), (12, "a"), (20, "b"), (22, "c"), (40, "d"))
    assert found == {
        Place(0, before=False): [LONG, "d"], Place(1, before=False): ["a", "b"], Place(2, before=False): ["c"],
    }  # fmt: skip


def test_one_that_would_reach_beyond_the_panel_ends_at_its_line():
    assert rows((95, LONG)) == {Place(0, before=True): [LONG]}
    assert rows((5, LONG * 9)) == {Place(0, before=False): [LONG * 9]}, "it has no room on the left either"


def test_places_along_x_that_are_names_have_one_row():
    mark = Divider("what", ({"batch": "8", "what": "a"}, {"batch": "8", "what": "b"}))
    x = Coordinate("batch", "batch size", Kind.STEPS)
    panel = Panel("", x, (mark,), ({"batch": "8"},))
    assert in_rows(mark, panel) == {Place(0, before=False): mark.values}
