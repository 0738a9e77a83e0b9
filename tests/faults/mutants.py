"""Bugs of harnesses, one a class: what somebody's benchmark did, put into ours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from faults.harness import BATCH, FLOPS, WORK_S, Harness, HostLaps

from torchstone.execution.timing.clock import LatencyStopwatch
from torchstone.execution.timing.segments import Segments
from torchstone.execution.timing.stopping import WarmUp
from torchstone.execution.worker.collector import Collector
from torchstone.plugins.machine_protocols import Stopwatch


class StepsWithoutSynchronise(Harness):
    def stopwatch(self) -> Stopwatch:
        return HostLaps(self, wait_at_end=True)


class NothingSynchronisedInTheWindow(Harness):
    def stopwatch(self) -> Stopwatch:
        return HostLaps(self, wait_at_end=False)


class NothingSynchronisedAnywhere(NothingSynchronisedInTheWindow):
    def synchronize(self) -> None:
        """Leave it out."""


class SynchronisedEveryTenthStep(Harness):
    """A loss that is printed now and then: the step that prints it waits for all others."""

    def stopwatch(self) -> Stopwatch:
        return HostLaps(self, wait_at_end=True)

    def after_step(self) -> None:
        if self.count % 10 == 0:
            self.queue.synchronize()


class LaunchQueueFills(Harness):
    """The driver lets a thousand launches wait: the first steps only issue theirs, the others wait for a place."""

    def stopwatch(self) -> Stopwatch:
        return HostLaps(self, wait_at_end=True)

    def after_step(self) -> None:
        self.clock.now_s = max(self.clock.now_s, self.queue.free_at_s - 8 * WORK_S)


class PhasesWithoutSynchronise(Harness):
    def segments(self) -> Segments:
        return Segments(LatencyStopwatch(lambda: None, self.clock))

    def after_step(self) -> None:
        self.queue.synchronize()


class WarmUpLeftIn(Harness):
    def warm_up(self) -> WarmUp:
        return WarmUp(0, 0.0)

    def work_s(self) -> float:
        return super().work_s() * (40.0 if self.count == 1 else 1.0)


class CompiledInTheWindow(Harness):
    """A compiler that tries its kernels in the first dozens of steps."""

    def warm_up(self) -> WarmUp:
        return WarmUp(0, 0.0)

    def work_s(self) -> float:
        return super().work_s() * (30.0 if self.count < 8 else 1.0)


class ClockSetBack(Harness):
    """time.time(), and a time server."""

    device = "cpu"

    def stopwatch(self) -> Stopwatch:
        return LatencyStopwatch(self.synchronize, self.read_clock)

    def read_clock(self) -> float:
        return self.clock() - (0.5 if self.count >= 40 else 0.0)


class CoarseClock(Harness):
    """15.6 ms a tick: time.time() of some systems."""

    device = "cpu"

    def read_clock(self) -> float:
        return math.floor(self.clock() / 0.015625) * 0.015625

    def stopwatch(self) -> Stopwatch:
        return LatencyStopwatch(self.synchronize, self.read_clock)

    def results(self, tally: Collector) -> None:
        super().results(tally)
        tally.facts.clock_resolution_s = 0.015625


class EventsInMilliseconds(Harness):
    def stopwatch(self) -> Stopwatch:
        class Milliseconds(HostLaps):
            def stop(self) -> list[float]:
                return [lap * 1e3 for lap in super().stop()]

        watch = Milliseconds(self, wait_at_end=True)
        watch._synchronize = self.synchronize
        return watch


class SmallerBatchAfterOutOfMemory(Harness):
    """Accelerate #4013, timm: the retry is silent, and the row is called as before."""

    def items(self) -> int:
        return BATCH // 2


class BatchOfAllDevices(Harness):
    def items(self) -> int:
        return 8 * BATCH


class CheckpointInTheWindow(Harness):
    device = "cpu"

    def stopwatch(self) -> Stopwatch:
        watch, harness = LatencyStopwatch(self.synchronize, self.clock), self

        class Paused(LatencyStopwatch):
            def lap(self) -> None:
                watch.lap()
                harness.clock.sleep(0.05)
                watch._began_s = harness.clock()

        paused = Paused(self.synchronize, self.clock)
        paused.start, paused.stop, paused.recent = watch.start, watch.stop, watch.recent  # type: ignore[method-assign]
        return paused


class AnotherSeedEachTrial(Harness):
    def results(self, tally: Collector) -> None:
        losses = [2.3 * 0.98**i + 0.1 * self.seed for i in range(20)]
        tally.steady("loss", losses)
        tally.steady("fingerprint", losses[:3])


class LossIsNotANumber(Harness):
    def results(self, tally: Collector) -> None:
        tally.steady("loss", [2.3, 2.2, math.nan, math.nan])


