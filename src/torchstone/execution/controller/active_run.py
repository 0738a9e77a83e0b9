"""A run whose record is open: trials are taken into it one by one, each on disk before the next starts."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.messages import Values
from torchstone.core.own_files import refuse_links
from torchstone.core.schema.answer import Answer
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.message import CaseRequest, TrainRequest, TrialRequest
from torchstone.core.schema.metric import DEVICE_PEAKS, HOST_PEAK, PEAKS
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WITHOUT_EFFECT, Condition
from torchstone.core.schema.run import Added, Answered, Head, Run, Slot
from torchstone.core.schema.trial import Outcome, Purpose, Reason, Status, Trial, ended
from torchstone.core.stats.peak_memory import predict_peak
from torchstone.execution.controller.busy_machine import LONGEST_WAIT_S, wait_for_quiet
from torchstone.execution.controller.rounds import OVER, Rounds, time_of
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.record_writer import RecordWriter, unwritten

_SIZES = ("batch_size", "sequence_length", "image_size")  # axes along which the memory of a step only grows
# The first that was measured counts. The allocator gives back what is merely reserved before it gives up, so that only
# what is allocated is certain to be needed.
_CERTAIN_FIRST = tuple(reversed(DEVICE_PEAKS))
# Resident pages that a trial shares with the process it was forked from count in its peak, and are in use already.
_SHARED_BYTES = 1 << 30
# How far a straight line through few points is trusted: from batches at least twofold apart to one at most eight times
# as large, and from peaks of an eighth of the capacity or more, beside which what is not proportional is small.
_APART, _BEYOND = 2, 8

_Sizes = tuple[Scalar, ...]


class _CaseLimits(msgspec.Struct):
    """What the trials of one Case told: whether one ended well, the first that could not, and the highest peaks."""

    ended_well: bool = False
    failed: Trial | None = None
    peaks: dict[str, float] = msgspec.field(default_factory=dict)


class SkipPolicy:
    """What is known of a run's Cases. `so_far`: the trials taken before, where a run is resumed."""

    def __init__(self, so_far: Run, host_bytes: Callable[[], int | None] = available_bytes) -> None:
        self._machine: Machine = so_far.head.machine
        self._host_bytes = host_bytes
        # Cases that are equal but for their sizes are together: only they say anything of one another.
        self._alike: dict[bytes, dict[_Sizes, _CaseLimits]] = {}
        cases = {case.case_id: case for case in so_far.head.plan.cases}
        for trial in so_far.trials:
            if trial.case_id in cases:  # a record may be damaged
                self.learn(cases[trial.case_id], trial)

    def learn(self, case: Case, trial: Trial) -> None:
        """Take note of how a trial ended."""
        known = self._alike.setdefault(_kind(case), {}).setdefault(_sizes(case), _CaseLimits())
        status = trial.outcome.status
        if status == Status.OK:
            known.ended_well = True
            for metric in PEAKS:
                if values := trial.values(metric):
                    known.peaks[metric] = max(*values, known.peaks.get(metric, 0.0))
        elif status in (Status.OUT_OF_MEMORY, Status.TIMED_OUT, Status.UNSUPPORTED) and known.failed is None:
            if status == Status.OUT_OF_MEMORY and trial.shared_device:
                return  # without the other process it may fit
            known.failed = msgspec.structs.replace(trial, measurements=(), series=())

    def objection(self, case: Case, procedure: Procedure) -> Outcome | None:
        """Return how a trial of that Case is bound to end, which is skipped then; None: it is worth a try."""
        if not procedure.foresee:
            return None
        alike, sizes = self._alike.get(_kind(case), {}), _sizes(case)
        own = alike.get(sizes, _CaseLimits())
        if own.ended_well:
            return None
        if own.failed is not None:
            status = own.failed.outcome.status
            if status != Status.TIMED_OUT or procedure.timeout_s <= own.failed.duration_s:
                why = f": {own.failed.outcome.message}" if status == Status.UNSUPPORTED else ""
                before: Values = {"status": str(status).replace("_", " "), "trial": own.failed.trial_id, "why": why}
                return ended(Status.SKIPPED, Reason.SAME_BEFORE, before)
        fitted = [others for others, known in alike.items() if known.ended_well]
        ends = {others: known.failed for others, known in alike.items() if known.failed is not None}
        for others, trial in ends.items():
            if trial.outcome.status != Status.OUT_OF_MEMORY or not _smaller(others, sizes):
                continue
            if not any(others == well or _smaller(others, well) for well in fitted):  # else size is not the reason
                smaller: Values = {"sizes": _difference(others, sizes), "trial": trial.trial_id}
                return ended(Status.SKIPPED, Reason.SMALLER_BEFORE, smaller)
        return self._too_large(case, alike)

    def _too_large(self, case: Case, alike: Mapping[_Sizes, _CaseLimits]) -> Outcome | None:
        batch, *rest = _sizes(case)
        if not isinstance(batch, int):
            return None
        line = {sizes[0]: known.peaks for sizes, known in alike.items() if [*sizes[1:]] == rest}
        for metrics, where, capacity in self._capacities(case):
            metric = next((m for m in metrics if any(m in peaks for peaks in line.values())), metrics[0])
            points = [(size, peaks[metric]) for size, peaks in line.items() if metric in peaks]
            known = sorted((size, peak) for size, peak in points if isinstance(size, int) and size < batch)
            if len(known) < 2 or known[-1][0] < _APART * known[0][0] or batch > _BEYOND * known[-1][0]:
                continue
            peak = predict_peak(known, batch)
            room = capacity()
            if peak is not None and room is not None and known[-1][1] >= room / _BEYOND and peak.low > room:
                values: Values = {
                    "need_bytes": peak.low,
                    "room_bytes": room,
                    "memory": where,
                    "batch_sizes": tuple(str(size) for size, _ in known),
                }
                return ended(Status.SKIPPED, Reason.TOO_LARGE, values)
        return None

    def _capacities(self, case: Case) -> Iterator[tuple[tuple[str, ...], str, Callable[[], float | None]]]:
        """Yield raw metrics, word and capacity (bytes) of each memory that can run out."""
        placement = case.placement
        device = self._machine.device(placement.device, placement.index)
        if placement.device not in ("cpu", "mps") and device is not None:  # these share the host's, and may swap
            yield _CERTAIN_FIRST, "device", lambda: device.memory_bytes
        yield (HOST_PEAK,), "host", self._host_room

    def _host_room(self) -> float | None:
        room = self._host_bytes()
        return room + _SHARED_BYTES if room is not None else None


