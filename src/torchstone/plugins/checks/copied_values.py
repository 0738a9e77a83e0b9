"""Values that no clock gives twice: trials or cases that are copies, windows of equal steps."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import sound, windows
from torchstone.plugins.protocols import Check

_STEPS = 20  # of so many steps, timed to the nanosecond, no two sequences are equal
_FIGURES = 3
_COUNTS = ("steps", "total_items", "items_per_step")


class CopiedValues:
    """Fires where the steps of one trial are those of another, or all steps of a window are equal."""

    describes = "trials or cases that are copies of one another, or steps that are all equal"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error for a copy of another trial or Case, a warning for steps that are all equal."""
        first: dict[tuple[float, ...], tuple[str, Case, str]] = {}
        claimed: dict[tuple[tuple[str, float], ...], tuple[str, Case, str]] = {}
        for case_id, case, trials in sound(run):
            found: dict[Severity, str] = {}
            for trial in trials:
                for name, times in windows(trial):
                    if len(times) < _STEPS:
                        continue
                    if len(set(times)) == 1:
                        found[Severity.WARNING] = (
                            f"all {len(times)} step times are exactly {quantity(times[0], 's', 6)}"
                        )
                        continue
                    mine = (case_id, case, trial.trial_id + name)
                    if (twin := first.setdefault(times, mine)) != mine:
                        told = f"all {len(times)} step times of a trial are those of {_whose(case, twin[1])}"
                        found[Severity.ERROR] = told
                said = tuple(sorted((k, v) for k, v in claims(trial).items() if v and k not in _COUNTS))
                if len(said) >= _FIGURES:
                    own = (case_id, case, trial.trial_id)
                    if (twin := claimed.setdefault(said, own)) != own:
                        found[Severity.WARNING] = f"all its figures are identical to those of {_whose(case, twin[1])}"
            for severity, message in found.items():
                advice = "measure again: a result was stored twice or was not measured"
                yield Finding("copied_values", severity, message, advice, case_id)


def _whose(case: Case, other: Case) -> str:
    """Return whose values those are: the settings of the other Case in which the two differ."""
    if case == other:
        return "another trial"
    mine, its = case.configuration, other.configuration
    names = [name for name in its if its[name] != mine.get(name)]
    return f"the case {', '.join(f'{name}={its[name]}' for name in names[:3]) or other.workload.model}"


PLUGIN: Check = CopiedValues()
