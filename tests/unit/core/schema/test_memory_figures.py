"""Which figure is the peak memory of a Case."""

import pytest

from torchstone.core.schema.metric import memory_figures, peak_memory

RESERVED, ALLOCATED, RSS = 3.0, 2.0, 1.0


@pytest.mark.parametrize(
    ("found", "device", "peak"),
    [
        ({"peak_rss_bytes": RSS, "peak_allocated_bytes": ALLOCATED, "peak_reserved_bytes": RESERVED}, "cuda", RESERVED),
        ({"peak_rss_bytes": RSS, "peak_allocated_bytes": ALLOCATED}, "cuda", ALLOCATED),
        ({"peak_rss_bytes": RSS}, "cuda", None),
        ({"peak_rss_bytes": RSS}, "cpu", RSS),
        ({}, "cpu", None),
    ],
)
def test_the_first_that_was_measured_counts(found, device, peak):
    assert peak_memory(found, device) == peak


def test_the_process_counts_on_the_cpu_alone():
    assert "peak_rss_bytes" in memory_figures("cpu")
    assert "peak_rss_bytes" not in memory_figures("mps")
