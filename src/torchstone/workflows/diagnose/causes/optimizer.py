"""The update takes long: many small tensors, one after another."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.analysis.advice import rules
from torchstone.core import units
from torchstone.core.schema.advice import Remedy
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.core.schema.phase import OPTIMIZER
from torchstone.workflows.diagnose.evidence import Evidence

_MANY, _SMALL = 64, 1 << 14
_FEWER_TENSORS = Remedy("parameters kept in a few large tensors, of which the layers are views")


def optimizer(e: Evidence) -> Cause | None:
    """Return the cause where the update is a large share, and not merely because the batch is small."""
    rule, known, share = rules.OPTIMIZER, e.known, e.share(OPTIMIZER)
    if share < rule.least:
        return None
    tensors = e.look.tensors if e.look is not None else None
    elements = e.look.elements if e.look is not None else None
    many = tensors is not None and tensors >= _MANY and elements is not None and elements <= _SMALL
    if not many and e.facts.get("fused_optimizer") is not False:
        return None  # few tensors, or large ones: what takes long is what has to be done
    what = "many small tensors, one after another" if many else "an update that is not fused"
    usual = (*rule.usual(known), *(["many small tensors"] if many else []))
    remedies = (*rule.remedies(known), *([_FEWER_TENSORS] if many else []))
    evidence = tuple(_evidence(e, share, tensors, elements))
    return Cause(
        "optimizer", Kind.OVERHEAD, f"the optimizer updates {what}", share, evidence, usual=usual, remedies=remedies,
        what_ifs=tuple(_what_ifs(e)),
    )  # fmt: skip


def _evidence(e: Evidence, share: float, tensors: int | None, elements: float | None) -> Iterator[str]:
    yield (
        f"optimizer is {100 * share:.0f} % of the step ({units.quantity(e.phase_s(OPTIMIZER), 's')}), "
        "usually a small share"
    )
    if tensors is not None and elements is not None:
        yield f"it updates {tensors:,} tensors, half of them of {elements:,.0f} numbers or fewer"
    if e.facts.get("fused_optimizer") is False:
        yield "its kernels are not fused"


def _what_ifs(e: Evidence) -> Iterator[WhatIf]:
    if e.facts.get("fused_optimizer") is False and e.setting("fused") not in (None, "on"):
        yield WhatIf({"fused": "on"}, "one kernel for many tensors")
    accumulation = e.setting("grad_accumulation")
    if isinstance(accumulation, int):
        yield WhatIf({"grad_accumulation": 4 * accumulation}, "fewer updates for each item")
