"""The formats of reports are the files in the folder of renderers, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from torchstone.core.errors import UsageError
from torchstone.report import renderers
from torchstone.report.rendering import formats, renderer


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
