import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.analysis.rows import ALWAYS, case_rows, sample_rows, trial_rows
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.trial import Series, Status

CARD = DeviceInfo("cuda", "cuda", "nvidia", 0, "H200", 141, "9.0")
ONE = a_case({"batch_size": 1}, placement=Placement("cuda"), data="digits")
TWO = a_case({"batch_size": 2, "precision": "bf16"}, placement=Placement("cuda"))
POWER = Series("device_power_w", "nvml", (0.1, 0.2), (300.0, 310.0))
RUN = a_run(
    [
        a_trial(case_id=ONE.case_id, trial_id="t0", series=[POWER]),
        a_trial(case_id=ONE.case_id, trial_id="t1", number=1, steps_s=(0.02,) * 10),
        a_trial(case_id=TWO.case_id, trial_id="t2", status=Status.OUT_OF_MEMORY, steps_s=(), facts={"parameters": 7}),
    ],
    cases=[ONE, TWO],
    machine=a_machine(devices=(CARD,)),
)


def test_one_row_a_case_with_device_settings_and_intervals():
    one, two = case_rows(RUN)
    assert list(one) == list(two)
    assert (one["dataset"], one["batch_size"], one["precision"]) == ("digits", 1, None)
    assert (one["device_name"], one["device_memory_bytes"], one["compute_capability"]) == ("H200", 141, "9.0")
    assert (one["trials"], one["ok"], two["out_of_memory"], two["verdict"]) == (2, 2, 1, "INVALID")
    low, value, high = (float(str(one[name])) for name in ("throughput_low", "throughput", "throughput_high"))
    assert low < value < high
    assert two["throughput"] is None
    assert set(ALWAYS) <= set(one)


def test_one_row_a_trial():
    rows = trial_rows(RUN)
    assert [row["status"] for row in rows] == ["ok", "ok", "out_of_memory"]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert rows[1]["throughput"] == pytest.approx(800)
    assert (rows[0]["fact_parameters"], rows[2]["fact_parameters"]) == (None, 7)


def test_one_row_a_value():
    rows = sample_rows(RUN)
    steps = [r["value"] for r in rows if r["metric"] == "step_time_s" and r["trial_id"] == "t1"]
    assert steps == [0.02] * 10
    assert [(r["at_s"], r["value"]) for r in rows if r["source"] == "nvml"] == [(0.1, 300.0), (0.2, 310.0)]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}


def test_a_run_without_trials_has_rows_too():
    assert case_rows(a_run([]))[0]["throughput"] is None
    assert trial_rows(a_run([])) == sample_rows(a_run([])) == []
