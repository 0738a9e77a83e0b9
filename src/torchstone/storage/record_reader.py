"""Read a record, whole or in part: decoded against the schema, bounded in size, never executed. It may be a stranger's.

A last line that was cut off while it was written costs only itself. Numbers that no statistics can use become NaN or 0.
"""

from __future__ import annotations

import contextlib
import math
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import AbResult, Answer, TuneResult
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import Malformed, check_stamp, decode
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.facts import Facts, present_facts
from torchstone.core.schema.run import Added, Answered, End, Head, Line, Noted, Run
from torchstone.core.schema.training import Training
from torchstone.core.schema.trial import Measurement, Outcome, Purpose, Series, Stage, Status, Trial

# float32 ends at 3.4e38 and begins at 1.4e-45: no clock, counter or loss goes beyond. What lies between can be squared,
# summed and divided without an overflow.
LARGEST, SMALLEST = 1e40, 1e-45
_MAY_BE_INFINITE = ("loss", "fingerprint")  # a training that diverged is data: who reads these expects it


def bounded(trial: Trial) -> Trial:
    """Return a trial with NaN for what no measurement in any unit can be, infinities too, and 0 for what is as small.

    Kept are infinities among losses and fingerprints. Of 1e308 s, or of inf beside -inf, no mean can be taken.
    """
    measurements = tuple(
        m if _within(m.values) else msgspec.structs.replace(m, values=_bounded(m.values, m.metric in _MAY_BE_INFINITE))
        for m in trial.measurements
    )
    series = tuple(map(_readings, trial.series))
    return msgspec.structs.replace(trial, facts=_facts(trial.facts), measurements=measurements, series=series)


def _facts(facts: Facts) -> Facts:
    changed = {name: bound for name, value in present_facts(facts) if (bound := _fact(value)) is not value}
    return msgspec.structs.replace(facts, **changed) if changed else facts


def _fact(value: Any) -> Any:
    if isinstance(value, dict):
        bounds = {name: _fact(one) for name, one in value.items()}
        return value if all(bounds[name] is one for name, one in value.items()) else bounds
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= LARGEST else None
    return _number(value) if isinstance(value, float) else value


def _readings(series: Series) -> Series:
    """Return a Series with as many moments as values."""
    at_s, values = series.at_s, series.values
    if len(at_s) == len(values) and _within(at_s) and _within(values):
        return series
    both = min(len(at_s), len(values))
    return msgspec.structs.replace(series, at_s=_bounded(at_s[:both]), values=_bounded(values[:both]))


def _within(values: Sequence[float]) -> bool:
    """Say whether nothing has to be changed. Without a loop: raw values are most of a record.

    Comparisons with NaN are false, so one that hides a value from `max` or `min` is itself what these return.
    """
    if not values:
        return True
    sizes = map(abs, filter(None, values))
    return max(values) <= LARGEST and min(values) >= -LARGEST and min(sizes, default=1.0) >= SMALLEST


def _bounded(values: Sequence[float], infinite: bool = False) -> tuple[float, ...]:
    return tuple(v if infinite and math.isinf(v) else _number(v) for v in values)


def _number(value: float) -> float:
    size = abs(value)
    if not size <= LARGEST:  # an int of hundreds of digits too, which no float can hold
        return math.nan
    return value if size >= SMALLEST or size == 0 else 0.0


_WHOLE, _LARGEST = 2**63, 1e40  # of an axis; of any other number (storage/record_reader.py)


def _check_case(case: Case) -> None:
    """Raise UsageError for a Case with an axis that has a word or a size where a number of use must be."""
    for name, value in case.configuration.items():
        kind = AXES[name].kind if name in AXES else ""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if (number and not abs(value) < _WHOLE) or (kind in ("int", "float") and value is not None and not number):  # type: ignore[arg-type]
            said = repr(value)[:40] if not isinstance(value, int) else "a number of too many digits"
            raise UsageError(f"axis {name[:80]!r} has {said}: not a number of use")


def check_run(run: Run) -> Run:
    """Return the run. Raises UsageError where it names a Case that its plan has not, or a number that none can be."""
    for case in run.head.plan.cases:
        _check_case(case)
    known = {case.case_id for case in run.head.plan.cases}
    for case_id in _named(run):
        if case_id not in known:
            raise UsageError(f"case {case_id[:80]!r} is named in its result and is not in the run's plan")
    head, usual = run.head, run.head.usual
    for term in (head.machine, head.machines, head.procedure, head.tune, head.ab, usual, run.answer):
        if not all(-_LARGEST < value < _LARGEST for value in _numbers(msgspec.to_builtins(term))):
            raise UsageError(f"a number of {type(term).__name__} is no number of use: not finite, or too large")
    if usual is not None and not 0.0 < usual.deviation < _LARGEST:
        raise UsageError(f"the usual deviation {usual.deviation!r}: above 0")
    return run


