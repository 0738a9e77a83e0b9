"""Results without raw values: only the tool's own summaries can be checked."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.claim import claims, is_imported
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import sound, windows
from torchstone.plugins.protocols import Check


class OnlySummaries:
    """Fires on imported trials that have claims and no steps: neither drift nor spread can be told."""

    describes = "imported results without raw values"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a word a Case."""
        if not is_imported(run):
            return
        for case_id, _, trials in sound(run):
            if not any(times for trial in trials for _, times in windows(trial)) and any(map(claims, trials)):
                message = "the file has summaries but no step times: spread, drift and modes are not known"
                advice = "let the tool write raw values, if it can"
                yield Finding("only_summaries", Severity.INFO, message, advice, case_id)


PLUGIN: Check = OnlySummaries()
