"""An allocator that freed its cache and retried: the Case only just fits in memory, and is slow."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.checks._ladder import ladder
from torchstone.plugins.protocols import Check


class AllocatorRetries:
    """Fires on a trial that ended well but whose device allocator had to retry.

    Each retry waits for the device, frees every cached block and asks the driver again. MosaicML's Composer takes
    retries in a row for thrashing and shrinks the microbatch (`Trainer`, `device_train_microbatch_size="auto"`).
    """

    describes = "a device allocator that freed its cache and retried: the case only just fits in memory"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the most retries of a trial."""
        for case_id, case, trials in sound(run):
            most = max((sum(raw(t, "allocator_retries")) for t in trials), default=0.0)
            if most > 0.0:
                times = f"{most:.0f} time{'s' * (most > 1)}"
                message = f"the allocator freed its cache and retried {times}: the case only just fits in memory"
                yield Finding("allocator_retries", Severity.WARNING, message, _advice(run, case), case_id)


def _advice(run: Run, case: Case) -> str:
    if any("expandable_segments:True" in (value or "") for value in run.head.machine.settings.values()):
        return ladder(case, run)
    return f"{ladder(case, run)}; or PYTORCH_ALLOC_CONF=expandable_segments:True, against fragmentation"


PLUGIN: Check = AllocatorRetries()
