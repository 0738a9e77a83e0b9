"""The measuring loop: warm-up, then a window of steady steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from torchstone.core.schema.metric import REST
from torchstone.core.schema.model import Batch
from torchstone.execution.timing.clock import Clock, LatencyStopwatch
from torchstone.execution.timing.segments import Segments, Steps
from torchstone.execution.timing.stopping import StoppingRule, StopReason, WarmUpRule
from torchstone.plugins.machine_protocols import Stopwatch
from torchstone.plugins.protocols import Mark


class Feed:
    """Calling it gives the next batch. `settle` closes the account of one step."""

    def __init__(self, source: Callable[[], Batch], clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._wait_s = 0.0
        self._items = 0
        self._tokens = 0
        self.has_tokens = False
        self.waits_s: list[float] = []
        self.items: list[int] = []
        self.tokens: list[int] = []

    def __call__(self) -> Batch:
        """Return the next batch, timing the wait for it."""
        clock = self._clock
        begin_s = clock()
        batch = self._source()
        self._wait_s += clock() - begin_s
        self._items += batch.items
        tokens = batch.tokens
        if tokens is not None:
            self._tokens += tokens
            self.has_tokens = True
        return batch

    def settle(self) -> None:
        """End a step: its wait (s), items and tokens become one entry each."""
        self.waits_s.append(self._wait_s)
        self.items.append(self._items)
        self.tokens.append(self._tokens)
        self._wait_s, self._items, self._tokens = 0.0, 0, 0


STEP = "step"


class Ranges:
    """Opens and closes a range for each step, and within it one for each of its phases.

    A mark tells where a phase ends, and a range needs its name where it begins: names are those of the step before,
    whose phases came in the same order. The very first step has only "rest".

    Parameters
    ----------
    push: opens a range of that name inside the present one.
    pop: closes the innermost.

    """

    def __init__(self, push: Callable[[str], object], pop: Callable[[], object]) -> None:
        self._push, self._pop = push, pop
        self._before: list[str] = []

    def around(self, step: Step) -> Step:
        """Return the step with its ranges. They cost a microsecond a phase and more: only where they were asked for."""

        def ranged(pull: Source, mark: Mark) -> None:
            names = [*self._before, REST]
            seen: list[str] = []

            def ended(phase: str) -> None:
                self._pop()
                mark(phase)
                seen.append(phase)
                self._push(names[len(seen)] if len(seen) < len(names) else REST)

            self._push(STEP)
            self._push(names[0])
            try:
                step(pull, ended)
            finally:
                self._pop()
                self._pop()
            self._before = seen

        return ranged


Source = Callable[[], Batch]
Step = Callable[[Source, Mark], None]
Listener = Callable[[int, float, float], None]  # steps, elapsed (s), median of recent steps (s)

_MOST_AHEAD_S = 0.1  # of the device's work, that the host may have issued: no pause of the host is so long


def unmarked(_phase: str) -> None:
    """Do nothing at the end of a phase, in a twentieth of a microsecond: the mark of all but the anatomy pass."""


class MeasuredWindow(msgspec.Struct, frozen=True):
    """What one window measured: per step the lap, the wait for data, items and tokens; and the whole, synchronised."""

    laps_s: Sequence[float]
    waits_s: Sequence[float]
    items: Sequence[int]
    tokens: Sequence[int] | None
    total_s: float
    begin_s: float
    end_s: float
    stopped_because: StopReason


class Instrument:
    """A step, its source of batches and a clock, ready to be warmed up and measured.

    Parameters
    ----------
    step: does one step; calls its first argument for each batch it needs, its second where a phase ends.
    source: gives the next batch; raises StopIteration when there is none left.
    synchronize: waits for the device.
    clock: seconds.
    listen: told about progress at most once a second, between steps.

    """

    def __init__(
        self, step: Step, source: Source, synchronize: Callable[[], None], clock: Clock, listen: Listener | None = None
    ) -> None:
        self._step = step
        self._source = source
        self._synchronize = synchronize
        self._clock = clock
        self._listen = listen

    def warm_up(self, plan: WarmUpRule) -> tuple[float, Sequence[float]]:
        """Return the first step's time and those of the further warm-up steps, each synchronised, in seconds."""
        feed = Feed(self._source, self._clock)
        watch = LatencyStopwatch(self._synchronize, self._clock)
        watch.start()
        self._step(feed, unmarked)
        watch.lap()
        first_s = watch.stop()[0]
        watch.start()
        began_s = self._clock()
        count = 0
        while plan.goes_on(count, watch.recent(20), self._clock() - began_s):
            self._step(feed, unmarked)
            watch.lap()
            count += 1
        return first_s, tuple(watch.stop())

    def window(self, watch: Stopwatch, rule: StoppingRule) -> MeasuredWindow:
        """Measure until the rule says why to stop. The clock is read twice more than a bare loop would, a step."""
        step, clock, feed = self._step, self._clock, Feed(self._source, self._clock)
        lap, settle, consider, recent = _lap_of(watch, rule.looks), feed.settle, rule.consider, watch.recent
        steps, reason, next_word_s = 0, None, 1.0
        self._synchronize()
        begin_s = clock()
        watch.start()
        while reason is None:
            try:
                step(feed, unmarked)
            except StopIteration:
                reason = StopReason.SOURCE_ENDED
                break
            lap()
            settle()
            steps += 1
            elapsed_s = clock() - begin_s
            reason = consider(steps, elapsed_s, recent)
            if elapsed_s >= next_word_s and self._listen is not None:
                next_word_s = elapsed_s + 1.0
                self._tell(steps, elapsed_s, recent(9))
        if watch.asynchronous:  # its laps are read event by event, which is none of the window's time
            self._synchronize()
            end_s = clock()
            laps_s = watch.stop()
        else:
            laps_s = watch.stop()
            end_s = clock()
        return MeasuredWindow(
            laps_s=laps_s,
            waits_s=feed.waits_s,
            items=feed.items,
            tokens=feed.tokens if feed.has_tokens else None,
            total_s=end_s - begin_s,
            begin_s=begin_s,
            end_s=end_s,
            stopped_because=reason,
        )

    def turn(self, watch: Stopwatch, steps: int, lead_in: int) -> MeasuredWindow:
        """Measure so many steps of a device that runs behind the host, begun while it works on `lead_in` steps (≥ 1).

        Their time is the device's own, from the end of the last step before them to the end of their last. Timed by
        the host from a device that stands idle, a short turn is a closed loop, and what it takes to begin (a change of
        context, caches to fill, a clock that rises) is equal on both sides of a comparison: it pulls their ratio to 1.
        """
        step, lap, feed = self._step, _lap_of(watch, read=False), Feed(self._source, self._clock)
        reason = StopReason.FIXED_COUNT
        self._synchronize()
        watch.start()
        try:
            for _ in range(lead_in):
                step(self._source, unmarked)
                lap()
            for _ in range(steps):
                step(feed, unmarked)
                lap()
                feed.settle()
        except StopIteration:
            reason = StopReason.SOURCE_ENDED
        self._synchronize()
        end_s = self._clock()
        laps_s = watch.stop()[lead_in:]
        total_s = math.fsum(laps_s)
        return MeasuredWindow(
            laps_s=laps_s,
            waits_s=feed.waits_s,
            items=feed.items,
            tokens=feed.tokens if feed.has_tokens else None,
            total_s=total_s,
            begin_s=end_s - total_s,
            end_s=end_s,
            stopped_because=reason,
        )

    def dissect(self, segments: Segments, steps: int, *, closed: bool) -> Steps:
        """Cut so many steps into their phases and the rest; fewer where the source ends.

        One step goes before them, so that a device which runs behind the host does so, and what a loader made ready
        during the pause is used up. `closed`: each step is finished before the next begins, as in a latency window.
        """
        step, source, cut = self._step, self._source, segments.cut
        self._synchronize()
        segments.start()
        for _ in range(1 + steps):
            try:
                step(source, cut)
            except StopIteration:
                break
            if closed:
                self._synchronize()
            cut(REST)
            segments.end_step()
        return segments.finish(lead_in=1)

    def _tell(self, steps: int, elapsed_s: float, recent_s: Sequence[float]) -> None:
        if self._listen is not None and recent_s:
            self._listen(steps, elapsed_s, sorted(recent_s)[len(recent_s) // 2])


def _lap_of(watch: Stopwatch, read: bool) -> Callable[[], None]:
    """Return what ends a lap: on a device that runs behind, it is kept near too.

    A host that is a thousand launches ahead (with CUDA graphs as many steps) ends a window by its own clock long before
    the device does, and takes its batches faster than they are used: the loader is blamed for what it need not do.
    """
    if not watch.asynchronous:
        return watch.lap

    def lap() -> None:
        watch.lap()
        watch.hold(_MOST_AHEAD_S, read=read)

    return lap