class NothingIsLearnt(Harness):
    def results(self, tally: Collector) -> None:
        tally.steady("loss", [2.3026] * 20)
        tally.steady("fingerprint", [2.3026] * 3)


class OperationsCountedTwice(Harness):
    """A multiply-add as two, and then doubled again; the backward pass counted for every micro-batch."""

    def results(self, tally: Collector) -> None:
        super().results(tally)
        tally.setup("flops", 16.0 * FLOPS)


class PhasesOverlap(Harness):
    def results(self, tally: Collector) -> None:
        super().results(tally)
        tally.steady("phase_time_s", [0.004] * 12, "anatomy", "loss")


class HeatSlowsIt(Harness):
    def work_s(self) -> float:
        return super().work_s() * (1.0 + 0.006 * self.count)


class ClockOfTwoSpeeds(Harness):
    def work_s(self) -> float:
        return super().work_s() * (1.5 if (self.count // 7) % 2 else 1.0)


class TrialIsACopy(Harness):
    """A result that is read from a cache: the processes never ran."""

    def __init__(self, seed: int) -> None:
        super().__init__(0)


class MeanInPlaceOfSteps(Harness):
    """The loop is timed as a whole, and its mean is written down for every step."""

    def stopwatch(self) -> Stopwatch:
        class Mean(HostLaps):
            def stop(self) -> list[float]:
                laps = list(super().stop())
                return [sum(laps) / len(laps)] * len(laps)

        watch = Mean(self, wait_at_end=True)
        watch._synchronize = self.synchronize
        return watch


class ThrashingAllocator(Harness):
    def results(self, tally: Collector) -> None:
        super().results(tally)
        tally.steady("allocator_retries", [3.0])


class SwappingHost(Harness):
    def results(self, tally: Collector) -> None:
        super().results(tally)
        tally.steady("major_faults", [4100.0])


class FirstOnlyOfAFewSteps(Harness):
    """Three steps, and their mean."""

    def stopwatch(self) -> Stopwatch:
        taken = itertools.count()
        harness = self

        class Few(HostLaps):
            def lap(self) -> None:
                if next(taken) < 3:
                    harness.synchronize()
                    super().lap()

        return Few(self, wait_at_end=True)


# What it is, whose it was, and the check that must find it.
HARNESSES: tuple[tuple[Callable[[int], Harness], str, str], ...] = (
    (StepsWithoutSynchronise, "mlx-benchmark #21, nerfstudio #183", "not_synchronised"),
    (NothingSynchronisedInTheWindow, "MambaVision #13", "not_synchronised"),
    (NothingSynchronisedAnywhere, "pytorch #177765, nanoGPT #464", "faster_than_peak"),
    (SynchronisedEveryTenthStep, "lightly-train #749; training scripts that print loss.item()", "not_synchronised"),
    (LaunchQueueFills, "CUDA's launch queue of 1,024", "not_synchronised"),
    (PhasesWithoutSynchronise, "Lightning #4937, #2258: a profiler that does not add up", "phases_differ"),
    (WarmUpLeftIn, "a benchmark without warm-up: images on GPUs (seed 1)", "warmup_left_in"),
    (CompiledInTheWindow, "torch.compile within the measured steps", "warmup_left_in"),
    (ClockSetBack, "time.time() and NTP", "impossible"),
    (CoarseClock, "time.time() of 15.6 ms", "timer_too_coarse"),
    (EventsInMilliseconds, "Event.elapsed_time() is in ms", "impossible"),
    (SmallerBatchAfterOutOfMemory, "Accelerate #4013, timm's decayed batch", "wrong_rate"),
    (BatchOfAllDevices, "world size counted into a device's items", "wrong_rate"),
    (CheckpointInTheWindow, "DeepSpeed autotuner: time outside the step", "not_synchronised"),
    (AnotherSeedEachTrial, "SuperBench: fingerprints of the loss", "fingerprint_moved"),
    (LossIsNotANumber, "a diverged training that is timed all the same", "nan_loss"),
    (NothingIsLearnt, "an optimizer that has no parameters", "constant_output"),
    (OperationsCountedTwice, "OLMo-core #614, Megatron-LM #1276", "faster_than_peak"),
    (PhasesOverlap, "parts that count the same time twice", "phases_differ"),
    (HeatSlowsIt, "nvbench #206: throttling in the window", "drift"),
    (ClockOfTwoSpeeds, "nvbench #231: two clocks", "several_modes"),
    (TrialIsACopy, "results of a cache", "copied_values"),
    (MeanInPlaceOfSteps, "a mean in the place of samples", "copied_values"),
    (ThrashingAllocator, "Composer: alloc retries", "allocator_retries"),
    (SwappingHost, "a host out of memory", "swapping"),
    (FirstOnlyOfAFewSteps, "steps_per_test of 3", "few_samples"),
)
