"""One rank computes longer than the others, which wait for it at every step."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from torchstone.core.over_ranks import slowest
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.units import percent
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_EXCESS = 0.1
_SHARE = 0.8  # of the steps; by chance a rank of two is the slowest in half of them


class SlowRank:
    """Fires where the same rank is slowest in 80 % of the steps of most trials, by more than 10 %."""

    describes = "a rank that is slower than the others"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming the rank."""
        for case_id, _, trials in sound(run):
            told = [found for trial in trials if (found := slowest(trial)) is not None]
            late = [found for found in told if found.share >= _SHARE and found.excess > _EXCESS]
            for rank in sorted({found.rank for found in late}):
                own = [found for found in late if found.rank == rank]
                if 2 * len(own) <= len(told):
                    continue
                share, excess = fmean(found.share for found in own), fmean(found.excess for found in own)
                message = (
                    f"rank {rank} is the slowest in {percent(share, 0)} of the steps, by {percent(excess, 0)} beyond "
                    f"the median of the others, in {len(own)} of {len(told)} trials: all wait for it"
                )
                advice = "look at its device, its cores and its part of the data: `torchstone machine check`"
                yield Finding("slow_rank", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = SlowRank()
