"""One search for goodput, from its request to its stored run: capacity, bracket, rounds at three rates.

Goodput: what is served within a latency bound, not what is served (Zhong et al., DistServe, OSDI 2024,
arXiv:2401.09670). Each trial is in the record before the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

import msgspec

from torchstone.analysis.goodput import load_reading
from torchstone.config.run_file import as_loads
from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import OFFLINE, SERVER, SINGLE_STREAM, Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Purpose, Trial
from torchstone.core.stats.rate_search import Bracket, LoadReading, bracket, middle_of, next_rate, rates_about
from torchstone.execution import plan
from torchstone.execution.controller.active_run import ActiveRun, OutOfTime, conclude, record_run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.rounds import OVER
from torchstone.execution.controller.session import Session
from torchstone.execution.plan import Sketch
from torchstone.workflows.run.planned_run import Results, begin_run, code_of, published

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest

WITHIN_S = 120.0  # where no time was given
_TARGET_RATE, _SCENARIO = "target_qps", "scenario"


class GoodputRequest(msgspec.Struct, frozen=True):
    """`settings`: those of the load (bound, largest batch, longest wait), over the file's. `rounds`: None: by time."""

    run: RunRequest
    settings: Mapping[str, Scalar]
    rounds: int | None = None

    def sketch(self) -> Sketch:
        """Return the one workload and setting to load. Raises UsageError where there are several, or none."""
        loads = as_loads(self.run.workloads)
        if len(loads) != 1:
            known = ", ".join(f"{w.task} {w.model}" for w in self.run.workloads)
            raise UsageError(f"goodput takes one workload of inference, this has {len(loads)} ({known}): use --model")
        (asked,) = loads
        axes: dict[str, Sequence[Scalar]] = {
            axis: values for axis, values in asked.axes.items() if axis != "batch_size"
        }
        axes.update({axis: (value,) for axis, value in self.settings.items()})
        axes.update({_SCENARIO: (SERVER,), _TARGET_RATE: (0.0,)})
        sketched = plan.sketch(msgspec.structs.replace(asked, axes=axes).excluding(self.run.exclude))
        if len(sketched.configurations) != 1:
            several = ", ".join(axis for axis, values in axes.items() if len(values) > 1)
            raise UsageError(f"goodput takes one setting at a time: give one value of {several}")
        return sketched


class Loads:
    """The Cases of one workload and setting: at any rate, and in a closed loop."""

    def __init__(self, sketched: Sketch, placement: Placement, machine: Machine) -> None:
        self._base = plan.first_case(sketched, placement, machine)
        self.bound_s = float(self._base.configuration["latency_bound_s"] or 0.0)
        self.max_wait_s = float(self._base.configuration["max_wait_s"] or 0.0)

    def at(self, rate: float) -> Case:
        """Return the Case of queries that arrive at random, so many a second."""
        return self._with({_TARGET_RATE: rate})

    def of(self, scenario: str, **settings: Scalar) -> Case:
        """Return the Case of another scenario, which has no rate."""
        return self._with({_SCENARIO: scenario, _TARGET_RATE: 0.0, **settings})

    def _with(self, changes: Mapping[str, Scalar]) -> Case:
        return msgspec.structs.replace(self._base, configuration={**self._base.configuration, **changes})


_USUAL_TRIALS = 20  # a load may take so large a part of the time, where its length was not given
_SHORTEST_S = 1.0
_SEARCH_SHARE = 0.5  # of the time: then the rounds begin, however wide the bracket is
_FEWEST_ROUNDS, _MOST_ROUNDS = 2, 12
_P50, _RATE = "query_latency_p50_s", "throughput"


