"""Records that are valid by the schema and strange by content: every command, format and page is an answer or one line.

TORCHSTONE_STRANGE=1000 takes so many more; a failure prints the record that hypothesis found.
"""

import contextlib
import io
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from strange import strange_runs

from torchstone.cli import main
from torchstone.core.errors import UsageError
from torchstone.storage.index import sync
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import record_lines

SOUND, SOUND_ID = Path(__file__).parents[1] / "golden" / "compare" / "same_1.jsonl", "20261122-010902-b180cd"
EXAMPLES = int(os.environ.get("TORCHSTONE_STRANGE", "10"))
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
    "report {} --format md,json,csv,html", "verify {folder}/reports/ID.html --json",
    "report {} {sound} --compare --format html", "report {} {sound} --combined",
    *(f"export {{}} --rows {rows} --format {form} --force --to {{folder}}/x.{form}" for rows, form in (
        ("cases", "csv"), ("trials", "json"), ("samples", "jsonl"), ("energy", "csv"), ("cases", "parquet"))),
)  # fmt: skip
DRAWN = (
    "report {} --format pdf,pptx,png --plots {folder}/plots", "release {} --output {folder}/out.zip",
    "verify {folder}/out.zip", "manifest {folder}/plots",
    "export {} --format svg",
)  # fmt: skip


def end(line: str, folder: Path, record: Path) -> None:
    """Run a command; a traceback goes through."""
    words = line.replace("{sound}", str(SOUND)).replace("{folder}", str(folder)).replace("{}", str(record)).split()
    words = [word.replace("ID.html", f"{record.stem}.html") for word in words]
    if words[0] in ("verify", "manifest") and not Path(words[1]).exists():
        return  # what could not be written was said by the command before
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([*words, *(() if words[0] in ("verify", "manifest") else ("--output-dir", str(folder)))])
    assert code in (0, 1, 2, 3, 4), (line, code)


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

    @settings(many, max_examples=EXAMPLES if lines is not DRAWN else max(2, EXAMPLES // 8))
    @given(strange_runs())
    def check(run):
        with stored(run) as (folder, record):
            for line in lines:
                end(line, folder, record)

    check()


PAGES = ("/runs", "/history", "/findings", "/runs/ID", "/runs/ID?every=1", "/compare?a=ID&b=OTHER", "/history/CASE")


def test_every_page_is_an_answer_or_says_what_is_wrong():
    pytest.importorskip("starlette", reason="the pages need starlette (pip install 'torchstone[serve]')")
    from asgi import get

    from torchstone.cli._output import document_of
    from torchstone.report.pages.guard import Guard
    from torchstone.report.pages.server import application
    from torchstone.report.pages.site import Site
    from torchstone.report.pages.store import Store

    @many
    @given(strange_runs())
    def check(run):
        with stored(run) as (folder, record):
            shutil.copy(SOUND, record.parent / f"{SOUND_ID}.jsonl")
            sync(folder)
            app = application(Site(Store(folder), document_of), Guard((), None, 8642))
            case = run.head.plan.cases[0].case_id if run.head.plan.cases else "none"
            for page in PAGES:
                address = page.replace("ID", record.stem).replace("OTHER", SOUND_ID).replace("CASE", case)
                assert get(app, address).status < 500, address

    check()
