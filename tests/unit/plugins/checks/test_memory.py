"""allocator_retries, leak, device_lost: what the memory and the device of a run say."""

import math
import random

import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Reason, Series, Status
from torchstone.plugins import registry

MB = 1 << 20


def look(check: str, run: Run):
    return list(registry.load("checks", check).look(run))


def test_retries_of_the_allocator_mean_that_it_fits_only_by_flushing():
    case = a_case({"batch_size": 64, "precision": "fp32"})
    trials = [a_trial(case_id=case.case_id, steady={"allocator_retries": [n]}) for n in (0, 3)]
    (finding,) = look("allocator_retries", a_run(trials, cases=[case]))
    assert "retried 3 times" in finding.message
    assert "batch_size=32" in finding.advice
    assert "expandable_segments" in finding.advice
    assert not look("allocator_retries", a_run(trials[:1], cases=[case]))


def a_long_trial(bytes_at, *, seconds=60.0, metric="rss_bytes", others=0.0, status=Status.OK):
    """600 steps of 0.1 s, begun 2 s after the trial was asked for, and a reading every half second, before it, too."""
    at_s = [0.5 * i for i in range(int(2 * (seconds + 2.0)))]
    series = [
        Series(metric, "test", tuple(at_s), tuple(float(bytes_at(at - 2.0)) for at in at_s)),
        Series("device_other_processes", "test", (1.0,), (others,)),
    ]
    return a_trial([0.1] * int(10 * seconds), series=series, status=status)


def leaking(at_s):
    return 500 * MB + 2 * MB * at_s  # 0.2 MB a step


@pytest.mark.parametrize(("metric", "name"), [("rss_bytes", "resident"), ("device_memory_used_bytes", "device")])
def test_a_leak_is_told_per_1000_steps(metric, name):
    (finding,) = look("leak", a_run([a_long_trial(leaking, metric=metric)] * 3))
    assert finding.severity == Severity.WARNING
    assert finding.message == f"{name} memory grew steadily, by 200 MiB per 1,000 steps"


def test_a_leak_shows_through_noise_in_steps_and_in_ordinary_trials():
    dice = random.Random(1)
    noisy = a_long_trial(lambda at_s: leaking(at_s) + dice.gauss(0.0, 10 * MB))
    stairs = a_long_trial(lambda at_s: 500 * MB + 64 * MB * (at_s // 10))
    short = a_long_trial(lambda at_s: 500 * MB + 10 * MB * at_s, seconds=5.0)
    for trial in (noisy, stairs, short):
        assert look("leak", a_run([trial]))


def test_what_is_no_leak():
    level = {
        "flat": lambda _: 500 * MB,
        "warming up": lambda at_s: 500 * MB + 300 * MB * (1.0 - math.exp(-max(at_s, 0.0) / 8.0)),
        "still filling when it began": lambda at_s: 500 * MB + 40 * MB * min(max(at_s, 0.0), 20.0),
        "a collector's saw": lambda at_s: 500 * MB + 20 * MB * (at_s % 7.0),
        "one step up": lambda at_s: 500 * MB + 100 * MB * (at_s > 30.0),
        "falling": lambda at_s: 900 * MB - 2 * MB * at_s,
        "too little to matter": lambda at_s: 5000 * MB + 0.5 * MB * at_s,
    }
    for name, bytes_at in level.items():
        assert not look("leak", a_run([a_long_trial(bytes_at)])), name
    assert not look("leak", a_run([a_long_trial(leaking), a_long_trial(level["flat"])])), "not in every trial"
    crowded = a_long_trial(leaking, metric="device_memory_used_bytes", others=1.0)
    assert not look("leak", a_run([crowded])), "somebody else's memory"
    assert not look("leak", a_run([a_long_trial(leaking, status=Status.CRASHED)]))


@pytest.mark.parametrize("seconds", [5.0, 60.0])
def test_noise_is_rarely_taken_for_a_leak(seconds):
    dice = random.Random(2)

    def noise(_):
        return 500 * MB + dice.gauss(0.0, 40 * MB)

    alarms = sum(bool(look("leak", a_run([a_long_trial(noise, seconds=seconds)]))) for _ in range(200))
    assert alarms <= 2, "one in a hundred runs of a single trial"


def test_a_lost_device_is_advised_on_by_what_came_after():
    card = a_case(placement=Placement("cuda"))
    lost = a_trial(
        case_id=card.case_id, status=Status.CRASHED, outcome=Outcome(Status.CRASHED, "Xid", reason=Reason.DEVICE_LOST)
    )
    (gone,) = look("device_lost", a_run([lost], cases=[card]))
    assert gone.message == "cuda:0 was lost in 1 of 1 trials"
    assert "dmesg | grep -i xid" in gone.advice
    other = a_case({"batch_size": 2}, placement=Placement("cuda"))
    well = a_trial(case_id=other.case_id, order=1)
    (back,) = look("device_lost", a_run([lost, well], cases=[card, other]))
    assert "CUDA_LAUNCH_BLOCKING=1" in back.advice
    elsewhere = a_trial(order=1)
    assert "dmesg" in look("device_lost", a_run([lost, elsewhere], cases=[card, a_case()]))[0].advice


def test_segments_that_expand_already_are_not_advised():
    case = a_case({"batch_size": 64, "precision": "fp32"})
    trial = a_trial(case_id=case.case_id, steady={"allocator_retries": [3]})
    machine = a_machine(settings={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "turbo": None})
    (finding,) = look("allocator_retries", a_run([trial], cases=[case], machine=machine))
    assert "expandable_segments" not in finding.advice
    assert "batch_size=32" in finding.advice
