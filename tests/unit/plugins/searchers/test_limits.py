"""The price of probes, points that fail, and memory: no batch is probed that may not fit, none left out that does."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchstone.core.schema.quality import QualityVerdict
from torchstone.core.schema.search import Part, Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.gp import LOADER, WHOLE, PointSpace
from torchstone.plugins.searchers.adaptive.limits import Failures, Memory, MemoryFit, ProbeCosts

BATCHES, WORKERS = (1, 64, 512, 4096), (0, 2, 4, 16)
POINTS = tuple({"batch_size": b, "num_workers": w} for b in BATCHES for w in WORKERS)
SPACE = PointSpace(SearchProblem({"batch_size": BATCHES, "num_workers": WORKERS}, POINTS))
STEP_S = {1: 0.002, 64: 0.005, 512: 0.02, 4096: 0.15}


def taken(batch, workers, effort, part=Part.WHOLE):
    """A trial that starts for 0.5 s, drains the loader's queue, and measures 2 s or two turns of the queue."""
    step_s, turn = STEP_S[batch], 2 * workers * STEP_S[batch]
    window_s = max(2.0 * effort, 5 * step_s, 2 * turn)
    cost_s = 0.5 + 0.03 * workers + 1.5 * turn + 3 * step_s + window_s
    return ProbeResult(
        Probe({"batch_size": batch, "num_workers": workers}, part, effort), Status.OK, cost_s, 1.0, step_s=step_s,
        window_s=window_s,
    )  # fmt: skip


def taught():
    costs = ProbeCosts(SPACE)
    costs.learn([taken(64, 0, 0.3), taken(64, 2, 0.3), taken(512, 4, 0.3), taken(512, 2, 1.0), taken(64, 4, 1.0)])
    return costs


@pytest.mark.parametrize(("batch", "workers"), [(4096, 16), (4096, 0), (512, 16), (1, 4)])
def test_tells_the_price_of_what_was_never_tried(batch, workers):
    number = POINTS.index({"batch_size": batch, "num_workers": workers})
    foretold_s = taught().of(np.array([number]), WHOLE, np.array([STEP_S[batch]]), 1.0)[0]
    assert math.log(foretold_s / taken(batch, workers, 1.0).cost_s) == pytest.approx(0.0, abs=0.35)


AXES = {"batch_size": (1, 2, 4, 8, 16, 32), "num_workers": (0, 4), "precision": ("fp32", "bf16", "fp16")}
POINTS_FAILURES = tuple(dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values()))
SPACE_FAILURES = PointSpace(SearchProblem(AXES, POINTS_FAILURES))


def reading(batch, workers, precision, status=Status.OK, part=Part.WHOLE, allowed=True):
    point = {"batch_size": batch, "num_workers": workers, "precision": precision}
    return ProbeResult(Probe(point, part), status, 1.0, 1.0 if status is Status.OK else None, allowed=allowed)


def taught_failures(*readings):
    failures = Failures(SPACE_FAILURES)
    failures.learn(readings)
    return failures


def out(failures, part=WHOLE):
    return {tuple(p.values()) for n, p in enumerate(POINTS_FAILURES) if failures.out[part, n]}


@pytest.mark.parametrize(("verdict", "left"), [(QualityVerdict.UNDECIDED, {32}), (QualityVerdict.WORSE, set())])
def test_what_is_not_as_good_is_not_asked_again_nor_with_fewer_items(verdict, left):
    formats, batches = ("none", "int8-dynamic"), (4, 16, 32)
    points: tuple[Point, ...] = tuple({"quantization": one, "batch_size": size} for one in formats for size in batches)
    space = PointSpace(SearchProblem({"quantization": formats, "batch_size": batches}, points))
    failures = Failures(space)
    probe = Probe({"quantization": "int8-dynamic", "batch_size": 16})
    failures.learn([ProbeResult(probe, Status.OK, 1.0, quality=verdict)])
    open_ones = [point for point, out in zip(space.points, failures.out[WHOLE], strict=True) if not out]
    assert {point["batch_size"] for point in open_ones if point["quantization"] == "int8-dynamic"} == left
    assert sum(point["quantization"] == "none" for point in open_ones) == 3


def test_one_unsupported_point_alone_says_nothing_of_others():
    failures = taught_failures(reading(4, 4, "fp16", Status.UNSUPPORTED))
    assert out(failures) == {(4, 4, "fp16")}


def test_the_value_that_is_left_when_the_others_proved_sound_is_out_everywhere():
    failures = taught_failures(reading(4, 4, "fp16", Status.UNSUPPORTED), reading(4, 4, "fp32"))
    assert out(failures) == {p for p in map(tuple, (p.values() for p in POINTS_FAILURES)) if p[2] == "fp16"}


def test_the_loader_alone_proves_nothing_of_a_precision():
    failures = taught_failures(reading(4, 4, "fp16", Status.UNSUPPORTED), reading(4, 4, "fp16", part=Part.LOADER))
    assert (8, 0, "fp16") in out(failures)


def test_where_every_value_proved_sound_only_the_point_is_out():
    failures = taught_failures(
        reading(4, 4, "fp16", Status.UNSUPPORTED), reading(4, 0, "fp16"), reading(4, 4, "fp32"), reading(1, 4, "fp32")
    )
    assert out(failures) == {(4, 4, "fp16")}


