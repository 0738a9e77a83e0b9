"""What a user's module, optimizer, data and process hold comes out of measuring as it went in, whatever was done."""

import copy
import random
import signal
import threading
from collections import OrderedDict, defaultdict, deque
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from torchstone.api import keeping
from torchstone.api.keeping import Keeping
from torchstone.core.errors import MissingError

X = torch.randn(4, 3)


def kept(model: Any = None, **parts: Any) -> Keeping:
    return Keeping({"model": model, **parts})


def state(module: nn.Module) -> dict[str, Any]:
    return copy.deepcopy({name: tensor.detach() for name, tensor in module.state_dict().items()})


def same(module: nn.Module, before: dict[str, Any]) -> bool:
    now = module.state_dict()
    return list(now) == list(before) and all(torch.equal(now[name], before[name]) for name in before)


def train(module: nn.Module, optimizer: Any = None) -> None:
    optimizer = optimizer or torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        module(X).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("error", [None, ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_weights_buffers_mode_gradients_and_flags_are_put_back(error):
    module: Any = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).eval()
    module[2].weight.requires_grad_(False)
    module(X).sum().backward()
    before, parameters = state(module), list(module.parameters())
    gradients = [(p.grad, None if p.grad is None else p.grad.clone()) for p in parameters]
    with pytest.raises(error) if error is not None else nullcontext(), kept(module).trial(0):
        assert all(p.grad is None for p in parameters), "every trial begins without gradients"
        train(module.train())
        module[2].weight.requires_grad_(True)
        module[0].bias.requires_grad_(False)
        if error is not None:
            raise error
    assert same(module, before)
    assert not any(part.training for part in module.modules())
    assert [p.requires_grad for p in parameters] == [True] * 4 + [False, True]
    assert all(now is then for now, then in zip(module.parameters(), parameters, strict=True))
    for parameter, (gradient, values) in zip(parameters, gradients, strict=True):
        assert parameter.grad is gradient, "the very tensor"
        assert gradient is None or (values is not None and torch.equal(gradient, values))


def test_device_format_and_layout_are_put_back_to_the_memory_there_was():
    module: Any = nn.Conv2d(3, 2, 3)
    before, places = state(module), [p.data_ptr() for p in module.parameters()]
    with kept(module).trial(0):
        module.to(torch.bfloat16, memory_format=torch.channels_last)
        assert module.weight.dtype == torch.bfloat16
    assert same(module, before)
    assert module.weight.is_contiguous()
    assert [p.data_ptr() for p in module.parameters()] == places
    with kept(module).trial(0):
        module.to("meta")
    assert same(module, before)
    assert [p.data_ptr() for p in module.parameters()] == places


class Changing(nn.Module):
    """Does in its forward all that people do there."""

    seen: torch.Tensor
    mask: torch.Tensor

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("mask", torch.ones(3).expand(4, 3), persistent=False)
        self.held = nn.Parameter(torch.ones(1))
        self.held.register_hook(lambda gradient: gradient)
        self.calls, self.past = 0, deque([torch.zeros(1)], maxlen=3)
        self.names, self.cache = ["a"], {"a": torch.ones(2)}
        self.drawn, self.pick = {1}, random.Random(1)
        self.noise, self.numbers = torch.Generator().manual_seed(3), np.random.default_rng(4)

    def forward(self, x):
        self.calls += 1
        self.seen += x.mean(0)
        self.past.append(x.detach().mean())
        self.past[0].add_(1.0)
        self.names.append(str(self.calls))
        self.cache["a"].mul_(2.0)
        self.cache[str(self.calls)] = x
        self.drawn.add(self.pick.randrange(100))
        self.numbers.random()
        x = x + torch.randn(x.shape, generator=self.noise) * self.mask
        if not hasattr(self, "later"):
            self.later = nn.Linear(3, 2)
            self.first.bias = nn.Parameter(torch.zeros(3))
            self.first.register_forward_hook(lambda *_: None)
            self.first.weight.register_hook(lambda gradient: gradient * 2.0)
            self.first.weight.register_post_accumulate_grad_hook(lambda _: None)
            self.held.register_hook(lambda gradient: gradient * 2.0)
            del self.seen
            self.register_buffer("seen", torch.ones(3))
        return self.later(self.first(x))


def test_a_module_that_changes_itself_is_as_it_was():
    module: Any = Changing()
    before, bias, seen = state(module), module.first.bias, module.seen
    source = module.pick.getstate(), module.noise.get_state(), module.numbers.bit_generator.state
    for _ in range(2):
        with kept(module).trial(0):
            train(module)
            assert hasattr(module, "later")
        assert same(module, before)
        assert module.first.bias is bias
        assert module.seen is seen
        assert (module.calls, module.names, module.drawn) == (0, ["a"], {1})
        assert (list(module.past), list(module.cache)) == ([torch.zeros(1)], ["a"])
        assert torch.equal(module.cache["a"], torch.ones(2))
        assert not hasattr(module, "later")
        assert not module.first._forward_hooks
        assert module.first.weight._backward_hooks is None
        assert module.first.weight._post_accumulate_grad_hooks is None
        assert len(module.held._backward_hooks) == 1
        assert module.pick.getstate() == source[0]
        assert torch.equal(module.noise.get_state(), source[1])
        assert module.numbers.bit_generator.state == source[2]


def test_lazy_modules_are_lazy_again():
    module: Any = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Linear(4, 2))
    for _ in range(2):
        with kept(module).trial(0):
            train(module) if _ else module(X)
            assert type(module[0]) is nn.Linear
        assert type(module[0]) is nn.LazyLinear
        assert type(module[1]) is nn.LazyBatchNorm1d
        assert torch.nn.parameter.is_lazy(module[0].weight)
    module(X)
    assert module[0].weight.shape == (4, 3), "and can be initialised as ever"


