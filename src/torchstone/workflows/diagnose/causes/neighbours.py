"""Other processes have the cores that the step wants."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.analysis.advice import rules
from torchstone.core.schema.advice import Remedy
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.core.schema.phase import DATA
from torchstone.workflows.diagnose.evidence import Evidence

_BUSY = 0.5  # cores kept busy by others: worth a word
_ROOM = 0.25  # cores by which measured use may exceed what there is before it says anything
_MOST = 0.95


def neighbours(e: Evidence) -> Cause | None:
    """Return the cause where others keep so many cores busy that the step's threads cannot all run."""
    others, cores, number = e.figures.get("other_cpu_cores"), e.cores, e.facts.get("threads_in_effect")
    if e.accelerator or others is None or not cores or not isinstance(number, int):
        return None
    wanted = min(number, cores)
    if others < _BUSY or others + wanted <= cores + _ROOM:
        return None
    # At a barrier the threads that have a core wait for those that have none. Who waits for data needs none.
    share = min(_MOST, 1.0 - max(0.0, cores - others) / wanted) * (1.0 - e.share(DATA))
    free = max(1, int(cores - others))
    fewer = (WhatIf({"threads": free}, "no more threads than free cores"),) if free < number else ()
    title = f"other processes keep {others:.1f} of {cores} cores busy: the step waits for them"
    return Cause(
        "neighbours", Kind.OVERHEAD, title, share, tuple(_evidence(e, others, wanted)),
        usual=(rules.OTHER_WORK, "a shared machine"),
        remedies=(rules.END_OTHERS, Remedy("no more threads than there are free cores", "threads")),
        what_ifs=fewer,
    )  # fmt: skip


def _evidence(e: Evidence, others: float, wanted: int) -> Iterator[str]:
    yield f"{others:.1f} cores were busy with other processes, and the step has {wanted} thread{'s' * (wanted > 1)}"
    if e.look is not None and e.setting("feed") != "loader":
        yield f"the thread that does the steps had a core {100 * e.look.main_busy:.0f} % of the time"
