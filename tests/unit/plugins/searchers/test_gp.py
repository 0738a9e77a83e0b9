"""What the belief makes of readings: it predicts what was not read, and is as sure as it should be."""

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from torchstone.core.schema.search import Part, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.gp import LineModel, PointSpace, Posterior, StepModel

AXES = {"batch_size": tuple(2**n for n in range(11)), "num_workers": (0, 1, 2, 4, 8), "precision": ("fp32", "bf16")}
POINTS = tuple(dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values()))
SPACE = PointSpace(SearchProblem(AXES, POINTS))
PARTS = [
    (Part.LOADER, 32, 0, "fp32"), (Part.LOADER, 32, 4, "fp32"), (Part.DEVICE, 4, 0, "fp32"),
    (Part.DEVICE, 256, 0, "fp32"), (Part.DEVICE, 256, 0, "bf16"),
]  # fmt: skip


def true_s(part, batch, workers, precision):
    device = max(0.004, 0.001 + batch / (4000.0 if precision == "bf16" else 1500.0))
    loader = (0.0002 + batch * 0.001) / max(1, min(workers, 6))
    if part is Part.DEVICE:
        return device
    return loader if part is Part.LOADER else max(loader, device) if workers else loader + device


def read(part, batch, workers, precision, error=0.0):
    point = {"batch_size": batch, "num_workers": workers, "precision": precision}
    value = batch / (true_s(part, batch, workers, precision) * math.exp(error))
    return ProbeResult(Probe(point, part), Status.OK, 1.0, value)


def taught(readings, model=StepModel):
    belief = Posterior(SPACE, model(SPACE))
    belief.learn(readings)
    return belief


def test_the_parts_alone_predict_the_whole_within_a_third():
    means = taught([read(*part) for part in PARTS]).means()
    for point, mean in zip(POINTS, means, strict=True):
        if point["batch_size"] >= 16:
            assert mean == pytest.approx(math.log(true_s(Part.WHOLE, *point.values()) / point["batch_size"]), abs=0.35)


def test_is_right_where_it_has_read_and_surer_than_elsewhere():
    spots = [(64, 4, "bf16"), (512, 8, "bf16"), (256, 0, "fp32")]
    belief = taught([*(read(*part) for part in PARTS), *(read(Part.WHOLE, *spot) for spot in spots for _ in range(3))])

    means = belief.means()
    for spot in spots:
        assert means[number(spot)] == pytest.approx(math.log(true_s(Part.WHOLE, *spot) / spot[0]), abs=0.06)
    near, far = belief.deviations(np.array([number(spots[1]), number((1, 8, "bf16"))]), number(spots[0]))
    assert near < 0.05 < far


def number(spot):
    return POINTS.index(dict(zip(AXES, spot, strict=True)))


@pytest.mark.parametrize(("sd", "quiet"), [(0.01, True), (0.15, False)])
def test_hears_how_noisy_the_machine_is(sd, quiet):
    rng = random.Random(5)
    spots = [(b, w, p) for b in (16, 64, 256, 1024) for w in (2, 8) for p in ("fp32", "bf16")]
    belief = taught(
        [*(read(*part, rng.gauss(0, sd)) for part in PARTS), *(read(Part.WHOLE, *s, rng.gauss(0, sd)) for s in spots)]
    )
    assert (belief.noisier <= 1.5) == quiet


def test_believes_what_it_reads_though_the_parts_told_of_something_else():
    """Launch-bound batches tell nothing of the pace of a full device: the fit must follow when that is read."""
    values = {"batch_size": tuple(2**n for n in range(14)), "num_workers": (0, 4, 8, 12), "precision": ("fp32", "bf16")}
    points = tuple(dict(zip(values, point, strict=True)) for point in itertools.product(*values.values()))
    space = PointSpace(SearchProblem(values, points))

    def step_s(part, batch, workers, precision):
        device = max(0.0095, batch / (500_000.0 if precision == "bf16" else 250_000.0))
        loader = (0.0003 + batch * 5e-5) / max(1, workers)
        if part is Part.DEVICE:
            return device
        return loader if part is Part.LOADER else max(device, loader) if workers else device + loader

    asked = [
        (Part.LOADER, 32, 0, "fp32"), (Part.LOADER, 32, 8, "fp32"), (Part.DEVICE, 4, 0, "fp32"),
        (Part.DEVICE, 64, 0, "fp32"), (Part.DEVICE, 64, 0, "bf16"), (Part.WHOLE, 512, 4, "bf16"),
        (Part.WHOLE, 2048, 4, "bf16"), (Part.WHOLE, 4096, 12, "bf16"), (Part.WHOLE, 2048, 8, "fp32"),
    ]  # fmt: skip
    belief, readings = Posterior(space, StepModel(space)), []
    for part, *spot in asked:
        point: dict[str, Any] = dict(zip(values, spot, strict=True))
        readings.append(ProbeResult(Probe(point, part), Status.OK, 5.0, spot[0] / step_s(part, *spot)))
        belief.learn(readings)
    means = belief.means()
    for part, *spot in asked[5:]:
        there = points.index(dict(zip(values, spot, strict=True)))
        assert means[there] == pytest.approx(math.log(step_s(part, *spot) / spot[0]), abs=0.15)


@pytest.mark.parametrize("model", [StepModel, LineModel])
def test_many_parameters_are_predicted_as_each_alone(model):
    made, rng = model(SPACE), np.random.default_rng(2)
    several = made.means + 0.3 * made.sds * rng.normal(size=(4, len(made.means)))
    together = made.predict(several)
    for number, p in enumerate(several):
        assert np.allclose(together[:, number], made.predict(p))
    assert np.isfinite(together).all()


def test_a_whole_step_takes_no_less_than_its_parts():
    made, rng = StepModel(SPACE), np.random.default_rng(3)
    whole, device, loader = made.predict(made.means + 0.5 * made.sds * rng.normal(size=(20, len(made.means))))
    assert (whole >= device - 1e-9).all()
    assert (whole >= loader - 1e-9).all()


def test_without_parts_it_learns_a_trend_over_the_batch():
    """As for a latency: no rate, so no loader and device that bound it."""
    spots = [(b, 2, p) for b in (2, 16, 128) for p in ("fp32", "bf16")]
    readings = [
        ProbeResult(Probe(dict(zip(AXES, s, strict=True))), Status.OK, 1.0, 1.0 / (0.01 * s[0] ** 0.8)) for s in spots
    ]
    means = taught(readings, LineModel).means()
    assert means[number((1024, 2, "fp32"))] == pytest.approx(math.log(0.01 * 1024**0.8), abs=0.6)
    assert means[number((32, 2, "bf16"))] == pytest.approx(math.log(0.01 * 32**0.8), abs=0.1)
