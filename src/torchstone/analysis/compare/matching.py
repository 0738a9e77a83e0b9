"""Which Cases of the participants compute the same thing, on whatever device and with whatever speed-only settings.

What varies within one participant must be equal for two Cases to match: batch size 8 goes with batch size 8. What is
constant on each side may differ, and is then what is compared: fp32 there, bf16 here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.errors import UsageError
from torchstone.core.estimates import pair_prior, priors_of_run
from torchstone.core.figures import Figures, figures
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, model_name
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial, ended_well, estimation_trials, replicates
from torchstone.core.stats.moderated import Prior

_SIDE = "side"  # of a live comparison of two revisions: one Case, taken with two versions of the code
_TRAITS = ("data", "device", "count", "nodes", "fixed", _SIDE)  # of a Case, beside its axes


class _Entry(msgspec.Struct, frozen=True):
    """A Case of a run. `side`: A or B, where both sides of a live comparison are this one Case."""

    run: Run
    case: Case
    side: str | None = None


class Taken(msgspec.Struct, frozen=True):
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
        found = {id(trial): figures for trial, figures in zip(run.trials, derived, strict=True)}
        self._cases = [
            [(t.number, found[id(t)]) for t in estimation_trials(ended_well(run.of_case(case.case_id)))]
            for case in run.head.plan.cases
        ]
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

    def taken(self, run: Run, case: Case, side: str | None = None) -> Taken:
        """Return a Case in a run; `side`: of a live comparison of two revisions its trials of that side alone."""
        trials = tuple(t for t in run.of_case(case.case_id) if side is None or t.facts.side == side)
        failed = tuple(t for t in trials if t.outcome.status != Status.OK)
        good = ended_well(trials)
        used = estimation_trials(good)
        found = tuple(self._figures[id(trial)] for trial in used)
        priors = self._priors[run.head.run_id, case.case_id]
        whole = self._runs[run.head.run_id]
        return Taken(run, case, used, found, priors, whole, failed, len(replicates(good) or good) - len(used))


class Matched(msgspec.Struct, frozen=True):
    """Cases that compute the same: for each participant's letter what was taken, oldest run first."""

    label: str
    task: str
    sides: Mapping[str, tuple[Taken, ...]]


def match(participants: Sequence[ComparedInput]) -> list[Matched]:
    """Return the Cases that at least two participants have, in the order of the first.

    Raises UsageError where there are none, naming what each has.
    """
    groups: dict[tuple[str, str], dict[str, list[_Entry]]] = {}
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


def _entries(run: Run) -> Iterator[_Entry]:
    cases = run.head.plan.cases
    if run.head.ab is not None and len(cases) == 1 and any(trial.facts.side is not None for trial in run.trials):
        yield from (_Entry(run, cases[0], side) for side in "AB")
        return
    yield from (_Entry(run, case) for case in cases)


def left_out(participants: Sequence[ComparedInput], matched: Sequence[Matched]) -> dict[str, tuple[str, ...]]:
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
        for run in baseline.runs for case in run.head.plan.cases if ended_well(run.of_case(case.case_id))
    }  # fmt: skip
    found: dict[str, tuple[str, ...]] = {}
    for one in participants[1:]:
        having = {
            taken.case.case_id
            for each in matched if any(theirs.trials for theirs in each.sides.get(one.letter, ()))
            for taken in each.sides.get(baseline.letter, ())
        }  # fmt: skip
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
    """Return everything that tells one Case of a model from another, by name; axes of a later version by default."""
    canonical = case.workload.canonical()
    data = str(canonical["data"]) + "".join(f" {key}={value}" for key, value in case.workload.data_options.items())
    fixed = ", ".join(f"{key}={value}" for key, value in sorted(case.workload.fixed.items()))
    place = case.placement
    return {
        **{name: case.configuration.get(name, axis.default) for name, axis in AXES.items()},
        "data": data, "device": place.device, "count": place.count, "nodes": place.nodes, "fixed": fixed,
    }  # fmt: skip


def _matched(
    which: tuple[str, str],
    group: Mapping[str, Sequence[_Entry]],
    participants: Sequence[ComparedInput],
    derived: _Derived,
) -> Iterator[Matched]:
    # Beside a run that has no sides, both of a comparison of revisions are trials of its one Case.
    sided = all(one.side is not None for entries in group.values() for one in entries)
    own = {
        letter: [{**traits(one.case), _SIDE: one.side if sided else None} for one in entries]
        for letter, entries in group.items()
    }
    varying = [
        name for name in (*AXES, *_TRAITS)
        if any(len({each[name] for each in cases}) > 1 for cases in own.values())
    ]  # fmt: skip
    rows: dict[tuple[Scalar, ...], dict[str, list[Taken]]] = {}
    for one in participants:
        for entry, known in zip(group.get(one.letter, ()), own.get(one.letter, ()), strict=True):
            if entry.side == "B" and not sided:
                continue  # its trials are those of the entry before
            key = tuple(known[name] for name in varying)
            taken = derived.taken(entry.run, entry.case, entry.side if sided else None)
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


def _having(side: Sequence[Taken]) -> Sequence[Taken]:
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
