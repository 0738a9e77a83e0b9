"""What every searcher must do: ask for what is allowed, cope with every end, stop, and name what it measured."""

import math
from collections.abc import Mapping

import msgspec
import pytest

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.search import PATIENCE_S, Part, Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins import registry

BATCHES, WORKERS, PRECISIONS = (1, 4, 16, 64, 256), (0, 2, 4), ("fp32", "bf16")
AXES: Mapping[str, tuple[Scalar, ...]] = {"batch_size": BATCHES, "num_workers": WORKERS, "precision": PRECISIONS}
POINTS: tuple[Point, ...] = tuple(
    {"batch_size": b, "num_workers": w, "precision": p} for b in BATCHES for w in WORKERS for p in PRECISIONS
)
GB = 1e9


@pytest.fixture(params=registry.names("searchers"))
def searcher(request):
    return registry.load("searchers", request.param)


def step_s(probe):
    point = probe.point
    batch = point.get("batch_size", 8)
    device = 0.002 + batch / (2000.0 if point.get("precision") == "bf16" else 1000.0)
    loader = batch * 0.002 / max(1, point.get("num_workers", 1))
    if probe.part is Part.DEVICE:
        return device
    if probe.part is Part.LOADER:
        return loader
    return max(loader, device) if point.get("num_workers", 1) else loader + device


def well(probe):
    """A trial that always ends well."""
    step, batch = step_s(probe), probe.point.get("batch_size", 8)
    peak = None if probe.part is Part.LOADER else (1.0 + 0.1 * batch) * GB
    return ProbeResult(probe, Status.OK, 1.0 + step, batch / step, peak, step_s=step)


def ended(status, when):
    return lambda probe: ProbeResult(probe, status, 1.0) if when(probe.point) else well(probe)


def searched(searcher, brief, trial=well, most=500):
    """Drive a search to its end; return its probes and what it named."""
    asking = searcher.search(brief)
    probes = []
    try:
        probe = next(asking)
        while True:
            probes.append(probe)
            assert len(probes) <= most, "it does not end"
            probe = asking.send(trial(probe))
    except StopIteration as end:
        return probes, list(end.value)


def test_asks_only_for_points_of_the_brief(searcher):
    some = tuple(p for p in POINTS if p["num_workers"] != 0 or p["batch_size"] in {1, 4, 16})
    probes, named = searched(searcher, SearchProblem(AXES, some))
    assert probes
    assert all(p.point in some and 0.0 < p.effort <= 1.0 and p.why for p in probes)
    assert named
    assert all(point in [p.point for p in probes if p.part is Part.WHOLE] for point in named)


def test_finds_the_best_where_nothing_is_hidden(searcher):
    _, named = searched(searcher, SearchProblem(AXES, POINTS))
    best = max(well(Probe(p)).value for p in POINTS)
    assert well(Probe(named[0])).value >= 0.95 * best


def test_equal_readings_lead_to_equal_probes(searcher):
    brief = SearchProblem(AXES, POINTS, seed=7, most_probes=12)
    assert searched(searcher, brief) == searched(searcher, brief)


@pytest.mark.parametrize("most", [1, 5])
def test_keeps_to_a_number_of_probes(searcher, most):
    probes, _ = searched(searcher, SearchProblem(AXES, POINTS, most_probes=most))
    assert len(probes) <= most


@pytest.mark.parametrize("most", [2, 3, 4, 8])
def test_few_probes_leave_something_to_compare(searcher, most):
    brief = SearchProblem(AXES, POINTS, present=POINTS[0], most_probes=most)
    probes, named = searched(searcher, brief)
    assert len({str(p.point) for p in probes if p.part is Part.WHOLE}) >= 2
    assert len(named) >= 2


def test_keeps_to_a_cost(searcher):
    probes, _ = searched(searcher, SearchProblem(AXES, POINTS, most_cost_s=10.0))
    assert sum(well(p).cost_s for p in probes[:-1]) < 10.0


def test_adaptive_bounds_itself_where_probes_are_long_and_no_cost_is_given():
    def slow(probe):
        return msgspec.structs.replace(well(probe), cost_s=100.0)

    adaptive = registry.load("searchers", "adaptive")
    probes, found = searched(adaptive, SearchProblem(AXES, POINTS), slow)
    assert 100.0 * len(probes) > PATIENCE_S, "it has an answer all the same"
    assert [probe.part for probe in probes].count(Part.WHOLE) == 1
    assert found
    longer, _ = searched(adaptive, SearchProblem(AXES, POINTS, most_cost_s=2.5 * PATIENCE_S), slow)
    assert [probe.part for probe in longer].count(Part.WHOLE) > 1


@pytest.mark.parametrize("points", [(), POINTS[5:6], POINTS[:2]])
def test_copes_with_next_to_no_points(searcher, points):
    probes, named = searched(searcher, SearchProblem(AXES, points))
    assert all(p.point in points for p in probes)
    assert bool(named) == bool(points)


@pytest.mark.parametrize(
    "axes", [{"num_workers": (0, 2, 4, 8)}, {"precision": PRECISIONS}, {"batch_size": (3, 5, 24, 100)}]
)
def test_searches_one_axis_alone(searcher, axes):
    ((name, values),) = axes.items()
    points = tuple({name: value} for value in values)
    _, named = searched(searcher, SearchProblem(axes, points))
    assert well(Probe(named[0])).value >= 0.99 * max(well(Probe(p)).value for p in points)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_goes_on_after_every_kind_of_end(searcher, status):
    """bf16 and large batches never run; the best of what runs is found all the same."""
    fails = lambda point: point["precision"] == "bf16" or point["batch_size"] > 64
    _, named = searched(searcher, SearchProblem(AXES, POINTS), ended(status, fails))
    assert named
    assert not any(fails(point) for point in named)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
def test_ends_where_nothing_runs(searcher, status):
    probes, named = searched(searcher, SearchProblem(AXES, POINTS), ended(status, lambda _: True))
    assert named == []
    assert len({(p.part, tuple(p.point.values())) for p in probes}) == len(probes)


def test_names_only_what_keeps_to_the_constraints(searcher):
    def trial(probe):
        reading = well(probe)
        late = probe.part is Part.WHOLE and reading.step_s > 0.05
        return ProbeResult(
            probe, Status.OK, 1.0, reading.value, reading.peak_bytes, step_s=reading.step_s, allowed=not late
        )

    _, named = searched(searcher, SearchProblem(AXES, POINTS), trial)
    assert named
    assert all(step_s(Probe(point)) <= 0.05 for point in named)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, None])
def test_is_not_misled_by_an_impossible_value(searcher, value):
    def trial(probe):
        odd = probe.point["batch_size"] == 16
        return ProbeResult(probe, Status.OK, 1.0, value) if odd else well(probe)

    _, named = searched(searcher, SearchProblem(AXES, POINTS), trial)
    assert named
    assert named[0]["batch_size"] != 16


def test_asks_for_whole_steps_only_where_parts_say_nothing(searcher):
    probes, named = searched(searcher, SearchProblem(AXES, POINTS, separable=False))
    assert {p.part for p in probes} == {Part.WHOLE}
    assert named
