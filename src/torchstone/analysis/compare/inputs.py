"""Who is compared: each RUN as typed becomes a ComparedInput: a letter, a label, and one run or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

import msgspec

from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Plan, Run
from torchstone.core.schema.training import TrainingMetrics
from torchstone.storage import foreign
from torchstone.storage.place import Place
from torchstone.storage.query import locate, locate_id, read_run
from torchstone.storage.record_reader import record_path
from torchstone.storage.training import METRICS, read_metrics

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


def named(participants: Sequence[ComparedInput], word: str, flag: str) -> ComparedInput:
    """Return the participant that a letter, a label or a word as typed means. Raises UsageError naming the flag."""
    for one in participants:
        if word in (one.letter, one.label, one.word):
            return one
    known = ", ".join(f"{one.letter} ({one.label})" for one in participants)
    raise UsageError(f"{flag} {word}: not one of the compared runs: {known}")


def _baseline_first(found: list[ComparedInput], baseline: str | None) -> list[ComparedInput]:
    if baseline is None:
        return found
    first = named(found, baseline, "--baseline")
    return [first, *(one for one in found if one is not first)]