def _numbers(value: object) -> Iterator[int | float]:
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)


def _named(run: Run) -> Iterator[str]:
    answer = run.answer
    if isinstance(answer, AbResult):
        yield from (answer.comparison.baseline.case_id, answer.comparison.candidate.case_id)
    elif isinstance(answer, Diagnosis):
        yield answer.case.case_id
    elif isinstance(answer, Training) and len(run.head.plan.cases) != 1:
        raise UsageError("its result is of a training, which has one case")
    elif isinstance(answer, TuneResult):
        named = (answer.recommended, answer.highest_throughput, answer.best_efficiency, answer.present)
        yield from (one.case_id for one in (*named, *answer.pareto) if one is not None)


class RecordPart(msgspec.Struct, frozen=True):
    """What is read: the trials of the Cases `whole`, and of the Cases `some` the raw values of `metrics`.

    A trial of one of `some` has no Series and no Measurements of other Metrics; trials of other Cases are left out.

    Of 10,000 trials the raw values take half a gigabyte as Python's numbers; a report shows those of a few dozen.
    """

    whole: frozenset[str]
    some: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()


class _LineKind(msgspec.Struct, frozen=True):
    record: str
    case_id: str = ""


class _RawMeasurement(msgspec.Struct, frozen=True):
    """A Measurement whose values are still text."""

    metric: str
    stage: Stage
    values: msgspec.Raw
    window: str | None = None
    phase: str | None = None
    rank: int = 0


class _RawTrial(msgspec.Struct, frozen=True):
    """A Trial whose Measurements are still text, without its Series."""

    trial_id: str
    case_id: str
    number: int
    order: int
    started_utc: str
    duration_s: float
    outcome: Outcome
    facts: Facts = msgspec.field(default_factory=Facts)
    measurements: tuple[_RawMeasurement, ...] = ()
    purpose: Purpose = Purpose.REPLICATE


def wanted_line(data: bytes, wanted: RecordPart) -> Line | None:
    """Return the term of a line of a record as far as it is wanted; None for a trial that is not.

    Raises what `decode` does. What is passed over is only known to be JSON.
    """
    kind: _LineKind = decode(data, _LineKind)
    if kind.record != "trial" or kind.case_id in wanted.whole:
        line: Line = decode(data, Line)
        return line
    if kind.case_id not in wanted.some:
        return None
    if b'"nonfinite"' in data:  # which says where in the whole trial a value is NaN
        trial: Trial = decode(data, Trial)
        kept = tuple(one for one in trial.measurements if one.metric in wanted.metrics)
        return msgspec.structs.replace(trial, measurements=kept, series=())
    raw: _RawTrial = decode(data, _RawTrial)
    return Trial(
        raw.trial_id,
        raw.case_id,
        raw.number,
        raw.order,
        raw.started_utc,
        raw.duration_s,
        raw.outcome,
        raw.facts,
        tuple(_read(one) for one in raw.measurements if one.metric in wanted.metrics),
        (),
        raw.purpose,
    )


def _read(one: _RawMeasurement) -> Measurement:
    values: tuple[float, ...] = decode(bytes(one.values), tuple[float, ...])
    return Measurement(one.metric, one.stage, values, one.window, one.phase, one.rank)


MOST_BYTES = 2**30
MOST_LINE_BYTES = 64 * 2**20
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def record_path(folder: Path, run_id: str) -> Path:
    """Return where the record of a run lies in an output folder. Raises UsageError for an id that is no file name."""
    return folder / "records" / f"{checked_id(run_id)}.jsonl"


def checked_id(run_id: str) -> str:
    """Return `run_id` if it may name a file, else raise UsageError: it may come from a stranger's record."""
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"run id {run_id[:80]!r}: only letters, digits and . _ - are allowed, 128 at most")
    return run_id


def read_record(path: Path, wanted: RecordPart | None = None) -> Run:
    """Return the run in a record, finished or not, or the part that is wanted.

    Raises UsageError naming the file, the line and the fault.
    """
    return read_whole(path, wanted)[0]


def read_head(path: Path) -> Head:
    """Return the first line of a record. Raises UsageError naming the file and the fault."""
    with read_bounded(path) as file:
        return _head(path, next(_lines(path, file), b""))[0]


def read_whole(path: Path, wanted: RecordPart | None = None) -> tuple[Run, int]:
    """Return the run in a record (or what is wanted of it), and how many bytes of the file are whole lines of it."""
    with read_bounded(path) as file:
        lines = _lines(path, file)
        head, good = _head(path, next(lines, b""))
        parts = _Parts(head)
        for number, data in enumerate(lines, 2):
            try:
                parts.add(decode(data, Line) if wanted is None else wanted_line(data, wanted))
            except Malformed as fault:
                if not next(lines, b""):
                    break  # cut off while it was written
                raise UsageError(f"{path}:{number}: {fault}") from None
            except UsageError as fault:
                raise UsageError(f"{path}:{number}: {fault}") from None
            good += len(data)
    try:
        return check_run(parts.run(head)), good
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None


