"""What a run shows while it measures, on a terminal: a bar with the time that is left, or the full screen of --live.

Both are drawn only when the trial sends an event (once a second, between steps) or has ended, never by a thread of
their own: on two cores a controller that draws all the time would slow what it watches.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, linear_regression
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.cli._measuring import ProgressLines
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Case, model_name
from torchstone.core.schema.message import Entered, Event, Progress
from torchstone.core.schema.run import Head, Run, Slot
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.units import plain
from torchstone.execution.controller.rounds import FEWEST, time_of
from torchstone.execution.timing.clock import Clock, system_clock

if TYPE_CHECKING:
    from torchstone.storage.query import Entry
    from torchstone.storage.rows import Rated, Throughput


# How long a sweep will still take.
#
# A Case takes as long again as it took before. One not yet seen, as long as its size says: trials of a fixed number of
# steps grow with the batch, trials that fill their budget do not, and a straight line through what was seen tells which
# it is. A new round begins with a new template, which takes seconds.

_Kind = tuple[str, str]  # task and model
_SHAPES = ("batch_size", "sequence_length", "image_size", "image_size")  # an image has its side twice
_LONGEST_OPENING_S = 15.0  # what took longer was a wait, for a device or for the user's own code


class Remaining:
    """Expects the rest from the trials that started and ended. `opening_s`: the time of the first template."""

    def __init__(self, head: Head, opening_s: float, clock: Clock) -> None:
        self._slots = head.plan.slots
        self._kinds = [(str(case.workload.task), case.workload.model) for case in head.plan.cases]
        self._sizes = [_size(case) for case in head.plan.cases]
        self._clock = clock
        self._opening_s = 0.0 if head.procedure.isolation == "spawn" else min(opening_s, _LONGEST_OPENING_S)
        self._openings_s: list[float] = []
        self._between_s: list[float] = []  # what a trial costs beside its own time
        self._seen_s: dict[int, list[float]] = {}
        self._well: set[int] = set()
        self._count = 0
        self._began_s = clock()
        self._expected_s: float | None = None
        self._rest_s = 0.0
        self._usual_s = 0.0

    def starts(self) -> None:
        """Note that the next trial of the plan starts."""
        self._began_s = self._clock()
        if self._seen_s:
            lines = _Lines([(self._kinds[c], self._sizes[c], fmean(self._seen_s[c])) for c in self._well])
            self._usual_s = fmean(fmean(times) for times in self._seen_s.values())
            left = self._slots[self._count :]
            costs = {c: self._cost_s(c, lines) for c in {slot.case for slot in left}}
            self._rest_s = sum(costs[slot.case] for slot in left[1:]) + self._opening_s * _changes(left)
            now_s = self._opening_s if self._opens() else 0.0
            self._expected_s = now_s + costs[left[0].case] if left else None

    def finished(self, trial: Trial) -> None:
        """Note that it has ended."""
        if self._count >= len(self._slots):
            return
        case = self._slots[self._count].case
        beside_s = max(0.0, self._clock() - self._began_s - trial.duration_s)
        if self._opens():
            self._openings_s.append(beside_s)
            self._opening_s = fmean(self._openings_s)
        else:
            self._between_s.append(beside_s)
        self._seen_s.setdefault(case, []).append(trial.duration_s)
        if trial.outcome.status == Status.OK:
            self._well.add(case)
        self._count += 1

    def left_s(self) -> float | None:
        """Return the seconds that are left; None before anything was seen."""
        if self._expected_s is None:
            return None
        return max(0.0, self._expected_s - (self._clock() - self._began_s)) + self._rest_s

    def _opens(self) -> bool:
        """Say whether the trial at hand is the first of a further round."""
        here = self._count
        return 0 < here < len(self._slots) and self._slots[here].number != self._slots[here - 1].number

    def _cost_s(self, case: int, lines: _Lines) -> float:
        between_s = fmean(self._between_s) if self._between_s else 0.0
        if case in self._seen_s:
            return between_s + fmean(self._seen_s[case])
        found = lines.at(self._kinds[case], self._sizes[case])
        return between_s + (self._usual_s if found is None else found)


class _Lines:
    """Seconds over size, of what was measured: a line for each model and task, level where one size was seen."""

    def __init__(self, seen: Sequence[tuple[_Kind, float, float]]) -> None:
        points: dict[_Kind, list[tuple[float, float]]] = {}
        for kind, size, seconds in seen:
            points.setdefault(kind, []).append((size, seconds))
        self._lines = {kind: _line(of_kind) for kind, of_kind in points.items()}

    def at(self, kind: _Kind, size: float) -> float | None:
        """Return the seconds of a Case; None where nothing of its kind was seen."""
        if kind not in self._lines:
            return None
        start_s, slope, least_s = self._lines[kind]
        return max(least_s, start_s + slope * size)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return start, slope and least value of the least-squares line; level where it would fall."""
    sizes, times = zip(*points, strict=True)
    if len(set(sizes)) > 1:
        slope, start_s = linear_regression(sizes, times)
        if slope > 0.0:
            return start_s, slope, min(times) / 2.0
    return fmean(times), 0.0, 0.0


