"""Energy of groups of steps: within its bounds, and no finer than the counter is."""

import pytest
from build import a_run, a_trial

from torchstone.analysis.rows import energy_rows, rise_bounds
from torchstone.core.figures import figures
from torchstone.core.schema.trial import Series

STEPS_S = [0.1] * 20  # a window of 2 s, from 2 s on


def counter(period_s, watts=100.0, name="device_energy_j", source="amd_smi"):
    """Readings every `period_s` of a counter that power moves; the second second draws twice as much."""
    at_s = tuple(period_s * n for n in range(round(6.0 / period_s) + 1))
    return Series(name, source, at_s, tuple(watts * (at + max(0.0, at - 3.0)) for at in at_s))


def rows(*series, **changes):
    return energy_rows(a_run([a_trial(STEPS_S, series=series, **changes)]))


def test_bounds_are_those_of_the_readings_inside_and_around():
    series = Series("device_energy_j", "x", (0.0, 1.0, 2.0, 3.0), (0.0, 10.0, 30.0, 60.0))
    assert rise_bounds(series, 0.5, 2.5) == (20.0, 60.0)
    assert rise_bounds(series, 1.0, 2.0) == (20.0, 20.0), "read exactly at its ends: known exactly"
    assert rise_bounds(series, 1.1, 1.9) == (0.0, 20.0), "no reading inside"
    assert rise_bounds(series, 2.5, 3.5) == (0.0, None), "nothing is extrapolated"


def test_groups_are_as_short_as_the_resolution_allows_and_hold_the_truth():
    found = rows(counter(0.125))
    assert [(row["first_step"], row["last_step"]) for row in found][:2] == [(0, 2), (3, 5)]
    for row in found:
        begin, end = (float(row[name] or 0.0) for name in ("begin_s", "end_s"))
        truth = 100.0 * (end - begin + max(0.0, end - 3.0) - max(0.0, begin - 3.0))
        assert float(row["energy_low_j"] or 0.0) <= truth + 1e-9
        assert float(row["energy_high_j"] or 0.0) >= truth - 1e-9
        assert row["resolution_s"] == 0.125
    assert float(found[-1]["energy_j"] or 0.0) == pytest.approx(2.0 * float(found[0]["energy_j"] or 0.0))


def test_a_counter_that_moves_seldom_makes_longer_groups():
    assert len(rows(counter(0.125), facts={"energy_tick_s": 0.5})) == 2
    assert rows(counter(2.0)) == [], "two readings: no group is so long"


def test_power_has_a_value_and_no_bounds_and_nothing_is_none():
    power = Series("device_power_w", "nvml", (0.0, 2.5, 5.0), (50.0, 50.0, 50.0))
    assert rows(power) == []
    fast = Series("device_power_w", "nvml", tuple(0.25 * n for n in range(20)), (50.0,) * 20)
    (first, *_) = rows(fast)
    assert first["energy_j"] == pytest.approx(25.0)
    assert (first["energy_low_j"], first["energy_high_j"]) == (None, None)
    assert rows() == []


def test_a_step_has_its_share_of_the_windows():
    values = figures(a_trial(STEPS_S, series=[counter(0.125)])).values
    assert values["energy_per_step_j"] == pytest.approx(values["energy_j"] / 20)
    assert "energy_per_step_j" not in figures(a_trial()).values
