"""Back from the logarithm."""

from __future__ import annotations

import math

import pytest

from torchstone.core.stats.logs import from_log


def test_what_can_be_told_is_told() -> None:
    assert from_log(math.log(1.03)) == pytest.approx(1.03)


@pytest.mark.parametrize("log", [800.0, -800.0, math.inf, -math.inf])
def test_what_no_record_can_carry_stays_positive_and_finite(log: float) -> None:
    assert 0.0 < from_log(log) < math.inf
    assert math.isfinite(math.log(from_log(log)))
