"""A process that takes turns, in this process: its loader's own processes wait when it waits."""

import json
import multiprocessing
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest
import torch
from fakes import FakeClock, FakeQueue, source_of

from torchstone.core.figures import figures
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import (
    Entered,
    Event,
    Finish,
    Measured,
    Ready,
    TakeTurn,
    TrialRequest,
    TurnEnded,
    TurnsRequest,
    Word,
)
from torchstone.core.schema.model import Batch, InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Stage, Status, Trial
from torchstone.execution.timing.loop import Instrument, MeasuredWindow
from torchstone.execution.timing.stopping import StopReason
from torchstone.execution.worker import turns
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.execution import measure_prepared
from torchstone.execution.worker.pinning import Pinning, Seats
from torchstone.execution.worker.setup import Setup
from torchstone.execution.worker.turns import (
    BeforeTurns,
    Helpers,
    _turns,
    anatomy_steps,
    lead_in_steps,
    measure_anatomy,
    take_turns,
    warm_up_plan,
)
from torchstone.plugins import registry

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read in /proc")


def states() -> set[str]:
    """What the processes beside this one do: T is stopped. A signal takes a moment to arrive."""
    time.sleep(0.05)
    pids = [process.pid for process in multiprocessing.active_children()]
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}


class Line:
    """Says these words one by one, and notes what it hears and what the other processes do while a word is awaited."""

    def __init__(self, *words: Word) -> None:
        self._words = list(words)
        self.heard: list[Event] = []
        self.states: list[set[str]] = []

    def send(self, event: Event) -> None:
        self.heard.append(event)

    def receive(self) -> bytes:
        self.states.append(states())
        return msgspec.json.encode(self._words.pop(0)) + b"\n"


def turns_of(line: Any, placed: str = "cpu", warmup: int | None = 1, **axes: Any) -> None:
    torch.manual_seed(0)

    def loss(network, tensors):
        return network(tensors["input"]).square().mean()

    model = LoadedModel(torch.nn.Linear(6, 3), loss, loss, InputSpec("own"), {"input": torch.randn(8, 6)})
    engine = registry.load("engines", "train")
    values = {axis: AXES[axis].default for axis in engine.axes} | {"batch_size": 4} | axes
    case = Case(Workload(Task.TRAIN, "module:test", "example", "sample"), values, Placement(placed))
    device = registry.load("devices", "cpu").open(0)
    prepared, batches = engine.prepare(case, model, device), engine.open_batches(case, model, None, device, 0)
    request = TurnsRequest(case, Procedure(warmup=warmup, warmup_budget_s=0.05))
    setup = Setup(case, engine, model, prepared, device, Collector(case))
    try:
        take_turns(request, setup, batches, line, Pinning(wanted=False))
    finally:
        batches.close()


def test_a_loader_waits_while_its_side_waits():
    line = Line(TakeTurn(4, lead_in=1), TakeTurn(4, lead_in=1), Finish())
    turns_of(line, feed="loader", num_workers=1)
    assert line.states == [{"T"}, {"T"}, {"T"}]
    (ready,) = [event for event in line.heard if isinstance(event, Ready)]
    assert (ready.queue, ready.turn) == (1, 2), "what lies ready stays: no need to use it up"
    assert sum(isinstance(event, TurnEnded) for event in line.heard) == 2
    (told,) = [event for event in line.heard if isinstance(event, Measured)]
    assert [len(m.values) for m in told.measurements if m.metric == "turn_time_s"] == [2]
    assert not multiprocessing.active_children(), "they went on, and could end"


def test_without_a_loader_there_is_nothing_to_give_away():
    line = Line(TakeTurn(2), Finish())
    turns_of(line)
    assert next(event for event in line.heard if isinstance(event, Ready)).queue == 0


def test_the_memory_of_turns_is_not_that_of_their_warm_up(monkeypatch):
    line, heard_before = Line(TakeTurn(2), Finish()), []
    monkeypatch.setattr(turns, "end_warm_up", lambda device, tally: heard_before.append(len(line.heard)))
    turns_of(line)
    assert [type(event) for event in line.heard[: heard_before[0] + 1]] == [Entered, Ready]
    assert len(heard_before) == 1


def test_whoever_loads_nothing_leaves_others_alone():
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60.0,), daemon=True)
    other.start()
    try:
        assert not Helpers(0).stop()
        assert "T" not in states()
        helpers = Helpers(4)
        assert helpers.stop()
        assert states() == {"T"}
        helpers.go_on()
        assert "T" not in states()
    finally:
        other.kill()
        other.join()


class Winding:
    """A warm-up whose steps take these times, the first of the process included."""

    def __init__(self, *steps_s: float, least=None, budget_s=0.1, queue=0, compiles=False, least_s=0.0):
        self.now_s = 0.0
        self._plan = BeforeTurns(least, budget_s, queue, compiles=compiles, clock=lambda: self.now_s, least_s=least_s)
        self._steps_s = steps_s

    def further(self) -> int:
        """How many steps are taken after the first."""
        self.now_s = self._steps_s[0]
        count, done = 0, list[float]()
        while count + 1 < len(self._steps_s) and self._plan.goes_on(count, done, self.now_s - self._steps_s[0]):
            done.append(self._steps_s[count + 1])
            self.now_s += done[-1]
            count += 1
        return count


