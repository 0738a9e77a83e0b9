"""A loss that is NaN or infinite."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.plugins.checks._cases import setting, taken
from torchstone.plugins.protocols import Check

_NEVER = "it never was a number: check the inputs for NaN (`x.isnan().any()`) and the loss for a division by zero"
_ELSE = "check the loss for a division by zero or labels out of range, or train in fp32"
_CLAIMED = ("loss_first", "loss_last", "loss_min", "loss_max", "loss_mean")


class NanLoss:
    """Fires on any kept loss, or loss that another tool tells, that is NaN or infinite."""

    describes = "a training loss that became NaN or infinite"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error a Case, with how many of its trials diverged."""
        for case_id, case, trials in taken(run):
            losses = [_losses(t) for t in trials]  # of trials that ended well and of diverged ones
            lost = [values for values in losses if not all(map(math.isfinite, values))]
            if lost:
                message = f"the loss became NaN or infinite in {len(lost)} of {sum(map(bool, losses))} trials"
                never = not any(map(math.isfinite, itertools.chain(*lost)))
                yield Finding("nan_loss", Severity.ERROR, message, _advice(_cure(case, run), never=never), case_id)


def _losses(trial: Trial) -> list[float]:
    said = claims(trial)
    return [*raw(trial, "loss"), *(said[name] for name in _CLAIMED if name in said)]


def _advice(cure: str | None, *, never: bool) -> str:
    """Return what to type. `never`: no loss that was kept is a number; those of the warm-up may have been."""
    if never:
        return f"{_NEVER}; else {cure}" if cure is not None else _NEVER
    return cure or _ELSE


def _cure(case: Case, run: Run) -> str | None:
    if case.configuration.get("precision") == "fp16":
        return f"measure again with {setting(run, 'precision', 'bf16')}, which has the range of fp32"
    rate = case.configuration.get("learning_rate")
    if isinstance(rate, int | float) and rate > 0:
        return f"measure again with {setting(run, 'learning_rate', f'{rate / 10:g}')} (it was {rate:g})"
    return None


PLUGIN: Check = NanLoss()
