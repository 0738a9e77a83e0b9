"""What a terminal shows of the Documents that people read most, as files that were looked at.

A change of the text is a change of the file: TORCHSTONE_RENEW_GOLDEN=1 pytest tests/contract/test_terminal_pages.py
writes them anew; then look at `git diff tests/golden/terminal`. Without it a file that is not there fails its test.
"""

import itertools
import os
from pathlib import Path

import comparable
import pytest
from zoo import PAGES, Page

from torchstone.report.renderers.terminal import terminal

GOLDEN = Path(__file__).parents[1] / "golden" / "terminal"
RENEW = "TORCHSTONE_RENEW_GOLDEN"


def file_of(page: Page, width: int) -> Path:
    return GOLDEN / f"{page.name}_{width}.txt"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_is_as_it_was_looked_at(page, width, monkeypatch):
    monkeypatch.setattr(comparable, "_IDS", itertools.count(1))  # the numbers of runs are in the text
    text, file = terminal(page.make(), width, every=page.every), file_of(page, width)
    if os.environ.get(RENEW) == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"{RENEW}=1 writes it; then look at it"
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.skipif(os.environ.get(RENEW) == "1", reason="they are being written")
def test_every_file_is_that_of_a_page():
    wanted = {file_of(page, width).name for page in PAGES for width in (80, 120)}
    assert {path.name for path in GOLDEN.iterdir()} == wanted
