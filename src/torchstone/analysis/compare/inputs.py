"""Who is compared: each RUN as typed becomes a ComparedInput: a letter, a label, and one run or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

import msgspec

from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.estimates import pair_prior, priors_of_run, rounds_of_run
from torchstone.core.figures import Figures, figures
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, model_name
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Plan, Run
from torchstone.core.schema.training import TrainingMetrics
from torchstone.core.schema.trial import Status, Trial, ended_well, estimation_trials, replicates
from torchstone.core.stats.moderated import Prior
from torchstone.storage import foreign
from torchstone.storage.place import Place
from torchstone.storage.query import locate, locate_id, read_run
from torchstone.storage.record_reader import record_path
from torchstone.storage.training import METRICS, read_metrics

_SIDE = "side"  # of a live comparison of two revisions: one Case, taken with two versions of the code
_TRAITS = ("data", "device", "count", "nodes", "fixed", _SIDE)  # of a Case, beside its axes


class _CaseOfRun(msgspec.Struct, frozen=True):
    """A Case of a run. `side`: A or B, where both sides of a live comparison are this one Case."""

    run: Run
    case: Case
    side: str | None = None


class CaseTrials(msgspec.Struct, frozen=True):
    """One Case in one run: its replicates that ended well (or probes, where there is nothing else), and the others.

    `figures`: of each of `trials`; `priors`: what moderates their intervals in the run (core/estimates.py); `of_run`:
    the whole run.
    `disturbed`: how many trials are left out, since other programs disturbed them.
    """

    run: Run
    case: Case
    trials: tuple[Trial, ...]
    figures: tuple[Figures, ...]
    priors: Mapping[str, Prior]
    of_run: OfRun
    failed: tuple[Trial, ...]
    disturbed: int = 0


class OfRun:
    """All Cases of a run: what they say together of the spread of a ratio of two of them."""

    def __init__(self, run: Run, derived: Sequence[Figures]) -> None:
        self._cases = rounds_of_run(run, derived)
        self._priors: dict[str, Prior | None] = {}

    def pair_prior(self, metric: str) -> Prior | None:
        """Return what `show` takes for its ratios, too."""
        if metric not in self._priors:
            self._priors[metric] = pair_prior(metric, self._cases)
        return self._priors[metric]


class _Derived:
    """The figures of the trials of all runs, and what moderates their intervals, each derived once."""

    def __init__(self, participants: Sequence[ComparedInput]) -> None:
        self._figures: dict[int, Figures] = {}  # by the id of the Trial, which the participants keep
        self._priors: dict[tuple[str, str], Mapping[str, Prior]] = {}
        self._runs: dict[str, OfRun] = {}
        for run in {id(run): run for one in participants for run in one.whole or one.runs}.values():
            derived = [figures(trial) for trial in run.trials]
            self._figures |= {id(trial): found for trial, found in zip(run.trials, derived, strict=True)}
            self._runs[run.head.run_id] = OfRun(run, derived)
            priors = priors_of_run(run, derived)
            ids = [(run.head.run_id, case.case_id) for case in run.head.plan.cases]
            self._priors |= dict(zip(ids, priors, strict=True))

    def case_trials(self, run: Run, case: Case, side: str | None = None) -> CaseTrials:
        """Return a Case in a run; `side`: of a live comparison of two revisions its trials of that side alone."""
        trials = tuple(t for t in run.of_case(case.case_id) if side is None or t.facts.side == side)
        failed = tuple(t for t in trials if t.outcome.status != Status.OK)
        good = ended_well(trials)
        used = estimation_trials(good)
        found = tuple(self._figures[id(trial)] for trial in used)
        priors = self._priors[run.head.run_id, case.case_id]
        whole = self._runs[run.head.run_id]
        return CaseTrials(run, case, used, found, priors, whole, failed, len(replicates(good) or good) - len(used))


class Matched(msgspec.Struct, frozen=True):
    """Cases that compute the same: for each participant's letter what was taken, oldest run first."""

    label: str
    task: str
    sides: Mapping[str, tuple[CaseTrials, ...]]


