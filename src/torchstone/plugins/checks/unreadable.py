"""Items of the data that could not be read and were left out, as the user asked: how many, and the first."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_MANY = 0.001  # of the data set: then it is no longer the one that was named


class Unreadable:
    """Fires where items were left out; a warning from one in a thousand up, for batches were smaller than asked for."""

    describes = "items of the data that could not be read"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding a Case, with the most that one of its trials left out."""
        for case_id, _, trials in sound(run):
            counts = [(n, t) for t in trials if isinstance(n := t.facts.get("unreadable_items"), int) and n > 0]
            if not counts:
                continue
            count, trial = max(counts, key=lambda pair: pair[0])
            items = trial.facts.get("dataset_items")
            of = f" of {items}" if isinstance(items, int) else ""
            many = not isinstance(items, int) or count >= _MANY * items
            message = f"{count} item{'s' * (count != 1)}{of} could not be read: {trial.facts.get('unreadable_first')}"
            advice = "repair or remove the named items; on_error=stop ends a trial at the first one"
            yield Finding("unreadable", Severity.WARNING if many else Severity.INFO, message, advice, case_id)


PLUGIN: Check = Unreadable()
