"""Records that are valid by the schema and strange by content: every command ends with an answer or one line.

TORCHSTONE_STRANGE=1000 takes so many more; a failure prints the record that hypothesis found.
"""

import contextlib
import io
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from strange import strange_runs

from torchstone.cli import main
from torchstone.core.errors import UsageError
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import record_lines

EXAMPLES = int(os.environ.get("TORCHSTONE_STRANGE", "25"))
many = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="TORCHSTONE_STRANGE" not in os.environ, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
READING = (
    "show {} --full", "show {} --json", "check {}", "check {} --json", "cost {} --price-per-hour 2", "runs",
    "runs --json",
    "history", "history --json", "recommend", "recommend --json", "recommend --by price", "compare {} {sound}",
    "compare {sound} {} --json",
)  # fmt: skip
TEXTS = (
    "report {} --format md,json,csv,html", "report {} {sound} --compare --format html", "report {} {sound} --combined",
    *(f"export {{}} --rows {rows} --format {form} --force --to {{folder}}/x.{form}" for rows, form in (
        ("cases", "csv"), ("trials", "json"), ("samples", "jsonl"), ("energy", "csv"), ("cases", "parquet"))),
)  # fmt: skip
DRAWN = (
    "report {} --format pdf,pptx,png --plots {folder}/plots", "release {} --output {folder}/out.zip",
    "export {} --format svg",
)  # fmt: skip


def end(line: str, folder: Path, record: Path) -> None:
    """Run a command; a traceback goes through."""
    sound = Path(__file__).parents[1] / "golden" / "compare" / "same_1.jsonl"
    words = line.replace("{sound}", str(sound)).replace("{folder}", str(folder)).replace("{}", str(record)).split()
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([*words, "--output-dir", str(folder)])
    assert code in (0, 1, 2, 3), (line, code)


@contextlib.contextmanager
def stored(run):
    """The folder and the record of a strange run; what reading refuses is as good as answered."""
    with tempfile.TemporaryDirectory() as name:
        record = Path(name) / "records" / f"{run.head.run_id}.jsonl"
        record.parent.mkdir()
        try:
            record.write_bytes(b"".join(record_lines(run)))
            read_record(record)
        except (UsageError, OverflowError):
            assume(False)
        yield Path(name), record


@pytest.mark.parametrize("lines", [READING, TEXTS, DRAWN], ids=["read", "written", "drawn"])
def test_every_command_ends_with_an_answer_or_a_line(lines, monkeypatch):
    monkeypatch.delenv("TORCHSTONE_STORE", raising=False)
    monkeypatch.setattr("torchstone.core.charts.drawing.drawing_elsewhere", contextlib.nullcontext)  # starting it: 1 s

    @settings(many, max_examples=EXAMPLES if lines is not DRAWN else max(3, EXAMPLES // 8))
    @given(strange_runs())
    def check(run):
        with stored(run) as (folder, record):
            for line in lines:
                end(line, folder, record)

    check()