def skipped(case: Case, number: int, order: int, outcome: Outcome) -> Trial:
    """Return the trial that was not started."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return Trial(uuid.uuid4().hex[:12], case.case_id, number, order, now, 0.0, outcome)


def _kind(case: Case) -> bytes:
    others = {name: value for name, value in case.configuration.items() if name not in _SIZES}
    return msgspec.json.encode((case.workload.canonical(), str(case.placement), others), order="sorted")


def _sizes(case: Case) -> _Sizes:
    return tuple(case.configuration.get(name) for name in _SIZES)


def _smaller(some: _Sizes, than: _Sizes) -> bool:
    """Say whether no size is larger, and one is smaller."""
    pairs = [(a, b) for a, b in zip(some, than, strict=True) if a != b]
    return bool(pairs) and all(isinstance(a, int) and isinstance(b, int) and a < b for a, b in pairs)


def _difference(some: _Sizes, than: _Sizes) -> tuple[str, ...]:
    return tuple(f"{name} {a}" for name, a, b in zip(_SIZES, some, than, strict=True) if a != b)


# What other programs may cost a run, of its time: waiting until they leave the machine, and probes taken again.
_MOST_LOST = 0.3
_PROBED_AGAIN, _PROBED_AGAIN_S = 2, 30.0  # times, where other programs disturbed a probe; seconds a run, at least
_OVERRUN = 1.1  # times the time a run was given: what still runs then is ended
RESUMED = "resumed"  # what findings on a resume are called
_KEPT = (RESUMED, WITHOUT_EFFECT)  # of a whole run, by the next resume: no check would find them again


Answering = Callable[[Run], Answer | None]


class OutOfTime(Exception):
    """The time limit of a run has come: what has not begun is left for `resume`."""


class ActiveRun:
    """A record being written. `so_far` is what it holds already: only its head where the run is new.

    The time limit of the session's Procedure counts from here, its `within_s` from `began_s` (None: from here, too).
    `notes`: findings on what was asked for, or on how it was resumed.
    """

    def __init__(
        self,
        session: Session,
        writer: RecordWriter,
        so_far: Run,
        folder: Path,
        notes: Sequence[Finding] = (),
        clock: Clock = system_clock,
        began_s: float | None = None,
    ) -> None:
        self.head = so_far.head
        self._notes = [*(f for f in so_far.findings if f.subject == "run" and f.check in _KEPT), *notes]
        self._clock = clock
        limit_s, within_s = session.procedure.time_limit_s, session.procedure.within_s
        self.began_s = began_s if began_s is not None else clock()
        self._ends_s = min(
            math.inf if limit_s is None else clock() + limit_s,
            math.inf if within_s is None else self.began_s + _OVERRUN * within_s,
        )
        self._until_s = math.inf
        if session.procedure.in_rounds and self.head.plan.slots:
            self._until_s = self.began_s + time_of(session.procedure, len(self.head.measurable))
        self.session = session
        self._writer = writer
        self._folder = folder
        self._known = {case.case_id for case in self.head.plan.cases}
        self._well = {trial.case_id for trial in so_far.trials if trial.outcome.status == Status.OK}
        self._order = len(so_far.trials)
        self._round: int | None = None
        self._may_be_busy, self._waited_s = True, 0.0
        self._stays_busy, self._again_s = False, 0.0
        self._foresight = SkipPolicy(so_far)

    def add(self, case: Case) -> None:
        """Add a Case that was not planned; one that is there already stays as it is."""
        if case.case_id not in self._known:
            self._known.add(case.case_id)
            self._writer.append(Added(case))

    def take(
        self,
        case: Case,
        number: int,
        purpose: Purpose = Purpose.REPLICATE,
        how: Procedure | None = None,
        *,
        host_profile: bool = False,
    ) -> Trial:
        """Take one trial of a Case, by the session's Procedure unless another is given, and return it, recorded.

        A probe that other programs disturbed is taken again, twice at most, and while all such take at most 30 s plus
        three tenths of the run's time: what follows it is decided by it alone. Where that was in vain, the next are not
        taken again until one is undisturbed: the machine stays busy.
        `host_profile`: it also sends one, which the session's watcher hears. Raises OutOfTime where the time limit has
        come; a trial that it ends is recorded as interrupted.
        """
        trial = self._take_once(case, number, purpose, how, host_profile=host_profile)
        if purpose == Purpose.PROBE:
            for _ in range(0 if self._stays_busy else _PROBED_AGAIN):
                again_s = self._again_s + trial.duration_s
                if not trial.disturbed or again_s > _PROBED_AGAIN_S + _MOST_LOST * self.elapsed_s():
                    break
                trial = self._take_once(case, number, purpose, how, host_profile=host_profile)
                self._again_s += trial.duration_s
            self._stays_busy = trial.disturbed
        return trial

    def _take_once(
        self, case: Case, number: int, purpose: Purpose, how: Procedure | None, *, host_profile: bool
    ) -> Trial:
        self._left_s()
        foreseen = self._foresight.objection(case, how or self.session.procedure)
        if foreseen is not None:
            return self._record(case, skipped(case, number, self._order, foreseen), purpose)
        if purpose == Purpose.REPLICATE and number != self._round:
            # Forks of one template share its address layout, so that replicates would not sample layouts: a run has
            # several templates, as many as cost little beside what they are used for.
            if self._round is not None and self.session.is_worth_renewing(self._until_s - self._clock()):
                self.session.renew()
            self._round = number
        if self.session.procedure.in_rounds or purpose == Purpose.PROBE:  # a number that was asked for begins at once
            self._wait_for_quiet()
        device = self.head.machine.device(case.placement.device, case.placement.index)
        others = _further_devices(case, self.head.machine)
        how, left_s = how or self.session.procedure, self._left_s()
        limited = left_s < how.timeout_s
        if limited:
            how = msgspec.structs.replace(how, timeout_s=left_s)
        request: CaseRequest
        if how.fit is not None:
            request = TrainRequest(case, how, number, fit=how.fit)
        else:
            request = TrialRequest(case, how, number, self._trace_path(case) if number == 0 else None, host_profile)
        trial = TrialDrive(request, device, self.session.watcher, others=others).run(self.session.launcher, self._order)
        trial = msgspec.structs.replace(trial, facts=merged(trial.facts, Facts(template=self.session.openings)))
        # Ranks that hang are ended before.
        cut = limited and trial.outcome.status == Status.TIMED_OUT and self._clock() >= self._ends_s
        if cut:
            given = self.session.procedure
            limit = f"time limit of {given.time_limit_s:g} s" if given.time_limit_s else f"{given.within_s:g} s"
            trial = msgspec.structs.replace(
                trial, outcome=ended(Status.INTERRUPTED, Reason.TIME_LIMIT, {"limit": limit})
            )
        trial = self._record(case, trial, purpose)
        if cut:
            raise OutOfTime
        return trial

    def keep(self, case: Case, trial: Trial, purpose: Purpose) -> None:
        """Record a trial that was taken elsewhere: of a live comparison, say."""
        self.add(case)
        self._writer.append(msgspec.structs.replace(trial, purpose=purpose, order=self._order))
        self._order += 1

    def _wait_for_quiet(self) -> None:
        """Wait a bounded while where other programs are busy: before the first trial, and after a disturbed one."""
        if not self._may_be_busy or self.session.procedure.disturbed != "replace":
            return
        self._may_be_busy = False
        most_s = min(LONGEST_WAIT_S, self._left_s(), _MOST_LOST * (self.elapsed_s() + LONGEST_WAIT_S) - self._waited_s)
        if most_s > 0.0:
            self._waited_s += wait_for_quiet(most_s, self.session.watcher.waits, self._clock)

    def _record(self, case: Case, trial: Trial, purpose: Purpose) -> Trial:
        trial = msgspec.structs.replace(trial, purpose=purpose)
        self._writer.append(trial)
        self._order += 1
        self._may_be_busy = trial.disturbed
        self._foresight.learn(case, trial)
        if trial.outcome.status == Status.OK:
            self._well.add(case.case_id)
        self.session.watcher.finished(trial)
        return trial

    def _left_s(self) -> float:
        left_s = self._ends_s - self._clock()
        if left_s <= 0.0:
            raise OutOfTime
        return left_s

    def answer(self, answer: Answer) -> None:
        """Record what the run found."""
        self._writer.append(Answered(answer))

    @property
    def is_measured(self) -> bool:
        """Whether every case of a run whose number of trials was open has ended well once: more time is no need."""
        if not self.session.procedure.in_rounds or not self.head.plan.slots:
            return False  # it was asked for so many trials, or it is no plan but a search
        due = {self.head.plan.cases[place].case_id for place in self.head.measurable}
        return bool(due) and due <= self._well

    def renewal_s(self) -> float:
        """Return how long the next round will first wait for what its trials are forked from."""
        due = self.session.is_worth_renewing(self._until_s - self._clock())
        return self.session.renewal_s if due else 0.0

    def elapsed_s(self) -> float:
        """Return how long ago the run began."""
        return self._clock() - self.began_s

    def so_far(self) -> Run:
        """Return what the record holds."""
        return read_record(self._writer.path)

    def end(self, status: str, why: str | None = None) -> Run:
        """Close the record, and return the run whole."""
        return self._writer.end(self._notes, status, why)

    def _trace_path(self, case: Case) -> str | None:
        if not self.session.procedure.profile:
            return None
        traces = self._folder / "traces"
        refuse_links(traces / "any", self._folder)
        try:
            traces.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise unwritten(traces, fault, self._folder, self.head) from fault
        return str((traces / f"{self.head.run_id}_{case.case_id}.json").absolute())


def _further_devices(case: Case, machine: Machine) -> list[DeviceInfo]:
    """Return the devices of a Case's further ranks on this node: each has its own, but on a CPU, which all share."""
    kind, first = case.placement.device, case.placement.index
    further = range(first + 1, first + case.placement.count) if kind != "cpu" else ()
    return [device for index in further if (device := machine.device(kind, index)) is not None]


