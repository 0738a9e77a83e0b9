"""Training and inference in one report: the answer of each, the fastest settings side by side, then each run."""

from pathlib import Path

import msgspec
import pytest
from loads import a_search
from stored import a_stored_run, case, machine

from torchstone.analysis.summary import summarize
from torchstone.core.charts.vega_lite import Picture
from torchstone.report.document import Chart, Role, Section, Table, Text
from torchstone.report.documents.combined import combined_document
from torchstone.report.documents.run import run_document
from torchstone.report.pictures import charts_of
from torchstone.storage.query import entry_of


def a_summary(number, task, rates, name):
    cases = [(case(batch_size=size, task=task), rate) for size, rate in rates.items()]
    return summarize(entry_of(a_stored_run(number, cases, machine(), name=name), Path("r.jsonl")), ())


def both():
    runs = [
        a_summary(2, "infer", {8: 900.0, 32: 1500.0}, "served"), a_summary(1, "train", {8: 100.0, 32: 150.0}, "learnt"),
    ]  # fmt: skip
    return runs, [run_document(run, every=True) for run in runs]


def test_each_run_answers_and_the_fastest_settings_stand_side_by_side():
    runs, documents = both()
    found = combined_document(runs, documents)
    assert found.title == "Inference and training of bert"
    heads = [part.text for part in found.parts if isinstance(part, Text)]
    assert heads[0].startswith("Inference (served): Fastest: batch_size 32")
    assert heads[1].startswith("Training (learnt): Fastest: batch_size 32")
    sections = [part for part in found.parts if isinstance(part, Section)]
    (table,) = sections[0].parts
    assert isinstance(table, Table)
    cells = {column.title: column.cells for column in table.columns}
    assert cells["model"] == ("bert", "bert")
    assert cells["task"] == ("inference", "training")
    assert cells["settings"] == ("batch_size 32", "batch_size 32")
    rates = [float(cell.split()[0].replace(",", "")) for cell in cells["throughput"]]
    assert rates == pytest.approx([1500.0, 150.0], rel=0.02)
    assert all(cell.startswith("±") for cell in cells["±"])
    assert [section.title.split(" (")[0] for section in sections[1:]] == ["Inference: served", "Training: learnt"]


def test_a_section_has_all_that_the_report_of_its_run_has_but_one_headline():
    runs, documents = both()
    *_, last = combined_document(runs, documents).parts
    assert isinstance(last, Section)
    plain = [msgspec.structs.replace(p, role=Role.BODY) if p.__class__ is Text and p.role == Role.HEADLINE else p
             for p in documents[1].parts]  # fmt: skip
    assert list(last.parts) == plain


def test_pictures_of_one_name_are_two_files():
    runs, documents = both()
    chart = Chart("losses", "says", Picture("losses", ()))
    drawn = [msgspec.structs.replace(one, parts=(*one.parts, Section("", (chart,)))) for one in documents]
    assert {one.name for one in charts_of(combined_document(runs, drawn))} == {"run1_losses", "run2_losses"}


def test_runs_of_which_nothing_is_known():
    run = msgspec.structs.replace(both()[0][0], cases=())
    found = combined_document([run, run], [run_document(run), run_document(run)])
    assert found.title == "2 runs"
    assert found.headline == "Run (served): Nothing was measured: no case was planned."


def test_a_load_is_one_of_the_runs():
    runs = [summarize(entry_of(a_search(), Path("r.jsonl")), ()), a_summary(1, "train", {8: 100.0}, "learnt")]
    found = combined_document(runs, [run_document(run, every=True) for run in runs])
    assert found.title.startswith("Serving and training of ")
