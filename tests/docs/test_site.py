"""The site is built from the pages without a warning, and needs nothing from elsewhere."""

import re
import runpy
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

import torchstone
import torchstone.extend
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


@pytest.mark.xdist_group("site")  # one build for all of them
def test_it_is_built_without_a_warning(site):
    assert (site / "docs" / "README.html").is_file()
    assert "docs/README.html" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.xdist_group("site")  # one build for all of them
def test_nothing_comes_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]*)\"", text)
        loaded += re.findall(r"<link[^>]*rel=\"(?:stylesheet|preload|icon)\"[^>]*href=\"([^\"]*)\"", text)
        assert [one for one in loaded if "//" in one] == []


@pytest.mark.xdist_group("site")
@pytest.mark.parametrize(("page", "module"), [("python", torchstone), ("extend", torchstone.extend)])
def test_the_interface_of_python_is_written_out(site, page, module):
    text = (site / "docs" / "reference" / f"{page}.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<span class="sig-name descname"><span class="pre">(\w+)<', text))
    assert {name for name in module.__all__ if callable(getattr(module, name))} <= shown


def test_the_navigation_has_a_part_for_each_section():
    page = "# Home\n\n| [a](a.md) | [far](https://a.md) |\nSee [d](d.md).\n"
    page += "\n## More\n\n| [c](../c.md) [b](b.md#x) | [a](a.md) |\n"
    assert re.findall(r":caption: (.*)\n\n((?:.+\n)*)```", CONF["navigation"](page)) == [
        ("Home", "a.md\n"), ("More", "../c.md\n"),
    ]  # fmt: skip


def test_every_command_and_word_of_a_command_is_in_the_reference():
    titles = re.findall(r"^##+ torchstone (.*)$", CONF["command_reference"](), re.MULTILINE)
    assert [title for title in titles if " " not in title] == list(COMMANDS)
    assert {"machine check", "machine peaks"} <= set(titles)


def test_the_fields_of_a_docstring_become_definitions():
    lines = [
        "Measure: what is there.",
        "",
        "Parameters",
        "----------",
        "batch, loss: two of them",
        "    and more.",
        "Raises",
    ]
    CONF["_docstring"](None, "", "", None, None, lines)
    assert lines == [
        "Measure: what is there.", "", "", ".. rubric:: Parameters", "", "`batch, loss`", "    two of them",
        "    and more.", "Raises",
    ]  # fmt: skip