def test_tied_weights_stay_tied_and_are_kept_once():
    module: Any = nn.ModuleDict({"a": nn.Linear(3, 3, bias=False), "b": nn.Linear(3, 3, bias=False)})
    module["b"].weight = module["a"].weight
    module.register_buffer("view", module["a"].weight.detach().view(9))
    keeper, before = kept(module), state(module)
    with keeper.trial(0), torch.no_grad():
        module.to(torch.float64)
        module["a"].weight.add_(1.0)
    assert same(module, before)
    assert module["a"].weight is module["b"].weight
    assert module.get_buffer("view").data_ptr() == module["a"].weight.data_ptr()
    assert keeper.facts.kept_bytes == 9 * 4, "of shared memory there is one copy"


def test_what_cannot_be_copied_as_an_object_need_not_be():
    module: Any = nn.Linear(3, 2)
    module.lock = threading.Lock()
    module.stream = (number for number in range(3))
    with pytest.raises(TypeError):
        copy.deepcopy(module)
    before = state(module)
    with kept(module).trial(0):
        train(module)
    assert same(module, before)
    assert next(module.stream) == 0


def test_tensors_of_other_kinds():
    module: Any = nn.Linear(3, 2)
    module.sparse = torch.eye(3).to_sparse()
    module.register_buffer("nowhere", torch.empty(10**9, device="meta"))
    with torch.inference_mode():
        module.hidden = torch.ones(2)
    module.graph = module(X)
    keeper = kept(module)
    with keeper.trial(0), torch.inference_mode():
        module.hidden.mul_(3.0)
        module.graph.data.zero_()
        module.sparse.mul_(2.0)
    assert module.hidden.sum() == 2.0
    assert module.graph.abs().sum() > 0.0
    assert torch.equal(module.sparse.to_dense(), torch.eye(3))
    assert keeper.facts.kept_bytes in range(1, 200)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_a_scripted_module():
    module: Any = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))).eval()
    before = state(module)
    with kept(module).trial(0):
        train(module.train())
    assert same(module, before)
    assert not module.training


class Beyond(torch.optim.SGD):
    """Keeps more than its state_dict tells, and has another optimizer inside."""

    def __init__(self, parameters, inner):
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.count, self.means, self.inner = 0, [torch.zeros(1)], inner

    def step(self, closure=None):
        self.count += 1
        self.means[0].add_(1.0)
        self.param_groups[0]["lr"] *= 0.5
        self.inner.step()
        super().step()


