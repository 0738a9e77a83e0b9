"""Trials started as new interpreters instead of forks: an import had initialised a device's driver."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import NOT_FORKED
from torchstone.plugins.checks._cases import taken
from torchstone.plugins.protocols import Check


class NotForked:
    """Fires once a run. The figures are as good as any, and each trial took seconds longer to start."""

    describes = "trials started as new interpreters, because an import had initialised a device's driver"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an information for the run."""
        trials = [trial for _, _, trials in taken(run) for trial in trials]
        reasons = [str(trial.facts[NOT_FORKED]) for trial in trials if NOT_FORKED in trial.facts]
        if reasons:
            message = f"{len(reasons)} of {len(trials)} trials started a new interpreter, not a fork: {reasons[0]}"
            advice = "the figures are valid; without that import each trial would start seconds sooner"
            yield Finding("not_forked", Severity.INFO, message, advice, "run")


PLUGIN: Check = NotForked()
