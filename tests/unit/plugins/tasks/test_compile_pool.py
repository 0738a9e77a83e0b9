"""Who builds the kernels of torch.compile, and that nobody is left when it is measured."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor

from torchstone.plugins import registry
from torchstone.plugins.tasks._compile_pool import CompilePool


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


def device_of(kind: str) -> Any:
    return SimpleNamespace(torch_device=torch.device(kind))


def test_on_a_cpu_the_trial_compiles_alone(pools):
    pool = CompilePool({"compile": "default"}, device_of("cpu"))
    assert inductor.compile_threads == 1
    pool.close()
    assert pools.closed == 0


def test_for_an_accelerator_as_many_as_torch_likes_until_warm_up_is_over(pools):
    pool = CompilePool({"compile": "default"}, device_of("cuda"))
    assert inductor.compile_threads == 16
    pools._pool_set.add("of this trial")
    pool.close()
    pool.close()
    assert pools.closed == 1, "once, before the first window"
    assert inductor.compile_threads == 1, "what is compiled later starts no new ones beside the steps"


def test_the_pool_of_a_users_own_process_stays(pools):
    pools._pool_set.add("the user's")
    CompilePool({"compile": "default"}, device_of("cuda")).close()
    assert pools.closed == 0


@pytest.mark.parametrize("mode", ["off", None])
def test_without_compiling_nothing_is_set(pools, mode):
    CompilePool({"compile": mode}, device_of("cuda")).close()
    assert inductor.compile_threads == 7
    assert pools.closed == 0


@pytest.mark.parametrize("task", ["train", "infer", "generate"])
def test_every_engine_that_compiles_closes_it_before_its_windows(task):
    module = sys.modules[type(registry.load("engines", task)).__module__]
    (kind,) = [one for name, one in vars(module).items() if name.startswith("Prepared") and name != "Prepared"]
    closed: list[bool] = []
    prepared: Any = SimpleNamespace(_compile_pool=SimpleNamespace(close=lambda: closed.append(True)))
    kind.enter(prepared, "throughput")
    assert closed == [True]
