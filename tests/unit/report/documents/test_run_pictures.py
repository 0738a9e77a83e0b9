"""The pictures of a stored run: what is read of its record for them is enough."""

from pathlib import Path

import charted
import pytest
from learning import falling, of_losses
from stored import store

from torchstone.analysis.summary import summarize
from torchstone.report.document import Chart, Document
from torchstone.report.documents.run import pictured_part, run_pictures
from torchstone.report.pictures import charts_of
from torchstone.storage.query import find, read_run


def trainings():
    """Eight trainings, of which two each can be compared by their losses; the steps of one alone are shown."""
    return of_losses([
        ({"batch_size": size, "learning_rate": rate}, falling(slope=-rate))
        for size in (4, 8, 16, 32) for rate in (1e-3, 1e-2)
    ])  # fmt: skip


@pytest.mark.parametrize("make", [charted.many_settings, charted.one_trial, trainings])
def test_they_are_the_same_from_the_part_of_the_record_that_is_read_for_them(make, tmp_path):
    run = make()
    store(tmp_path, [run])
    summary = summarize(find(tmp_path, run.head.run_id))
    path = Path(summary.record)
    whole = read_run(path)
    part = read_run(path, pictured_part(summary))
    shown = run_pictures(summary, part)
    assert shown == run_pictures(summary, whole)
    assert any(isinstance(part, Chart) and part.picture.panels for section in shown for part in section.parts)


def test_of_many_cases_a_few_are_read(tmp_path):
    run = charted.many_settings()
    store(tmp_path, [run])
    wanted = pictured_part(summarize(find(tmp_path, run.head.run_id)))
    assert len(wanted.whole) == 1
    assert {trial.case_id for trial in read_run(tmp_path / "records" / f"{run.head.run_id}.jsonl", wanted).trials} <= (
        wanted.whole | wanted.some
    )


def test_no_panel_is_shown_twice(tmp_path):
    run = charted.a_training_sweep()
    store(tmp_path, [run])
    summary = summarize(find(tmp_path, run.head.run_id))
    drawn = charts_of(Document("", run_pictures(summary, run)))
    assert [panel.channel("y")["title"] for panel in drawn[0].picture.panels] == ["images/s", "ms"]
    panels = [panel for chart in drawn for panel in chart.picture.panels]
    assert all(panels.count(panel) == 1 for panel in panels)
