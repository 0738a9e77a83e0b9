"""The site is built from the pages without a warning, and needs nothing from elsewhere."""

import re
import runpy
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from torchstone.cli import COMMANDS

ROOT = Path(__file__).parents[2]
NEEDED = [name for name in ("sphinx", "myst_parser", "furo") if util.find_spec(name) is None]
CONF = runpy.run_path(str(ROOT / "docs" / "conf.py"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if NEEDED:
        pytest.skip(f"{', '.join(NEEDED)} not installed: pip install 'torchstone[docs]'")
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--conf-dir", "docs", ".", str(folder)]
    built = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-8000:]
    return folder


@pytest.mark.long
def test_it_is_built_without_a_warning(site):
    assert (site / "docs" / "README.html").is_file()
    assert "docs/README.html" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_nothing_comes_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link[^>]*rel=\"(?:stylesheet|preload|icon)\"[^>]*href=\"([^\"]*)\"", text)
        assert [one for one in loaded if "//" in one] == []


@pytest.mark.long
def test_the_interface_of_python_is_written_out(site):
    page = (site / "docs" / "reference" / "python.html").read_text(encoding="utf-8")
    import torchstone

    assert [name for name in torchstone.__all__ if f">{name}<" not in page] == []


def test_the_navigation_has_a_part_for_each_section():
    page = "# Home\n\n[a](a.md) [far](https://a.md)\n\n## More\n\n| [b](b.md#x) | [c](../c.md) | [a](a.md) |\n"
    assert re.findall(r":caption: (.*)\n\n((?:.+\n)*)```", CONF["navigation"](page)) == [
        ("Home", "a.md\n"), ("More", "../c.md\n"),
    ]  # fmt: skip


def test_every_command_and_word_of_a_command_is_in_the_reference():
    titles = re.findall(r"^##+ torchstone (.*)$", CONF["command_reference"](), re.MULTILINE)
    assert [title for title in titles if " " not in title] == list(COMMANDS)
    assert {"machine check", "machine peaks"} <= set(titles)
