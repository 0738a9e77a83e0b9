"""Numbers that no measurement can be are none, wherever a stored trial comes from."""

import math
from pathlib import Path

import msgspec
import pytest
from build import a_run, a_trial

from torchstone.analysis.summary import summarize
from torchstone.core.schema.codec import encode
from torchstone.core.schema.trial import Series
from torchstone.plugins.checking import look
from torchstone.storage.bounds import bounded
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import read_record
from torchstone.storage.run_document import read_document, write_document

ODD = {
    "too large": [1e308] * 12,
    "infinite both ways": [math.inf, -math.inf] * 6,
    "a NaN before it": [math.nan, *[1e308] * 11],
    "a NaN after it": [0.01, math.nan, *[-1e308] * 10],
    "as small as nothing": [5e-324, 0.01] * 6,
}


def hostile(values):
    """Three trials with such steps, losses, readings and claims."""
    power = Series("device_power_w", "nvml", tuple(values), tuple(values), "cuda:0")
    facts = {"claimed_throughput": values[-1], "claimed_steps": 1e300, "claimed_loss_last": values[0]}
    counts = ("items", "minor_faults", "major_faults", "allocator_retries")
    steady = dict.fromkeys(("data_wait_s", "loss", "window_time_s", *counts), values)
    return [
        a_trial(values, steady=steady, series=[power], facts=facts, trial_id=f"t{n}", number=n, order=n)
        for n in range(3)
    ]


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
def test_no_figure_and_no_check_fails_on_a_hostile_record(tmp_path, values):
    run = a_run(hostile(values))
    record = tmp_path / "r.jsonl"
    trials = [encode(trial) for trial in run.trials]
    record.write_bytes(b"\n".join([encode(run.head), *trials, encode(run.end), b""]))
    for read in (read_record(record), read_document(write_document(run, tmp_path))):
        findings = look(read)
        assert not [f for f in findings if "failed:" in f.message], "a check that raised"
        assert "impossible" in {f.check for f in findings}
        found = msgspec.structs.replace(read, findings=tuple(findings))
        assert summarize(entry_of(found, Path("r"))).cases[0].verdict == "INVALID"


def test_what_can_be_measured_is_left_as_it_is():
    trial = a_trial(facts={"parameters": 10**12, "claimed_mfu": 0.5, "fused": True, "name": "x", "none": None})
    assert bounded(trial) == trial
    assert str(bounded(a_trial(steady={"loss": [math.inf, -math.inf, 3e38]})).values("loss")) == "(inf, -inf, 3e+38)"


def test_what_cannot_is_not_a_number_or_nothing():
    values = bounded(a_trial([0.5, 1e41, -math.inf, 1e-300, -0.5])).values("step_time_s")
    assert str(values) == "(0.5, nan, nan, 0.0, -0.5)"
    (gauge,) = bounded(a_trial(series=[Series("device_power_w", "nvml", (1.0, 2.0, 3.0), (300.0, 310.0))])).series
    assert (gauge.at_s, gauge.values) == ((1.0, 2.0), (300.0, 310.0)), "a moment without a value"
    facts = bounded(a_trial(facts={"parameters": 10**400, "claimed_energy_j": -math.inf})).facts
    assert facts.parameters is None
    assert math.isnan(facts.claimed["energy_j"])
