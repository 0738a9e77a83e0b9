"""Weights and state on disk: whole or not at all, and nothing from a file is executed."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from torchstone.core.errors import UsageError
from torchstone.core.schema.fit import Fit
from torchstone.execution.worker.checkpoints import _lay_out, load_state, load_weights, save_state, save_weights
from torchstone.execution.worker.fit_schedule import schedule_of


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
