"""Each wrong version is wrong by a margin that no noise explains, each right one right, and the page shows both."""

import inspect
import itertools
import math
import random
import re
import statistics
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeClock, FakeQueue

from torchstone.core.stats.peak_memory import CachingAllocator

TRAPS = Path(__file__).parents[2] / "docs" / "traps"
EXAMPLES = sorted((TRAPS / "examples").glob("*.py"))
MIB = 1 << 20


def example(name: str) -> Any:
    """The example as a module."""
    spec = util.spec_from_file_location(f"trap_{name}", TRAPS / "examples" / f"{name}.py")
    assert spec
    assert spec.loader
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_steps_of_a_device_that_runs_behind():
    clock = FakeClock()
    queue = FakeQueue(clock)

    def step():
        clock.sleep(0.02e-3)
        queue.issue(10e-3)

    trap = example("not_synchronised")
    assert trap.wrong(step, 100, clock) == pytest.approx(0.02e-3)
    assert trap.right(step, queue.synchronize, 100, clock) == pytest.approx(10e-3, rel=1e-3)


def test_steps_of_a_gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: the test before this one has a device that is simulated")
    trap, x = example("not_synchronised"), torch.randn(8192, 8192, device="cuda")
    trap.right(lambda: x @ x, torch.cuda.synchronize, 3)  # warm-up
    launch_s = trap.wrong(lambda: x @ x, 10)
    torch.cuda.synchronize()
    assert trap.right(lambda: x @ x, torch.cuda.synchronize, 10) > 3 * launch_s


def test_rates_of_steps():
    trap, items, times_s = example("mean_of_rates"), [10] * 10, [0.01] * 9 + [1.0]
    assert trap.wrong(items, times_s) == pytest.approx(901.0)
    assert trap.right(items, times_s) == pytest.approx(100 / 1.09)


def warming_up(clock):
    """Steps of 10 ms in the end: 500 ms for the first, the next up to four times as long."""
    done = itertools.count()

    def step():
        k = next(done)
        clock.sleep(0.5 if k == 0 else 0.01 * (1.0 + 3.0 * math.exp(-k / 10.0)))

    return step


def test_the_first_steps():
    trap, clock = example("no_warm_up"), FakeClock()
    assert trap.wrong(warming_up(clock), 20, clock) == pytest.approx(46.6e-3, rel=1e-2)
    assert trap.wrong(warming_up(clock), 2000, clock) == pytest.approx(10.4e-3, rel=1e-2)
    first_s, steady_s = trap.right(warming_up(clock), 20, clock)
    assert first_s == pytest.approx(0.5)
    assert steady_s == pytest.approx(10e-3, rel=1e-3)


def test_compiling():
    trap, clock, compiled = example("compile_time"), FakeClock(), set[int]()

    def step(batch):
        if len(batch) not in compiled:
            compiled.add(len(batch))
            clock.sleep(20.0)
        clock.sleep(10e-3)

    batches = [[0.0] * 32] * 99 + [[0.0] * 7]
    assert trap.wrong(step, batches, clock) == pytest.approx(0.41)
    compiled.clear()
    compiling_s, step_s = trap.right(step, batches, clock)
    assert compiling_s == pytest.approx(40.02)
    assert step_s == pytest.approx(10e-3)


def test_steps_shorter_than_a_tick():
    trap, time, tick_s = example("coarse_clock"), FakeClock(), 1e-3

    def coarse():
        return math.floor(time.now_s / tick_s) * tick_s

    def step():
        time.sleep(0.03e-3)

    assert trap.wrong(step, 101, coarse) == 0.0
    assert trap.right(step, coarse, tick_s) == pytest.approx(0.03e-3, rel=1e-3)


def loader(clock, batch_s, ready):
    """Batches that take so long to make, by workers that were started long ago: so many are ready, and never more."""
    ready_s = [clock.now_s] * ready
    for k in itertools.count():
        clock.now_s = max(clock.now_s, ready_s[k])
        ready_s.append(max(ready_s[-1], clock.now_s) + batch_s)
        yield k


def test_the_loader():
    trap, clock = example("loader_left_out"), FakeClock()

    def step(_):
        clock.sleep(10e-3)

    assert trap.wrong(loader(clock, 50e-3, 8), step, 200, clock) == pytest.approx(10e-3)
    assert trap.right(loader(clock, 50e-3, 8), step, 10, 0, clock) == pytest.approx(11e-3)
    assert trap.right(loader(clock, 50e-3, 8), step, 200, 8, clock) == pytest.approx(50e-3, rel=0.02)


