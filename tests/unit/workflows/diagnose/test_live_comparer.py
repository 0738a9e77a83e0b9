"""Where an experiment is live, and where it is taken trial by trial; how many probes a diagnosis takes first."""

from types import SimpleNamespace
from typing import Any

import pytest
from build import a_case, a_machine, a_trial

from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Disturbance, Disturber, Trial
from torchstone.execution.controller.observer import Silent
from torchstone.workflows.diagnose import live_comparer
from torchstone.workflows.diagnose.live_comparer import EvidenceProbes, LiveComparer, ProbeWatcher

PRESENT, OTHER, LOADS = a_case({"batch_size": 8}), a_case({"batch_size": 16}), {"feed": "loader", "num_workers": 2}


class Experiment:
    """An experiment that is over as it begins."""

    runs = 0

    def __init__(self, *_: object, **__: object) -> None:
        Experiment.runs += 1

    def run(self):
        return SimpleNamespace(comparison=None, trials=())


@pytest.mark.parametrize(
    ("apart", "heap", "other", "live"),
    [
        (False, None, OTHER, True), (True, None, OTHER, False), (True, "huge", OTHER, True),
        (False, None, a_case(LOADS), False),
    ],
    ids=["room for two", "no room for two", "another heap has no trials of its own", "processes that load"],
)  # fmt: skip
def test_two_processes_are_live_at_once_only_where_there_is_room(monkeypatch, apart, heap, other, live):
    taken = []
    monkeypatch.setattr(live_comparer, "Experiment", Experiment)
    monkeypatch.setattr(Experiment, "runs", 0)
    session: Any = SimpleNamespace(procedure=Procedure(heap="huge"), renew=lambda: None, launcher=None, watcher=None)

    def probe(case):
        taken.append(case)
        return a_trial()

    compare = LiveComparer(PRESENT, session, probe, lambda case, trial: None, apart=apart)
    compare(other, heap, 0.1)
    assert (Experiment.runs, bool(taken)) == (int(live), not live)


@pytest.mark.parametrize(("cores", "probes"), [(None, 3), (0.3, 3), (1.0, 1)])
def test_beside_programs_that_hide_the_causes_only_the_step_itself_is_probed(cores, probes):
    causes = (Disturber.PROCESSES,)
    busy = None if cores is None else Disturbance(disturbed=True, share=1.0, causes=causes, cores=cores)
    taken = []

    def take(case, *_: object, **__: object):
        taken.append(case.configuration["batch_size"])
        return a_trial(disturbance=busy)

    run: Any = SimpleNamespace(session=SimpleNamespace(procedure=Procedure()), add=lambda case: None, take=take)
    found = EvidenceProbes(run, ProbeWatcher(Silent()), lambda _: None).of(PRESENT, a_machine(), 2)
    assert not isinstance(found, Trial)
    assert (found.disturbance, taken) == (busy, [8, 8, 32][:probes])
