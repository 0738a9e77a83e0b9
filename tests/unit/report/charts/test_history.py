"""The words beside the vertical lines of a history: which row, and on which side of the line."""

from torchstone.report.charts.history import in_rows

LONG = "torch 2.11.0 → 2.12.0"  # some 130 points


def rows(*words):
    """Return the words of each place (row, before its line) at these runs of a hundred."""
    found: dict[tuple[int, bool], list[str]] = {}
    for one in in_rows([{"run": at, "word": word} for at, word in words], "run", (0, 100), 600):
        found.setdefault((one["_row"], one["_before"]), []).append(one["word"])
    return found


def test_words_that_have_room_stand_in_one_row():
    assert rows((10, "a"), (50, LONG), (90, "b")) == {(0, False): ["a", LONG, "b"]}


def test_a_word_that_would_cover_another_is_a_row_lower_and_the_next_that_has_room_at_the_top_again():
    found = rows((10, LONG), (12, "a"), (20, "b"), (22, "c"), (40, "d"))
    assert found == {(0, False): [LONG, "d"], (1, False): ["a", "b"], (2, False): ["c"]}


def test_one_that_would_reach_beyond_the_panel_ends_at_its_line():
    assert rows((95, LONG)) == {(0, True): [LONG]}
    assert rows((5, LONG * 9)) == {(0, False): [LONG * 9]}, "it has no room on the left either"
