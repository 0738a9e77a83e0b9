"""No batch is probed that may not fit, and none is left out that surely does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchstone.core.schema.search import Part, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.gp_posterior import Space
from torchstone.plugins.searchers.adaptive.knowledge import Fit, Memory

BATCHES = tuple(2**n for n in range(12))
AXES = {"batch_size": BATCHES, "precision": ("fp32", "bf16")}
SPACE = Space(SearchProblem(AXES, tuple({"batch_size": b, "precision": p} for b in BATCHES for p in AXES["precision"])))


def reading(batch, peak, precision="fp32", status=Status.OK):
    return ProbeResult(Probe({"batch_size": batch, "precision": precision}, Part.DEVICE), status, 1.0, 1.0, peak)


def key(batch, precision="fp32"):
    return next(n for n, k in enumerate(SPACE.device_keys) if (k.batch, k.others) == (batch, (precision,)))


def taught(readings, capacity):
    memory = Memory(SPACE, capacity)
    memory.learn(readings)
    return memory


@settings(max_examples=200)
@given(
    st.floats(0.02, 0.9), st.floats(0.001, 0.3), st.floats(0.4, 1.0), st.lists(st.booleans(), min_size=24, max_size=24)
)
def test_climbing_to_any_batch_it_allows_never_passes_the_end(fixed, per_item, share, turns):
    """Whatever the line, whichever of the allowed batches is taken next."""
    need = {"fp32": lambda b: fixed + b * per_item, "bf16": lambda b: fixed + b * per_item * share}
    heard: list[ProbeResult] = []
    if need["fp32"](1) > 1.0:
        return
    for turn in turns:
        memory = taught(heard, 1.0)
        open_keys = [n for n in range(len(SPACE.device_keys)) if memory.fit(n) is Fit.YES] if heard else [key(1)]
        done = {(r.probe.point["batch_size"], r.probe.point["precision"]) for r in heard}
        fresh = [k for n in open_keys if ((k := SPACE.device_keys[n]).batch, k.others[0]) not in done]
        if not fresh:
            break
        chosen = max(fresh) if turn else min(fresh)
        peak = need[str(chosen.others[0])](chosen.batch)
        assert peak <= 1.0
        heard.append(reading(int(chosen.batch), peak, str(chosen.others[0])))


def test_a_single_batch_bounds_larger_ones_by_growth_in_proportion():
    memory = taught([reading(4, 10.0)], 100.0)
    assert memory.fit(key(16)) is Fit.YES
    assert memory.fit(key(64)) is Fit.PERHAPS


def test_near_the_end_a_batch_is_reached_in_steps():
    peaks = [reading(b, 10.0 + b * 0.1) for b in (4, 64)]
    memory = taught(peaks, 64.0)
    assert memory.fit(key(256)) is Fit.YES  # 35.6: far from the end
    assert memory.fit(key(512)) is Fit.PERHAPS  # 61.2: fits by the line, and the line is long
    assert memory.fit(key(1024)) is Fit.NO
    assert taught([*peaks, reading(256, 35.6)], 64.0).fit(key(512)) is Fit.YES


def test_memory_that_a_process_needs_anyway_is_not_taken_for_the_end_being_near():
    memory = taught([reading(4, 80.04), reading(64, 80.64)], 100.0)
    assert memory.fit(key(512)) is Fit.YES  # 85: a quarter of what is left


def test_of_values_not_tried_yet_the_smallest_batch_may_be_where_it_is_expected_to_fit():
    heard = [reading(4, 80.04), reading(64, 80.64)]
    assert taught(heard, 95.0).fit(key(1, "bf16")) is Fit.YES
    assert taught(heard, 95.0).fit(key(64, "bf16")) is not Fit.YES
    assert taught(heard, 88.0).fit(key(1, "bf16")) is not Fit.YES


def test_after_an_end_of_memory_nothing_that_needs_as_much():
    heard = [reading(4, 10.4), reading(64, 16.4), reading(256, None, status=Status.OUT_OF_MEMORY)]
    memory = taught(heard, None)
    assert memory.fit(key(256)) is Fit.NO
    assert memory.fit(key(1024)) is Fit.NO
    assert memory.fit(key(128)) is Fit.YES
    assert memory.fit(key(1024, "bf16")) is not Fit.YES


def test_a_shorter_format_may_need_a_little_more_and_a_longer_one_much_until_it_is_measured():
    heard = [reading(4, 10.0), reading(64, 40.0)]
    assert taught(heard, 100.0).fit(key(64, "bf16")) is Fit.YES
    assert taught(heard, 42.0).fit(key(64, "bf16")) is not Fit.YES
    heard = [reading(4, 10.0, "bf16"), reading(64, 40.0, "bf16")]
    assert taught(heard, 100.0).fit(key(64)) is not Fit.YES
    assert taught(heard, 200.0).fit(key(64)) is Fit.YES


@pytest.mark.parametrize("capacity", [None, 1e12])
def test_where_nothing_is_known_of_memory_everything_may_be_tried(capacity):
    memory = taught([reading(4, None)], capacity)
    assert all(memory.fit(n) is Fit.YES for n in range(len(SPACE.device_keys)))