def match(participants: Sequence[ComparedInput]) -> list[Matched]:
    """Return the Cases that at least two participants have, in the order of the first.

    Raises UsageError where there are none, naming what each has.
    """
    groups: dict[tuple[str, str], dict[str, list[_CaseOfRun]]] = {}
    for one in participants:
        for entry in (entry for run in one.runs for entry in _entries(run)):
            which = (str(entry.case.workload.task), str(entry.case.workload.canonical()["model"]))
            groups.setdefault(which, {}).setdefault(one.letter, []).append(entry)
    derived = _Derived(participants)
    found = [matched for which, group in groups.items() for matched in _matched(which, group, participants, derived)]
    if not found:
        having = "; ".join(f"{one.letter} has {_listed(one)}" for one in participants)
        raise UsageError(f"no case in common (same task, model and varied settings): {having}")
    return list(_distinct(found))


def _entries(run: Run) -> Iterator[_CaseOfRun]:
    cases = run.head.plan.cases
    if run.head.ab is not None and len(cases) == 1 and any(trial.facts.side is not None for trial in run.trials):
        yield from (_CaseOfRun(run, cases[0], side) for side in "AB")
        return
    yield from (_CaseOfRun(run, case) for case in cases)


def uncompared_cases(participants: Sequence[ComparedInput], matched: Sequence[Matched]) -> dict[str, tuple[str, ...]]:
    """Return in words, by letter, the Cases that are compared with none: the baseline, or all others, lack them."""
    base = [each for each in matched if participants[0].letter in each.sides]
    taken = {(letter, t.case.case_id) for each in base for letter, side in each.sides.items() for t in side}
    found = {
        one.letter: dict.fromkeys(
            _words(case) for run in one.runs for case in run.head.plan.cases if (one.letter, case.case_id) not in taken
        )
        for one in participants
    }
    return {letter: tuple(words) for letter, words in found.items() if words}


def lost(participants: Sequence[ComparedInput], matched: Sequence[Matched]) -> dict[str, tuple[str, ...]]:
    """Return in words, by letter, the Cases of the baseline that a candidate lacks, or has no trial of that ended well.

    A Case of which no trial of the baseline itself ended well is no loss.
    """
    baseline = participants[0]
    well = {
        case.case_id: case
        for run in baseline.runs
        for case in run.head.plan.cases
        if ended_well(run.of_case(case.case_id))
    }
    found: dict[str, tuple[str, ...]] = {}
    for one in participants[1:]:
        having = {
            taken.case.case_id
            for each in matched
            if any(theirs.trials for theirs in each.sides.get(one.letter, ()))
            for taken in each.sides.get(baseline.letter, ())
        }
        if words := dict.fromkeys(_words(case) for case_id, case in well.items() if case_id not in having):
            found[one.letter] = tuple(words)
    return found


def _distinct(found: Sequence[Matched]) -> Iterator[Matched]:
    """Number what has one label: Cases that differ in their data or in facts of the model."""
    seen: dict[str, int] = {}
    for one in found:
        seen[one.label] = seen.get(one.label, 0) + 1
        number = seen[one.label]
        yield msgspec.structs.replace(one, label=f"{one.label} ({number})") if number > 1 else one


def traits(case: Case) -> dict[str, Scalar]:
    """Return everything that tells one Case of a model from another, by name; axes of a later version by default.

    Settings that are no axes are another tool's.
    """
    canonical = case.workload.canonical()
    data = str(canonical["data"]) + "".join(f" {key}={value}" for key, value in case.workload.data_options.items())
    fixed = ", ".join(f"{key}={value}" for key, value in sorted(case.workload.fixed.items()))
    place = case.placement
    return {
        **{name: axis.default for name, axis in AXES.items()},
        **case.configuration,
        "data": data,
        "device": place.device,
        "count": place.count,
        "nodes": place.nodes,
        "fixed": fixed,
    }


