"""The live bar of a run: how far, the time that is left, what is measured now, the present estimate.

It is redrawn only when the trial says something (once a second, between steps), never by a thread of its own: on two
cores a controller that draws all the time would slow what it watches.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torchstone.cli._remaining import Remaining
from torchstone.core import units
from torchstone.core.plain_text import plain
from torchstone.core.schema.case import model_name
from torchstone.core.schema.message import Entered, Event, Progress
from torchstone.core.schema.trial import Status
from torchstone.execution.controller.rounds import FEWEST, time_of
from torchstone.execution.timing.clock import Clock, system_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchstone.core.schema.case import Case
    from torchstone.core.schema.run import Head, Slot
    from torchstone.core.schema.trial import Trial
    from torchstone.storage.rows import Rate, Rated


class ProgressBar:
    """A Watcher (execution/controller/observer.py) on stderr: a live bar on a terminal, a line a trial elsewhere."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, clock: Clock = system_clock) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._head: Head | None = None
        self._bar: Any = None
        self._task: Any = None
        self._rated: dict[str, list[Rated]] = {}
        self._clock = clock
        self._began_s = clock()
        self._taken = 0
        self._case = 0
        self._remaining: Remaining | None = None
        self._opened_s = self._began_s  # when the command began
        self._time_s: float | None = None  # that it has, where the number of its trials is open

    @property
    def run_id(self) -> str | None:
        """The run that has begun; None before anything is written."""
        return self._head.run_id if self._head is not None else None

    def begins(self, head: Head) -> None:
        """Say what is planned, and open the bar where there is a terminal."""
        self._head = head
        self._remaining = Remaining(head, self._clock() - self._began_s, self._clock)
        self._began_s = self._clock()
        if self._quiet:
            return
        cases = len(head.measurable)
        counted = f"run {head.run_id}: {cases} case{'s' * (cases != 1)}"
        if head.procedure.in_rounds:
            self._time_s = time_of(head.procedure, cases)
            aim = f"until each throughput is known to ±{100 * head.procedure.aim:g} %"
            self._print(
                f"{counted}, {aim}, about {units.quantity(self._time_s, 's', 2)} at most where nothing else is busy"
            )
        else:
            self._print(f"{counted}, {len(head.plan.slots)} trials")
        if sys.stderr.isatty():
            self._open_bar(len(head.plan.slots))

    def starts(self, slot: Slot, order: int) -> None:
        """Note which Case it is."""
        self._case = slot.case
        if self._remaining is not None:
            self._remaining.starts()
        self._draw("starting")

    def heard(self, event: Event) -> None:
        """Draw the stage, or the present estimate."""
        if isinstance(event, Entered):
            if self._verbose:
                self._print(f"  {self._clock() - self._began_s:8.3f} s  {plain(event.stage)}")
            self._draw(event.stage)
        elif isinstance(event, Progress):
            self._draw(f"{event.stage}: {units.quantity(event.step_s, 's')} a step, {_how_far(event)}")

    def finished(self, trial: Trial) -> None:
        """Expect the rest anew; write a line where there is no bar, or where it went wrong."""
        if self._remaining is not None:
            self._remaining.finished(trial)
        self._taken += 1
        self._note(trial)
        bad = trial.outcome.status != Status.OK
        if not self._quiet and (self._bar is None or bad or self._verbose):
            text = f"{trial.outcome.status}: {trial.outcome.message}" if bad else units.quantity(trial.duration_s, "s")
            text += ", disturbed by other programs" if trial.disturbed else ""
            if self._bar is None and (so_far := self._so_far()):
                text += f"; {so_far}"
            self._print(plain(f"trial {trial.trial_id} finished ({self._count()}) {self._label()}: {text}"))
        self._draw("")

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Say what the next trial waits for."""
        if not self._quiet:
            self.say(waiting_words(programs))

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        self._print(plain(text))

    def close(self) -> None:
        """Wipe the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _expected(self, left_s: float) -> int:
        """Return how many trials there may be in the end, at the pace so far."""
        spent_s = self._clock() - self._began_s
        return round(self._taken * (1.0 + left_s / spent_s)) if spent_s > 0.0 else self._taken

    def _open_bar(self, total: int) -> None:
        self._make_bar(total)
        self._bar.start()

    def _make_bar(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            BarColumn(20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=total, left="")

    def _count(self) -> str:
        """Return how many trials have ended, of how many; of an open number, after how long."""
        if self._time_s is not None:
            return f"{self._taken}, {self._clock() - self._opened_s:.0f} s"
        return f"{self._taken}/{len(self._head.plan.slots) if self._head else 0}"

    def _draw(self, now: str) -> None:
        if self._bar is None:
            return
        left_s = self._remaining.left_s() if self._remaining is not None else None
        if self._time_s is not None:
            left_s = max(0.0, self._time_s - (self._clock() - self._opened_s))
            self._bar.update(self._task, total=max(self._taken + 1, self._expected(left_s)))
        left = f"{units.quantity(left_s, 's', 2)} left" if left_s is not None and left_s >= 1.0 else ""
        text = plain(f"{self._so_far() or self._label()} {now}")
        text = text.replace("[", "(").replace("]", ")")  # brackets are markup to rich
        self._bar.update(self._task, completed=self._taken, description=text, left=left)
        self._refresh()

    def _refresh(self) -> None:
        self._bar.refresh()

    def _note(self, trial: Trial) -> None:
        from torchstone.core.figures import figures
        from torchstone.storage.rows import RATE, Rated

        rate = figures(trial).values.get(RATE)
        self._rated.setdefault(trial.case_id, []).append(Rated(trial.outcome, trial.purpose, rate, trial.disturbed))

    def _so_far(self) -> str:
        """Return the answer as it stands, once every case has been measured: of one workload the fastest."""
        from torchstone.storage.rows import rates_of

        head = self._head
        if head is None or not head.procedure.in_rounds or len(self._rated) < len(head.measurable):
            return ""
        cases = [case for case in head.plan.cases if case.case_id in self._rated]
        if len({(case.workload.task, case.workload.model) for case in cases}) > 1:
            return ""  # rates of other work are not compared
        rates = rates_of([self._rated[case.case_id] for case in cases], head.usual.deviation if head.usual else None)
        known = [(rate, case) for rate, case in zip(rates, cases, strict=True) if rate.value is not None]
        if not known:
            return ""
        rate, case = max(known, key=lambda one: one[0].value or 0.0)
        of = f"fastest of {len(known)}, batch {case.configuration.get('batch_size')}: " if len(known) > 1 else ""
        half = units.spread(rate.value or 0.0, rate.low, rate.high)
        told = f"so far: {of}{units.significant(rate.value or 0.0, 3)} {case.workload.item}s/s {half}".rstrip()
        return told + self._open(rate, known)

    def _open(self, best: Rate, known: Sequence[tuple[Rate, Case]]) -> str:
        """Return which figure more trials are for, where the one that is shown is known as well as was aimed at."""
        halves = [(units.half_width(r.value or 0.0, r.low, r.high) or 0.0, r, case) for r, case in known]
        aim = self._head.procedure.aim if self._head is not None else 0.0
        half, widest, case = max(halves, key=lambda one: one[0])
        own = units.half_width(best.value or 0.0, best.low, best.high)
        if own is None or own > aim:
            return ""
        if half > aim:
            around = units.spread(widest.value or 0.0, widest.low, widest.high)
            return f"; more trials for batch {case.configuration.get('batch_size')}, {around}"
        fewest = min(len(self._rated[case.case_id]) for _, case in known)
        return f"; {fewest} of at least {FEWEST} trials a case" if fewest < FEWEST else ""

    def _label(self) -> str:
        if self._head is None:
            return ""
        case = self._head.plan.cases[self._case]
        size = case.configuration.get("batch_size")
        batch = f", batch {size}" if size is not None else ""  # a program may not say
        return f"{case.workload.task} {model_name(case.workload.model)}{batch}"

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def waiting_words(programs: Sequence[tuple[str, float]]) -> str:
    """Return what to say while a trial waits until other programs leave the CPU."""
    busy = " and ".join(f"{name} ({cores:.1f} cores)" for name, cores in programs)
    return f"waiting a moment: other programs are busy, {busy}"


def _how_far(event: Progress) -> str:
    if event.of is None:
        return f"{event.steps} steps"
    left_s = (event.of - event.steps) * event.step_s
    return f"{event.steps} of {event.of} steps, {units.quantity(left_s, 's', 2)} left of them"
