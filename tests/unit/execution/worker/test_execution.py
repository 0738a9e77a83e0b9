"""What a trial tells of its stages, and when the device's peaks begin anew: a tiny network, on the CPU."""

from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch

from torchstone.config.recipe_files import load_request
from torchstone.core.cards import card
from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import (
    Brought,
    Entered,
    Event,
    MemoryRequest,
    RehearseRequest,
    Request,
    TrialRequest,
)
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Status
from torchstone.execution import plan
from torchstone.execution.worker import execution, setup
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.execution import HANDLERS, foretell, measure_prepared
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


def a_request(model, task="train", on="h100-80gb", batches=(8,), limits=(), **axes):
    sketch = plan.sketch(WorkloadRequest(task, model, axes={axis: (value,) for axis, value in axes.items()}))
    one = card(on)
    case = Case(sketch.workload, sketch.configurations[0], Placement(one.kind))
    return MemoryRequest(case, one.info(), batches, limits, "device")


def test_the_whole_of_gpt2_is_followed_without_its_weights(monkeypatch):
    loaded: list[Any] = []

    def load(case):
        loaded.append(setup.load_model(case))
        return loaded[-1]

    monkeypatch.setattr(execution, "load_model", load)
    told = foretell(a_request("hf:gpt2", batches=(2, 4), precision="bf16"))
    (model,) = loaded
    assert all(parameter.is_meta for parameter in model.module.parameters())
    weights = 4 * sum(parameter.numel() for parameter in model.module.parameters())
    for peak in told.peaks:
        assert peak.kinds["weights"] == pytest.approx(weights, rel=0.02)
        assert peak.kinds["optimizer"] == pytest.approx(2 * weights, rel=0.02)
    small, large = told.peaks
    assert small.allocated_bytes < large.allocated_bytes < 2 * small.allocated_bytes


def test_the_largest_batch_keeps_to_the_limit_and_one_percent_more_does_not():
    limit = 2 * 2**30
    told = foretell(a_request("builtin:cnn", limits=(limit, 4 * limit, 1), image_size=64))
    most, more, none = told.largest
    assert none is None
    assert most is not None
    assert more is not None
    assert most.allocated_bytes <= limit
    beyond = int(1.02 * most.batch_size) + 1
    (over,) = foretell(a_request("builtin:cnn", batches=(beyond,), image_size=64)).peaks
    assert over.allocated_bytes > limit
    assert more.batch_size == pytest.approx(4 * most.batch_size, rel=0.1)


@pytest.mark.parametrize("on", ["mi300x", "b580", "m3-max", "t4"])
def test_every_kind_of_card_is_followed(on):
    (peak,) = foretell(a_request("hf:bert-tiny", on=on)).peaks
    assert peak.allocated_bytes > 4 * peak.kinds["weights"]


def test_what_a_card_cannot_do_is_said():
    with pytest.raises(Unsupported, match="bf16 would be emulated"):
        foretell(a_request("builtin:cnn", on="t4", precision="bf16"))


def test_a_task_that_cannot_be_followed_is_said():
    with pytest.raises(Unsupported, match="task generate"):
        foretell(a_request("hf:gpt2-tiny", task="generate"))


def test_on_the_cpu_it_is_followed_as_the_cpu_goes():
    request = a_request("hf:bert-tiny")
    case = Case(request.case.workload, request.case.configuration, Placement("cpu"))
    (peak,) = foretell(MemoryRequest(case, None, (8,))).peaks
    assert peak.reserved_bytes is None
    assert "workspace" not in peak.kinds


# S2: presets of the seeds, the cards they name, and the share of the card that a tenth must stay free of; None: the
# batch that the seed names is predicted to leave less than that, and to fit all the same.
PRESETS = {
    ("preset-24gb-small", "rtx3090"): 0.9, ("preset-24gb-small", "rtx4090"): 0.9,
    ("preset-24gb-medium", "rtx3090"): 0.9, ("preset-24gb-medium", "rtx4090"): 0.9,
    ("preset-40gb-small", "a100-40gb"): 0.9, ("preset-40gb-medium", "a100-40gb"): None,
    ("preset-80gb-small", "a100-80gb"): 0.9, ("preset-80gb-medium", "a100-80gb"): None,
    ("preset-80gb-large", "a100-80gb"): 0.9,
}  # fmt: skip


@pytest.mark.parametrize(("recipe", "on"), PRESETS)
def test_presets_of_the_seeds_fit_the_cards_they_name(recipe, on):
    (workload,) = load_request(recipe).workloads
    sketch = plan.sketch(workload)
    one = card(on)
    assert recipe.startswith(f"preset-{one.memory_gib:g}gb-")
    size = int(str(sketch.configurations[0]["batch_size"]))
    case = Case(sketch.workload, sketch.configurations[0], Placement(one.kind))
    (peak,) = foretell(MemoryRequest(case, one.info(), (size,), settings="device")).peaks
    share = peak.allocated_bytes / one.memory_bytes
    if (most := PRESETS[recipe, on]) is not None:
        assert share <= most
    else:
        assert 0.9 < share < 0.95, "now it leaves a tenth: say so here, in the recipe and in docs/memory.md"
