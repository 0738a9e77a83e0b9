"""A training loss that left its lowest level and did not return."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core import units
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.stats.stability import has_diverged
from torchstone.plugins.checks._losses import curves, steadier
from torchstone.plugins.protocols import Check


class LossDiverged:
    """Fires where the loss of more than half of the trials diverged: one that flips by rounding alone is no rule."""

    describes = "a training loss that left its lowest level and did not come back"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with how far the loss has risen."""
        for case_id, case, losses in curves(run):
            lost = [one for one in losses if has_diverged(one)]
            if len(lost) > len(losses) / 2:
                low, last = (units.significant(value, 3) for value in (min(lost[0]), lost[0][-1]))
                message = f"the loss diverged in {len(lost)} of {len(losses)} trials: minimum {low}, last {last}"
                yield Finding("loss_diverged", Severity.WARNING, message, steadier(case, run), case_id)


PLUGIN: Check = LossDiverged()