class GoodputWatcher(Watcher, Protocol):
    """A Watcher that is also told the stages of the search and what each load told."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def ended(self, case: Case, trial: Trial) -> None:
        """A load has ended."""


class GoodputCampaign:
    """One `torchstone goodput`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: GoodputRequest, watcher: GoodputWatcher, busy: WhenBusy = SHARE) -> None:
        self._request, self._watcher, self._busy = request, watcher, busy
        self._sketch = request.sketch()
        if "," in (request.run.device or ""):
            raise UsageError(f"--device {request.run.device}: goodput takes one device at a time")

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Search into `folder`."""
        request, how = self._request.run, paced(self._request.run.procedure)
        with Session(how, [self._sketch.workload.model], self._watcher) as session:
            machine, found = session.inspect()
            placement = plan.place(request.device or "auto", found, machine)
            sketch = self._sketch
            with begin_run(
                session,
                machine,
                [placement],
                request.name or "goodput",
                command,
                self._busy,
                source=request.source,
                code=code_of([sketch]),
            ) as (head, _):
                if sketch.own:
                    own = session.rehearsed(plan.first_case(sketch, placement, machine), sketch.left_open)
                    sketch = plan.with_own_data(sketch, own)
                loads = Loads(sketch, placement, machine)
                run = record_run(session, head, folder, lambda open_run, _: self._measure(open_run, loads))
        return published(run, folder)

    def _measure(self, open_run: ActiveRun, loads: Loads) -> Run:
        search = Search(open_run, loads, self._watcher, self._request.rounds)

        def work() -> str | None:
            try:
                return search.carry_out()
            except OutOfTime:  # what was measured is the answer, if a wide one
                return OVER

        return conclude(open_run, work)


def paced(how: Procedure) -> Procedure:
    """Return the Procedure with a time for the whole, and loads that fit into it."""
    within_s = how.within_s or WITHIN_S
    length_s = min(how.budget_s, max(_SHORTEST_S, within_s / _USUAL_TRIALS))
    return msgspec.structs.replace(how, within_s=within_s, budget_s=length_s)


class Search:
    """The trials of one search, in the order in which they follow from each other."""

    def __init__(self, open_run: ActiveRun, loads: Loads, watcher: GoodputWatcher, rounds: int | None) -> None:
        self._open_run, self._loads, self._watcher, self._rounds = open_run, loads, watcher, rounds
        self._numbers: dict[str, int] = {}
        self._measure: list[float] = []  # durations
        self._readings: list[LoadReading] = []  # of the rounds

    def carry_out(self) -> str | None:
        """Take every trial; return why no more were taken, where the search ended before its rounds."""
        self._watcher.stage("capacity and latency without a queue")
        all_at_once = self._take(self._loads.of(OFFLINE), Purpose.PROBE)
        capacity = figures(all_at_once).values.get(_RATE)
        if capacity is None:
            return f"the capacity is not known: {all_at_once.outcome.status}"
        alone = self._take(self._loads.of(SINGLE_STREAM, batch_size=1, max_wait_s=0.0), Purpose.PROBE)
        alone_s = figures(alone).values.get(_P50)
        bound_s = self._loads.bound_s
        if alone_s is not None and alone_s > bound_s:
            return "the median latency of a query that is alone is above the bound"
        self._watcher.stage(f"search for the highest rate, capacity {capacity:.4g} a second")
        found = self._bracketed(capacity)
        if found.met is None:
            return "no rate met the bound"
        self._watcher.stage("rounds at three rates")
        self._measured(found)
        return None

    def _bracketed(self, capacity: float) -> Bracket:
        search = bracket(capacity)
        rate = next(search)
        met, missed = None, None
        while True:
            trial = self._take(self._loads.at(rate), Purpose.PROBE)
            reading = load_reading(rate, trial.facts)
            if reading.met:
                met = rate
            else:
                missed = rate
            if met is not None and missed is not None and self._spent() > _SEARCH_SHARE:
                return Bracket(met, missed)
            try:
                rate = search.send(reading.met)
            except StopIteration as end:
                found: Bracket = end.value
                return found

    def _measured(self, found: Bracket) -> None:
        dice = Random(self._open_run.session.procedure.seed)
        middle = middle_of(found)
        if middle is None:
            return
        for number in range(self._rounds or _MOST_ROUNDS):
            rates = rates_about(middle)
            if self._rounds is None and number >= _FEWEST_ROUNDS and not self._has_time(len(rates)):
                return
            for rate in dice.sample(rates, len(rates)):
                trial = self._take(self._loads.at(rate), Purpose.REPLICATE)
                self._readings.append(load_reading(rate, trial.facts))
            middle = next_rate(middle, self._readings)

    def _spent(self) -> float:
        """Return the share of its time that the whole has used."""
        return self._open_run.elapsed_s() / (self._open_run.session.procedure.within_s or WITHIN_S)

    def _has_time(self, trials: int) -> bool:
        within_s = self._open_run.session.procedure.within_s or WITHIN_S
        return self._open_run.elapsed_s() + trials * fmean(self._measure[-3:]) <= within_s

    def _take(self, case: Case, purpose: Purpose) -> Trial:
        self._open_run.add(case)
        number = self._numbers.get(case.case_id, -1) + 1
        self._numbers[case.case_id] = number
        # What failed before may do so again, and is measured all the same: at another rate it is another case.
        trial = self._open_run.take(case, number, purpose)
        self._measure.append(trial.duration_s)
        self._watcher.ended(case, trial)
        return trial
