"""Text in lines: as many as a naive typesetter needs, and breaks only where a word is wider than the room."""

import pytest

from torchstone.report.renderers._measuring import breakable, extent, glued, in_one_piece, lines


@pytest.mark.parametrize(
    ("text", "room", "count"),
    [("", 5, 1), ("ab cd", 5, 1), ("ab cd", 4, 2), ("abcdefghij", 4, 3), ("ab abcdefgh", 4, 3), ("a b c d", 1, 4)],
)
def test_lines(text, room, count):
    assert lines(text, room, len) == count


def test_only_words_that_are_wider_than_the_room_may_break():
    assert breakable("torchstone show run", 12, len) == "torchstone show run"
    assert breakable("ab cdefg", 4, len) == "ab c\u200bd\u200be\u200bf\u200bg"


def test_a_column_is_as_wide_as_its_words_and_its_title_has_two_lines():
    found = extent("step time ms", ("1.5", "12 000"), len, len, 2.0)
    assert found.least == len("time") + 2.0
    assert found.natural == len("time ms") + 2.0


def test_a_very_long_word_may_be_cut_and_a_very_long_cell_makes_its_column_wider():
    assert extent("", ("x" * 1000,), len, len, 0.0).least == 14.0
    assert extent("", ("a " * 60,), len, len, 0.0).least == 10.0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("14.5 ms), 10 % of 8", "14.5~ms), 10~% of 8"),
        ("70 to 95 % in 3 items/s", "70~to 95~% in 3 items/s"),
        ("batch size 8 against 16", "batch size 8 against 16"),
    ],
)
def test_a_number_keeps_its_unit(text, shown):
    assert glued(text) == shown.replace("~", "\N{NO-BREAK SPACE}")


def test_a_cell_of_a_column_of_numbers_stays_in_one_piece_unless_it_is_a_sentence():
    assert in_one_piece("1.12 GiB (+12 %)") == "1.12\xa0GiB\xa0(+12\xa0%)"
    assert in_one_piece("a sentence of more than 24 characters") == "a sentence of more than 24 characters"
