"""Curves over batch sizes: what is read from made-up ones, and how rarely noise is taken for a shape."""

import random
from typing import Any

import pytest

from torchstone.analysis.advice.curves import BatchPoint, advise, read_curve, speed_up
from torchstone.core.stats.comparing import log_mean
from torchstone.core.stats.interval import over_trials
from torchstone.report.diagnosis_messages import advice_text

SIZES = [2**n for n in range(12)]
SETTINGS: dict[str, Any] = {
    "grad_accumulation": 1,
    "precision": "fp32",
    "compile": "off",
    "feed": "loader",
    "gradient_checkpointing": False,
}


def curve(rate, *, sizes=SIZES, deviation=0.01, trials=3, seed=0, **more):
    """`rate(batch)` items/s, measured in trials that differ by `deviation`; `more`: functions of the batch, too."""
    dice, points = random.Random(seed), []
    for size in sizes:
        values = [rate(size) * dice.lognormvariate(0.0, deviation) for _ in range(trials)]
        found = over_trials(values)
        told = {name: value(size) for name, value in more.items()}
        points.append(BatchPoint(size, found.value, log_mean(found.value, found.low, found.high, trials), **told))
    read = read_curve(points)
    assert read is not None
    return read


def told(read, **settings):
    return [advice_text(advice) for advice in advise(read, {**SETTINGS, **settings})]


def saturating(size):  # 10 ms a step whatever its size, then 1 ms an item
    return size / (0.010 + size * 0.001)


def test_a_fixed_cost_is_found_and_told():
    read = curve(saturating)
    assert read.low
    assert read.overhead_s == pytest.approx(0.010, rel=0.05)
    assert read.fell is None
    assert not read.rising, "the last doubling gains less than 5 %"
    assert read.saturated.batch in (128, 256)
    low, flat = told(read)
    assert "at batch_size 1, throughput is 9 % of the top; a step costs about 10 ms whatever its size" in low
    assert "launch overhead" in low
    assert "compile=reduce-overhead" in low
    assert "within 5 % of the top" in flat


@pytest.mark.parametrize(
    ("share", "next_one"), [(0.02, "batch_size=32"), (0.04, "batch_size=22"), (0.055, None), (None, "batch_size=32")]
)
def test_a_curve_that_still_rises_names_the_next_batch_that_fits(share, next_one):
    held = {} if share is None else {"memory_share": lambda size: share * size}
    read = curve(saturating, sizes=[1, 4, 16], **held)
    assert read.rising
    last = told(read)[-1]
    assert "still rises at the largest batch_size 16" in last
    assert last.endswith(f"Try: {next_one}") if next_one else "Try" not in last


def test_a_decline_names_the_optimum_and_what_was_seen_there():
    read = curve(
        lambda size: saturating(size) * (0.7 if size >= 1024 else 1.0), retries=lambda size: 4.0 * (size >= 1024)
    )
    assert read.top.batch == 512
    assert read.fell is not None
    optimum, decline = told(read)[1:]
    assert "throughput is highest at batch_size 512" in optimum
    assert "batch_size=512 for production" in optimum
    assert "batch_size=512 with grad_accumulation" in optimum
    assert "Causes: a step with enough to do at once, memory that still suffices" in optimum
    assert "falls: by " in decline
    assert "the allocator flushed its cache 4 times there" in decline
    assert "precision=bf16" in decline
    assert "gradient_checkpointing=true" in decline
    already = told(read, precision="bf16", gradient_checkpointing=True)[-1]
    assert "precision=bf16" not in already
    assert "gradient_checkpointing" not in already


def test_inference_is_not_told_to_accumulate_and_the_smallest_batch_may_be_the_best():
    read = curve(lambda size: 100.0 if size == 1 else 50.0)
    lines = [advice_text(advice) for advice in advise(read, {"precision": "fp32"})]
    assert lines[0] == "throughput is highest at batch_size 1, the smallest. Try: batch_size=1 for production"
    assert "backward" not in lines[1]
    assert "accumulation" not in lines[1]


def test_full_memory_is_named_where_the_allocator_says_nothing():
    read = curve(lambda size: 100.0 if size < 1024 else 60.0, memory_share=lambda size: 0.95 if size >= 1024 else 0.5)
    assert any("95 % of the memory is in use there" in one for one in told(read))


@pytest.mark.parametrize("trials", [2, 3, 5])
@pytest.mark.parametrize("deviation", [0.01, 0.10])
def test_noise_on_a_flat_curve_is_not_taken_for_a_decline(trials, deviation):
    reads = [curve(lambda _: 1000.0, deviation=deviation, trials=trials, seed=seed) for seed in range(100)]
    assert sum(read.fell is not None for read in reads) <= 6
    assert sum(read.low or read.rising for read in reads) <= 6


def test_one_noisy_point_among_quiet_ones_is_not_taken_for_a_decline():
    fell = 0
    for seed in range(100):
        dice, points = random.Random(seed), []
        for size in SIZES:
            spread = 0.15 if size == 1024 else 0.01
            found = over_trials([1000.0 * dice.lognormvariate(0.0, spread) for _ in range(3)])
            points.append(BatchPoint(size, found.value, log_mean(found.value, found.low, found.high, 3)))
        read = read_curve(points)
        fell += read is not None and read.fell is not None
    assert fell <= 10


def test_a_decline_by_a_fifth_is_seen_in_noise_of_three_percent():
    falls = lambda size: 1000.0 if size < 512 else 800.0
    assert sum(curve(falls, deviation=0.03, seed=seed).fell is not None for seed in range(50)) >= 48


def test_without_intervals_only_what_is_larger_than_usual_noise_is_named():
    flat = read_curve([BatchPoint(size, rate) for size, rate in ((1, 100.0), (2, 110.0), (4, 90.0))])
    assert flat is not None
    assert (flat.fell, flat.low, flat.rising) == (None, False, False)
    steep = read_curve([BatchPoint(size, 10.0 * size) for size in (1, 8, 64)])
    assert steep is not None
    assert steep.low
    assert steep.overhead_s is None or steep.overhead_s > 0


def test_ratios_are_against_the_smallest_and_noise_has_none():
    read = curve(saturating, sizes=[8, 1, 64])
    others: Any = speed_up(read, "image").values["others"]
    assert [one.values["batch_size"] for one in others] == [8, 64]
    assert others[1].values["ratio"] == pytest.approx(saturating(64) / saturating(1), rel=0.05)
    flat: Any = speed_up(curve(lambda _: 5.0, sizes=[1, 2, 4]), "image").values["others"]
    assert [one.id for one in flat] == ["speed_up_none", "speed_up_none"]


def test_two_batch_sizes_are_no_curve():
    assert read_curve([BatchPoint(1, 1.0), BatchPoint(2, 2.0)]) is None
