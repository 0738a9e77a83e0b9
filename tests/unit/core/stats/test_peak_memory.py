"""A line over the batch: what it predicts, and how sure it is."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.stats.peak_memory import predict_peak

MB = 1024.0**2


def test_is_silent_under_two_batches():
    assert predict_peak([], 8) is None
    assert predict_peak([(4, 100.0), (4, 120.0)], 8) is None


@given(
    st.floats(1e6, 1e10), st.floats(1e3, 1e9), st.lists(st.sampled_from([1, 2, 4, 8, 16, 64]), min_size=2, unique=True)
)
def test_continues_a_line_exactly(fixed, per_item, batches):
    peak = predict_peak([(b, fixed + b * per_item) for b in batches], 512)
    assert peak is not None
    true = fixed + 512 * per_item
    assert peak.value == pytest.approx(true, rel=1e-6)
    assert peak.low <= true * (1 + 1e-9)
    assert true * (1 - 1e-9) <= peak.high


@pytest.mark.parametrize("block", [2 * MB, 20 * MB])
def test_bounds_hold_one_doubling_on_where_an_allocator_rounds_up(block):
    """Blocks of 2 and 20 MiB, as torch's caching allocator hands them out."""

    def rounded(batch):
        return -(-(800 * MB + batch * 11.3 * MB) // block) * block

    for batches in itertools.combinations((16, 32, 64, 128), 2):
        peak = predict_peak([(b, rounded(b)) for b in batches], 2 * batches[-1])
        assert peak is not None
        assert peak.low - block <= rounded(2 * batches[-1]) <= peak.high + block


def test_of_several_readings_of_a_batch_the_largest_counts():
    assert predict_peak([(1, 10.0), (2, 15.0), (2, 20.0)], 4) == predict_peak([(1, 10.0), (2, 20.0)], 4)


def test_more_memory_for_a_larger_batch_or_as_much_never_less():
    """Small batches may measure less than smaller ones: a workspace that is no longer taken."""
    peaks = [predict_peak([(1, 120.0), (2, 100.0)], b) for b in (2, 4, 64)]
    values = [peak.value for peak in peaks if peak is not None]
    assert values == sorted(values)
    assert len(values) == 3


def test_between_measured_batches_it_interpolates():
    peak = predict_peak([(1, 10.0), (3, 30.0), (5, 90.0)], 4)
    assert peak is not None
    assert peak.value == pytest.approx(60.0)
