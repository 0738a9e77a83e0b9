"""What answers at once imports nothing that takes longer than its answer: no timing here, but what is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest
from build import a_run
from stored import store

from torchstone.plugins.registry import _anything_offered

SOURCE = Path(__file__).parents[3] / "src"
LOOK = """
import sys
from torchstone.cli import main
try:
    code = main(sys.argv[2:])
except SystemExit as ended:  # argparse has printed its help
    code = ended.code
print("\\nloaded:", *[name for name in sys.argv[1].split(",") if name in sys.modules])
sys.exit(code)
"""
NEVER = (
    "torch",
    "numpy",
    "pandas",
    "transformers",
    "PIL",
    "psutil",
    "importlib.metadata",
    "zipfile",
    "email",
    "difflib",
)
ALSO = ("importlib.resources", "socket", "tempfile", "subprocess", "multiprocessing")  # `list` looks at launchers


@pytest.mark.parametrize(
    ("words", "banned"),
    [
        ("--help", (*NEVER, *ALSO, "msgspec", "rich", "inspect", "sqlite3", "typing_extensions")),
        ("run --help", (*NEVER, *ALSO, "rich", "sqlite3")),
        ("list", (*NEVER, "importlib.resources", "rich", "sqlite3")),
        ("list axes", (*NEVER, *ALSO, "rich", "sqlite3", "statistics")),
        ("runs", (*NEVER, *ALSO)),
        ("show latest", (*NEVER, *ALSO)),
    ],
)
def test_what_it_does_not_wait_for(words, banned, outputs):
    if _anything_offered():
        pytest.skip("a package here has plug-ins for torchstone: its metadata has to be read")
    store(outputs, [a_run()])
    answer = subprocess.run(
        [sys.executable, "-c", LOOK, ",".join(banned), *words.split()], capture_output=True, text=True, timeout=60,
        check=False, env={"PYTHONPATH": str(SOURCE), "TORCHSTONE_OUTPUT": str(outputs), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1] == "loaded:", "imports that can wait"


def test_a_package_that_offers_something_is_seen_and_one_that_only_has_our_name_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "not there")])
    monkeypatch.setattr(sys, "meta_path", [])
    about = tmp_path / "theirs-1.0.dist-info"
    about.mkdir()
    assert not _anything_offered()
    (about / "entry_points.txt").write_text("[console_scripts]\ntorchstone = torchstone.cli:main\n")
    assert not _anything_offered()
    (about / "entry_points.txt").write_text("[torchstone.models]\ntheirs = theirs:PLUGIN\n")
    assert _anything_offered()
    packed = tmp_path / "packed.zip"
    packed.write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(packed)])
    assert _anything_offered(), "what cannot be looked into may offer something"
