"""Of what a peak is made, each part with what it is: for one setting line by line, for several below their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core import units
from torchstone.core.schema.case import Task
from torchstone.core.schema.memory import KINDS
from torchstone.workflows.memory.answer import Row

PARTS_INDENT = 27  # where the words of a part begin, its amount at its widest
_MEANS = {
    "weights": "parameters and buffers",
    "gradients": "of the parameters",
    "optimizer": "its moments and counts",
    "activations": "what the forward pass keeps for the backward pass",
    "inputs": "batches that lie on the card",
    "temporaries": "results used once, gradients of activations",
    "workspace": "what cuBLAS or hipBLAS works in",
    "reserved": "what torch's allocator takes from the card for all that, with gaps",
}
_OF_INFERENCE = {"activations": "all that the forward pass holds"}


def parts(row: Row) -> Iterator[str]:
    """Yield the lines of one setting: where in the step the peak is, and every part of it."""
    peak = row.peak
    if peak is None:
        return
    pass_ = "update" if peak.phase == "optimizer" else f"{peak.phase} pass"
    yield f"Its highest moment is in the {pass_}:"
    sizes = {kind: peak.kinds[kind] for kind in KINDS if peak.kinds.get(kind)}
    if peak.reserved_bytes is not None:
        sizes["reserved"] = peak.reserved_bytes
    means = _means([row])
    for kind, size in sizes.items():
        yield f"  {kind:<11}  {units.quantity(size, 'bytes'):>10}  {means[kind]}"


def legend(rows: Sequence[Row]) -> str:
    """Return what the parts of the rows are, in one line."""
    there = {kind for row in rows if row.peak is not None for kind, size in row.peak.kinds.items() if size}
    if any(row.peak is not None and row.peak.reserved_bytes is not None for row in rows):
        there.add("reserved")
    return "; ".join(f"{kind}: {means}" for kind, means in _means(rows).items() if kind in there)


def _means(rows: Sequence[Row]) -> dict[str, str]:
    return {**_MEANS, **_OF_INFERENCE} if {row.task for row in rows} == {Task.INFER} else _MEANS
