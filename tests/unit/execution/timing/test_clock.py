"""The clock's own resolution, found by reading it."""

from torchstone.execution.timing.clock import resolution_s, system_clock


def test_resolution_is_the_smallest_step_seen():
    ticks = iter(n // 3 * 0.25 for n in range(10_000))
    assert resolution_s(lambda: next(ticks)) == 0.25


def test_the_system_clock_is_fine_enough_for_a_millisecond_step():
    assert 0.0 < resolution_s(system_clock) < 1e-5
