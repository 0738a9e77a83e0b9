"""What a seed's own user types, typed: in a folder of its own, as processes of their own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from acceptance.feature_rows import row_of
from warm_templates import TORCHSTONE

_PROGRAMS = {"torchstone": TORCHSTONE, "python": (sys.executable,)}


class Done(NamedTuple):
    """What a command printed, and its exit status."""

    out: str
    err: str
    code: int

    @property
    def document(self) -> Any:
        """What it printed with --json."""
        return json.loads(self.out)


class Desk:
    """A folder in which commands are typed. A line that was typed before is not typed again: its answer is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: dict[str, Done] = {}
        places = {"OUTPUT": "outputs", "CACHE": "cache"}  # of the desk, not of one test at it
        self._own = {"COLUMNS": "160", **{f"TORCHSTONE_{name}": str(folder / at) for name, at in places.items()}}

    def write(self, name: str, text: str) -> Path:
        """Put a file there."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def type(self, line: str, code: int = 0) -> Done:
        """Type one line and return what came of it. Fails where its exit status is not `code`."""
        if line not in self._done:
            program, *words = shlex.split(line)
            answer = subprocess.run(
                [*_PROGRAMS[program], *words], check=False, cwd=self.folder, capture_output=True, text=True,
                timeout=600, env={**os.environ, **self._own},
            )  # fmt: skip
            self._done[line] = Done(answer.stdout, answer.stderr, answer.returncode)
        done = self._done[line]
        assert done.code == code, f"{line}\nexit {done.code}\n{done.out}\n{done.err}"
        return done

    def claimed(self, feature_id: str) -> Done:
        """Type the lines that docs/features.md says were typed for a feature, and return what came of the last."""
        typed = row_of(feature_id).typed
        assert typed, f"{feature_id}: nothing is typed for it"
        return [self.type(line) for line in typed][-1]


@pytest.fixture(scope="module", autouse=True)
def _warm(warm: None) -> None:
    """Fork templates instead of starting them."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Return a desk with an empty folder, one a module."""
    return Desk(tmp_path_factory.mktemp("desk"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a module in one worker: what is typed once serves them all (`--dist loadgroup`)."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
