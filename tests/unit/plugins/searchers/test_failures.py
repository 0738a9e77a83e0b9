"""What a failure says of points that were not tried."""

import itertools

from torchstone.core.schema.search import Part, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.failures import Failures
from torchstone.plugins.searchers.adaptive.space import Space

AXES = {"batch_size": (1, 2, 4, 8, 16, 32), "num_workers": (0, 4), "precision": ("fp32", "bf16", "fp16")}
POINTS = tuple(dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values()))
SPACE = Space(SearchProblem(AXES, POINTS))


def reading(batch, workers, precision, status=Status.OK, part=Part.WHOLE, allowed=True):
    point = {"batch_size": batch, "num_workers": workers, "precision": precision}
    return ProbeResult(Probe(point, part), status, 1.0, 1.0 if status is Status.OK else None, allowed=allowed)


def taught(*readings):
    failures = Failures(SPACE)
    failures.learn(readings)
    return failures


def out(failures, part=Part.WHOLE):
    return {tuple(p.values()) for n, p in enumerate(POINTS) if failures.out(n, part)}


def test_one_unsupported_point_alone_says_nothing_of_others():
    failures = taught(reading(4, 4, "fp16", Status.UNSUPPORTED))
    assert out(failures) == {(4, 4, "fp16")}


def test_the_value_that_is_left_when_the_others_proved_sound_is_out_everywhere():
    failures = taught(reading(4, 4, "fp16", Status.UNSUPPORTED), reading(4, 4, "fp32"))
    assert out(failures) == {p for p in map(tuple, (p.values() for p in POINTS)) if p[2] == "fp16"}


def test_the_loader_alone_proves_nothing_of_a_precision():
    failures = taught(reading(4, 4, "fp16", Status.UNSUPPORTED), reading(4, 4, "fp16", part=Part.LOADER))
    assert (8, 0, "fp16") in out(failures)


def test_where_every_value_proved_sound_only_the_point_is_out():
    failures = taught(
        reading(4, 4, "fp16", Status.UNSUPPORTED), reading(4, 0, "fp16"), reading(4, 4, "fp32"), reading(1, 4, "fp32")
    )
    assert out(failures) == {(4, 4, "fp16")}


def test_what_the_device_cannot_do_alone_no_whole_step_can():
    failures = taught(reading(8, 0, "bf16", Status.CRASHED, Part.DEVICE))
    assert out(failures) == {(8, 0, "bf16"), (8, 4, "bf16")}
    assert out(failures, Part.LOADER) == set()


def likely(failures):
    return {tuple(p.values()) for n, p in enumerate(POINTS) if failures.likely(n)}


def test_a_constraint_broken_at_a_batch_is_taken_to_be_broken_beyond():
    failures = taught(reading(4, 4, "fp32"), reading(8, 4, "fp32", allowed=False))
    batches = {b for b, w, p in likely(failures) if (w, p) == (4, "fp32")}
    assert batches == {1, 2, 4}


def test_all_is_likely_while_all_goes_well():
    assert len(likely(taught(reading(4, 4, "fp32"), reading(8, 0, "bf16")))) == len(POINTS)
