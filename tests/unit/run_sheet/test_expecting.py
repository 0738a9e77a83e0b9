import math

import pytest
from run_sheet.expecting import (
    Verdict,
    at_least,
    at_most,
    between,
    equal,
    holds,
    judge,
    near_one,
    not_above,
    not_below,
    noted,
    one_of,
    shown,
)


def verdict(expectation, figures, kind="cuda", name="NVIDIA H200"):
    told = judge((expectation,), figures, kind, name)
    return told[0].verdict if told else None


@pytest.mark.parametrize(
    ("expectation", "good", "bad"),
    [
        (equal("x", "ok"), {"x": "ok"}, {"x": "crashed"}),
        (equal("x", 3), {"x": 3}, {"x": 0}),
        (one_of("x", "ok", "unsupported"), {"x": "unsupported"}, {"x": "timed_out"}),
        (between("x", 1.0, 2.0), {"x": 2.0}, {"x": 2.0001}),
        (near_one("x", 0.01), {"x": 0.9901}, {"x": 1.0101}),
        (at_most("x", 5), {"x": 5}, {"x": 5.1}),
        (at_least("x", 5), {"x": 5}, {"x": 4.9}),
        (not_above("x", "y"), {"x": 1.0, "y": 1.0}, {"x": 1.1, "y": 1.0}),
        (not_above("x", "y", 1.2), {"x": 1.2, "y": 1.0}, {"x": 1.3, "y": 1.0}),
        (not_below("x", "y", 0.97), {"x": 0.97, "y": 1.0}, {"x": 0.96, "y": 1.0}),
        (holds("x", "low", "high", 1.03), {"x": 1, "low": 1.02, "high": 1.04}, {"x": 1, "low": 1.031, "high": 1.04}),
    ],
)
def test_an_expectation_is_met_or_not(expectation, good, bad):
    assert verdict(expectation, good) == Verdict.OK
    assert verdict(expectation, bad) == Verdict.FAILED
    assert verdict(expectation, {}) == Verdict.NO_FIGURE
    assert verdict(expectation, {"x": None}) == Verdict.NO_FIGURE


@pytest.mark.parametrize("wrong", ["1.0", True])
def test_a_figure_of_another_type_proves_nothing(wrong):
    assert verdict(near_one("x", 0.01), {"x": wrong}) == Verdict.NO_FIGURE


def test_a_figure_without_the_one_it_is_held_against_proves_nothing():
    assert verdict(not_above("x", "y"), {"x": 1.0}) == Verdict.NO_FIGURE


def test_true_is_not_a_figure_of_one():
    assert verdict(equal("x", True), {"x": True}) == Verdict.OK
    assert verdict(equal("x", True), {"x": False}) == Verdict.FAILED


def test_what_is_only_noted_has_no_verdict_and_no_row_without_a_figure():
    assert verdict(noted("x"), {"x": 1.0}) == Verdict.NOTED
    assert verdict(noted("x"), {}) is None


def test_what_a_machine_need_not_tell_has_no_row_then():
    assert verdict(equal("x", 1).if_told(), {}) is None
    assert verdict(equal("x", 1).if_told(), {"x": 2}) == Verdict.FAILED


def test_expectations_of_other_devices_are_not_judged():
    of_h200 = between("x", 4.0, 4.6).of("H200")
    assert verdict(of_h200, {"x": 1.0}) == Verdict.FAILED
    assert verdict(of_h200, {"x": 1.0}, name="NVIDIA A10") is None
    assert verdict(equal("x", 1).of(kinds=("rocm",)), {"x": 2}, kind="cuda") is None


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (4.31e12, "bytes/s", "4.31 Tbytes/s"), (769e12, "FLOP/s", "769 TFLOP/s"), (3.21e-6, "s", "3.21 µs"),
        (4.2e-10, "s", "0.42 ns"), (1.00312, "", "1.003"), (True, "", "yes"), (False, "", "no"), ("", "", "–"),
        ("ok", "", "ok"), (700, "W", "700 W"), (0.0, "s", "0 s"), (16, "", "16"), (None, "", "–"),
    ],
)  # fmt: skip
def test_figures_are_shown_as_people_read_them(value, unit, words):
    assert shown(value, unit) == words


def test_what_is_not_finite_is_met_by_nothing():
    assert verdict(near_one("x", 0.01), {"x": math.nan}) == Verdict.FAILED
    assert verdict(at_most("x", 1.0), {"x": math.inf}) == Verdict.FAILED