def take_all(
    session: Session,
    head: Head,
    folder: Path,
    began_s: float | None = None,
    first: Sequence[Condition] = (),
    absent: Mapping[Placement, str] = {},
    notes: Sequence[Finding] = (),
) -> Run:
    """Begin the record of a run in `folder`, take every trial of its plan, and those that follow from them; return it.

    `began_s`: when its time began to run. `first`: conditions of cases that come first in every round. `absent`: why
    devices are not here: each of their Cases gets one trial that says so. `notes`: findings on what was asked for.
    """
    cases = [case for case in head.plan.cases if case.placement in absent]
    why = {place: ended(Status.UNSUPPORTED, Reason.ABSENT, {"why": text}) for place, text in absent.items()}
    told = [skipped(c, 0, order, why[c.placement]) for order, c in enumerate(cases)]
    return record_run(session, head, folder, lambda run, so_far: finish(run, so_far, first), notes, told, began_s)


def record_run(
    session: Session,
    head: Head,
    folder: Path,
    work: Callable[[ActiveRun, Run], Run],
    notes: Sequence[Finding] = (),
    trials: Sequence[Trial] = (),
    began_s: float | None = None,
) -> Run:
    """Begin the record of a run in `folder`; return what `work` makes of the open run and its `trials`."""
    with RecordWriter(record_path(folder, head.run_id), head) as writer:
        session.watcher.begins(head)
        for trial in trials:
            writer.append(trial)
        so_far = Run(head, tuple(trials), (), None)
        return work(ActiveRun(session, writer, so_far, folder, notes, began_s=began_s), so_far)


