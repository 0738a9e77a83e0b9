"""Lists of names with their meanings."""

import pytest
from results import HOSTILE

from torchstone.cli.list_command import plugins_document
from torchstone.report.renderers.terminal import terminal

LISTS = {"models": [("builtin:cnn", "a small network " + "of convolutions " * 6), ("x", "")], "checks": []}


@pytest.mark.parametrize("width", [40, 80])
def test_a_section_a_list_and_meanings_under_one_another(width):
    text = terminal(plugins_document(LISTS), width)
    assert max(map(len, text.splitlines())) <= width
    lines = text.splitlines()
    assert lines[0] == "models"
    assert lines[1].strip().startswith("builtin:cnn a small network of")
    assert lines[2].index("convolutions") >= lines[1].index("a small"), "under one another"
    assert "x" in [line.strip() for line in lines]
    assert text.endswith("\nchecks\n"), "a list without names is not hidden"


def test_what_a_plug_in_calls_itself_steers_nothing():
    assert "\x1b" not in terminal(plugins_document({"models": [(HOSTILE, HOSTILE)]}), 80)
