"""What is set where the user says nothing: by the device's liking, as torch has it, or as it was before the choice."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from build import a_case
from torch import nn

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.facts import Facts, SettingFact
from torchstone.core.schema.model import InputSpec, LoadedModel, OwnData
from torchstone.execution.worker.auto_settings import brought, settle
from torchstone.plugins import registry
from torchstone.plugins.protocols import Batches, Streamable

LEFT = {"threads": 0, "channels_last": "auto", "fused": "auto", "sdpa": "auto", "precision": "bf16"}
NET = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3))


class Likes:
    """A device with opinions, and objections."""

    def __init__(self, threads=None, nhwc=None, without=()):
        self._likes = {"threads": threads, "channels_last": nhwc}
        self._without = without

    def preference(self, axis, configuration):
        assert configuration["precision"] == "bf16", "what it likes may depend on the other settings"
        return self._likes[axis]

    def objection(self, axis, value):
        return f"no {value} here" if (axis, value) in self._without else None


def a_model(module=NET, **more):
    return LoadedModel(module, lambda n, t: n(t), None, InputSpec("own"), **more)


def settled(device: Any, model=None, policy: str | None = "device", **axes):
    case, how = settle(a_case({**LEFT, **axes}), model or a_model(), device, policy)
    return {name: case.configuration[name] for name in LEFT}, how


@pytest.fixture(autouse=True)
def eight_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)


def test_what_the_device_likes_is_set_and_told():
    device = Likes((4, "the physical cores of 8 logical ones"), (True, "tensor cores"), {("sdpa", "cudnn")})
    values, told = settled(device)
    assert values == {"threads": 4, "channels_last": True, "fused": "auto", "sdpa": "auto", "precision": "bf16"}
    assert told == {
        "threads": SettingFact("4", "fewer", {"why": "the physical cores of 8 logical ones", "default": 8}),
        "channels_last": SettingFact("on", "device", {"why": "tensor cores"}),
        "fused": SettingFact("on", "fused_kernels"),
        "sdpa": SettingFact("auto", "order", {"kernels": ("flash", "efficient", "math")}),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ((8, "one a core"), SettingFact("8", "same", {"why": "one a core"})), (None, SettingFact("8", "default")),
        ((16, "one a core"), SettingFact("8", "default")),
    ],
)  # fmt: skip
def test_threads_are_set_only_where_torch_would_take_too_many(wish, told):
    values, facts = settled(Likes(wish))
    assert values["threads"] == 0, "to set what torch has would end MKL's own choice for small products"
    assert facts["threads"] == told


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (a_model(nn.Linear(2, 2)), "no_convolutions"),
        (a_model(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(2, 2))), "no_convolutions"),
        (a_model(objection=lambda axis, value: f"not {value}" if axis == "channels_last" else None), "refused"),
    ],
    ids=["none", "patches of a transformer", "the model says no"],
)
def test_images_stay_as_they_are_unless_it_is_a_convolution_net(model, why):
    values, told = settled(Likes(nhwc=(True, "tensor cores")), model)
    assert values["channels_last"] is False
    assert (told["channels_last"].value, told["channels_last"].reason) == ("off", why)
    assert told["channels_last"].values == ({"why": "not True"} if why == "refused" else {})


def test_images_stay_as_they_are_where_weights_are_sharded():
    values, told = settled(Likes(nhwc=(True, "tensor cores")), strategy="fsdp2")
    assert (values["channels_last"], told["channels_last"]) == (False, SettingFact("off", "contiguous"))


def test_a_device_without_a_liking_leaves_images_to_torch():
    values, told = settled(Likes())
    assert (values["channels_last"], told["channels_last"]) == (False, SettingFact("off", "default"))


def test_fused_kernels_are_not_for_every_device_nor_every_optimizer():
    values, told = settled(Likes(without={("fused", "on")}))
    assert (values["fused"], told["fused"]) == ("off", SettingFact("off", "refused", {"why": "no on here"}))
    values, told = settled(Likes(), a_model(optimizer=lambda parameters: None))
    assert values["fused"] == "off"
    assert told["fused"] == SettingFact("off", "own_optimizer")


@pytest.mark.parametrize("policy", ["device", "torch", None])
def test_what_the_user_said_stands_whatever_the_policy(policy):
    device = Likes((4, "cores"), (True, "tensor cores"), {("fused", "on")})
    asked = {"threads": 6, "channels_last": "off", "fused": "on", "sdpa": "math"}
    values, told = settled(device, policy=policy, **asked)
    assert values == {**asked, "channels_last": False, "precision": "bf16"}
    assert told == {axis: SettingFact(str(value), "requested") for axis, value in asked.items()}
    assert settled(device, policy=policy, channels_last="on")[0]["channels_last"] is True


def test_torch_is_left_as_it_is():
    values, told = settled(Likes((4, "cores"), (True, "tensor cores")), policy="torch")
    assert values == {"threads": 0, "channels_last": False, "fused": "off", "sdpa": "auto", "precision": "bf16"}
    left = {"threads": "8", "channels_last": "off", "fused": "off", "sdpa": "auto"}
    assert told == {axis: SettingFact(value, "default") for axis, value in left.items()}


def test_only_axes_of_the_engine_are_set():
    case, told = settle(a_case({"threads": 0}), a_model(), SimpleNamespace(preference=lambda *_: None), "device")
    assert dict(case.configuration) == {"batch_size": 16, "threads": 0}
    assert list(told) == ["threads"]


def test_on_this_machine_a_device_of_its_own_is_asked():
    values, told = settled(registry.load("devices", "cpu").open(0), a_model(nn.Linear(2, 2)), precision="fp32")
    assert (values["channels_last"], values["fused"], values["sdpa"]) == (False, "auto", "auto")
    assert told["sdpa"] == SettingFact("auto", "order", {"kernels": ("flash", "math")})


def own_case(**work):
    return a_case({"batch_size": 1, "feed": "loader"}, model="py:mine.py:load", **{"data": "example", **work})


class Batched(Streamable):
    """A loader whose batches have one size."""

    fixed: Mapping[str, Scalar] = {"batch_size": 32}
    why = Statement("batch_sampler")

    def open_batches(self, configuration: Mapping[str, Scalar]) -> Batches:
        raise AssertionError


def test_what_the_users_own_loader_has_is_told_by_its_rehearsal():
    facts = Facts(own_batch_size=32, own_num_workers=2, own_pin_memory=True, own_data="X")
    samples = Batched()
    own = brought(a_model(samples=samples, facts=facts), own_case())
    assert own.is_data
    assert own.settings == {"batch_size": 32, "num_workers": 2, "pin_memory": False}, "a CPU has nowhere to transfer to"
    assert (own.fixed, own.why) == (samples.fixed, samples.why)
    apple = brought(a_model(samples=samples, facts=facts), own_case(placement=Placement("mps")))
    assert apple.settings["pin_memory"] is False, "nor an Apple GPU"
    card = brought(a_model(samples=samples, facts=facts), own_case(placement=Placement("cuda")))
    assert card.settings["pin_memory"] is True


@pytest.mark.parametrize(
    ("items", "own", "task", "batch"),
    [(1000, None, Task.TRAIN, 32), (40, None, Task.TRAIN, 10), (3, None, Task.TRAIN, 1), (1000, 1, Task.TRAIN, 1),
     (1000, None, Task.INFER, None)],
    ids=["many", "few", "next to none", "of its loader", "inference"],
)  # fmt: skip
def test_a_training_on_a_dataset_without_a_batch_size_has_a_usual_one(items, own, task, batch):
    facts = Facts(own_batch_size=own)
    case = own_case(task=task)
    assert brought(a_model(samples=list(range(items)), facts=facts), case).settings.get("batch_size") == batch
    assert brought(a_model(samples=list(range(items)), facts=facts), case).filled(case, ()) == case, (
        "what was named stays"
    )


def test_an_example_brings_the_rows_that_it_has():
    model = a_model()
    model.example = {"input": torch.zeros(5, 3, 8, 8)}
    assert brought(model, own_case()) == OwnData(settings={"batch_size": 5})


def test_a_tokenizer_and_data_that_were_named_bring_nothing():
    assert brought(a_model(), own_case()) == OwnData()
    assert brought(a_model(samples=SimpleNamespace()), own_case(data="csv:a.csv")) == OwnData()
