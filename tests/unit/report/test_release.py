"""A release has everything that its reports follow from, is the same every time, and is there whole or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from reported import PageRenderer, a_swept_run, document_of, stored_summary
from stored import a_stored_run, case, machine

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError, UsageError
from torchstone.report import page_checks, release
from torchstone.report.bundle import read_bundle
from torchstone.report.release import release_of, write_release
from torchstone.report.verification import verify
from torchstone.storage.manifest import check_folder

RUN_ID = "20261121-100000-abcd"


@pytest.fixture
def summary(outputs) -> RunSummary:
    return stored_summary(outputs, a_swept_run())


@pytest.fixture(autouse=True)
def _formats(monkeypatch):
    """Markdown, JSON and the page of these tests; one format whose library is not here."""

    class Lacking(PageRenderer):
        suffix = ".pdf"

        def render(self, document):
            raise MissingError("PDF needs typst: pip install 'torchstone[report]'")

    made = {"html": PageRenderer(), "pdf": Lacking()}
    known = release.renderer
    monkeypatch.setattr(release, "formats", lambda: ("html", "json", "md", "pdf"))
    monkeypatch.setattr(release, "renderer", lambda name: made.get(name) or known(name))
    by_suffix = {one.suffix: one for one in (PageRenderer(), known("md"), known("json"))}
    monkeypatch.setattr(page_checks, "_renderers", lambda: by_suffix)


def test_it_has_what_it_says(summary):
    made = release_of([summary], document_of, "My results", ["A. Person"])
    assert {name for name in made.files if not name.startswith("figures/")} == {
        "CITATION.cff", "README.md", "SHA256SUMS", f"claims/{RUN_ID}.json", f"environment/{RUN_ID}-requirements.txt",
        f"environment/{RUN_ID}.json", f"records/{RUN_ID}.jsonl", f"reports/{RUN_ID}.html", f"reports/{RUN_ID}.json",
        f"reports/{RUN_ID}.md",
    }  # fmt: skip
    assert made.left_out == ("reports as pdf: PDF needs typst: pip install 'torchstone[report]'",)
    page = made.files["README.md"].decode()
    assert page.startswith("# My results\n")
    assert "reports as pdf: PDF needs typst" in page
    for command in ("sha256sum -c SHA256SUMS", "torchstone verify .", "torchstone reproduce ."):
        assert f"```\n{command}\n```" in page
    assert made.files[f"environment/{RUN_ID}-requirements.txt"] == b"torch==2.9.0\n"
    assert json.loads(made.files[f"environment/{RUN_ID}.json"])["machine"]["host"]["hostname"] == "host"


def test_it_can_be_cited(summary):
    made = release_of([summary], document_of, 'Ours: "fast" & \x1b[31m small', ["Ä. Person", "B"])
    found = YAML(typ="safe").load(made.files["CITATION.cff"])
    assert found["title"] == 'Ours: "fast" & \N{REPLACEMENT CHARACTER}[31m small'
    assert found["authors"] == [{"name": "Ä. Person"}, {"name": "B"}]
    assert (found["cff-version"], found["type"], found["date-released"]) == ("1.2.0", "dataset", "2026-11-21")
    assert [one["value"] for one in found["identifiers"]] == [RUN_ID]


def test_it_passes_its_own_verification(summary, tmp_path):
    made = release_of([summary], document_of, "My results", [])
    for output in (tmp_path / "results", tmp_path / "results.zip"):
        found = verify(read_bundle(write_release(made, output)), document_of)
        assert found.faults == ()
        assert found.cases == 3
    assert check_folder(tmp_path / "results") == ([], len(made.files) - 1)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (f"reports/{RUN_ID}.md", b"3 trials", b"9 trials", f"reports/{RUN_ID}.md: line "),
        (f"reports/{RUN_ID}.json", b"3 trials", b"9 trials", f"reports/{RUN_ID}.json: line "),
        (f"reports/{RUN_ID}.html", b"3 trials", b"9 trials", f"reports/{RUN_ID}.html: text "),
    ],
)
def test_a_changed_report_is_named_though_the_manifest_fits(summary, tmp_path, name, old, new, said):
    made = release_of([summary], document_of, "My results", [])
    assert old in made.files[name]
    folder = write_release(made, tmp_path / "results")
    (folder / name).write_bytes(made.files[name].replace(old, new, 1))
    faults = verify(read_bundle(folder), document_of).faults
    assert faults[0].startswith(f"'{name}' has changed")
    assert [fault for fault in faults if fault.startswith(said)]


def test_the_same_runs_give_the_same_bytes(summary, tmp_path):
    made = [release_of([summary], document_of, "My results", ["A"]) for _ in range(2)]
    assert made[0] == made[1]
    zips = [write_release(one, tmp_path / place / "a.zip").read_bytes() for one, place in zip(made, "12", strict=True)]
    assert zips[0] == zips[1]


def test_several_runs_are_in_one(outputs, summary):
    other = stored_summary(outputs, a_stored_run(1, [(case(), 100.0)], machine()))
    made = release_of([summary, other], document_of, "Two", [])
    assert sum(name.startswith("records/") for name in made.files) == 2
    with pytest.raises(UsageError, match=f"a run is named twice: {RUN_ID}"):
        release_of([summary, summary], document_of, "Twice", [])


def test_where_something_is_already(summary, tmp_path):
    made = release_of([summary], document_of, "My results", [])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("keep")
    (tmp_path / "file").write_text("keep")
    (tmp_path / "a.zip").write_text("keep")
    for name in ("full", "file", "a.zip"):
        with pytest.raises(UsageError, match="exists"):
            write_release(made, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "outputs") == ["a.zip", "file", "full"]
    (tmp_path / "empty").mkdir()
    assert check_folder(write_release(made, tmp_path / "empty"))[0] == []


def test_nothing_half_written_is_left(summary, tmp_path, monkeypatch):
    made = release_of([summary], document_of, "My results", [])
    written = Path.write_bytes
    count = iter(range(100))

    def full(path: Path, data: bytes) -> int:
        if next(count) == 4:
            raise OSError(28, "No space left on device")
        return written(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match=r"cannot write .*results: No space left on device"):
        write_release(made, tmp_path / "results")
    assert not [path for path in tmp_path.iterdir() if "results" in path.name]


def test_a_name_of_a_chart_is_no_place():
    assert release._file_name("../../etc/passwd") == "______etc_passwd"
    assert release._file_name("") == "chart"


def test_nothing_of_it_loads_torch():
    program = "import sys, torchstone.report.release; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "False"
