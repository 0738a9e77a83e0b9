"""The anatomy pass on a real step with a known stall, and its names in the timelines of profilers."""

import json
import time
from statistics import median
from typing import Any

import pytest
import torch
from fakes import FakeClock, FakeQueue, source_of

from torchstone.core.figures import figures
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import Event, Measured, TrialRequest
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.timing.loop import Instrument, Window
from torchstone.execution.timing.stopping import Reason
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.execution import measure_prepared
from torchstone.execution.worker.phase_breakdown import anatomy_steps, measure_anatomy
from torchstone.execution.worker.setup import Setup
from torchstone.plugins import registry

QUICK = Procedure(warmup=1, warmup_budget_s=0.05, iterations=6, count_flops=False)


def measured(
    task: str, procedure: Procedure, stall_s: float = 0.0, slept: list[float] | None = None, trace=None, **axes
) -> Measured:
    """One trial of a tiny network in this process; its forward pass sleeps, and notes how long it really did."""
    slept = [] if slept is None else slept

    def output(network, tensors):
        began_s = time.perf_counter()
        time.sleep(stall_s)
        slept.append(time.perf_counter() - began_s)
        return network(tensors["input"])

    def loss(network, tensors):
        return output(network, tensors).square().mean()

    torch.manual_seed(0)
    model = LoadedModel(torch.nn.Linear(6, 3), output, loss, InputSpec("own"), {"input": torch.randn(8, 6)})
    engine = registry.load("engines", task)
    values = {axis: AXES[axis].default for axis in engine.axes} | {"batch_size": 4} | axes
    case = Case(Workload(Task(task), "module:test", "example", "sample"), values, Placement("cpu"))
    device = registry.load("devices", "cpu").open(0)
    prepared, batches = engine.prepare(case, model, device), engine.open_batches(case, model, None, device, 0)
    events: list[Event] = []
    request = TrialRequest(case, procedure, 0, trace_path=trace)
    setup = Setup(case, engine, model, prepared, device, Collector(case))
    measure_prepared(request, setup, batches, events.append)
    batches.close()
    (told,) = [event for event in events if isinstance(event, Measured)]
    return told


def phases(told: Measured) -> dict[str, tuple[float, ...]]:
    return {m.phase: m.values for m in told.measurements if m.metric == "phase_time_s" and m.phase}


def test_a_stall_is_found_in_its_phase_and_the_parts_sum_to_the_step():
    slept: list[float] = []
    told = measured("train", QUICK, stall_s=0.005, slept=slept, feed="loader")
    found = phases(told)
    assert list(found) == ["data", "transfer", "forward", "backward", "optimizer", "rest"]
    over_s = [whole_s - slept_s for whole_s, slept_s in zip(found["forward"], slept[-6:], strict=True)]
    assert min(over_s) > 0.0
    assert median(over_s) < 0.003
    (steps,) = [m.values for m in told.measurements if m.metric == "anatomy_step_time_s"]
    assert len(steps) == 6
    assert [sum(parts) for parts in zip(*found.values(), strict=True)] == pytest.approx(steps, abs=1e-7)
    assert not [m for m in told.measurements if m.metric == "host_time_s"], "the host's clock is the only one there is"
    values = figures(trial_of(told)).values
    parts = [value for name, value in values.items() if name.startswith("phase_")]
    assert sum(parts) == pytest.approx(values["anatomy_step_s"], rel=1e-6)
    assert values["steps"] == 6, "the pass is no window: nothing of it is in the headline figures"
    assert "anatomy" not in told.windows_s


def trial_of(told: Measured) -> Trial:
    return Trial("t", "c", 0, 0, "2026-11-21T10:00:00Z", 1.0, Outcome(Status.OK), told.facts, told.measurements)


@pytest.mark.parametrize("mode", ["latency", "both"])
def test_inference_has_an_anatomy_in_a_closed_loop_too(mode):
    found = phases(measured("infer", QUICK, stall_s=0.002, mode=mode))
    assert list(found) == ["data", "forward", "rest"]
    assert median(found["forward"]) >= 0.002