def _matched(
    which: tuple[str, str],
    group: Mapping[str, Sequence[_CaseOfRun]],
    participants: Sequence[ComparedInput],
    derived: _Derived,
) -> Iterator[Matched]:
    # Beside a run that has no sides, both of a comparison of revisions are trials of its one Case.
    sided = all(one.side is not None for entries in group.values() for one in entries)
    own = {
        letter: [{**traits(one.case), _SIDE: one.side if sided else None} for one in entries]
        for letter, entries in group.items()
    }
    others = dict.fromkeys(name for cases in own.values() for each in cases for name in each)
    varying = [
        name
        for name in dict.fromkeys((*AXES, *_TRAITS, *others))
        if any(len({each.get(name) for each in cases}) > 1 for cases in own.values())
    ]
    rows: dict[tuple[Scalar, ...], dict[str, list[CaseTrials]]] = {}
    for one in participants:
        for entry, known in zip(group.get(one.letter, ()), own.get(one.letter, ()), strict=True):
            if entry.side == "B" and not sided:
                continue  # its trials are those of the entry before
            key = tuple(known.get(name) for name in varying)
            taken = derived.case_trials(entry.run, entry.case, entry.side if sided else None)
            rows.setdefault(key, {}).setdefault(one.letter, []).append(taken)
    task, model = which
    for key, sides in rows.items():
        if len(sides) > 1:
            values = ", ".join(
                f"{name} {value}" for name, value in zip(varying, key, strict=True) if name not in ("fixed", "data")
            )
            label = f"{task} {model_name(model)}"
            kept = {letter: tuple(having) for letter, side in sides.items() if (having := _having(side))}
            yield Matched(f"{label}, {values}" if values else label, task, kept)


def _having(side: Sequence[CaseTrials]) -> Sequence[CaseTrials]:
    """Return what has trials; where nothing has, the newest, which tells why."""
    return [taken for taken in side if taken.trials] or side[-1:]


def _listed(one: ComparedInput) -> str:
    cases = [case for run in one.runs for case in run.head.plan.cases]
    words = list(dict.fromkeys(_words(case) for case in cases))
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    return (", ".join(words[:3]) or "none") + more


def _words(case: Case) -> str:
    size = case.configuration.get("batch_size")
    batch = f" batch_size {size}" if size is not None else ""
    return f"{case.workload.task} {case.workload.canonical()['model']}{batch}"


_LETTERS = (*ascii_uppercase, *(first + second for first in "ABC" for second in ascii_uppercase))  # A … Z, AA … CZ
COMPARISON = "benchmark_comparison_"  # what the name of such a file begins with: it holds no run
_MOST_FILES = 10_000


class ComparedInput(msgspec.Struct, frozen=True):
    """One side of a comparison. `word`: as it was typed; `runs`: one, or all that a folder holds.

    `trainings`: what the trainings in the folder reached, by the id of their run. `whole`: the runs of which `runs`
    are the part with one value of the axis `over` (`split`).
    """

    letter: str
    label: str
    word: str
    runs: tuple[Run, ...]
    trainings: Mapping[str, TrainingMetrics] = {}
    whole: tuple[Run, ...] = ()
    over: str | None = None

    @property
    def trains(self) -> bool:
        """Whether one of its runs is a training to an end: that is one trial, whatever is asked for."""
        return any(run.head.procedure.fit is not None for run in self.runs)


def gather(words: Sequence[str], place: Place, baseline: str | None = None) -> list[ComparedInput]:
    """Return the participants in the order given, the baseline first.

    Raises UsageError for fewer than two, for one that cannot be read, and for a run that comes twice.
    """
    if len(words) < 2:
        raise UsageError("compare needs two or more runs (or one with --over AXIS): torchstone compare RUN RUN")
    if len(words) > len(_LETTERS):
        raise UsageError(f"{len(words)} runs are too many: at most {len(_LETTERS)} can be compared")
    found = [_with_trainings(one) for one in _lettered(words, [_runs(word, place) for word in words])]
    seen: dict[str, str] = {}
    for one in found:
        for run in one.runs:
            if run.head.run_id in seen:
                raise UsageError(
                    f"'{seen[run.head.run_id]}' and '{one.word}' are the same run {run.head.run_id}; give another"
                )
        seen.update({run.head.run_id: one.word for run in one.runs})
    return _baseline_first(found, baseline)


