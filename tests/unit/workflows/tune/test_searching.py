from unittest.mock import Mock

import msgspec
from build import a_trial, a_tune_spec

from torchstone.core.schema.case import Placement
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.search import Part, Point, Probe
from torchstone.core.schema.trial import Purpose
from torchstone.execution.controller.active_run import ActiveRun
from torchstone.workflows.tune.space import TuneSpace
from torchstone.workflows.tune.tune import Probes, allowed, search


class FakeRun(ActiveRun):
    """Takes trials whose step takes as long as its batch is large, and remembers how."""

    def __init__(self):
        self.taken = []

    def add(self, case):
        pass

    def take(self, case, number, purpose=Purpose.REPLICATE, how=None, *, host_profile=False):
        self.taken.append((case, number, purpose, how))
        size = case.configuration["batch_size"]
        return a_trial([0.001 + 0.0001 * size] * 10, items=size, case_id=case.case_id, number=number, purpose=purpose)


def test_a_search_asks_until_it_is_done_and_names_its_finalists():
    run = FakeRun()
    space = TuneSpace(a_tune_spec())
    probes = Probes(space, run, Procedure(), Mock())
    best = search(space.brief(None, 0), "grid", probes)
    assert len(probes.readings) == 8
    assert best[0]["batch_size"] == 32
    assert all(purpose == Purpose.PROBE for _, _, purpose, _ in run.taken)


def test_a_probe_is_shorter_and_does_nothing_beside_its_window():
    run = FakeRun()
    Probes(TuneSpace(a_tune_spec()), run, Procedure(budget_s=4.0, warmup_budget_s=2.0), Mock()).take(
        Probe({"batch_size": 8, "num_workers": 0, "precision": "fp32"}, Part.DEVICE, effort=0.25)
    )
    ((case, _, _, how),) = run.taken
    assert case.configuration["feed"] == "resident"
    assert (how.budget_s, how.warmup_budget_s, how.phases, how.count_flops) == (1.0, 0.5, False, False)


def test_a_search_that_goes_on_believes_the_record_and_takes_only_what_is_missing():
    space = TuneSpace(a_tune_spec())
    first = FakeRun()
    whole = Probes(space, first, Procedure(), Mock())
    search(space.brief(None, 0), "random", whole)
    recorded = [FakeRun().take(case, n, Purpose.PROBE, None) for case, n, _, _ in first.taken]

    again = FakeRun()
    resumed = Probes(space, again, Procedure(), Mock(), recorded[:5])
    search(space.brief(None, 0), "random", resumed)
    assert [case.case_id for case, *_ in again.taken] == [case.case_id for case, *_ in first.taken[5:]]
    assert [r.value for r in resumed.readings] == [r.value for r in whole.readings]


def test_a_record_that_says_otherwise_is_believed_up_to_there():
    space = TuneSpace(a_tune_spec())
    run = FakeRun()
    stranger = a_trial(purpose=Purpose.PROBE, case_id="somebody")
    probes = Probes(space, run, Procedure(), Mock(), [stranger])
    probes.take(Probe({"batch_size": 8, "num_workers": 0, "precision": "fp32"}))
    assert len(run.taken) == 1


def test_the_same_probe_twice_is_two_trials():
    run = FakeRun()
    probes = Probes(TuneSpace(a_tune_spec()), run, Procedure(), Mock())
    probe = Probe({"batch_size": 8, "num_workers": 0, "precision": "fp32"})
    probes.take(probe)
    probes.take(probe)
    assert [number for _, number, _, _ in run.taken] == [0, 1]


def test_only_whole_steps_within_the_limits_may_win():
    spec = a_tune_spec()
    strict = msgspec.structs.replace(spec, constraints=msgspec.structs.replace(spec.constraints, max_latency_s=0.002))
    probes = Probes(TuneSpace(strict), FakeRun(), Procedure(), Mock())
    for size in (8, 32):
        for part in Part:
            probes.take(Probe({"batch_size": size, "num_workers": 0, "precision": "fp32"}, part))
    assert [r.probe.point["batch_size"] for r in allowed(probes.readings)] == [8]


def test_a_probe_for_energy_on_a_card_is_long_enough_for_its_counter():
    run, base = FakeRun(), a_tune_spec().base
    spec = a_tune_spec(objective="energy", base=msgspec.structs.replace(base, placement=Placement("cuda")))
    point: Point = {"batch_size": 8, "num_workers": 0, "precision": "fp32"}
    Probes(TuneSpace(spec), run, Procedure(budget_s=4.0), Mock()).take(Probe(point, Part.WHOLE, effort=0.25))
    ((_, _, _, how),) = run.taken
    assert how.budget_s > 2.0
    assert how.target is None