def _size(case: Case) -> float:
    return math.prod(float(case.configuration.get(axis) or 1) for axis in _SHAPES)


def _changes(slots: Sequence[Slot]) -> int:
    return sum(one.number != other.number for one, other in pairwise(slots))


_EVERY_S = 10.0  # between the lines of a log


class ProgressBar(ProgressLines):
    """A live bar on a terminal; elsewhere a line per trial, or every ten seconds where their number is open."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, clock: Clock = system_clock) -> None:
        super().__init__(quiet=quiet, verbose=verbose)
        self._head: Head | None = None
        self._bar: Any = None
        self._task: Any = None
        self._rated: dict[str, list[Rated]] = {}
        self._clock = clock
        self._began_s = clock()
        self._count = 0
        self._case = 0
        self._remaining: Remaining | None = None
        self._opened_s = self._began_s  # when the command began
        self._time_s: float | None = None  # that it has, where the number of its trials is open
        self._next_s = 0.0  # when a log gets its next line

    def begins(self, head: Head) -> None:
        """Say what is planned, and open the bar where there is a terminal."""
        self._head, self.run_id = head, head.run_id
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
            self._make_bar(len(head.plan.slots))
            self._open_bar()

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
        """Update the time that is left; write a line where there is no bar, or where the trial failed."""
        if self._remaining is not None:
            self._remaining.finished(trial)
        self._count += 1
        self._note(trial)
        bad = trial.outcome.status != Status.OK
        if not self._quiet and (bad or self._verbose or (self._bar is None and self._is_due())):
            text = f"{trial.outcome.status}: {trial.outcome.message}" if bad else units.quantity(trial.duration_s, "s")
            text += ", disturbed by other programs" if trial.disturbed else ""
            if self._bar is None and (so_far := self._so_far()):
                text += f"; {so_far}"
            self._print(plain(f"trial {trial.trial_id} finished ({self._count_words()}) {self._label()}: {text}"))
        self._draw("")

    def _is_due(self) -> bool:
        """Say whether a log gets a line of this trial: each of a number that was asked for, else one in a while."""
        now_s = self._clock()
        if self._time_s is not None and now_s < self._next_s:
            return False
        self._next_s = now_s + _EVERY_S
        return True

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        if not self._quiet:
            self._print(plain(text))

    def close(self) -> None:
        """Wipe the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _expected(self, left_s: float) -> int:
        """Return how many trials there may be in the end, at the pace so far."""
        spent_s = self._clock() - self._began_s
        return round(self._count * (1.0 + left_s / spent_s)) if spent_s > 0.0 else self._count

    def _open_bar(self) -> None:
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

    def _count_words(self) -> str:
        """Return how many trials have ended, of how many; of an open number, after how long."""
        if self._time_s is not None:
            return f"{self._count}, {self._clock() - self._opened_s:.0f} s"
        return f"{self._count}/{len(self._head.plan.slots) if self._head else 0}"

    def _draw(self, now: str) -> None:
        if self._bar is None:
            return
        left_s = self._remaining.left_s() if self._remaining is not None else None
        if self._time_s is not None:
            left_s = max(0.0, self._time_s - (self._clock() - self._opened_s))
            self._bar.update(self._task, total=max(self._count + 1, self._expected(left_s)))
        left = f"{units.quantity(left_s, 's', 2)} left" if left_s is not None and left_s >= 1.0 else ""
        text = plain(f"{self._so_far() or self._label()} {now}")
        text = text.replace("[", "(").replace("]", ")")  # brackets are markup to rich
        self._bar.update(self._task, completed=self._count, description=text, left=left)
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
        rated = [(rate, case) for rate, case in zip(rates, cases, strict=True) if rate.value is not None]
        if not rated:
            return ""
        rate, case = max(rated, key=lambda one: one[0].value or 0.0)
        of = f"fastest of {len(rated)}, batch {case.configuration.get('batch_size')}: " if len(rated) > 1 else ""
        one = len(self._rated[case.case_id]) == 1
        half = units.spread(rate.value or 0.0, rate.low, rate.high)
        if half in ("", units.MISSING):
            half = f"({'one trial: ' * one}no interval{' yet' * (not one)})"
        shown = f"so far: {of}{units.significant(rate.value or 0.0, 3)} {case.workload.item}s/s {half}"
        return shown + self._open(rate, rated)

    def _open(self, best: Throughput, rated: Sequence[tuple[Throughput, Case]]) -> str:
        """Return which figure more trials are for, where the one that is shown is known as well as was aimed at."""
        halves = [(units.half_of_value(r.value or 0.0, r.low, r.high) or 0.0, r, case) for r, case in rated]
        aim = self._head.procedure.aim if self._head is not None else 0.0
        half, widest, case = max(halves, key=lambda one: one[0])
        own = units.half_of_value(best.value or 0.0, best.low, best.high)
        if own is None or own > aim:
            return ""
        if half > aim:
            around = units.spread(widest.value or 0.0, widest.low, widest.high)
            return f"; more trials for batch {case.configuration.get('batch_size')}, {around}"
        fewest = min(len(self._rated[case.case_id]) for _, case in rated)
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


