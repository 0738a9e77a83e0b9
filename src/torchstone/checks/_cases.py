"""The ground of the checks: a run's cases with their sound trials, and the steady windows of a trial."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.terms.case import Case
from torchstone.terms.run import Run
from torchstone.terms.trial import Purpose, Stage, Status, Trial

_STEP_METRICS = ("step_time_s", "latency_s")


def sound(run: Run) -> Iterator[tuple[str, Case, tuple[Trial, ...]]]:
    """Yield (case_id, Case, its replicates that ended well) for each Case that has one; probes are no replicates."""
    for case_id, case in {case.case_id: case for case in run.head.plan.cases}.items():
        trials = tuple(
            t for t in run.of_case(case_id) if t.outcome.status == Status.OK and t.purpose == Purpose.REPLICATE
        )
        if trials:
            yield case_id, case, trials


def windows(trial: Trial) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield (name, times of its steps or answers in seconds) of each steady window."""
    for m in trial.measurements:
        if m.metric in _STEP_METRICS and m.stage == Stage.STEADY and m.phase is None and m.rank == 0:
            yield m.window or "steady", m.values
