"""Colours that stay with a name, and names that fit a legend."""

from torchstone.core.charts.palette import PALETTE, colours, short, short_names


def test_a_name_has_the_colour_of_its_place_among_all_whoever_else_is_shown():
    both = colours("device", ["A100", "MI300X"], ("A100", "MI300X"))
    alone = colours("device", ["MI300X"], ("A100", "MI300X"))
    assert both.names == ("A100", "MI300X")
    assert both.shades == PALETTE[:2]
    assert (alone.names, alone.shades) == (("MI300X",), (PALETTE[1],))


def test_names_stand_in_the_order_of_all_and_strangers_behind():
    found = colours("device", ["c", "b", "new"], ("a", "b", "c"))
    assert found.names == ("b", "c", "new")
    assert found.shades == (PALETTE[1], PALETTE[2], PALETTE[3])


def test_the_ninth_name_has_the_first_colour_again():
    assert colours("x", "abcdefghi", tuple("abcdefghi")).shades[8] == PALETTE[0]


def test_a_long_name_loses_its_middle_and_what_steers_a_terminal():
    assert short("owner/model-of-a-very-long-name-v2", 16) == "owner/mo…name-v2"
    assert len(short("x" * 10_000, 40)) == 40
    assert short("a\x1b[31m\nb", 40) == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"


def test_names_that_would_be_the_same_are_numbered():
    found = short_names([f"{'a' * 30}{n}{'b' * 30}" for n in range(3)], 20)
    assert len(set(found.values())) == 3
    assert all(len(name) <= 20 for name in found.values())
    assert short_names(["x", "x"]) == {"x": "x"}
