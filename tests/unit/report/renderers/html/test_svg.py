"""A drawing in a page is short, and shows and tells what vl-convert drew."""

import re
from xml.etree import ElementTree as ET

import pytest

from torchstone.report.renderers.html.charts import inline

DOT = "M3.16,0A3.16,3.16,0,1,1,-3.16,0A3.16,3.16,0,1,1,3.16,0"


def drawn(inside: str, **how: object) -> str:
    """Return what is kept of marks in a drawing, without the element around them."""
    file = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><g fill="none">{inside}</g></svg>'
    markup = str(inline(file, "p1-", "a picture", **how).markup)  # type: ignore[arg-type]
    ET.fromstring(markup)
    found = re.fullmatch(
        r'<svg role="img" aria-label="a picture" viewBox="0 0 60 40"><g fill="none">(.*)</g></svg>', markup
    )
    assert found is not None, markup
    return found[1]


def dot(x: str, says: str, look: str = 'stroke="red"') -> str:
    said = f'aria-label="{says}" aria-roledescription="point"'
    return f'<path {said} transform="translate({x},7)" d="{DOT}" {look}/>'


def test_neighbours_have_what_they_share_from_a_group_and_keep_their_own():
    found = drawn(
        dot("1.26", "size: 1; ms: 2.34567") + dot("2", "size: 2; ms: 9") + dot("3", "size: 3; ms: 1", 'fill="red"')
    )
    assert found == (
        '<g data-k="size; ms" stroke="red"><circle data-v="1; 2.346" r="3.1" cx="1.2" cy="7"/>'
        '<circle data-v="2; 9" r="3.1" cx="2" cy="7"/></g>'
        '<circle data-v="size: 3; ms: 1" fill="red" r="3.1" cx="3" cy="7"/>'
    )


@pytest.mark.parametrize("says", ["size 1", "a: 1; b", "a: 1; ; b: 2", "a:1"])
def test_what_has_no_names_is_told_as_it_is(says):
    told = [one.get("data-v") for one in ET.fromstring(f"<g>{drawn(3 * dot('1', says))}</g>").iter("circle")]
    assert told == 3 * [says]


def test_values_that_look_like_names_are_put_together_again():
    group = ET.fromstring(drawn(2 * dot("1", "case: a: b, batch 8; time: 1.25")))
    assert group.get("data-k") == "case; time"
    assert [one.get("data-v") for one in group] == 2 * ["a: b, batch 8; 1.250"]


def test_a_value_that_only_says_how_marks_are_joined_is_not_told():
    assert 'data-v="ms: 2"' in drawn(dot("1", "piece: 0; ms: 2"), unsaid={"piece"})


def test_words_that_are_not_shown_are_left_out():
    assert (
        drawn('<text opacity="0">20</text><text></text><text> </text><text fill="red">1</text>')
        == '<text fill="red">1</text>'
    )


def test_white_words_have_their_colour_of_their_own():
    """On bars and cells they stay white where the page is dark; the paper's white does not."""
    assert drawn(3 * '<text fill="white">1</text>') == 3 * '<text fill="white">1</text>'


def test_lines_that_look_the_same_are_one_path():
    line = '<line transform="translate({},0)" x2="0" y2="-260.04" stroke="#ddd"/>'
    assert drawn(line.format("26") + line.format("51.5")) == '<path d="M26,0V-260M51.5,0V-260" stroke="#ddd"/>'
    slanted = '<line x2="5" y2="6" stroke="#ddd"/><line y1="3" y2="3" x2="9" stroke="#ddd"/>'
    assert drawn(slanted) == '<path d="M0,0L5,6M0,3H9" stroke="#ddd"/>'


def test_lines_that_tell_values_or_shine_through_stay_themselves():
    says = 'aria-label="low: 1; high: 2" aria-roledescription="rule mark"'
    assert drawn(2 * f'<line {says} x2="5" stroke="red"/>').count("<line ") == 2
    assert drawn(2 * '<line x2="5" stroke="red" opacity="0.5"/>').count("<line ") == 2


def test_what_is_turned_or_moved_twice_keeps_its_transform():
    turned = '<text transform="translate(-38.5,110) rotate(-90) translate(0,-2)">ms</text>'
    assert drawn(turned) == turned


def test_a_shape_that_cuts_others_is_kept_without_a_colour():
    shape = '<defs><clipPath id="c"><path d="M0,0H9V9Z"/></clipPath></defs>'
    cut = f'{shape}<g clip-path="url(#c)"><path d="M0,0H9" stroke="red"/></g>'
    assert drawn(cut) == cut.replace('"c"', '"p1-c"').replace("#c", "#p1-c")
