"""How often a counter moves, by a clock that is wound by hand."""

import pytest
from fakes import FakeClock

from torchstone.plugins.telemetry._gauges import Reading
from torchstone.plugins.telemetry.nvml.energy_tick import Ticking


def ticking(every_s: float | None, watts: float = 300.0) -> tuple[Ticking, FakeClock]:
    """A counter of energy that is brought up to date so often; None: it stands still."""
    clock = FakeClock()

    def read() -> float:
        return watts * every_s * (clock.now_s // every_s) if every_s else 5.0

    return Ticking(Reading("device_energy_j", read, cumulative=True), clock, clock.sleep), clock


@pytest.mark.parametrize("every_s", [0.1, 0.02, 0.04])
def test_the_tick_is_the_time_between_two_moves(every_s):
    counter, clock = ticking(every_s)
    assert counter.tick_s() == pytest.approx(every_s, abs=0.0021)
    assert clock.now_s <= 0.61
    assert (counter.metric, counter.cumulative) == ("device_energy_j", True)


@pytest.mark.parametrize("every_s", [None, 0.5])
def test_a_counter_that_stands_still_or_moves_once_has_none(every_s):
    counter, clock = ticking(every_s)
    assert counter.tick_s() is None
    assert clock.now_s == pytest.approx(0.6, abs=0.01)