@pytest.mark.parametrize("handed_out", [False, True], ids=["given", "handed out"])
def test_an_optimizer_keeps_its_parameters_its_state_and_what_its_state_dict_does_not_tell(handed_out):
    module: Any = nn.Linear(3, 2)
    optimizer = Beyond(module.parameters(), torch.optim.Adam(module.parameters()))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    train(module, optimizer)
    before, told = state(module), copy.deepcopy(optimizer.state_dict())
    inner, group = copy.deepcopy(optimizer.inner.state_dict()), optimizer.param_groups[0]
    momenta = {p: s["momentum_buffer"] for p, s in optimizer.state.items()}
    keeper = kept(module) if handed_out else kept(module, optimizer=optimizer)
    for _ in range(2):
        with keeper.trial(0):
            if handed_out:
                assert keeper.handed_out(optimizer) is optimizer
            else:
                optimizer.state.clear()
            train(module, optimizer)
            optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    assert same(module, before)
    assert str(optimizer.state_dict()) == str(told)
    assert str(optimizer.inner.state_dict()) == str(inner)
    assert (optimizer.count, optimizer.means) == (2, [torch.tensor([2.0])])
    assert optimizer.param_groups == [group]
    assert all(now is then for now, then in zip(group["params"], module.parameters(), strict=True))
    assert all(optimizer.state[p]["momentum_buffer"] is momentum for p, momentum in momenta.items())
    scheduler.step()
    assert group["lr"] == pytest.approx(0.1 * 0.25 * 0.1), "a scheduler goes on with it"


def test_optimizers_made_anew_are_not_kept_beyond_their_trial():
    module: Any = nn.Linear(3, 2)
    keeper = kept(module)
    for _ in range(3):
        with keeper.trial(0):
            train(module, keeper.handed_out(torch.optim.Adam(module.parameters())))
    assert keeper.facts.kept_bytes == 4 * (3 * 2 + 2), "the weights once, and a new optimizer holds nothing yet"
    assert not keeper._handed_out


def test_a_loss_with_weights_of_its_own_is_kept_too():
    loss = nn.BatchNorm1d(3)
    before = state(loss)
    with kept(nn.Linear(3, 3), loss=loss).trial(0):
        loss(X)
    assert same(loss, before)


def numbers() -> list[float]:
    return [random.random(), float(np.random.random()), float(torch.rand(1))]  # noqa: NPY002  what people's code calls


def test_random_numbers_go_on_as_if_nothing_had_been_and_each_trial_has_the_same():
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    expected = numbers()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    keeper = kept()
    drawn: list[list[float]] = []
    for seed in (7, 7, 8):
        with keeper.trial(seed):
            drawn.append(numbers())
    assert numbers() == expected
    assert drawn[0] == drawn[1] != drawn[2]


class FakeAccelerator:
    """Has what torch's modules of devices have."""

    def __init__(self):
        self.state, self.current, self.set = [torch.zeros(2)], 1, []

    def get_rng_state_all(self):
        return [one.clone() for one in self.state]

    def set_rng_state_all(self, states):
        self.state = states

    def manual_seed_all(self, seed):
        self.state = [torch.full((2,), float(seed))]

    def current_device(self):
        return self.current

    def set_device(self, index):
        self.set.append(index)
        self.current = index


def test_a_device_that_wakes_meanwhile_is_kept_from_then_on(monkeypatch):
    awake: list[tuple[str, Any]] = []
    monkeypatch.setattr(keeping, "awake", lambda: iter(awake))
    fake, keeper = FakeAccelerator(), kept()
    awake.append(("cuda", fake))
    fake.state = [torch.ones(2)]  # which the user's own seed gave, when it woke
    with keeper.trial(3):
        assert fake.state[0].tolist() == [3.0, 3.0]
    assert fake.state[0].tolist() == [1.0, 1.0]
    assert fake.set == [0], "which was its current one while it slept"


def test_switches_are_put_back_and_those_that_nobody_touched_are_left_alone(monkeypatch):
    found = keeping.Switches()
    with monkeypatch.context() as patched:
        patched.setattr(torch, "set_num_threads", pytest.fail)
        keeping.Switches().put_back()
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = not torch.backends.cudnn.allow_tf32
    torch.backends.cuda.enable_math_sdp(False)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_autocast_enabled("cpu", True)
    torch.set_grad_enabled(False)
    found.put_back()
    assert all(keeping._read(read) == was for read, _, was in found._found)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert torch.backends.cuda.math_sdp_enabled()
    assert torch.get_float32_matmul_precision() == "highest"


