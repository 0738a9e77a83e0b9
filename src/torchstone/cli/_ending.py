"""With which code a command ends that has measured something, or nothing."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from torchstone.core.errors import ExitCode

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary


def code_of(summary: RunSummary, *, strict: bool) -> ExitCode:
    """Return the exit code of a run that has ended; where nothing was measured, say so on stderr.

    `strict`: every trial has to have ended well, else one is enough.
    """
    from torchstone.core.schema.trial import Status

    if summary.status == "interrupted":
        return ExitCode.INTERRUPTED
    ends = Counter(trial.outcome.status for case in summary.cases for trial in case.trials)
    if not ends[Status.OK]:
        how = ", ".join(f"{count} {status}" for status, count in ends.items()) or "no trial was started"
        print(f"torchstone: nothing was measured: {how}", file=sys.stderr)
        return ExitCode.NO
    return ExitCode.NO if strict and ends.keys() != {Status.OK} else ExitCode.DONE