def split(word: str, over: str, place: Place, baseline: str | None = None) -> list[ComparedInput]:
    """Return a participant for each value of an axis (or `device`) in one run: its trials were taken in turn.

    Raises UsageError where the axis has only one value there.
    """
    if over not in AXES and over != "device":
        raise UsageError(f"--over {over}: no such axis; known: those of `torchstone list axes`, and device")
    return _baseline_first(parts_of(word, _runs(word, place), over), baseline)


def parts_of(word: str, runs: tuple[Run, ...], over: str) -> list[ComparedInput]:
    """Return a participant for each value of an axis (or `device`) in these runs. Raises UsageError for one alone."""
    value: Callable[[Case], Scalar] = lambda case: (
        case.placement.device if over == "device" else case.configuration.get(over)
    )
    values = list(dict.fromkeys(value(case) for run in runs for case in run.head.plan.cases))
    values = [one for one in values if one is not None]
    if len(values) < 2:
        raise UsageError(f"--over {over}: '{word}' has only one value, {values[0] if values else units.MISSING}")
    parts = [tuple(_only(run, lambda case, v=one: value(case) == v) for run in runs) for one in values]  # type: ignore[misc]  # v is bound at once
    return [
        ComparedInput(letter, f"{over} {one}", f"{over}={one}", part, whole=runs, over=over)
        for letter, one, part in zip(_LETTERS, values, parts, strict=False)
    ]


def _only(run: Run, wanted: Callable[[Case], bool]) -> Run:
    cases = tuple(case for case in run.head.plan.cases if wanted(case))
    kept = {case.case_id for case in cases}
    head = msgspec.structs.replace(run.head, plan=Plan(cases, ()))
    findings = tuple(f for f in run.findings if f.subject in kept or f.subject == "run")
    trials = tuple(t for t in run.trials if t.case_id in kept)
    return msgspec.structs.replace(run, head=head, trials=trials, findings=findings)


def of_runs(runs: Sequence[Run]) -> list[ComparedInput]:
    """Return a participant a run, by their ids; the first is the baseline. Raises UsageError for fewer than two."""
    if not 2 <= len(runs) <= len(_LETTERS):
        raise UsageError(f"{len(runs)} runs cannot be compared: choose 2 to {len(_LETTERS)}")
    return _lettered([run.head.run_id for run in runs], [(run,) for run in runs])


def labelled(labels: Sequence[str], runs: Sequence[tuple[Run, ...]]) -> list[ComparedInput]:
    """Return the participants of a report that was written, from the runs of each.

    A label holds only where neither devices, hosts nor names tell all apart. Raises UsageError as `of_runs` does.
    """
    if not 2 <= len(runs) <= len(_LETTERS):
        raise UsageError(f"{len(runs)} sides cannot be compared: 2 to {len(_LETTERS)} can")
    return _lettered(labels, runs, labels)


def _path_of(word: str) -> Path:
    """Return the path that a word is; of the metrics of a training their folder, which holds all of it."""
    path = Path(word)
    return path.parent if path.name == METRICS and path.is_file() else path


def _runs(word: str, place: Place) -> tuple[Run, ...]:
    path = _path_of(word)
    if not _is_folder(path):
        tool = foreign.recognised(path)
        return (read_run(locate(place, word)),) if tool is None else _whole(path, foreign.looked_at(tool, path))
    found: dict[str, Run] = {}
    for run in _own(path):
        known = found.get(run.head.run_id)  # its record and its document, or a copy that was cut off
        if known is None or len(run.trials) > len(known.trials):
            found[run.head.run_id] = run
    for metrics in _trainings(path):
        if metrics.run_id not in found:
            found[metrics.run_id] = _run_of(metrics, place)
    return _whole(path, found.values() or _foreign(path))