def test_precision_that_was_set_by_the_newer_words_stays_so(monkeypatch):
    matmul: Any = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("this torch has the older words only")
    before = keeping.Switches()
    try:
        matmul.fp32_precision = "tf32"
        found = keeping.Switches()
        torch.set_float32_matmul_precision("highest")
        found.put_back()
        assert matmul.fp32_precision == "tf32"
    finally:
        before.put_back()


def test_a_loaders_random_numbers_and_its_place_are_put_back():
    data = TensorDataset(torch.arange(8.0))
    own = torch.Generator().manual_seed(1)
    for loader in (
        DataLoader(data, shuffle=True, generator=own), DataLoader(data, sampler=RandomSampler(data, generator=own)),
        DataLoader(data, batch_sampler=torch.utils.data.BatchSampler(RandomSampler(data, generator=own), 2, True)),
    ):  # fmt: skip
        before, shared = own.get_state(), torch.get_rng_state()
        with kept(example=loader).trial(0):
            assert len(list(loader)) > 1
        assert torch.equal(own.get_state(), before)
        assert torch.equal(torch.get_rng_state(), shared)


def test_a_data_sets_own_generator_is_put_back_and_what_it_caches_stays():
    class Noisy(TensorDataset):
        def __init__(self):
            super().__init__(torch.zeros(4))
            self.random, self.cached = np.random.default_rng(2), []

        def __getitem__(self, index):
            self.cached.append(index)
            return self.random.random()

    data = Noisy()
    first = np.random.default_rng(2).random()
    for example in (data, DataLoader(data)):
        with kept(example=example).trial(0):
            next(iter(example))
        assert data.random.random() == first
        data.random = np.random.default_rng(2)
    assert data.cached


def test_a_persistent_loader_that_had_no_processes_has_none_afterwards():
    loader: Any = DataLoader(TensorDataset(torch.zeros(4)), num_workers=1, persistent_workers=True)
    with kept(example=loader).trial(0):
        next(iter(loader))
        (process_there,) = loader._iterator._workers
    assert loader._iterator is None
    process_there.join(10)
    assert process_there.exitcode is not None


@pytest.fixture
def heeds_ctrl_c():
    """A shell has what it starts in the background ignore SIGINT, and Python leaves it at that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_waits_until_all_is_put_back(monkeypatch):
    order: list[str] = []
    module: Any = nn.Linear(3, 2)
    keeper = kept(module)
    whole = keeper._held.put_back

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        whole()
        order.append("all")

    monkeypatch.setattr(keeper._held, "put_back", interrupted)
    before, handler = state(module), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), keeper.trial(0):
        train(module)
    assert order == ["all"]
    assert same(module, before)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_a_second_ctrl_c_before_anything_is_put_back_is_made_good_at_the_end(monkeypatch):
    module: Any = nn.Linear(3, 2)
    before = state(module)
    with pytest.raises(KeyboardInterrupt), kept(module) as keeper:
        monkeypatch.setattr(keeper, "put_back", lambda: signal.raise_signal(signal.SIGINT))
        with keeper.trial(0):
            train(module)
    assert same(module, before)


def test_one_thing_that_cannot_be_put_back_does_not_keep_the_others_from_it(monkeypatch):
    module: Any = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    keeper, before = kept(module), state(module)
    broken = keeper._held._tensors[0]
    monkeypatch.setattr(broken, "put_back", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError), keeper.trial(0):
        train(module)
    assert same(module, before), "its values are"
    assert all(p.grad is None for p in module.parameters() if p is not broken.tensor)


def test_without_memory_for_the_copy_it_says_how_much_it_takes(monkeypatch):
    monkeypatch.setattr(keeping, "available_bytes", lambda: 100)
    with pytest.raises(MissingError, match=r"a copy of 4\.00 KiB, but the host has 100 B free"):
        kept(nn.Linear(31, 32))
    kept(nn.Linear(3, 2))


def test_containers_of_all_kinds_are_filled_again_in_place():
    module: Any = nn.Module()
    module.held = {"o": OrderedDict(a=1, b=2), "d": defaultdict(list, x=[1]), "t": ([1, 2], {3})}
    inner = module.held["d"]
    with kept(module).trial(0):
        module.held["o"].move_to_end("a")
        inner["x"].append(2)
        inner["y"].append(1)
        module.held["t"][0].clear()
        module.held["t"][1].add(4)
    assert list(module.held["o"]) == ["a", "b"]
    assert inner is module.held["d"] == {"x": [1]}
    assert module.held["t"] == ([1, 2], {3})
