"""What is kept of steps that torch records as CUDA graphs: memory that each step writes over, played by one buffer."""

import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor

from torchstone.api.keeping import Switches
from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import Batch, InputSpec, LoadedModel
from torchstone.execution.timing.loop import unmarked
from torchstone.plugins import registry
from torchstone.plugins.tasks import _graphs, _settings
from torchstone.plugins.tasks._graphs import CompilePool
from torchstone.plugins.tasks._inference import PreparedInference
from torchstone.plugins.tasks.generate import PreparedGeneration
from torchstone.plugins.tasks.train import PreparedTraining

with warnings.catch_warnings():  # it imports what torch itself calls deprecated
    warnings.simplefilter("ignore")
    from torch._inductor import cudagraph_trees, list_mode_options

GRAPHS, NONE = {"compile": "reduce-overhead"}, {"compile": "default"}


def device_of(kind: str) -> Any:
    return SimpleNamespace(torch_device=torch.device(kind), objection=lambda axis, value: None)


def test_the_modes_are_those_in_which_torch_records_graphs():
    modes = {mode for mode, options in list_mode_options().items() if options.get("triton.cudagraphs")}
    assert modes == set(_graphs._MODES)
    assert modes <= set(AXES["compile"].values or ())


@pytest.mark.parametrize(
    ("mode", "kind", "recorded"),
    [
        ("reduce-overhead", "cuda", True), ("max-autotune", "cuda", True), ("reduce-overhead", "xpu", True),
        ("default", "cuda", False), ("off", "cuda", False), ("reduce-overhead", "cpu", False),
    ],
)  # fmt: skip
def test_where_steps_are_graphs(mode, kind, recorded):
    assert _graphs.are_recorded({"compile": mode}, device_of(kind)) is recorded


def kept_of(configuration, kind):
    """Three losses that lie in the same memory, as a graph's do, kept one after another."""
    keep, loss, kept = _graphs.keeper(configuration, device_of(kind)), torch.zeros(()), []
    for step in range(3):
        loss.fill_(step)
        kept.append(keep(loss))
    return [float(one) for one in kept], [isinstance(one, float) for one in kept]


def test_a_kept_loss_shares_no_memory_with_the_next():
    assert kept_of(GRAPHS, "cuda") == ([0.0, 1.0, 2.0], [False] * 3)
    assert kept_of(NONE, "cuda")[0] == [2.0, 2.0, 2.0], "else it is the tensor itself, as nobody writes over it"
    assert kept_of(GRAPHS, "cpu") == ([0.0, 1.0, 2.0], [True] * 3)


def prepared_on_meta(monkeypatch, losses, task="train", **axes):
    """An engine on a device that is not the CPU and computes nothing; its compiled module is the module."""
    monkeypatch.setattr(_settings, "compiled", lambda module, configuration: module)

    def loss(network, tensors):
        losses.append(network(tensors["input"]).square().mean())
        return losses[-1]

    model = LoadedModel(torch.nn.Linear(6, 3), loss, loss, InputSpec("own"))
    engine = registry.load("engines", task)
    values = (
        {axis: AXES[axis].default for axis in engine.axes}
        | {"batch_size": 4, "optimizer": "sgd", "fused": "off"}
        | axes
    )
    case = Case(Workload(Task(task), "module:test", "example", "sample"), values, Placement("cuda"))
    return engine.prepare(case, model, device_of("meta"))


def memory(tensor):
    return tensor.untyped_storage()._cdata


def batch():
    return Batch({"input": torch.empty(4, 6, device="meta")}, 4)


@pytest.mark.parametrize(("mode", "shared"), [("reduce-overhead", False), ("max-autotune", False), ("off", True)])
def test_a_training_keeps_copies_of_the_losses_that_graphs_write(monkeypatch, mode, shared):
    losses: list[Any] = []
    prepared = prepared_on_meta(monkeypatch, losses, compile=mode)
    prepared.losses = []
    for _ in range(3):
        prepared.step(batch, unmarked)
    pairs = list(zip(prepared.losses, losses, strict=True))
    assert [memory(kept) == memory(loss) for kept, loss in pairs] == [shared] * 3
    assert not any(kept.requires_grad for kept, _ in pairs)


@pytest.mark.parametrize("task", ["train", "infer"])
@pytest.mark.parametrize(("mode", "marked"), [("reduce-overhead", 3), ("default", 0), ("off", 0)])
def test_every_step_is_marked_where_steps_are_graphs_and_the_users_process_forgets_it(monkeypatch, task, mode, marked):
    monkeypatch.setattr(cudagraph_trees.MarkStepBox, "mark_step_counter", 0)
    before = Switches()
    prepared = prepared_on_meta(monkeypatch, [], task, compile=mode)
    for _ in range(3):
        prepared.step(batch, unmarked)
    assert cudagraph_trees.MarkStepBox.mark_step_counter == -marked
    before.put_back()
    assert cudagraph_trees.MarkStepBox.mark_step_counter == 0


def test_gradients_are_not_accumulated_where_graphs_write_over_them(monkeypatch):
    with pytest.raises(Unsupported, match=r"compile=max-autotune, grad_accumulation=4: .*say compile=default"):
        prepared_on_meta(monkeypatch, [], compile="max-autotune", grad_accumulation=4)
    prepared_on_meta(monkeypatch, [], compile="default", grad_accumulation=4)


class Pools:
    """torch._inductor.async_compile, with a pool that is noted and no processes."""

    def __init__(self):
        self._pool_set: set[str] = set()
        self.closed = 0

    def shutdown_compile_workers(self):
        self._pool_set.clear()
        self.closed += 1


@pytest.fixture
def pools(monkeypatch):
    made = Pools()
    monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", made)
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "16")  # torch's own word for it
    inductor.compile_threads, before = 7, inductor.compile_threads
    yield made
    inductor.compile_threads = before


def device_of_compile_pool(kind: str) -> Any:
    return SimpleNamespace(torch_device=torch.device(kind))


def test_on_a_cpu_the_trial_compiles_alone(pools):
    pool = CompilePool({"compile": "default"}, device_of_compile_pool("cpu"))
    assert inductor.compile_threads == 1
    pool.close()
    assert pools.closed == 0


def test_for_an_accelerator_as_many_as_torch_likes_until_warm_up_is_over(pools):
    pool = CompilePool({"compile": "default"}, device_of_compile_pool("cuda"))
    assert inductor.compile_threads == 16
    pools._pool_set.add("of this trial")
    pool.close()
    pool.close()
    assert pools.closed == 1, "once, before the first window"
    assert inductor.compile_threads == 1, "what is compiled later starts no new ones beside the steps"


def test_the_pool_of_a_users_own_process_stays(pools):
    pools._pool_set.add("the user's")
    CompilePool({"compile": "default"}, device_of_compile_pool("cuda")).close()
    assert pools.closed == 0


@pytest.mark.parametrize("mode", ["off", None])
def test_without_compiling_nothing_is_set(pools, mode):
    CompilePool({"compile": mode}, device_of_compile_pool("cuda")).close()
    assert inductor.compile_threads == 7
    assert pools.closed == 0


@pytest.mark.parametrize("kind", [PreparedTraining, PreparedInference, PreparedGeneration])
def test_every_engine_that_compiles_closes_it_before_its_windows(kind):
    closed: list[bool] = []
    prepared: Any = SimpleNamespace(_compile_pool=SimpleNamespace(close=lambda: closed.append(True)))
    kind.enter(prepared, "throughput")
    assert closed == [True]
