"""Several ranks of a CPU share a core: they compute in turn."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.ranks import world_size
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check


class SharedCores:
    """Fires where a trial on the CPU has more ranks than there are logical cores."""

    describes = "more ranks than cores"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case."""
        for case_id, case, trials in sound(run):
            cores = min((int(c) for t in trials if isinstance(c := t.facts.get("logical_cores"), int)), default=None)
            ranks = world_size(case.configuration)
            if case.placement.device == "cpu" and cores is not None and ranks > cores:
                message = f"{ranks} ranks share {cores} logical cores: several compute in turn on one"
                advice = f"use world_size={cores} or less on this machine"
                yield Finding("shared_cores", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = SharedCores()
