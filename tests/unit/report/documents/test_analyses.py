"""A run cut along its axes, and a sweep of trainings in a few lines: tables with the sentence that they show."""

from pathlib import Path

import pytest
from learning import falling, of_losses
from stored import a_stored_run, case, machine

from torchstone.analysis.summary import summarize
from torchstone.report.document import Document, Role, Section, Table, Text
from torchstone.report.documents.full_report import analysis_parts, summary_parts
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of


def summary(run):
    return summarize(entry_of(run, Path("x")))


def batches():
    cases = [(case(batch_size=size), rate) for size, rate in ((8, 100), (16, 150), (32, 200))]
    return summary(a_stored_run(1, cases, machine()))


@pytest.mark.parametrize("width", [80, 160])
def test_tables_fit(width):
    text = terminal(Document("", (Section("REPORT", tuple(analysis_parts(batches()))),)), width)
    assert max(map(len, text.splitlines())) <= width
    assert "[BY BATCH SIZE]\n  train hf:bert on cpu\n" in text
    assert "scaling" in text


def test_an_analysis_says_of_what_it_is_shows_its_table_and_what_that_says():
    (told,) = analysis_parts(batches())
    about, table, says = told.parts
    assert (told.title, about) == ("BY BATCH SIZE", Text("train hf:bert on cpu"))
    assert isinstance(table, Table)
    by_title = {column.title: column for column in table.columns}
    assert by_title["batch size"].cells == ("8", "16", "32")
    assert by_title["speed"].cells[0] == "1×"
    assert by_title["[ ]"].cells[0] == ""
    assert table.columns[by_title["[ ]"].of or 0].title == "speed"
    assert isinstance(says, Text)
    assert says.text.startswith("from batch size 8 to 32 (4 times the items a step) throughput is ")


def test_a_block_of_noisy_trials_says_that_it_is_left_out_and_why():
    cases = [(case(precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 200))]
    (told,) = analysis_parts(summary(a_stored_run(1, cases, machine(), trials=2, noise=0.5)))
    assert told.title == "MIXED PRECISION"
    (why,) = told.parts
    assert isinstance(why, Text)
    assert why.text.startswith("left out: ")
    assert "of 2 cases: 2 trials differ too much for an interval (wider than ±50 %): --trials 10" in why.text


def test_a_sweep_of_trainings_has_least_most_and_mean_and_means_by_axis():
    points = ({"batch_size": 8, "precision": "fp32"}, {"batch_size": 16, "precision": "bf16"})
    run = of_losses([(point, falling()) for point in points])
    about, table, *means = summary_parts(summary(run))
    assert about == Text("net:cnn on cpu, data digits, 2 cases (means over cases, whatever they are)")
    assert isinstance(table, Table)
    assert [column.title for column in table.columns] == ["", "min", "max", "mean"]
    assert table.columns[0].cells == ("time of a step", "throughput", "loss convergence, a step")
    assert all(isinstance(one, Text) and one.role == Role.DETAIL for one in means)
    told = [one.text for one in means if isinstance(one, Text)]
    assert any(text.startswith("time of a step, by batch size: 8 ") for text in told)
    assert any(text.startswith("time of a step, by mixed precision: ") for text in told)
    assert tuple(summary_parts(summary(of_losses([({}, falling())])))) == ()
