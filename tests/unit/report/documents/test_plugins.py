"""Lists of names with their meanings."""

import pytest
from results import HOSTILE

from torchstone.report.documents.plugins import plugins_document
from torchstone.report.renderers.terminal import terminal

LISTS = {"models": [("builtin:cnn", "a small network " + "of convolutions " * 6), ("x", "")], "checks": []}


@pytest.mark.parametrize("width", [40, 80])
def test_a_section_a_list_and_meanings_under_one_another(width):
    text = terminal(plugins_document(LISTS), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.startswith("models\nbuiltin:cnn a small network of")
    assert "\n            convolutions" in text or "\n            of convolutions" in text
    assert "\nx\n" in text
    assert text.endswith("\nchecks\n"), "a list without names is not hidden"


def test_what_a_plug_in_calls_itself_steers_nothing():
    assert "\x1b" not in terminal(plugins_document({"models": [(HOSTILE, HOSTILE)]}), 80)