def _whole(path: Path, runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return the runs, oldest first. Raises UsageError where there is none."""
    found = tuple(sorted(runs, key=lambda run: run.head.started_utc))
    if not found:
        raise UsageError(f"{path}: no records (*.jsonl), documents (benchmark_*.json) or trainings in this folder")
    return found


def _own(folder: Path) -> Iterator[Run]:
    for file in _files(folder):
        ours = file.suffix == ".jsonl" or (file.name.startswith("benchmark_") and file.suffix == ".json")
        if ours and not file.name.startswith(COMPARISON) and foreign.recognised(file) is None:
            yield read_run(file)


def _foreign(folder: Path) -> Iterator[Run]:
    """Yield what other tools wrote; looked for only where nothing of ours lies, since we write such tables too."""
    for file in _files(folder):
        if (tool := foreign.recognised(file)) is not None:
            yield from foreign.looked_at(tool, file)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long, or with a NUL: no path
        return False


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without following links: a stranger's may point anywhere."""
    count = 0
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(top) / name
            if path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > _MOST_FILES:
                raise UsageError(f"{folder}: more than {_MOST_FILES} files; name the run to compare")
            yield path


def _trainings(folder: Path) -> Iterator[TrainingMetrics]:
    """Yield what the trainings below a folder reached. Raises UsageError for a file that is none."""
    for path in _files(folder):
        if path.name != METRICS:
            continue
        yield read_metrics(path)


def _run_of(metrics: TrainingMetrics, place: Place) -> Run:
    """Return the run of a training, from the store. Raises UsageError where it is not there.

    By its id alone: a word in a stranger's file must not name another file of ours, nor the latest run.
    """
    path = locate_id(place, metrics.run_id)
    if path is None:
        lacking = f"copy its record to {record_path(place, metrics.run_id)}" if isinstance(place, Path) else "push it"
        raise UsageError(f"no run '{metrics.run_id}' of this {METRICS}: {lacking}")
    return read_run(path)


def _with_trainings(one: ComparedInput) -> ComparedInput:
    """Add what the trainings in a folder reached."""
    path = _path_of(one.word)
    if not _is_folder(path):
        return one
    return msgspec.structs.replace(one, trainings={metrics.run_id: metrics for metrics in _trainings(path)})


def _lettered(
    words: Sequence[str], runs: Sequence[tuple[Run, ...]], shown: Sequence[str] | None = None
) -> list[ComparedInput]:
    """Label each by the first of these that tells them all apart: its device, host, name, word (`shown`, if given)."""
    firsts = [each[0].head for each in runs]
    choices: Mapping[str, list[str]] = {
        "device": [device.name if (device := device_of(each[0])) is not None else "" for each in runs],
        "host": [head.machine.host.hostname for head in firsts],
        "name": [head.name for head in firsts],
        "word": list(shown) if shown is not None else [_shown(word) for word in words],
    }
    distinct = next((names for names in choices.values() if len(set(names)) == len(names) and all(names)), words)
    return [ComparedInput(*parts) for parts in zip(_LETTERS, distinct, words, runs, strict=False)]


def _shown(word: str) -> str:
    path = _path_of(word)
    return path.name if _is_folder(path) else word


def device_of(run: Run) -> DeviceInfo | None:
    """Return the device that a run's first Case was placed on; None where its machine does not tell."""
    cases = run.head.plan.cases
    return run.head.machine.device(cases[0].placement.device, cases[0].placement.index) if cases else None


def participant_named(participants: Sequence[ComparedInput], word: str, flag: str) -> ComparedInput:
    """Return the participant that a letter, a label or a word as typed means. Raises UsageError naming the flag."""
    for one in participants:
        if word in (one.letter, one.label, one.word):
            return one
    known = ", ".join(f"{one.letter} ({one.label})" for one in participants)
    raise UsageError(f"{flag} {word}: not one of the compared runs: {known}")


def _baseline_first(found: list[ComparedInput], baseline: str | None) -> list[ComparedInput]:
    if baseline is None:
        return found
    first = participant_named(found, baseline, "--baseline")
    return [first, *(one for one in found if one is not first)]
