"""What a probe will cost: cheap settings tell the price of dear ones."""

import itertools
import math

import pytest

from torchstone.core.schema.search import Part, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.gp_posterior import Space
from torchstone.plugins.searchers.adaptive.knowledge import Costs, Failures

BATCHES, WORKERS = (1, 64, 512, 4096), (0, 2, 4, 16)
POINTS = tuple({"batch_size": b, "num_workers": w} for b in BATCHES for w in WORKERS)
SPACE = Space(SearchProblem({"batch_size": BATCHES, "num_workers": WORKERS}, POINTS))
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
    costs = Costs(SPACE)
    costs.learn([taken(64, 0, 0.3), taken(64, 2, 0.3), taken(512, 4, 0.3), taken(512, 2, 1.0), taken(64, 4, 1.0)])
    return costs


@pytest.mark.parametrize(("batch", "workers"), [(4096, 16), (4096, 0), (512, 16), (1, 4)])
def test_tells_the_price_of_what_was_never_tried(batch, workers):
    number = POINTS.index({"batch_size": batch, "num_workers": workers})
    foretold_s = taught().of(number, Part.WHOLE, STEP_S[batch], 1.0)
    assert math.log(foretold_s / taken(batch, workers, 1.0).cost_s) == pytest.approx(0.0, abs=0.35)


def test_a_window_is_as_long_as_the_effort_says_or_two_turns_of_the_queue():
    costs = taught()
    here = lambda b, w: POINTS.index({"batch_size": b, "num_workers": w})
    assert costs.window_s(here(64, 0), Part.WHOLE, STEP_S[64], 0.5) == pytest.approx(1.0)
    assert costs.window_s(here(4096, 16), Part.WHOLE, STEP_S[4096], 0.5) == pytest.approx(64 * STEP_S[4096])
    assert costs.window_s(here(4096, 16), Part.DEVICE, STEP_S[4096], 0.1) == pytest.approx(5 * STEP_S[4096])


AXES = {"batch_size": (1, 2, 4, 8, 16, 32), "num_workers": (0, 4), "precision": ("fp32", "bf16", "fp16")}
POINTS_FAILURES = tuple(dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values()))
SPACE_FAILURES = Space(SearchProblem(AXES, POINTS_FAILURES))


def reading(batch, workers, precision, status=Status.OK, part=Part.WHOLE, allowed=True):
    point = {"batch_size": batch, "num_workers": workers, "precision": precision}
    return ProbeResult(Probe(point, part), status, 1.0, 1.0 if status is Status.OK else None, allowed=allowed)


def taught_failures(*readings):
    failures = Failures(SPACE_FAILURES)
    failures.learn(readings)
    return failures


def out(failures, part=Part.WHOLE):
    return {tuple(p.values()) for n, p in enumerate(POINTS_FAILURES) if failures.out(n, part)}


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
    assert out(failures, Part.LOADER) == set()


def likely(failures):
    return {tuple(p.values()) for n, p in enumerate(POINTS_FAILURES) if failures.likely(n)}


def test_a_constraint_broken_at_a_batch_is_taken_to_be_broken_beyond():
    failures = taught_failures(reading(4, 4, "fp32"), reading(8, 4, "fp32", allowed=False))
    batches = {b for b, w, p in likely(failures) if (w, p) == (4, "fp32")}
    assert batches == {1, 2, 4}


def test_all_is_likely_while_all_goes_well():
    assert len(likely(taught_failures(reading(4, 4, "fp32"), reading(8, 0, "bf16")))) == len(POINTS_FAILURES)
