"""A report of several runs carries all their records, and `verify` puts it together again from them."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import charted
import msgspec
import pytest
from build import a_run
from reported import (
    Files,
    PageRenderer,
    a_page,
    a_swept_run,
    as_page,
    document_of,
    edited_claims,
    files_of,
    resealed,
    stored_summary,
)

from torchstone.analysis.compare.compare import ComparisonRequest
from torchstone.analysis.compare.inputs import gather
from torchstone.core.schema.training import Fit, Training, without_steps
from torchstone.report import several, verification
from torchstone.report.bundle import read_bundle
from torchstone.report.document import Document
from torchstone.report.documents.combined import combined_document
from torchstone.report.documents.comparison import compared_document
from torchstone.report.verification import verify

FITTING = msgspec.structs.replace(a_run().head.procedure, fit=Fit(folder="away"))
FIRST, SECOND = "20261121-100000-abcd", "20261122-100000-beef"


@pytest.fixture(autouse=True)
def _page_renderer(monkeypatch):
    """The page of these tests stands in for that of the reports."""
    monkeypatch.setattr(verification, "renderer", lambda _: PageRenderer())


@pytest.fixture
def summaries(outputs):
    """Two stored runs of the same cases."""
    run = a_swept_run()
    other = msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, run_id=SECOND, name="again"))
    return [stored_summary(outputs, one) for one in (run, other)]


@pytest.fixture
def combined(summaries) -> Document:
    """The report of both, one after the other."""
    return several.carrying_combined(combined_document(summaries, list(map(document_of, summaries))), summaries)


@pytest.fixture
def compared(summaries, outputs) -> Document:
    """The report that compares them."""
    participants = gather([FIRST, SECOND], outputs)
    return several.carrying_compared(
        compared_document(participants, ComparisonRequest()), participants, ComparisonRequest(), outputs
    )


@pytest.fixture(params=["combined", "compared"])
def document(request) -> Document:
    """Each kind."""
    found: Document = request.getfixturevalue(request.param)
    return found


def faults_of(bundle):
    return verify(bundle, document_of, several.document_again)[0].faults


def test_all_records_are_carried_and_what_was_written_follows(document, outputs, tmp_path):
    files = files_of(document)
    assert list(files) == [
        f"records/{FIRST}.jsonl", f"claims/{FIRST}.json", f"records/{SECOND}.jsonl", f"claims/{SECOND}.json",
        "report.json", "SHA256SUMS",
    ]  # fmt: skip
    assert files[f"records/{SECOND}.jsonl"] == (outputs / "records" / f"{SECOND}.jsonl").read_bytes(), "as stored"
    path = tmp_path / "report.html"
    path.write_bytes(a_page(document))
    found = verify(read_bundle(path), document_of, several.document_again)[0]
    assert (found.faults, found.notes) == ((), ())
    assert (found.cases, len(found.records)) == (6, 2)


def _layout(change: Callable[[dict[str, Any]], object], files: Files) -> None:
    plain = json.loads(files["report.json"])
    change(plain)
    files["report.json"] = json.dumps(plain).encode()


def _swapped(plain):
    plain["sides"].reverse()


def _once(plain):
    plain["sides"][1]["runs"] = [FIRST]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.pop("report.json"), "report.json is missing: it says how the page is put together"),
        (partial(_layout, _swapped), "the record gives"),
        (partial(_layout, _once), "report.json: report.json does not name each run that is carried once"),
        (partial(_layout, lambda plain: plain["sides"].pop()), "does not name each run that is carried once"),
        (partial(_layout, lambda plain: plain.update(kind="other")), "report.json: "),
        (
            lambda files: (files.pop(f"records/{SECOND}.jsonl"), files.pop(f"claims/{SECOND}.json")),
            "does not name each run that is carried once",
        ),
        (
            lambda files: files.update({
                f"claims/{SECOND}.json": edited_claims(files[f"claims/{SECOND}.json"], lambda c: c.update(seed=99)),
            }),
            f"{SECOND}: seed: claimed 99",
        ),
    ],
)  # fmt: skip
def test_a_changed_file_is_named_though_all_hashes_were_made_to_fit(document, tmp_path, change, said):
    files = files_of(document)
    change(files)
    faults = faults_of(as_page(tmp_path / "report.html", document, resealed(files)))
    assert any(said in fault for fault in faults), faults


def test_a_changed_page_is_named(document, tmp_path):
    edit = lambda text: re.sub(r"<td>SUSPECT</td>|<td>unclear</td>|<td>same</td>", "<td>VALID</td>", text, count=1)
    bundle = as_page(tmp_path / "report.html", document, files_of(document), edit)
    assert bundle.page != a_page(document)
    assert any("VALID" in fault for fault in faults_of(bundle))


def test_another_kind_of_report_is_named(combined, compared, tmp_path):
    files = {**files_of(combined), "report.json": files_of(compared)["report.json"]}
    assert any("the record gives" in fault for fault in faults_of(as_page(tmp_path / "r.html", combined, files)))


def _called(one, run_id):
    (run,), (metrics,) = one.runs, one.trainings.values()
    metrics = msgspec.structs.replace(metrics, run_id=run_id)
    head = msgspec.structs.replace(run.head, run_id=run_id, procedure=FITTING)
    run = msgspec.structs.replace(run, head=head, answer=Training("trained", without_steps(metrics)))
    trainings = {run_id: metrics}
    return msgspec.structs.replace(one, runs=(run,), trainings=trainings)


def test_trainings_that_are_compared_bring_their_epochs(outputs, tmp_path):
    participants = [_called(one, f"run{number}") for number, one in enumerate(charted.two_trainings())]
    document = several.carrying_compared(
        compared_document(participants, ComparisonRequest()), participants, ComparisonRequest(), outputs
    )
    names = [name for name in files_of(document) if name.startswith("trainings/")]
    assert len(names) == 2
    path = tmp_path / "report.html"
    path.write_bytes(a_page(document))
    found = verify(read_bundle(path), document_of, several.document_again)[0]
    assert [fault for fault in found.faults if "finding" not in fault] == [], "these runs were looked at by no check"
    assert "Trainings compared" in a_page(document).decode()


def test_what_is_not_carried_is_told(summaries, monkeypatch):
    monkeypatch.setattr("torchstone.report.carried.MOST_FILES", 5)
    many = several.carrying_combined(Document("x", ()), summaries)
    assert many.attachments == ()
    assert "it shows 2 runs, more than 1." in str(many.parts[-1])
    monkeypatch.undo()
    monkeypatch.setattr("torchstone.report.carried.MOST_PACKED_BYTES", 100)
    assert "its 2 records have " in str(several.carrying_combined(Document("x", ()), summaries).parts[-1])
