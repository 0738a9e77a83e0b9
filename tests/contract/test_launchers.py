"""What every launcher must do: fresh processes, events, and the truth about how they ended."""

import os
import signal
import time

import pytest

from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import Ended, Entered, Inspected, InspectRequest, Live, Measured, TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.plugins import registry

QUICK = Procedure(trials=1, warmup=0, iterations=2, warmup_budget_s=0.1, count_flops=False)
ENDLESS = Procedure(warmup=10**9)  # still at it whenever somebody gets round to killing it


def request(how=QUICK, **axes):
    engine = registry.load("engines", "infer")
    values = {axis: AXES[axis].default for axis in engine.axes if axis != "sequence_length"} | {"image_size": 32} | axes
    work = Workload(Task.INFER, "builtin:mlp", "synthetic", "image", "vision", {"weights": "random"})
    return TrialRequest(Case(work, values, Placement("cpu")), how, 0)


def all_events(live):
    heard = []
    while (events := live.events()) is not None:
        heard += events
    return heard


@pytest.fixture(params=registry.names("launchers"), scope="module")
def launcher(request):
    opened = type(registry.load("launchers", request.param))()
    opened.open(["builtin:mlp"], "fixed")
    yield opened
    opened.close()


def test_a_trial_is_a_fresh_process_that_says_what_it_measured(launcher):
    live = launcher.start(request())
    heard = all_events(live)
    assert live.ending() is None
    assert isinstance(heard[0], Live)
    assert [e.stage for e in heard if isinstance(e, Entered)][:2] == ["building", "warm-up"]
    assert [type(e) for e in heard[-2:]] == [Measured, Ended]
    assert heard[-1].outcome.status == Status.OK
    assert live.pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(live.pid, 0)


def test_several_may_live_at_once(launcher):
    several = [launcher.start(request(batch_size=n)) for n in (1, 2)]
    assert len({live.pid for live in several}) == 2
    for live in several:
        assert all_events(live)[-1].outcome.status == Status.OK
        assert live.ending() is None


def test_inspecting_finds_the_cpu(launcher):
    live = launcher.start(InspectRequest())
    found = next(event for event in all_events(live) if isinstance(event, Inspected))
    live.ending()
    assert "cpu" in {device.kind for device in found.devices}
    assert found.software["torch"]


def test_a_killed_trial_is_named_by_its_signal(launcher):
    live = launcher.start(request(ENDLESS))
    time.sleep(0.05)
    os.kill(live.pid, signal.SIGKILL)
    heard = all_events(live)
    assert not any(isinstance(event, Ended) for event in heard)
    assert "SIGKILL" in str(live.ending())


def test_a_template_that_is_killed_costs_its_trial_and_is_replaced():
    opened = type(registry.load("launchers", "fork"))()
    opened.open(["builtin:mlp"], "fixed")
    try:
        live = opened.start(request(ENDLESS))
        opened._process.kill()
        heard = all_events(live)
        assert not any(isinstance(event, Ended) for event in heard)
        assert "SIGKILL" in str(live.ending())
        live = opened.start(request())
        assert all_events(live)[-1].outcome.status == Status.OK
        assert live.ending() is None
    finally:
        opened.close()


def test_kill_ends_it_at_once(launcher):
    live = launcher.start(request(ENDLESS))
    live.kill()
    all_events(live)
    assert "SIGKILL" in str(live.ending())
