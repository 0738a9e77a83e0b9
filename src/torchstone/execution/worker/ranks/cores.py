"""The cores of each rank: equal shares, so that ranks of one machine do not compete for the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_SAID = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # the user has chosen
_TOPOLOGY = Path("/sys/devices/system/cpu")


def share_of(cores: Sequence[int], rank: int, size: int) -> tuple[int, ...]:
    """Return the logical cores of a rank: neighbours in the order given; one, shared, where there are too few."""
    if size > len(cores):
        return (cores[rank % len(cores)],)
    begin, end = (len(cores) * n // size for n in (rank, rank + 1))
    return tuple(cores[begin:end])


def by_place(cores: Iterable[int], topology: Path = _TOPOLOGY) -> list[int]:
    """Return logical cores with those of one package, and of one physical core, beside one another."""
    return sorted(cores, key=lambda core: (*_place(topology / f"cpu{core}" / "topology"), core))


def threads_for(share: Sequence[int], environment: Mapping[str, str], topology: Path = _TOPOLOGY) -> int | None:
    """Return the number of threads of a rank with that share: one a physical core; None where the user has said it.

    torchrun sets OMP_NUM_THREADS=1 where it is unset (torch/distributed/run.py): on a CPU that leaves cores idle.
    """
    if any(environment.get(name) for name in _SAID):
        return None
    return len({_place(topology / f"cpu{core}" / "topology") for core in share} - {(-1, -1)}) or len(share)


def _place(folder: Path) -> tuple[int, int]:
    try:
        package, core = (
            int((folder / name).read_text(encoding="ascii")) for name in ("physical_package_id", "core_id")
        )
    except (OSError, ValueError):  # a sandbox without /sys, or another kernel
        return -1, -1
    return package, core
