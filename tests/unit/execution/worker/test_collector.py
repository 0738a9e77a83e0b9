"""A trial that measured everything ended well, unless its loss diverged."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from build import a_case

from torchstone.core.figures import figures
from torchstone.core.schema.trial import Outcome, Reason, Stage, Status, Trial
from torchstone.execution.worker.collector import Collector, end_warm_up

NAN, INF = math.nan, math.inf


def ended(losses, laps=0):
    tally = Collector(a_case())
    tally.warmed_up([0.1] * laps, settled=True)
    tally.steady("loss", losses)
    return tally.outcome()


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([2.0, 1.0, NAN, NAN], "the loss is nan from step 3 of 4"),
        ([INF, NAN], "the loss is inf from step 1 of 2"),
        ([2.0, NAN, 1.0, NAN, 1.0], "the loss is nan in 2 of 5 steps, first in step 2"),
    ],
)
def test_a_diverged_loss_is_named_with_its_step(losses, message):
    assert ended(losses) == Outcome(Status.CRASHED, message, reason=Reason.LOSS_NOT_FINITE)


def test_of_a_long_run_the_last_loss_is_that_of_the_last_step():
    assert ended([1.0, 1.0, NAN], laps=9).message == "the loss is nan from step 10 of 10"


def test_sound_losses_and_none_at_all_are_well():
    assert ended([2.0, 1.0]).status == Status.OK
    assert Collector(a_case()).outcome() == Outcome(Status.OK)


class Allocator:
    """torch.cuda: 3 GB are held, and 9 GB were while kernels were tried."""

    def __init__(self):
        self.held, self.peak, self.reset_of = 3e9, 9e9, []

    def reset_peak_memory_stats(self, device):
        self.peak = self.held
        self.reset_of.append(device)

    def stats(self):
        return {"allocated_bytes": int(self.held), "peak_allocated_bytes": int(self.peak), "allocator_retries": 0}


@pytest.fixture
def device(monkeypatch):
    allocator = Allocator()
    monkeypatch.setattr(torch, "get_device_module", lambda _: allocator)
    made: Any = SimpleNamespace(torch_device=torch.device("cuda", 1), memory=allocator.stats, allocator=allocator)
    return made


def test_what_only_the_warm_up_needed_is_kept_apart(device):
    tally = Collector(a_case())
    end_warm_up(device, tally)
    device.allocator.peak = 4e9  # of the windows
    for metric, value in device.memory().items():
        tally.steady(metric, [value])
    told = tally.measured()
    trial = Trial("t", "c", 0, 0, "", 1.0, Outcome(Status.OK), told.facts, told.measurements)
    assert trial.values("peak_allocated_bytes", Stage.WARMUP) == (9e9,)
    assert trial.values("peak_allocated_bytes") == (4e9,)
    found = figures(trial).values
    assert (found["warmup_peak_allocated_bytes"], found["peak_allocated_bytes"]) == (9e9, 4e9)
    assert "warmup_allocated_bytes" not in found
    assert device.allocator.reset_of == [torch.device("cuda", 1)], "of this device, whichever is the current one"


def test_a_device_that_cannot_begin_anew_keeps_its_one_peak(device, monkeypatch):
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace())
    tally = Collector(a_case())
    end_warm_up(device, tally)
    assert device.memory()["peak_allocated_bytes"] == 9e9


def test_on_a_cpu_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(torch, "get_device_module", lambda _: pytest.fail("there is none"))
    cpu: Any = SimpleNamespace(torch_device=torch.device("cpu"), memory=dict)
    tally = Collector(a_case())
    end_warm_up(cpu, tally)
    assert not tally.measured().measurements
