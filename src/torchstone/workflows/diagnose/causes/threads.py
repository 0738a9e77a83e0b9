"""More threads and processes than cores: they take the cores from one another."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.advice import Remedy
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.workflows.diagnose.evidence import Evidence

_SWITCHES = 5.0  # times a step that a core was taken away: worth a word


def threads(e: Evidence) -> Cause | None:
    """Return the cause where operators have more threads than there are cores, counting a loader's processes."""
    number, cores = _threads(e), e.cores
    if e.accelerator or number is None or not cores:
        return None
    workers = e.workers if e.setting("feed") == "loader" else 0
    if number <= cores:  # workers beside as many threads as cores are common, and often right: the loader tells
        return None
    # At a barrier all wait for the last, and of n threads on c cores n - c have none: that much at most is lost.
    share = 1.0 - cores / number
    fewer = max(1, cores)
    return Cause(
        "threads", Kind.OVERHEAD, f"{number} threads share {cores} cores: they wait for one another at every operator",
        share, tuple(_evidence(e, number, workers, cores)),
        usual=("threads set for another machine", "a container that sees more cores than it may use"),
        remedies=(
            Remedy(f"threads={fewer}", "threads", f"OMP_NUM_THREADS={fewer}, or torch.set_num_threads({fewer})"),
            Remedy("torch.set_num_threads(1) in each process of a loader, which is torch's own choice"),
        ),
        what_ifs=(WhatIf({"threads": fewer}, "one thread a core"),),
    )  # fmt: skip


def _threads(e: Evidence) -> int | None:
    asked, found = e.setting("threads"), e.facts.get("threads_in_effect")
    if isinstance(found, int):
        return found
    return asked if isinstance(asked, int) and asked > 0 else None


def _evidence(e: Evidence, number: int, workers: int, cores: int) -> Iterator[str]:
    beside = f" and {workers} processes that load" if workers else ""
    yield f"{number} threads{beside} on {cores} cores"
    if e.look is not None and e.look.involuntary_switches >= _SWITCHES:
        yield f"the kernel took a core away {e.look.involuntary_switches:.0f} times a step"