@contextlib.contextmanager
def read_bounded(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read it within the block.

    Raises UsageError if it is not there, not a plain file, larger than MOST_BYTES, or a read fails within the block.
    """
    with _open(path) as file:
        try:
            yield file
        except OSError as fault:  # a disk, or a network file system, that fails
            raise UsageError(f"cannot read {path}: {fault.strerror}") from fault


def _open(path: Path) -> BinaryIO:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file")
        if found.st_size > MOST_BYTES:
            raise UsageError(f"{path}: {found.st_size} bytes exceeds the limit of a record ({MOST_BYTES})")
        return path.open("rb")
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    except ValueError as fault:  # a path with a NUL in it
        raise UsageError(f"cannot read {str(path)!r}: {fault}") from None


def is_new(trial: Trial, known: dict[str, Trial]) -> bool:
    """Say whether no trial of that id is known, and add it: what stands in a file twice is one trial.

    Raises UsageError where one of that id is known that is not the same.
    """
    same = known.setdefault(trial.trial_id, trial)
    if same is trial:
        return True
    if repr(same) != repr(trial):  # where a value is NaN, equal trials are not ==
        raise UsageError(f"trial {trial.trial_id[:80]!r} is there twice, with different content")
    return False


class _Parts:
    """A run in the making, line by line."""

    def __init__(self, head: Head) -> None:
        self.added: dict[str, Case] = {}
        self.trials: list[Trial] = []
        self._known: dict[str, Trial] = {}
        self.answer: Answer | None = None
        self.findings: list[Finding] = []
        self.end: End | None = None
        self._interrupted: dict[tuple[str, int, Purpose], int] = {}
        self._taken_again: set[int] = set()
        self._cases = {case.case_id for case in head.plan.cases}

    def add(self, line: Line | None) -> None:
        """Take a line; None for a trial that is not wanted."""
        if line is None:
            self._resumed()
        elif isinstance(line, Head):
            raise UsageError("a second head line: two records in one file")
        elif isinstance(line, Added):
            case_id = line.case.case_id
            if case_id not in self._cases:  # a resumed search may have proposed it again
                self._cases.add(case_id)
                self.added[case_id] = line.case
        elif isinstance(line, Trial):
            if line.case_id not in self._cases:
                raise UsageError(f"trial {line.trial_id[:80]!r} has a case_id that is not in the run's plan")
            self._resumed()
            self._take(bounded(line))
        elif isinstance(line, Noted):
            self.findings.append(line.finding)
        elif isinstance(line, Answered):
            self.answer = line.answer
        else:
            self.end = line

    def _resumed(self) -> None:
        # What was said of the shorter run holds no longer, even where a second Ctrl-C cut its end off.
        self.end, self.findings, self.answer = None, [], None

    def _take(self, trial: Trial) -> None:
        if not is_new(trial, self._known):
            return
        key = (trial.case_id, trial.number, trial.purpose)
        if key in self._interrupted:
            self._taken_again.add(self._interrupted.pop(key))
        if trial.outcome.status == Status.INTERRUPTED:
            self._interrupted[key] = len(self.trials)
        self.trials.append(trial)

    def run(self, head: Head) -> Run:
        """Return the Run: with the Cases added on the way in its Plan, without interrupted trials taken again."""
        if self.added:
            plan = msgspec.structs.replace(head.plan, cases=(*head.plan.cases, *self.added.values()))
            head = msgspec.structs.replace(head, plan=plan)
        trials = tuple(t for place, t in enumerate(self.trials) if place not in self._taken_again)
        return Run(head, trials, tuple(self.findings), self.end, self.answer)


def _head(path: Path, data: bytes) -> tuple[Head, int]:
    if not data.strip():
        raise UsageError(f"{path}: no head line: the file is empty")
    try:
        check_stamp(data, "head", "record")
        head: Head = decode(data, Head)
        checked_id(head.run_id)
        return head, len(data)
    except Malformed:
        fault = "not a torchstone record" if not data.startswith(b'{"record":"head"') else "its head line is cut off"
        raise UsageError(f"{path}: {fault}") from None
    except UsageError as fault:
        raise UsageError(f"{path}:1: {fault}") from None


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    if file.read(1) not in (b"{", b""):  # most foreign files end here, whatever their size
        raise UsageError(f"{path}: not a torchstone record")
    file.seek(0)
    number = 0
    while data := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(data) > MOST_LINE_BYTES:
            raise UsageError(f"{path}:{number}: a line of more than {MOST_LINE_BYTES} bytes")
        yield data
