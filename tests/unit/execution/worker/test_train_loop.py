"""How many steps an epoch of a training has, and what is over with its first."""

import pickle
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from build import a_case
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.message import Event, TrainRequest
from torchstone.core.schema.model import Batch, InputSpec, LoadedModel
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import SCHEDULES, EpochEnded, Fit
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.setup import Setup
from torchstone.execution.worker.train_loop import (
    FitData,
    _lay_out,
    class_scores,
    divided,
    factor,
    fit_model,
    judge_model,
    load_state,
    load_weights,
    save_state,
    save_weights,
    schedule_of,
    steps_in_an_epoch,
)
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
    request = TrainRequest(case, Procedure(iterations=2, epochs=2), fit=Fit(folder=str(tmp_path)))
    fit_model(request, Setup(case, engine, model, prepared, device, Collector(case)), events.append)
    assert epochs == [0, 1], "when its steps are done, before the next epoch's begin"


@pytest.mark.parametrize(
    ("schedule", "last", "middle"), [("constant", 1.0, 1.0), ("linear", 1 / 90, 0.5), ("cosine", 3e-4, 0.5)]
)
def test_it_rises_over_the_share_asked_for_and_then_falls_as_named(schedule, last, middle):
    fit = Fit(schedule=schedule, warmup_share=0.1)
    assert [factor(fit, step, 100) for step in (0, 4, 9)] == [0.1, 0.5, 1.0]
    assert factor(fit, 10, 100) == 1.0
    assert factor(fit, 55, 100) == pytest.approx(middle)
    assert factor(fit, 99, 100) == pytest.approx(last, rel=0.02)
    assert factor(fit, 150, 100) >= 0.0, "a training that goes on for longer than planned never climbs downhill"


def test_without_a_rise_it_begins_at_the_full_rate():
    assert all(factor(Fit(schedule=word), 0, 10) == 1.0 for word in SCHEDULES)