def test_turns_begin_as_soon_as_steps_no_longer_become_faster():
    assert Winding(0.1, *[0.01] * 20).further() == 2
    assert Winding(0.1, 0.02, 0.01, 0.01, 0.01, *[0.01] * 20).further() == 3
    assert Winding(0.1, *[0.01 / n for n in range(1, 90)]).further() > 2


def test_the_budget_of_warm_up_is_that_of_a_step_where_steps_are_longer():
    assert Winding(0.2, 0.15, 0.14, 0.13).further() == 1
    assert Winding(1.8, 1.8, 1.8).further() == 0, "a second step would cost more than it tells"


def test_what_is_asked_for_what_compiles_and_what_lies_ready_goes_before():
    assert Winding(1.8, *[1.8] * 5, least=3).further() == 3
    assert Winding(30.0, 5.0, 0.5, 0.5, compiles=True).further() == 2
    assert Winding(0.6, *[0.5] * 9, queue=4).further() == 4
    assert Winding(0.1, *[0.01] * 9, least=0).further() == 0


def test_an_accelerators_first_step_tells_nothing_of_the_second_and_its_clock_has_to_rise():
    assert Winding(1.8, *[0.01] * 90, least_s=0.5).further() in (50, 51)
    assert Winding(1.8, 10.0, 10.0, 10.0, least_s=0.5).further() == 1
    assert Winding(1.8, *[0.01] * 90, least=3, least_s=0.5).further() == 3, "who asks for steps gets those"


@pytest.mark.parametrize(
    ("queue", "step_s", "device", "steps"),
    [(0, 0.001, "cpu", 0), (8, 0.001, "cpu", 8), (0, 0.001, "cuda", 2), (8, 0.001, "cuda", 8), (0, 0.3, "cuda", 1)],
)
def test_a_turn_on_an_accelerator_begins_while_it_is_at_work(queue, step_s, device, steps):
    assert lead_in_steps(queue, step_s, device) == steps


@pytest.mark.parametrize("closed", [False, True])
def test_turns_on_a_device_that_runs_behind_are_its_own_time_unless_each_answer_is_waited_for(closed):
    clock = FakeClock()
    device: Any = FakeQueue(clock, from_idle_s=0.002)

    def step(pull, mark):
        clock.sleep(0.0001)
        device.issue(0.001)

    line: Any = Line(TakeTurn(10, lead_in=2), Finish())
    instrument = Instrument(step, lambda: Batch({}, 1), device.synchronize, clock)
    helpers, seats = Helpers(0), Seats(bound=False)
    (window,) = _turns(line, instrument, device, helpers, seats, closed=closed)
    assert len(window.laps_s) == 10
    if closed:
        assert window.total_s == pytest.approx(0.031)
    else:
        assert window.total_s == pytest.approx(0.010)
    (taken,) = [event for event in line.heard if isinstance(event, TurnEnded)]
    assert taken.elapsed_s == window.total_s


@pytest.mark.parametrize(("placed", "least_s", "lead_in"), [("cpu", 0.0, 0), ("cuda", 0.5, 2)])
def test_a_side_on_an_accelerator_warms_up_longer_and_asks_for_steps_before_its_turns(placed, least_s, lead_in):
    line = Line(Finish())
    turns_of(line, placed, None)
    (ready,) = [event for event in line.heard if isinstance(event, Ready)]
    (told,) = [event for event in line.heard if isinstance(event, Measured)]
    assert ready.queue == lead_in
    assert told.facts.warmup_steps
    took_s = sum(s for m in told.measurements if m.stage == Stage.WARMUP for s in m.values)
    assert took_s >= 0.8 * least_s, "of half a second the clock is read between steps, too"
    assert placed == "cuda" or took_s < 0.3


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


def window_of(step_s: float) -> MeasuredWindow:
    laps_s = [step_s] * 8
    return MeasuredWindow(laps_s, laps_s, [1] * 8, None, sum(laps_s), 0.0, sum(laps_s), StopReason.BUDGET_SPENT)


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
    assert told.facts.nvtx == Statement("nvtx_on")
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
    assert told.facts.nvtx is not None
    assert told.facts.nvtx.id == "nvtx_off"
    assert str(told.facts.nvtx.values["error"]).startswith("NVTX functions not installed")
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


def test_it_drains_the_loaders_queue():
    assert warm_up_plan(Procedure(), 8, "cpu").goes_on(7, [0.1] * 7, 99.0)


def test_on_an_accelerator_half_a_second_is_the_least():
    steps_s = [0.002] * 20
    assert not warm_up_plan(Procedure(), 0, "cpu").goes_on(20, steps_s, 0.04)
    assert warm_up_plan(Procedure(), 0, "cuda").goes_on(20, steps_s, 0.04)
    assert not warm_up_plan(Procedure(), 0, "cuda").goes_on(250, steps_s, 0.5)
