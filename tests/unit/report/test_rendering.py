"""The formats of reports are the files in the folder of renderers, and what other packages offer."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.core.errors import MissingError, UsageError
from torchstone.plugins import registry
from torchstone.report import renderers
from torchstone.report.document import Document, Renderer, Text
from torchstone.report.rendering import formats, rendered_files, renderer


def test_a_format_is_a_file_or_a_package():
    (folder,) = renderers.__path__
    found = [path for path in Path(folder).glob("[!_]*") if path.suffix == ".py" or (path / "__init__.py").is_file()]
    assert formats() == tuple(sorted(path.stem for path in found))
    assert {"json", "md", "terminal"} <= set(formats())


def test_a_suffix_is_of_one_format():
    assert len({renderer(name).suffix for name in formats()}) == len(formats())
    assert all(renderer(name).describes for name in formats())


def test_one_that_there_is_not():
    with pytest.raises(UsageError, match=r"unknown report format 'jso'\. Did you mean 'json'\?"):
        renderer("jso")


def test_listing_imports_none():
    program = (
        "import sys; from torchstone.report.rendering import formats; formats(); "
        "print([m for m in sys.modules if m.startswith('torchstone.report.renderers.')])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "[]"


class Log(Renderer):
    """A renderer as another package has it."""

    describes = "one line a statement"
    suffix = ".log"

    def render(self, document):
        return document.title.encode()


@pytest.fixture
def offered(monkeypatch):
    entries: list[Any] = []
    monkeypatch.setattr(
        registry,
        "_entry_points",
        lambda: SimpleNamespace(select=lambda group: [one for one in entries if group == one.group]),
    )
    registry.names.cache_clear()
    yield lambda name, given: entries.append(
        SimpleNamespace(group="torchstone.renderers", name=name, value=f"theirs:{name}", dist=None, load=lambda: given)
    )
    registry.names.cache_clear()


def test_a_renderer_of_another_package_is_a_format(offered):
    offered("log", Log())
    assert "log" in formats()
    assert rendered_files(renderer("log"), Document("A title", (Text("no more"),)), "run") == {"run.log": b"A title"}


def test_what_is_no_renderer_is_refused_and_ours_cannot_be_replaced(offered):
    offered("odd", object())
    offered("md", Log())
    with pytest.raises(MissingError, match=r"subclass of torchstone\.report\.document\.Renderer"):
        renderer("odd")
    assert renderer("md").suffix == ".md"
