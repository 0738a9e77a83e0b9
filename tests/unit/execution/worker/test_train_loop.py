"""How many steps an epoch of a training has, and what is over with its first."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from build import a_case

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.fit import EpochEnded, Fit
from torchstone.core.schema.message import Event, FitRequest
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.fit_data import FitData
from torchstone.execution.worker.setup import Setup
from torchstone.execution.worker.train_loop import fit_model, steps_in_an_epoch
from torchstone.plugins import registry


class Items:
    """So many items."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        raise AssertionError("no item is read for this")


@pytest.mark.parametrize(
    ("items", "batch", "accumulation", "steps"),
    [
        (1797, 32, 1, 56),  # the last 5 items are no batch
        (1797, 32, 8, 7),
        (100, 10, 3, 3),  # the tenth batch is no step
        (64, 32, 1, 2),
    ],
)
def test_an_epoch_is_every_whole_step_of_whole_batches(items, batch, accumulation, steps):
    case = a_case({"batch_size": batch, "grad_accumulation": accumulation})
    assert steps_in_an_epoch(case, FitData(Items(items), has_end=True), None) == steps


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (FitData(Items(63), has_end=True), "63 items make 1 steps of 32; an epoch needs at least 2"),
        (FitData(Items(99)), "is endless"), (FitData(None), "is endless"),
    ],
)  # fmt: skip
def test_what_makes_no_epoch_is_unsupported_with_the_reason(data, said):
    with pytest.raises(Unsupported, match=said):
        steps_in_an_epoch(a_case({"batch_size": 32}), data, None)


def test_steps_that_were_asked_for_are_an_epoch():
    assert steps_in_an_epoch(a_case({"batch_size": 32}), FitData(None), 7) == 7


def test_what_compiles_is_ended_with_the_first_epoch(tmp_path, monkeypatch):
    def loss(network, tensors):
        return network(tensors["input"]).square().mean()

    model = LoadedModel(torch.nn.Linear(6, 3), loss, loss, InputSpec("own"), {"input": torch.randn(8, 6)})
    engine: Any = registry.load("engines", "train")
    values = {axis: AXES[axis].default for axis in engine.axes} | {"batch_size": 4}
    case = Case(Workload(Task.TRAIN, "module:test", "example", "sample"), values, Placement("cpu"))
    device = registry.load("devices", "cpu").open(0)
    prepared = engine.prepare(case, model, device)
    events: list[Event] = []
    epochs: list[int] = []
    close = lambda: epochs.append(sum(isinstance(event, EpochEnded) for event in events))
    monkeypatch.setattr(prepared._compile_pool, "close", close)
    request = FitRequest(case, Procedure(iterations=2, epochs=2), fit=Fit(folder=str(tmp_path)))
    fit_model(request, Setup(case, engine, model, prepared, device, Collector(case)), events.append)
    assert epochs == [0, 1], "when its steps are done, before the next epoch's begin"
