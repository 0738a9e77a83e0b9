"""A harness with a bug: the real loop, stopwatch and tally around a fake device that runs behind the host.

Each bug is one that somebody's benchmark has; the mutations of test_mutations.py put them in one at a time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from build import a_machine, a_run
from fakes import FakeClock, FakeQueue, FakeStopwatch, source_of

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.timing.clock import LatencyStopwatch
from torchstone.execution.timing.loop import Instrument
from torchstone.execution.timing.segments import Segments
from torchstone.execution.timing.stopping import FixedCount, WarmUp
from torchstone.execution.worker.collector import Collector
from torchstone.plugins.machine_protocols import Stopwatch

H200 = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", 140 * 2**30)
BATCH, STEPS = 32, 60
LAUNCH_S, WORK_S = 0.0004, 0.010
FLOPS = 0.3 * 989.4e12 * WORK_S  # an MFU of 30 %
_SHARES = {"forward": 0.3, "backward": 0.6, "optimizer": 0.09}


class Harness:
    """What is measured, and how: every part may be overridden by a bug. Times in seconds."""

    device = "cuda"
    configuration: Mapping[str, Scalar] = {"batch_size": BATCH, "precision": "bf16", "learning_rate": 1e-3}

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock, self.seed = FakeClock(), seed
        self.queue = FakeQueue(self.clock)
        self.count = 0
        self.chance = math.exp(self.rng.gauss(0.0, 0.03))

    # ── the parts that a bug replaces ───────────────────────────────────────────────────────────────────────

    def work_s(self) -> float:
        """What the device takes for the present step."""
        return WORK_S * self.chance * math.exp(self.rng.gauss(0.0, 0.02))

    def step(self, pull: Callable[[], object], mark: Callable[[str], None]) -> None:
        """Issue one step: the host goes on before the device has finished."""
        pull()
        mark("data")
        work_s = self.work_s()
        for phase, share in _SHARES.items():
            self.clock.sleep(LAUNCH_S / 3)
            self.queue.issue(share * work_s)
            mark(phase)
        self.queue.issue(0.01 * work_s)
        self.count += 1
        self.after_step()

    def after_step(self) -> None:
        """Do what the loop does between steps."""

    def synchronize(self) -> None:
        self.queue.synchronize()

    def stopwatch(self) -> Stopwatch:
        return FakeStopwatch(self.queue, self.clock)

    def segments(self) -> Segments:
        return Segments(FakeStopwatch(self.queue, self.clock))

    def read_clock(self) -> float:
        return self.clock()

    def items(self) -> int:
        return BATCH

    def warm_up(self) -> WarmUp:
        return WarmUp(12, 5.0)

    def results(self, tally: Collector) -> None:
        """Add what the engine tells."""
        losses = [2.3 * 0.98**i * (1.0 + 0.001 * (i % 3)) for i in range(20)]
        tally.steady("loss", losses)
        tally.steady("fingerprint", losses[:3])

    # ── and what goes with them ─────────────────────────────────────────────────────────────────────────────

    def case(self) -> Case:
        workload = Workload(Task.TRAIN, "hf:bert", "synthetic", "sequence")
        return Case(workload, self.configuration, Placement(self.device))

    def measured(self, number: int) -> Trial:
        """One trial, as a trial's process takes it."""
        tally = Collector(self.case())
        source = source_of(self.items(), wait_s=1e-6, clock=self.clock)
        instrument = Instrument(self.step, source, self.synchronize, self.read_clock)
        self.clock.sleep(2.0)
        plan = self.warm_up()
        first_s, warm_s = instrument.warm_up(plan)
        tally.setup("first_step_time_s", first_s)
        tally.warmed_up(warm_s, settled=plan.settled)
        window = instrument.window(self.stopwatch(), FixedCount(STEPS))
        tally.window("throughput", window)
        self.results(tally)
        steps = instrument.dissect(self.segments(), 12, closed=False)
        tally.steady("anatomy_step_time_s", steps.steps_s, "anatomy")
        for phase, spent_s in steps.phases_s.items():
            tally.steady("phase_time_s", spent_s, "anatomy", phase)
        tally.setup("flops", FLOPS)
        tally.steady("peak_reserved_bytes", [6e9])
        told = tally.measured()
        outcome = tally.outcome()
        return Trial(
            f"t{number}", self.case().case_id, number, number, "2026-11-21T10:00:00Z", self.clock.now_s,
            Outcome(Status.OK) if outcome.status != Status.CRASHED else outcome,
            merged(Facts(clock_resolution_s=1e-7), told.facts), told.measurements,
        )  # fmt: skip


def run_of(kind: Callable[[int], Harness], trials: int = 3) -> Run:
    """A run of that harness: each trial is a process of its own."""
    made = [kind(seed) for seed in range(trials)]
    taken: Sequence[Trial] = [harness.measured(number) for number, harness in enumerate(made)]
    devices = (H200,) if made[0].device == "cuda" else ()
    return a_run(taken, cases=[made[0].case()], machine=a_machine(devices=devices))


class HostLaps(LatencyStopwatch):
    """Laps by the host's clock that wait for nothing; `wait_at_end`: the window does."""

    def __init__(self, harness: Harness, *, wait_at_end: bool) -> None:
        super().__init__(lambda: None, harness.read_clock)
        self._finish = harness.synchronize if wait_at_end else (lambda: None)

    def stop(self) -> Sequence[float]:
        self._finish()
        return super().stop()
