"""A MemoryRequest carried out in this process: no weights are made, and the presets of the seeds fit their cards."""

from typing import Any

import pytest

from torchstone.config.recipe_files import load_request
from torchstone.core.cards import card
from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.message import MemoryRequest
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution import plan
from torchstone.execution.worker import memory_job, setup
from torchstone.execution.worker.memory_job import foretell


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

    monkeypatch.setattr(memory_job, "load_model", load)
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
