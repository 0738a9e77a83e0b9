"""Templates: where the places of a text lie, endings that depend on a number, languages that there are."""

import pytest

from torchstone.core.errors import UsageError
from torchstone.report.translation.catalogue import Catalogue, Template, catalogue, checked_language, languages


def contents(msgid: str, text: str) -> list[str] | None:
    """What lies in the places; None where the template does not match."""
    spans = Template(msgid, "").spans(text)
    return None if spans is None else [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("msgid", "text", "found"),
    [
        ("{0} of {1} cases", "2 of 6 cases", ["2", "6"]),
        ("{0} of {1} cases", "2 of 6 trials", None),
        ("{0} trial(s)", "1 trial", ["1"]),
        ("{0} trial(s)", "3 trials", ["3"]),
        ("{0} process(es) used {1}", "1 process used cuda:0", ["1", "cuda:0"]),
        ("{0} process(es) used {1}", "2 processes used cuda:0", ["2", "cuda:0"]),
        ("{0} (is|are) left", "1 is left", ["1"]),
        ("{0} (is|are) left", "2 are left", ["2"]),
        ("{0} (is|are) left", "2 be left", None),
        ("in {0}{1}", "in 4 steps", ["4 steps", ""]),
        ("in {0}{1}", "in 4 steps (at most)", ["4 steps", " (at most)"]),
        ("in {0}{1}: {2}", "in 4 steps, or 5: no", ["4 steps", ", or 5", "no"]),
        ("{0} and {1}", "a and b and c", ["a", "b and c"]),
        ("of {0} of", "of of", None),
        ("from {0} to {1} %", "from 1 to 2 to 3 %", ["1", "2 to 3"]),
    ],
)
def test_places(msgid, text, found):
    assert contents(msgid, text) == found


def test_places_stand_in_another_order_and_their_contents_are_not_read_again():
    assert Template("{0} of {1} cases", "케이스 {1}개 중 {0}개").filled({0: "{1}", 1: "\\1"}) == "케이스 \\1개 중 {1}개"


def test_languages():
    assert languages() == ("en", "ko")
    assert checked_language("ko") == "ko"
    assert catalogue("en") == Catalogue({}, (), {})


@pytest.mark.parametrize("name", ["xx", "", "../ko", "KO"])
def test_an_unchecked_language_names_the_known_ones(name):
    with pytest.raises(UsageError, match="Known: en, ko"):
        catalogue(name)


def test_the_longest_template_comes_first():
    strengths = [template.strength for template in catalogue("ko").templates]
    assert strengths == sorted(strengths, reverse=True)
    assert len(strengths) > 300