def test_inference_in_training_mode():
    import torch
    from torch import nn

    trap, batch = example("gradients_on"), torch.randn(16, 8)
    model = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))
    statistic, kept = model.get_buffer("1.running_mean"), list[int]()

    def keep(tensor):
        kept.append(tensor.nbytes)
        return tensor

    before = statistic.clone()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        assert not torch.equal(trap.wrong(model, batch), trap.wrong(model, batch))
        assert sum(kept) > batch.nbytes
        assert not torch.equal(statistic, before)
        before = statistic.clone()
        kept.clear()
        assert torch.equal(trap.right(model, batch), trap.right(model, batch))
    assert not kept
    assert torch.equal(statistic, before)


def test_threads_of_two_processes(monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    trap, command = example("default_threads"), [sys.executable, "-c", "import torch; print(torch.get_num_threads())"]
    (alone,) = map(int, trap.wrong(command, 1))
    if alone == 1:
        pytest.skip("one core: torch takes one thread, and there is nothing to share")
    assert sum(map(int, trap.wrong(command, 2))) == 2 * alone
    assert sum(map(int, trap.right(command, 2, alone))) <= alone


class SimulatedMemory:
    """The part of torch.cuda that counts memory, over torch's algorithm without a card."""

    def __init__(self) -> None:
        self.blocks = CachingAllocator()

    def memory_allocated(self) -> int:
        return self.blocks.allocated

    def max_memory_allocated(self) -> int:
        return self.blocks.most_allocated

    def max_memory_reserved(self) -> int:
        return self.blocks.most_reserved

    def reset_peak_memory_stats(self) -> None:
        self.blocks.most_allocated, self.blocks.most_reserved = self.blocks.allocated, self.blocks.reserved

    def empty_cache(self) -> None:
        assert self.blocks.allocated == 0, "simulated for an empty device only"
        self.blocks = CachingAllocator()


def test_the_peak_of_a_step():
    trap, memory = example("memory_peaks"), SimulatedMemory()

    def step():
        memory.blocks.take(100 * MIB)
        for block in [memory.blocks.take(3 * MIB) for _ in range(300)]:
            memory.blocks.give_back(block)

    assert trap.wrong(step, memory) == 100 * MIB
    memory.blocks = CachingAllocator()
    memory.blocks.give_back(memory.blocks.take(5000 * MIB))  # a larger batch, given up
    assert trap.wrong_too(step, memory) == 5000 * MIB
    memory.blocks = CachingAllocator()
    memory.blocks.give_back(memory.blocks.take(5000 * MIB))
    assert trap.right(step, memory) == (1000 * MIB, 1100 * MIB)


def runs(chance, count, typical_s=1.0):
    return [typical_s * math.exp(chance.gauss(0.0, 0.1)) for _ in range(count)]


def test_one_run_of_each_side():
    trap, chance = example("one_run"), random.Random(1)
    assert {trap.wrong(*runs(chance, 2)) for _ in range(100)} == {"faster", "slower"}
    verdicts = [trap.right(runs(chance, 5), runs(chance, 5)) for _ in range(2000)]
    false = statistics.fmean(verdict != "not significantly different" for verdict, _, _ in verdicts)
    assert 0.03 < false < 0.07
    assert all((low <= 1.0 <= high) == (verdict not in ("faster", "slower")) for verdict, low, high in verdicts)
    found = [trap.right(runs(chance, 5), runs(chance, 5, typical_s=0.5))[0] for _ in range(200)]
    assert set(found) == {"faster"}


@pytest.mark.parametrize("true_ratio", [1.0, 0.95])
def test_one_side_after_the_other(true_ratio):
    trap = example("an_hour_apart")
    done = itertools.count()

    def takes(seconds):
        return lambda: seconds * 1.01 ** next(done)  # 1 % slower with each run

    assert trap.wrong(takes(1.0), takes(true_ratio), 10) == pytest.approx(1.105 * true_ratio, rel=1e-3)
    assert trap.right(takes(1.0), takes(true_ratio), 10) == pytest.approx(true_ratio, rel=1e-6)


def test_the_best_of_many():
    trap, chance = example("best_of_n"), random.Random(1)
    draws = [(runs(chance, 5), runs(chance, 50)) for _ in range(1000)]
    assert statistics.fmean(trap.wrong(a, b) for a, b in draws) == pytest.approx(0.9, abs=0.02)
    assert statistics.fmean(trap.right(a, b) for a, b in draws) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_page_shows_the_code_that_runs(file):
    page = (TRAPS / f"{file.stem.replace('_', '-')}.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    functions = [one for _, one in inspect.getmembers(example(file.stem), inspect.isfunction)]
    own = [inspect.getsource(one) for one in functions if one.__module__ == f"trap_{file.stem}"]
    assert [source for source in own if not any(source in block for block in shown)] == []
    assert [block for block in shown if block not in file.read_text(encoding="utf-8")] == []
    assert page.index("## Wrong") < page.index("def wrong") < page.index("## Right") < page.index("def right")


def test_every_trap_has_a_page_and_every_page_an_example():
    pages = {page.stem for page in TRAPS.glob("*.md")} - {"README"}
    assert pages == {file.stem.replace("_", "-") for file in EXAMPLES}
