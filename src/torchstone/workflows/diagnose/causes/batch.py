"""The batch is too small: a step costs about the same whatever its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.advice import rules
from torchstone.core import units
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.workflows.diagnose.evidence import Evidence

_ENOUGH = 0.10  # of a step that its fixed cost may be: the batch from which on little is gained
_MOST = 64  # times the present batch
_FIXED = ("python_loop", "optimizer")  # causes whose cost does not grow with the batch


def small_batch(e: Evidence, found: Sequence[Cause]) -> Cause | None:
    """Return the cause: what a step costs whatever its batch, other fixed causes left out."""
    overhead_s, step_s = e.overhead_s, e.step_s
    if overhead_s is None or not step_s or e.larger is None:
        return None
    whole = min(1.0, overhead_s / step_s)
    share = whole - sum(cause.share for cause in found if cause.id in _FIXED)
    if share < rules.FIXED_COST.least:
        return None
    times = e.larger[0] / e.batch_size
    title = f"the batch is too small: a step costs {units.quantity(overhead_s, 's', 2)} whatever its size"
    slower = e.larger[1] / (e.small_s or step_s)
    return Cause(
        "small_batch", Kind.OVERHEAD, title, share,
        (
            f"a step of {times:g} times the batch takes {slower:.2g} times as long",
            f"{100 * whole:.0f} % of the step at batch_size {e.batch_size} does not depend on the batch",
            *_operators(e),
        ),
        usual=tuple(rules.FIXED_COST.usual(e.known)), remedies=tuple(rules.FIXED_COST.remedies(e.known)),
        what_ifs=tuple(_what_ifs(e, whole)),
    )  # fmt: skip


def _operators(e: Evidence) -> Iterator[str]:
    operators = e.look.operators if e.look is not None else None
    if operators is None or not operators.calls:
        return
    each = units.quantity((e.step_s or 0.0) / operators.calls, "s", 2)
    launched = f" ({operators.kernels:,} kernels)" if operators.kernels else ""
    yield f"{operators.calls:,} operators{launched} a step, one every {each}"


def _what_ifs(e: Evidence, whole: float) -> Iterator[WhatIf]:
    size = e.batch_size
    items = e.facts.get("dataset_items")
    wanted = size * min(_MOST, 2 ** max(2, _doublings(whole)))
    while isinstance(items, int) and wanted > max(items, size):
        wanted //= 2
    for batch in dict.fromkeys((wanted, min(4 * size, wanted))):
        yield WhatIf({"batch_size": batch}, "the fixed cost shared by more items")
    if e.setting("compile") == "off":
        mode = "reduce-overhead" if e.case.placement.device in ("cuda", "rocm") else "default"
        yield WhatIf({"compile": mode}, "fewer calls from Python")


def _doublings(whole: float) -> int:
    """Return how often the batch doubles until its fixed cost is a tenth of the step."""
    doublings, share = 0, whole
    while share > _ENOUGH and doublings < 6:
        doublings += 1
        share = whole / (whole + 2**doublings * max(1e-6, 1.0 - whole))
    return doublings
