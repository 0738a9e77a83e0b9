"""A report of a training is verified where its folder is not: its epochs are carried, beside what the record knows."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from build import a_case, a_run, a_trial
from reported import PageRenderer, as_page, edited_claims, files_of, looked_at, resealed, stored_summary
from results import an_epoch, metrics_of

from torchstone.analysis.summary import RunSummary
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.codec import encode
from torchstone.core.schema.training import Fit, Training, without_steps
from torchstone.report import verification
from torchstone.report.carried import carrying, files_of_run
from torchstone.report.document import Chart, Document, Text
from torchstone.report.several import document_again
from torchstone.report.verification import Verified, verify
from torchstone.storage.training import METRICS
from torchstone.storage.training import metrics_of as metrics_in

RUN_ID = "20261121-100000-abcd"
EPOCHS = f"trainings/{RUN_ID}.json"


@pytest.fixture(autouse=True)
def _page_renderer(monkeypatch):
    """The page of these tests stands in for that of the reports."""
    monkeypatch.setattr(verification, "renderer", lambda _: PageRenderer())


@pytest.fixture
def folder(tmp_path) -> Path:
    """The folder of a training of two epochs."""
    there = tmp_path / "trained"
    there.mkdir()
    (there / METRICS).write_bytes(encode(metrics_of([an_epoch(1), an_epoch(2)], run_id=RUN_ID)))
    return there


@pytest.fixture
def summary(outputs, folder) -> RunSummary:
    """The stored run of that training."""
    case = a_case()
    facts = {"epochs": 2, "best_epoch": 2, "final_train_accuracy": 0.8, "final_val_accuracy": 0.75}
    metrics = metrics_of([an_epoch(1), an_epoch(2)], run_id=RUN_ID)
    answer = Training(str(folder), without_steps(metrics))
    run = a_run([a_trial(case_id=case.case_id, facts=facts)], cases=[case], answer=answer)
    procedure = msgspec.structs.replace(run.head.procedure, fit=Fit(folder=str(folder)))
    head = msgspec.structs.replace(run.head, procedure=procedure)
    return stored_summary(outputs, looked_at(msgspec.structs.replace(run, head=head)))


def document_of(summary: RunSummary) -> Document:
    """As the report of a training: with its losses, where its folder is."""
    metrics = metrics_in(summary.run_id, summary.procedure.fit)
    losses = [str(epoch.train_loss) for epoch in metrics.epochs] if metrics is not None else ["no epochs"]
    return Document(
        "training",
        (
            Text(
                "Trained.",
            ),
            Chart("epochs", ", ".join(losses), Picture("epochs", ())),
        ),
    )


def verified(path: Path, document: Document, files: dict[str, bytes]) -> Verified:
    return verify(as_page(path, document, files), document_of, document_again)[0]


def test_what_was_written_follows_where_the_folder_is_not(summary, folder, tmp_path):
    document = carrying(document_of(summary), files_of_run(summary))
    assert "no epochs" not in str(document.parts)
    folder.rename(tmp_path / "elsewhere")
    found = verified(tmp_path / "report.html", document, files_of(document))
    assert found.faults == ()
    assert [note for note in found.notes if EPOCHS in note] == [
        f"{EPOCHS}: its single steps and gauges are as claimed; the record has the epochs"
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told.update(final_val_accuracy=0.99), "final_val_accuracy 0.99, the record has 0.75"),
        (lambda told: told["epochs"].pop(), "epochs 1, the record has 2"),
        (lambda told: told.update(best_epoch=1), "best_epoch 1, the record has 2"),
        (lambda told: told.update(run_id="another"), "the epochs of run another"),
        (lambda told: told.pop("device"), "device"),
        (lambda told: told["epochs"][0].update(train_loss=0.001), "its epochs are not those in the record"),
    ],
)
def test_epochs_that_do_not_fit_are_named(summary, tmp_path, change, said):
    document = carrying(document_of(summary), files_of_run(summary))
    files = files_of(document)
    files[EPOCHS] = edited_claims(files[EPOCHS], change)
    faults = verified(tmp_path / "report.html", document, resealed(files)).faults
    assert any(said in fault for fault in faults), faults


def test_a_folder_that_a_record_names_is_not_read(summary, tmp_path):
    document = carrying(document_of(summary), files_of_run(summary))
    files: Any = files_of(document)
    del files[EPOCHS]
    faults = verified(tmp_path / "report.html", document, resealed(files)).faults
    assert any("the record gives “no epochs”" in fault for fault in faults), faults
