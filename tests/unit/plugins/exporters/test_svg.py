"""Charts: what is drawn, with intervals, for each workload; and what cannot be drawn."""

import sys
import xml.etree.ElementTree as ET

import pytest
from build import a_case, a_run, a_sweep, a_trial
from marks import kinds, names_of

from torchstone.analysis.rows import case_rows, trial_rows
from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.trial import Status
from torchstone.plugins import registry
from torchstone.plugins.exporters.svg import charts

PHASES = {"data": 0.2, "forward": 0.3, "backward": 0.5}
SWEEP = a_sweep(
    [({"batch_size": b, "num_workers": w}, 0.01 + 1e-4 * b / (w + 1)) for b in (8, 64, 512) for w in (0, 2)],
    status={4: Status.OUT_OF_MEMORY}, phases=PHASES,
)  # fmt: skip


def test_three_charts_of_what_was_measured():
    throughput, phases, memory = charts(SWEEP, case_rows(SWEEP)).panels
    values = throughput.values
    assert [(v["batch_size"], v["series"]) for v in values] == [
        (8, "num_workers 0"), (8, "num_workers 2"), (64, "num_workers 0"), (64, "num_workers 2"),
        (512, "num_workers 2"),
    ]  # fmt: skip
    assert all(v["low"] < v["value"] < v["high"] for v in values)
    assert kinds(throughput) == ["line", "interval"]
    assert phases.title == "step phases (num_workers 2)"
    assert [v["phase"] for v in phases.values] == ["data", "forward", "backward"] * 3
    assert kinds(phases) == ["bars"]
    assert phases.channel("y")["stack"] == "normalize"
    assert memory.title == "peak device memory"
    assert memory.values[0]["gib"] == pytest.approx(8e7 / 2**30)


def test_latency_and_energy_have_charts_where_they_were_measured():
    rows = [
        {**row, "latency_per_batch_p50_s": 0.004, "latency_per_batch_p50_s_low": 0.003, "energy_per_item_j": 2.5}
        for row in case_rows(SWEEP)
    ]
    _, latency, _, _, energy = charts(SWEEP, rows).panels
    assert (latency.title, energy.title) == (
        "latency of a batch, median, with its 95 % confidence interval",
        "energy of one image, with its 95 % confidence interval",
    )  # fmt: skip
    assert latency.values[0]["value"] == pytest.approx(4.0), "in ms"
    assert latency.values[0]["low"] == pytest.approx(3.0)
    assert latency.values[0]["high"] is None
    assert [value["value"] for value in energy.values] == [2.5] * 5


def test_each_workload_has_its_own_and_what_was_not_measured_has_none():
    cases = [a_case(model="net:a"), a_case(model="net:b")]
    run = a_run([a_trial(case_id=case.case_id, trial_id=case.case_id) for case in cases], cases=cases)
    picture = charts(run, case_rows(run))
    assert [panel.group.split()[1] for panel in picture.panels] == ["net:a", "net:b"], "neither phases nor memory"
    assert names_of(picture.panels[0]) == ("all",)


def test_a_learning_rate_that_follows_the_batch_makes_no_curves_of_one_point():
    run = a_sweep([({"batch_size": b, "learning_rate": b * 1e-5}, 0.01) for b in (1, 2, 4)])
    values = charts(run, case_rows(run)).panels[0].values
    assert {v["series"] for v in values} == {"all"}


def test_the_file_is_a_picture_with_a_mark_for_every_value(tmp_path):
    registry.load("exporters", "svg").write(SWEEP, case_rows(SWEEP), tmp_path / "x.svg")
    root = ET.parse(tmp_path / "x.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    labels = [element.get("aria-label") or "" for element in root.iter("{http://www.w3.org/2000/svg}path")]
    assert sum("phase:" in label for label in labels) == 9
    assert sum("images/s:" in label and "batch size: 512" in label for label in labels) >= 1
    assert "throughput, with its 95 % confidence interval" in "".join(root.itertext())


def test_what_cannot_be_drawn_is_said(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="leave out --rows"):
        charts(SWEEP, trial_rows(SWEEP))
    failed = a_sweep([({"batch_size": 1}, 0.01)], status={0: Status.CRASHED})
    with pytest.raises(UsageError, match="nothing to draw"):
        charts(failed, case_rows(failed))
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingError, match=r"pip install 'torchstone\[charts\]'"):
        registry.load("exporters", "svg").write(SWEEP, case_rows(SWEEP), tmp_path / "x.svg")
