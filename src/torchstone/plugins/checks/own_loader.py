"""A DataLoader returned with the model whose batch size and workers no case used."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Check

_AXES = ("batch_size", "num_workers")


class OwnLoader:
    """Axes say how data is loaded, and who says nothing gets their defaults: a surprise to who has written a loader."""

    describes = "a DataLoader returned with the model, whose batch size and workers no case used"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a word for each model that brings a DataLoader."""
        if run.head.procedure.isolation == "inline":
            return  # in the user's own process a loader keeps what it has, unless the user says otherwise
        cases = {case.case_id: case for case in run.head.plan.cases}
        own: dict[str, tuple[Scalar, ...]] = {}
        measured: dict[str, set[tuple[Scalar, ...]]] = {}
        for trial in run.trials:
            case = cases[trial.case_id]
            has = tuple(trial.facts.get(f"own_{axis}") for axis in _AXES)
            if has[0] is not None:
                own[case.workload.model] = has
                measured.setdefault(case.workload.model, set()).add(tuple(case.configuration.get(a) for a in _AXES))
        for model, has in own.items():
            if has not in measured[model]:
                words = " ".join(f"--axis {axis}={value}" for axis, value in zip(_AXES, has, strict=True))
                said = ", ".join(f"{axis}={value}" for axis, value in zip(_AXES, has, strict=True))
                yield Finding(
                    "own_loader", Severity.INFO, f"the DataLoader of {model} has {said}: not measured",
                    f"to measure its settings: {words}", "run",
                )  # fmt: skip


PLUGIN: Check = OwnLoader()
