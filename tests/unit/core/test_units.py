"""The only formatter of quantities."""

import pytest

from torchstone.core import units


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "–"),
        (0.0, "s", "0 ns"),
        (0.00421, "s", "4.21 ms"),
        (90.0, "s", "90.0 s"),
        (150.0, "s", "2.50 min"),
        (3.2e-7, "s", "320 ns"),
        (1.5 * 2**30, "bytes", "1.50 GiB"),
        (1234.6, "items/s", "1,235 items/s"),
        (2.1e12, "FLOP/s", "2.10 TFLOP/s"),
        (0.305, "ratio", "30.5 %"),
        (8.5e-7, "ratio", "0.0 %"),
        (12.0, "count", "12.0"),
        (0.5, "J", "500 mJ"),
        (1.98e9, "Hz", "1.98 GHz"),
        (float("nan"), "number", "nan"),
    ],
)
def test_quantities(value, unit, text):
    assert units.quantity(value, unit) == text


def test_a_share_is_in_percent_with_a_space():
    assert [units.percent(0.05), units.percent(0.0217, 1), units.percent(1.5)] == ["5 %", "2.2 %", "150 %"]


def test_the_relative_half_width_is_the_larger_side():
    assert units.spread(100.0, 95.0, 106.0) == "±6.0 %"
    assert units.spread(100.0, None, None) == ""
    assert units.spread(1.0, 0.1, 10.0) == "–"


def test_an_interval_that_is_too_wide_is_a_dash_everywhere():
    assert units.spread(100.0, 51.0, 149.0) == "±49.0 %"
    assert units.spread(100.0, 40.0, 149.0) == units.MISSING
    assert units.interval(0.01, 0.009, 0.011, "s") == "9.00 ms, 11.0 ms"
    assert units.interval(0.01, 0.002, 0.05, "s") == units.MISSING
    assert units.interval(0.01, None, None, "s") == ""
    assert not units.is_wide(100.0, None, None)
    assert units.is_wide(1.0, 0.0, float("inf"))


def test_a_ratio_too_wide_to_be_shown_keeps_the_bound_that_holds():
    assert units.ratio(1.3, 1.24, 1.36) == "1.30 [1.24, 1.36]"
    assert units.ratio(3.0, 1.6, 5.6) == "at least 1.6"
    assert units.ratio(0.3, 0.1, 0.6) == "at most 0.6"
    assert units.ratio(1.1, 0.6, 2.0) == units.MISSING
    assert units.ratio(1.1, None, None) == "1.1"


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((1.0, 0.997, 1.003), "1.000 [0.997, 1.003]"),
        ((1.002, 1.0004, 1.0036), "1.0020 [1.0004, 1.0036]"),  # one that leaves 1 out is not shown to reach it
        ((2.0, 1.99, 2.01), "2.00 [1.99, 2.01]"),
        ((10.1, 9.68, 10.5), "10.1 [9.7, 10.5]"),
        ((2.0, 2.0, 2.0), "2.00 [2.00, 2.00]"),
        ((0.0992, 0.0951, 0.1034), "0.0992 [0.0951, 0.1034]"),
    ],
)
def test_the_ends_of_a_ratio_differ_from_it_and_from_1(ends, shown):
    assert units.ratio(*ends) == shown


def test_a_ratio_as_a_change():
    assert [units.change(ratio) for ratio in (1.031, 0.6, 1.0)] == ["+3.1 %", "-40.0 %", "+0.0 %"]


def test_an_interval_behind_its_value_has_its_unit_once():
    assert units.ends(0.0041, 0.0044, 0.0042, "s") == "[4.10, 4.40]"
    assert units.ends(0.00099, 0.0011, 0.00105, "s") == "[990 µs, 1.10 ms]"
    assert units.ends(0.1, 0.2, 0.15, "ratio") == "[10.0 %, 20.0 %]"
