"""What a trial tells of its stages, and when the device's peaks begin anew: a tiny network, on the CPU."""

from types import SimpleNamespace
from typing import Any, get_args

import torch

from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import Brought, Entered, Event, RehearseRequest, Request, TrialRequest
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.execution.worker import execution
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.execution import HANDLERS, measure_prepared
from torchstone.execution.worker.setup import Setup
from torchstone.plugins import registry


def carried_out(monkeypatch: Any, device: str = "cpu", **how: Any) -> tuple[list[Event], list[int]]:
    """One trial of a tiny network in this process; its events, and the steps done when its warm-up was over."""
    done: list[int] = []
    steps = [0]

    def output(network, tensors):
        steps[0] += 1
        return network(tensors["input"])

    monkeypatch.setattr(execution, "end_warm_up", lambda device, tally: done.append(steps[0]))
    model = LoadedModel(torch.nn.Linear(6, 3), output, None, InputSpec("own"), {"input": torch.randn(8, 6)})
    engine = registry.load("engines", "infer")
    values = {axis: AXES[axis].default for axis in engine.axes} | {"batch_size": 4}
    case = Case(Workload(Task.INFER, "module:test", "example", "sample"), values, Placement(device))
    opened = registry.load("devices", "cpu").open(0)
    prepared, batches = engine.prepare(case, model, opened), engine.open_batches(case, model, None, opened, 0)
    events: list[Event] = []
    request = TrialRequest(case, Procedure(count_flops=False, **how), 0)
    setup = Setup(case, engine, model, prepared, opened, Collector(case))
    measure_prepared(request, setup, batches, events.append)
    batches.close()
    return events, done


def test_every_request_has_a_handler():
    assert set(HANDLERS) == set(get_args(Request))


def test_a_rehearsal_does_one_step_and_measures_nothing(monkeypatch):
    steps: list[int] = []

    def output(network, tensors):
        steps.append(1)
        return network(tensors["input"])

    model = LoadedModel(torch.nn.Linear(6, 3), output, None, InputSpec("own"), {"input": torch.randn(8, 6)})
    monkeypatch.setattr(execution, "load_model", lambda case: model)
    values = {axis: AXES[axis].default for axis in registry.load("engines", "infer").axes} | {"batch_size": 4}
    case = Case(Workload(Task.INFER, "module:test", "example", "sample"), values, Placement("cpu"))
    events: list[Event] = []
    line: Any = SimpleNamespace(send=events.append)
    end = HANDLERS[RehearseRequest](RehearseRequest(case, Procedure(warmup=50)), line)
    assert (end.outcome.status, len(steps)) == (Status.OK, 1)
    assert [type(event) for event in events] == [Entered, Brought, Entered]


def test_the_stages_in_which_nothing_may_disturb_say_so(monkeypatch):
    events, done = carried_out(monkeypatch, warmup=3, warmup_budget_s=0.0, iterations=5)
    stages = {event.stage: event.measures for event in events if isinstance(event, Entered)}
    assert stages == {"warm-up": False, "latency": True, "throughput": True, "anatomy": True, "counting": False}
    assert done == [4], "peaks begin anew after the first step and three of warm-up, and before any window"


def test_an_accelerator_is_warmed_up_for_half_a_second(monkeypatch):
    _, few = carried_out(monkeypatch, iterations=1)
    _, many = carried_out(monkeypatch, device="cuda", iterations=1)
    assert few[0] < 100
    assert many[0] > 5 * few[0]
