"""Were the data those that were meant: readable, and loaded as the user's own loader loads them."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.messages import Values
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import INLINE, sound
from torchstone.plugins.protocols import check

_MANY = 0.001  # of the data set: then it is no longer the one that was named
_AXES = ("batch_size", "num_workers")


@check("items of the data that could not be read")
def unreadable(run: Run) -> Iterator[Finding]:
    """Fire where items were left out; a warning from one in a thousand up, for batches were smaller than asked for."""
    for case_id, _, trials in sound(run):
        counts = [(n, t) for t in trials if (n := t.facts.unreadable_items)]
        if not counts:
            continue
        count, trial = max(counts, key=lambda pair: pair[0])
        items = trial.facts.dataset_items
        severity = Severity.WARNING if items is None or count >= _MANY * items else Severity.INFO
        values: Values = {"items": count, "of": items, "first": trial.facts.unreadable_first}
        yield Finding("unreadable", severity, case_id, values, "of" if items is not None else "")


@check("a DataLoader returned with the model, whose batch size and workers no case used")
def own_loader(run: Run) -> Iterator[Finding]:
    """Tell of each model that brings a DataLoader whose settings no Case has.

    Axes say how data is loaded, and who says nothing gets their defaults: a surprise to who has written a loader.
    """
    if run.head.procedure.isolation == INLINE:
        return  # in the user's own process a loader keeps what it has, unless the user says otherwise
    cases = {case.case_id: case for case in run.head.plan.cases}
    own: dict[str, tuple[Scalar, ...]] = {}
    measured: dict[str, set[tuple[Scalar, ...]]] = {}
    for trial in run.trials:
        case = cases[trial.case_id]
        has = tuple(trial.facts.own(axis) for axis in _AXES)
        if has[0] is not None:
            own[case.workload.model] = has
            measured.setdefault(case.workload.model, set()).add(tuple(case.configuration.get(a) for a in _AXES))
    for model, has in own.items():
        if has not in measured[model]:
            pairs = [f"{axis}={value}" for axis, value in zip(_AXES, has, strict=True)]
            typed = tuple(f"--axis {pair}" for pair in pairs)
            values: Values = {"model": model, "has": tuple(pairs), "settings": typed}
            yield Finding("own_loader", Severity.INFO, "run", values)


@check("a tune whose batches come ready-made: which axes could not vary, and why")
def own_batches(run: Run) -> Iterator[Finding]:
    """Tell what a tune could not vary, as its data fix it: who tunes expects workers to be tuned."""
    if run.head.tune is None:
        return
    told = next((t.facts for t in run.trials if t.facts.own_fixed), None)
    if told is not None and told.own_why is not None:
        values: Values = {"model": run.head.tune.base.workload.model, "axes": told.own_fixed}
        if isinstance(kind := told.own_why.values.get("kind"), str):
            values["kind"] = kind
        yield Finding("own_batches", Severity.INFO, "run", values, told.own_why.id)