def finish(
    open_run: ActiveRun, so_far: Run, first: Sequence[Condition] = (), answering: Answering | None = None
) -> Run:
    """Take what the plan has and the record lacks, then further rounds where their number is open; end the run."""
    procedure, cases = open_run.session.procedure, so_far.head.plan.cases
    rounds = Rounds(procedure, so_far, first) if procedure.in_rounds else None

    def take(slot: Slot, order: int) -> None:
        open_run.session.watcher.starts(slot, order)
        how = rounds.procedure_for(slot.case, slot.number) if rounds is not None else None
        trial = open_run.take(cases[slot.case], slot.number, how=how)
        if rounds is not None:
            rounds.note(trial)

    def work() -> str | None:
        for order, slot in list(missing(so_far)):
            take(slot, order)
        return further(open_run, rounds, take) if rounds is not None else None

    return conclude(open_run, work, answering)


def further(open_run: ActiveRun, rounds: Rounds, take: Callable[[Slot, int], None]) -> str | None:
    """Take round after round until no more are worth it; return why."""
    order = len(open_run.head.plan.slots)
    while True:
        found = rounds.next(open_run.elapsed_s() + open_run.renewal_s())
        for place in found.cases:
            if rounds.is_over(open_run.elapsed_s()):
                break
            take(Slot(place, rounds.number), order)
            order += 1
        if found.why is not None:
            return found.why


def conclude(open_run: ActiveRun, work: Callable[[], str | None], answering: Answering | None = None) -> Run:
    """Do the work, which may say why it ended; then end the run by how that went.

    Its status: done, interrupted (by Ctrl-C), or out of time. `answering`: returns the answer that what was measured
    gives, however the work went.
    """
    status, why = "done", None
    try:
        why = work()
    except KeyboardInterrupt:
        status = "interrupted"
    except OutOfTime:
        status = "out of time"
    if status == "out of time" and open_run.is_measured:
        status, why = "done", OVER
    if answering is not None and (found := answering(open_run.so_far())) is not None:
        open_run.answer(found)
    return open_run.end(status, why)


def missing(run: Run) -> Iterator[tuple[int, Slot]]:
    """Yield the planned trials that the record lacks, with their place in the Plan. An interrupted one is lacking."""
    taken = {(t.case_id, t.number) for t in run.trials if t.outcome.status != Status.INTERRUPTED}
    ids = [case.case_id for case in run.head.plan.cases]
    for order, slot in enumerate(run.head.plan.slots):
        if (ids[slot.case], slot.number) not in taken:
            yield order, slot