def test_what_the_device_cannot_do_alone_no_whole_step_can():
    failures = taught_failures(reading(8, 0, "bf16", Status.CRASHED, Part.DEVICE))
    assert out(failures) == {(8, 0, "bf16"), (8, 4, "bf16")}
    assert out(failures, LOADER) == set()


def likely(failures):
    return {tuple(p.values()) for n, p in enumerate(POINTS_FAILURES) if failures.likely[n]}


def test_a_constraint_broken_at_a_batch_is_taken_to_be_broken_beyond():
    failures = taught_failures(reading(4, 4, "fp32"), reading(8, 4, "fp32", allowed=False))
    batches = {b for b, w, p in likely(failures) if (w, p) == (4, "fp32")}
    assert batches == {1, 2, 4}


def test_all_is_likely_while_all_goes_well():
    assert len(likely(taught_failures(reading(4, 4, "fp32"), reading(8, 0, "bf16")))) == len(POINTS_FAILURES)


MEMORY_BATCHES = tuple(2**n for n in range(12))
MEMORY_AXES = {"batch_size": MEMORY_BATCHES, "precision": ("fp32", "bf16")}
MEMORY_POINTS = tuple({"batch_size": b, "precision": p} for b in MEMORY_BATCHES for p in MEMORY_AXES["precision"])
MEMORY_SPACE = PointSpace(SearchProblem(MEMORY_AXES, MEMORY_POINTS))


def peak_of(batch, peak, precision="fp32", status=Status.OK):
    return ProbeResult(Probe({"batch_size": batch, "precision": precision}, Part.DEVICE), status, 1.0, 1.0, peak)


def fit(memory, batch, precision="fp32"):
    return memory.fits[MEMORY_POINTS.index({"batch_size": batch, "precision": precision})]


def memory_of(readings, capacity):
    memory = Memory(MEMORY_SPACE, capacity)
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
        memory = memory_of(heard, 1.0)
        done = {(r.probe.point["batch_size"], r.probe.point["precision"]) for r in heard}
        allowed = (
            [p for n, p in enumerate(MEMORY_POINTS) if memory.fits[n] is MemoryFit.YES] if heard else MEMORY_POINTS[:1]
        )
        fresh = [(p["batch_size"], p["precision"]) for p in allowed if tuple(p.values()) not in done]
        if not fresh:
            break
        batch, precision = max(fresh) if turn else min(fresh)
        peak = need[precision](batch)
        assert peak <= 1.0
        heard.append(peak_of(batch, peak, precision))


def test_a_single_batch_bounds_larger_ones_by_growth_in_proportion():
    memory = memory_of([peak_of(4, 10.0)], 100.0)
    assert fit(memory, 16) is MemoryFit.YES
    assert fit(memory, 64) is MemoryFit.PERHAPS


def test_near_the_end_a_batch_is_reached_in_steps():
    peaks = [peak_of(b, 10.0 + b * 0.1) for b in (4, 64)]
    memory = memory_of(peaks, 64.0)
    assert fit(memory, 256) is MemoryFit.YES  # 35.6: far from the end
    assert fit(memory, 512) is MemoryFit.PERHAPS  # 61.2: fits by the line, and the line is long
    assert fit(memory, 1024) is MemoryFit.NO
    assert fit(memory_of([*peaks, peak_of(256, 35.6)], 64.0), 512) is MemoryFit.YES


def test_memory_that_a_process_needs_anyway_is_not_taken_for_the_end_being_near():
    memory = memory_of([peak_of(4, 80.04), peak_of(64, 80.64)], 100.0)
    assert fit(memory, 512) is MemoryFit.YES  # 85: a quarter of what is left


def test_of_values_not_tried_yet_the_smallest_batch_may_be_where_it_is_expected_to_fit():
    heard = [peak_of(4, 80.04), peak_of(64, 80.64)]
    assert fit(memory_of(heard, 95.0), 1, "bf16") is MemoryFit.YES
    assert fit(memory_of(heard, 95.0), 64, "bf16") is not MemoryFit.YES
    assert fit(memory_of(heard, 88.0), 1, "bf16") is not MemoryFit.YES


def test_after_an_end_of_memory_nothing_that_needs_as_much():
    heard = [peak_of(4, 10.4), peak_of(64, 16.4), peak_of(256, None, status=Status.OUT_OF_MEMORY)]
    memory = memory_of(heard, None)
    assert fit(memory, 256) is MemoryFit.NO
    assert fit(memory, 1024) is MemoryFit.NO
    assert fit(memory, 128) is MemoryFit.YES
    assert fit(memory, 1024, "bf16") is not MemoryFit.YES


def test_a_shorter_format_may_need_a_little_more_and_a_longer_one_much_until_it_is_measured():
    heard = [peak_of(4, 10.0), peak_of(64, 40.0)]
    assert fit(memory_of(heard, 100.0), 64, "bf16") is MemoryFit.YES
    assert fit(memory_of(heard, 42.0), 64, "bf16") is not MemoryFit.YES
    heard = [peak_of(4, 10.0, "bf16"), peak_of(64, 40.0, "bf16")]
    assert fit(memory_of(heard, 100.0), 64) is not MemoryFit.YES
    assert fit(memory_of(heard, 200.0), 64) is MemoryFit.YES


@pytest.mark.parametrize("capacity", [None, 1e12])
def test_where_nothing_is_known_of_memory_everything_may_be_tried(capacity):
    memory = memory_of([peak_of(4, None)], capacity)
    assert all(one is MemoryFit.YES for one in memory.fits)