def test_on_a_device_that_runs_behind_the_hosts_time_is_kept_beside():
    clock = FakeClock()
    device: Any = FakeQueue(clock)  # its stopwatch and its synchronize are all that is asked of it

    def step(pull, mark):
        pull()
        mark("data")
        device.issue(0.010)
        mark("forward")

    instrument = Instrument(step, source_of(4), device.synchronize, clock)
    tally = Collector(Case(Workload(Task.INFER, "m", "example", "sample"), {"batch_size": 4}, Placement("cuda")))
    measure_anatomy("throughput", window_of(0.010), instrument, device, Procedure(iterations=5), tally)
    kept = {(m.metric, m.phase): m for m in tally.measured().measurements}
    assert kept["phase_time_s", "forward"].values == pytest.approx([0.010] * 5)
    assert kept["phase_time_s", "data"].values == pytest.approx([0.0] * 5)
    assert {phase for metric, phase in kept if metric == "host_time_s"} == {"data", "forward", "rest"}
    assert all(sum(m.values) < 0.010 for (metric, _), m in kept.items() if metric == "host_time_s"), "it only issued"


def test_phases_can_be_left_out():
    told = measured("train", Procedure(warmup=1, iterations=3, phases=False, count_flops=False))
    assert phases(told) == {}


def window_of(step_s: float) -> Window:
    laps_s = [step_s] * 8
    return Window(laps_s, laps_s, [1] * 8, None, sum(laps_s), 0.0, sum(laps_s), Reason.BUDGET_SPENT)


@pytest.mark.parametrize(
    ("step_s", "budget_s", "iterations", "steps"),
    [(0.05, 5.0, None, 20), (0.001, 5.0, None, 50), (9.0, 5.0, None, 3), (0.001, 5.0, 4, 4), (0.001, 5.0, 1, 3)],
)
def test_the_pass_takes_a_fifth_of_the_budget_within_bounds(step_s, budget_s, iterations, steps):
    assert anatomy_steps(window_of(step_s), Procedure(budget_s=budget_s, iterations=iterations)) == steps


def test_nvtx_names_every_phase_of_the_measured_steps(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", calls.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: calls.append("-"))
    told = measured("train", Procedure(warmup=1, iterations=3, nvtx=True, count_flops=False))
    assert told.facts.nvtx == "on"
    step = ["step", "data", "-", "forward", "-", "backward", "-", "optimizer", "-", "rest", "-", "-"]
    assert calls[-len(step) :] == step
    warm = int(told.facts.warmup_steps or 0)
    assert calls.count("step") == 1 + warm + 3 + 1 + 3, "first step, warm-up, window, lead-in and anatomy"
    assert calls.count("-") == sum(call != "-" for call in calls)


def test_where_there_is_no_nvtx_it_is_said(monkeypatch):
    def fails(name):
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    monkeypatch.setattr(torch.cuda.nvtx, "range_push", fails)
    told = measured("train", Procedure(warmup=1, iterations=3, nvtx=True, count_flops=False))
    assert str(told.facts.nvtx).startswith("off: NVTX functions not installed")
    assert phases(told), "and the trial goes on without"


def test_the_trace_of_the_profiler_has_the_same_names(tmp_path):
    path = tmp_path / "trace.json"
    measured("train", QUICK, trace=str(path))
    names = [event.get("name") for event in json.loads(path.read_text())["traceEvents"]]
    for name in ("step", "data", "forward", "backward", "optimizer"):
        assert names.count(name) == 3, name


def test_the_pass_is_of_whole_turns_of_the_loader():
    assert anatomy_steps(window_of(0.05), Procedure(budget_s=5.0), turn=8) == 24  # 20 would end within a burst
    assert anatomy_steps(window_of(9.0), Procedure(budget_s=5.0), turn=16) == 16
