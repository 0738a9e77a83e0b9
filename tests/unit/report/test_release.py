"""A release has everything that its reports follow from, is the same every time, and is there whole or not at all."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from reported import PageRenderer, a_drawing, a_swept_run, document_of, stored_summary, with_chart
from ruamel.yaml import YAML
from stored import a_stored_run, case, machine

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError, UsageError
from torchstone.report import pictures, rendering
from torchstone.report.bundle import read_bundle
from torchstone.report.document import Document, Renderer
from torchstone.report.documents import release as contents
from torchstone.report.release import release_of, write_release, write_verified
from torchstone.report.several import document_again
from torchstone.report.verification import Verified, verify
from torchstone.storage.manifest import MANIFEST, check_folder, write_manifest

RUN_ID = "20261121-100000-abcd"


class PicturesRenderer(Renderer):
    """A format of several files: the pictures, as bytes that are no text."""

    describes, suffix, folder = "pictures for tests", ".zip", "_pictures"

    def files(self, document: Document) -> dict[str, bytes]:
        drawn = pictures.drawn(document, (".svg",))
        return {name.replace(".svg", ".png"): b"\x89PNG" + data for name, data in drawn.items()}

    def render(self, document: Document) -> bytes:
        return b""


class SlidesRenderer(Renderer):
    """A format that is no text, as a file of a library: a ZIP file of the title and the pictures."""

    describes, suffix = "slides for tests", ".pptx"
    level = 1

    def render(self, document: Document) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=self.level) as file:
            file.writestr(zipfile.ZipInfo("title"), document.title * 100, zipfile.ZIP_DEFLATED)
            for name, data in pictures.drawn(document, (".svg",)).items():
                file.writestr(zipfile.ZipInfo(name), data)
        return packed.getvalue()


@pytest.fixture
def summary(outputs) -> RunSummary:
    return stored_summary(outputs, a_swept_run())


@pytest.fixture(autouse=True)
def _formats(monkeypatch):
    """Markdown, JSON, the page of these tests, a folder of pictures, slides; one format whose library is not here."""

    class Lacking(PageRenderer):
        suffix = ".pdf"

        def render(self, document):
            raise MissingError("PDF needs typst: pip install 'torchstone[report]'")

    made = {"html": PageRenderer(), "pdf": Lacking(), "pictures": PicturesRenderer(), "slides": SlidesRenderer()}
    known = rendering.renderer
    monkeypatch.setattr(contents, "formats", lambda: ("html", "json", "md", "pdf", "pictures", "slides"))
    monkeypatch.setattr(contents, "renderer", lambda name: made.get(name) or known(name))
    monkeypatch.setattr(pictures, "as_svg", a_drawing)


def test_it_has_what_it_says(summary):
    made = release_of([summary], document_of, "My results", ["A. Person"])
    assert {name for name in made.files if not name.startswith("figures/")} == {
        "CITATION.cff", "README.md", "SHA256SUMS", f"claims/{RUN_ID}.json", f"environment/{RUN_ID}-requirements.txt",
        f"environment/{RUN_ID}.json", f"records/{RUN_ID}.jsonl", f"reports/{RUN_ID}.html", f"reports/{RUN_ID}.json",
        f"reports/{RUN_ID}.md", f"reports/{RUN_ID}.pptx",
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
        found = verify(read_bundle(write_release(made, output)), document_of, document_again)[0]
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
    faults = verify(read_bundle(folder), document_of, document_again)[0].faults
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


def test_nothing_of_it_loads_torch():
    program = "import sys, torchstone.report.release; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == "False"


# ── pictures, folders and files that are no texts ───────────────────────────────────────────────────────────


@pytest.fixture
def pictured(summary, tmp_path) -> Path:
    """A release of a report with a picture."""
    return write_release(release_of([summary], with_chart, "My results", []), tmp_path / "pictured")


def verified(folder: Path) -> Verified:
    """What is said of a folder whose manifest was made to fit."""
    write_manifest(folder)
    return verify(read_bundle(folder), with_chart, document_again)[0]


def test_pictures_are_files_beside_the_reports_and_linked_from_them(pictured):
    names = {path.relative_to(pictured).as_posix() for path in pictured.rglob("*.*")}
    assert {f"figures/{RUN_ID}/speed.svg", f"reports/{RUN_ID}_pictures/speed.png"} < names
    page = (pictured / f"reports/{RUN_ID}.md").read_text()
    assert f"![throughput over batch size](../figures/{RUN_ID}/speed.svg)" in page
    found = verified(pictured)
    assert found.faults == ()
    assert found.uncompared == ()
    own = f"the authors' own words: only {MANIFEST} is compared"
    lacking = "not made again: reports as pdf: PDF needs typst: pip install 'torchstone[report]'"
    assert found.notes == (lacking, f"CITATION.cff: {own}", f"README.md: {own}")


def test_without_a_library_for_pictures_no_page_links_them(summary, monkeypatch, tmp_path):
    def lacking(picture):
        raise MissingError("pictures need vl-convert-python")

    monkeypatch.setattr(pictures, "as_svg", lacking)
    made = release_of([summary], with_chart, "My results", [])
    assert "figures: pictures need vl-convert-python" in made.left_out
    assert b"![" not in made.files[f"reports/{RUN_ID}.md"]
    found = verified(write_release(made, tmp_path / "results"))
    assert found.faults == ()


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (f"environment/{RUN_ID}.json", b'"host"', b'"best"', f"environment/{RUN_ID}.json: line "),
        (f"environment/{RUN_ID}-requirements.txt", b"2.9", b"3.9", "-requirements.txt: line 1: “torch==3.9.0”"),
    ],
)
def test_a_changed_text_is_named(pictured, name, old, new, said):
    data = (pictured / name).read_bytes()
    assert old in data
    (pictured / name).write_bytes(data.replace(old, new, 1))
    assert any(said in fault for fault in verified(pictured).faults), verified(pictured).faults


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (f"figures/{RUN_ID}/speed.svg", b"M0,15", b"M0,95"),
        (f"figures/{RUN_ID}/speed.svg", b">throughput<", b">latency<"),
        (f"reports/{RUN_ID}_pictures/speed.png", b"M0,15", b"M0,95"),
        (f"reports/{RUN_ID}.pptx", b"M0,15", b"M0,95"),
        (f"reports/{RUN_ID}.pptx", b"PK", b"XX"),
        (f"reports/{RUN_ID}.html", b"M0,15", b"M0,95"),
    ],
)
def test_a_changed_picture_is_never_called_compared_and_is_made_anew(pictured, tmp_path, name, old, new):
    true = (pictured / name).read_bytes()
    assert old in true
    (pictured / name).write_bytes(true.replace(old, new, 1))
    write_manifest(pictured)
    found, made = verify(read_bundle(pictured), with_chart, document_again)
    assert (found.faults, found.uncompared) == ((), (name,))
    assert (write_verified(made, tmp_path / "anew") / name).read_bytes() == true
    assert check_folder(tmp_path / "anew")[0] == []


def test_a_page_that_carries_another_record_than_the_release_is_named(pictured):
    page = pictured / f"reports/{RUN_ID}.html"
    text = page.read_text()
    start = text.index(">", text.index('data-name="records/')) + 1
    page.write_text(f"{text[:start]}AAAA{text[text.index('<', start) :]}")
    assert any("is not gzip in base64" in fault for fault in verified(pictured).faults)


def test_a_picture_that_no_record_gives_is_never_called_compared(pictured):
    (pictured / f"figures/{RUN_ID}/speed.svg").rename(pictured / f"figures/{RUN_ID}/best.svg")
    found = verified(pictured)
    assert (found.faults, found.uncompared) == ((), (f"figures/{RUN_ID}/best.svg",))


def test_fonts_of_another_machine_are_no_fault(pictured, monkeypatch):
    monkeypatch.setattr(pictures, "as_svg", lambda picture: a_drawing(picture, left=20))
    monkeypatch.setattr("reported.a_drawing", lambda picture: a_drawing(picture, left=20))
    found = verified(pictured)
    assert found.faults == ()
    assert set(found.uncompared) == {
        f"figures/{RUN_ID}/speed.svg", f"reports/{RUN_ID}.html", f"reports/{RUN_ID}.pptx",
        f"reports/{RUN_ID}_pictures/speed.png",
    }  # fmt: skip
    assert all(any(note.startswith(f"{name}: ") for note in found.notes) for name in found.uncompared)