def _how_far(event: Progress) -> str:
    if event.of is None:
        return f"{event.steps} steps"
    left_s = (event.of - event.steps) * event.step_s
    return f"{event.steps} of {event.of} steps, {units.quantity(left_s, 's', 2)} left of them"


_MESSAGES = 4  # that stay on the screen
_KEPT = 200  # messages that are written again when the screen is gone
_LEAST_LINES = 3  # of the tables, in the lowest terminal


class LiveScreen(ProgressBar):
    """The whole terminal: tables of the trials so far, last messages, and the bar. Raises UsageError where none is.

    The tables are those that the run ends with, so that a figure means the same on both.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        if not sys.stderr.isatty():
            raise UsageError("--live draws on a terminal, and stderr is none: leave --live out")
        super().__init__(verbose=verbose)
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._entry: Entry | None = None
        self._tables: tuple[str, ...] = ()
        self._live: Any = None

    def begins(self, head: Head) -> None:
        """Open the screen, with no trial yet."""
        from torchstone.storage.query import entry_of

        self._entry = entry_of(Run(head, (), (), None), Path())
        super().begins(head)

    def finished(self, trial: Trial) -> None:
        """Draw the tables with this trial."""
        from torchstone.storage.query import trial_row

        if self._entry is not None:
            rows = (*self._entry.trials, trial_row(trial))
            self._entry = msgspec.structs.replace(self._entry, trials=rows)
            self._tables = _tables(self._entry, self._bar.console.width)
        super().finished(trial)

    def close(self) -> None:
        """Give the terminal back as it was, and write the messages there."""
        if self._live is None:
            return
        self._live.stop()
        self._live = None
        for line in self._lines:
            print(line, file=sys.stderr)

    def _open_bar(self) -> None:
        from rich.live import Live

        self._live = Live(
            console=self._bar.console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def _refresh(self) -> None:
        from rich.console import Group
        from rich.text import Text as Lines

        messages = list(self._lines)[-_MESSAGES:]
        room = max(_LEAST_LINES, self._bar.console.height - len(messages) - 3)
        tables = self._tables or ("no trial has ended yet",)
        if (hidden := len(tables) - room + 1) > 1:
            tables = (*tables[: room - 1], f"… {hidden} more lines than this terminal is high")
        above = Lines("\n".join([*tables, "", *messages]), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(above, self._bar), refresh=True)

    def _print(self, text: str) -> None:
        self._lines.append(plain(text))
        if self._live is not None:
            self._refresh()


def _tables(entry: Entry, width: int) -> tuple[str, ...]:
    """Return the lines of a run's tables."""
    from torchstone.analysis.summary import summarize
    from torchstone.report.document import Document, Text
    from torchstone.report.documents.case_table import case_parts
    from torchstone.report.renderers.terminal import terminal

    run, count = summarize(entry), len(entry.trials)
    title = Text(f"{run.name}: run {run.run_id}, {count} trial{'s' * (count != 1)} so far: figures may still change")
    return tuple(terminal(Document(run.name, (title, *case_parts(run))), width).splitlines())