class Tied(torch.nn.Module):
    """An embedding that is its output layer too, as in GPT-2."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(6, 4)
        self.out = torch.nn.Linear(4, 6, bias=False)
        self.out.weight = self.words.weight


def prepared(module, kind=torch.optim.AdamW):
    optimizer = kind(module.parameters(), lr=0.1)
    return SimpleNamespace(module=module, optimizer=optimizer, scaler=None), schedule_of(optimizer, Fit(), 10)


def a_step(one, schedule, seed=0):
    torch.manual_seed(seed)
    one.module(torch.randn(3, 4)).square().sum().backward()
    one.optimizer.step()
    one.optimizer.zero_grad()
    schedule.step()


def test_weights_that_are_shared_are_saved_once_and_come_back_shared(tmp_path):
    ours, theirs = Tied(), Tied()
    save_weights(ours, tmp_path / "w.safetensors")
    load_weights(theirs, tmp_path / "w.safetensors")
    assert torch.equal(ours.out.weight, theirs.out.weight)
    assert theirs.out.weight is theirs.words.weight
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_weights_of_another_model_are_refused_by_the_names_of_their_tensors(tmp_path):
    save_weights(torch.nn.Linear(4, 2), tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=r"a different model: .*out\.weight.*bias"):
        load_weights(Tied(), tmp_path / "w.safetensors")


@pytest.mark.parametrize("bad", [b"", b"\x00" * 40, pickle.dumps({"a": 1}), (1 << 40).to_bytes(8, "little") + b"{}"])
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path, bad):
    path = tmp_path / "w.safetensors"
    path.write_bytes(bad)
    one, schedule = prepared(torch.nn.Linear(4, 2))
    for read in (lambda: load_weights(one.module, path), lambda: load_state(one, schedule, path)):
        with pytest.raises(UsageError) as caught:
            read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_state_comes_back_to_the_bit(tmp_path, kind):
    (one, its), (two, other) = prepared(torch.nn.Linear(4, 2), kind), prepared(torch.nn.Linear(4, 2), kind)
    a_step(one, its)
    torch.manual_seed(5)
    save_weights(one.module, tmp_path / "w.safetensors")
    save_state(one, its, {"epochs": 1}, tmp_path / "s.safetensors")
    after = torch.rand(3)
    a_step(one, its, 9)
    load_weights(two.module, tmp_path / "w.safetensors")
    assert load_state(two, other, tmp_path / "s.safetensors") == {"epochs": 1}
    assert torch.equal(torch.rand(3), after), "random numbers go on where they were"
    a_step(two, other, 9)
    assert torch.equal(one.module.weight, two.module.weight)
    assert other.last_epoch == 2


def test_a_state_of_another_training_is_refused(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "s.safetensors", metadata={"training": '{"plain": {}}'})
    one, schedule = prepared(torch.nn.Linear(4, 2))
    with pytest.raises(UsageError, match="not a checkpoint of this training"):
        load_state(one, schedule, tmp_path / "s.safetensors")


def test_the_state_of_images_laid_out_as_nhwc_comes_back_in_that_layout(tmp_path):
    def made():
        torch.manual_seed(0)
        layout: Any = {"memory_format": torch.channels_last}  # torch's stub does not know the keyword
        return torch.nn.Conv2d(4, 6, 3).to(**layout)

    def learns(module, optimizer, seed):
        torch.manual_seed(seed)
        module(torch.randn(2, 4, 8, 8)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    parts: list[Any] = [SimpleNamespace(module=made(), scaler=None) for _ in range(3)]
    whole, half, rest = parts
    for one in (whole, half, rest):
        one.optimizer = torch.optim.AdamW(one.module.parameters(), lr=0.1, fused=True)
    for one in (whole, half):
        learns(one.module, one.optimizer, 1)
    save_weights(half.module, tmp_path / "w.safetensors")
    save_state(half, schedule_of(half.optimizer, Fit(), 10), {}, tmp_path / "s.safetensors")
    load_weights(rest.module, tmp_path / "w.safetensors")
    load_state(rest, schedule_of(rest.optimizer, Fit(), 10), tmp_path / "s.safetensors")
    for one in (whole, rest):
        learns(one.module, one.optimizer, 2)
    assert torch.equal(whole.module.weight, rest.module.weight), "a fused kernel walks weight and state as they lie"


class Generator:
    """The random numbers of a device that is not here."""

    def __init__(self, *, there):
        self.state, self.there = torch.zeros(4, dtype=torch.uint8), there

    def is_available(self):
        return self.there

    is_initialized = is_available

    def get_rng_state(self):
        return self.state.clone()

    def set_rng_state(self, state):
        self.state = state


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mps"])
def test_the_random_numbers_of_the_device_go_on_where_they_were(tmp_path, monkeypatch, kind):
    devices = {name: Generator(there=name == kind) for name in ("cuda", "xpu", "mps")}
    for name, device in devices.items():
        monkeypatch.setattr(torch, name, device)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: kind == "mps")
    one, schedule = prepared(torch.nn.Linear(4, 2), torch.optim.SGD)
    devices[kind].state += 7
    save_state(one, schedule, {"epochs": 1}, tmp_path / "s.safetensors")
    devices[kind].state = torch.zeros(4, dtype=torch.uint8)
    load_state(one, schedule, tmp_path / "s.safetensors")
    assert devices[kind].state.tolist() == [7] * 4
    assert all(not other.state.any() for name, other in devices.items() if name != kind)


def test_the_count_of_steps_stays_on_the_host_where_a_weight_is_a_single_number():
    scale = torch.nn.Parameter(torch.empty((), device="meta"))
    optimizer = torch.optim.AdamW([scale, torch.nn.Parameter(torch.empty(2, device="meta"))])
    for parameter in optimizer.param_groups[0]["params"]:
        optimizer.state[parameter] = {"step": torch.tensor(3.0), "exp_avg": torch.empty_like(parameter)}
    _lay_out(optimizer)
    assert [state["step"].device.type for state in optimizer.state.values()] == ["cpu", "cpu"]


SPEC = InputSpec("features", classes=3)
LABELS = torch.tensor([0, 2])
SCORES = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0]])


def test_scores_are_found_in_what_models_return():
    for output in (SCORES, {"logits": SCORES}, (SCORES, None), SimpleNamespace(logits=SCORES)):
        assert class_scores(output, LABELS, SPEC) is SCORES
    assert class_scores(SCORES, None, SPEC) is None
    assert class_scores(SCORES, LABELS.float(), SPEC) is None, "targets of a regression"
    assert class_scores(torch.zeros(2, 5, 3), LABELS, SPEC) is None
    assert class_scores(SCORES, LABELS, InputSpec("text", causal=True)) is None


class Feed:
    """Two batches: one of two items, one of one."""

    def __init__(self):
        self.left = [Batch({"labels": LABELS}, 2), Batch({"labels": LABELS[:1]}, 1)]

    def next(self):
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


class Model:
    """Answers SCORES; its own loss is 7."""

    def __init__(self):
        self.module = torch.nn.Dropout()

    def answers(self, batch):
        assert not self.module.training
        return SCORES[: batch.items]

    def loss_of(self, batch):
        return 7.0


def test_the_loss_is_a_mean_over_items_and_the_model_is_left_in_train_mode():
    model: Any = Model()
    feed: Any = Feed()
    told: list[Any] = []
    timed: list[float] = []
    quality = judge_model(model, feed, SPEC, lambda *both: told.append(both), timed.append)
    whole = cross_entropy(SCORES[[0, 1, 0]], torch.tensor([0, 2, 0]))
    assert quality.loss == float(whole) or abs(quality.loss - float(whole)) < 1e-6
    assert (quality.accuracy, quality.items) == (2 / 3, 3)
    assert model.module.training
    assert len(timed) == 2, "one a batch"
    assert told[0][1].argmax(dim=1).tolist() == [0, 1]


def test_a_users_own_loss_is_what_is_reported():
    model: Any = Model()
    feed: Any = Feed()
    assert judge_model(model, feed, InputSpec("own")).loss == 7.0


class Unlabelled:
    """40 items."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        raise AssertionError("no item is read for this")


class Rows(Unlabelled):
    """60 items of class 0, 30 of class 1, 10 of class 2, sorted by class."""

    def __len__(self) -> int:
        return 100

    def label(self, index: int) -> int:
        return 0 if index < 60 else 1 if index < 90 else 2


def test_of_each_class_the_same_share_is_held_out_and_nothing_twice():
    kept, held_out = divided(Rows(), 0.2, 3)
    assert sorted([*kept, *held_out]) == list(range(100))
    assert [sum(Rows().label(n) == label for n in held_out) for label in range(3)] == [12, 6, 2]
    assert divided(Rows(), 0.2, 3) == (kept, held_out), "evaluate finds the same items again"
    assert divided(Rows(), 0.2, 4)[1] != held_out


def test_without_classes_it_is_drawn_from_all():
    kept, held_out = divided(Unlabelled(), 0.25, 0)
    assert (len(kept), len(held_out)) == (30, 10)


def test_a_share_that_holds_out_next_to_nothing_is_refused():
    with pytest.raises(Unsupported, match="holds out 0"):
        divided(Unlabelled(), 0.01, 0)
