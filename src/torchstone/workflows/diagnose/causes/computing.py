"""The device's arithmetic: in a number format it is slow with, or simply what there is to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.advice import rules
from torchstone.core import units
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.core.schema.phase import BACKWARD, DECODE, FORWARD, PREFILL
from torchstone.workflows.diagnose.evidence import Evidence

_WORTH = 0.10
_SAVED = 0.5  # of computing, where a native format does products at twice the rate: the least that vendors state


def precision(e: Evidence, found: Sequence[Cause]) -> Cause | None:
    """Return the cause: products in fp32 on a device that is made for bf16 or tf32."""
    native = e.device.precisions if e.device is not None else ()
    better = [word for word in ("bf16", "tf32") if word in native]
    if e.setting("precision") != "fp32" or not better:
        return None
    left = _left(e, found)
    share = _SAVED * left
    if share < _WORTH:
        return None
    name = e.device.name if e.device is not None else "the device"
    return Cause(
        "precision", Kind.COMPUTE, f"products are computed in fp32, and {name} is made for {better[0]}", share,
        (
            f"the passes of the model are {100 * e.computing:.0f} % of the step, in fp32",
            f"native on {name}: {', '.join(native)}",
        ),
        usual=("mixed precision was not switched on",), remedies=tuple(rules.narrower(e.known)),
        what_ifs=tuple(WhatIf({"precision": word}, "native products") for word in better),
    )  # fmt: skip


def computing(e: Evidence, found: Sequence[Cause]) -> Cause | None:
    """Return what remains: the device computes, and nothing stands in its way."""
    share = _left(e, [cause for cause in found if cause.id != "precision"])
    if share <= 0.0:
        return None
    parts = [name for name in (PREFILL, DECODE, FORWARD, BACKWARD) if e.phase_s(name) is not None]
    told = ", ".join(f"{name} {100 * e.share(name):.0f} % ({units.quantity(e.phase_s(name), 's')})" for name in parts)
    rule, known = rules.COMPUTING, e.known
    evidence, remedies = [told], list(rule.remedies(known))
    if known.idle is not None:
        evidence.append(f"{known.idle}: it is not filled")
        remedies = list(dict.fromkeys((*rules.NOT_FILLED.remedies(known), *remedies)))
    return Cause(
        "computing", Kind.COMPUTE, "computing is what limits: nothing else found stands in its way", share,
        tuple(evidence), usual=tuple(rule.usual(known)), remedies=tuple(remedies), what_ifs=tuple(_what_ifs(e)),
        sound=True,
    )  # fmt: skip


def _what_ifs(e: Evidence) -> Iterator[WhatIf]:
    layout = str(e.facts.get("setting_channels_last", ""))
    if e.setting("channels_last") in ("auto", "off") and layout.startswith("off") and "convolution" not in layout:
        yield WhatIf({"channels_last": "on"}, "images laid out as the kernels like them")
    if e.setting("compile") == "off":
        yield WhatIf({"compile": "default"}, "fewer, larger kernels")


def _left(e: Evidence, found: Sequence[Cause]) -> float:
    """Return the share of the step in the passes of the model that no other cause explains."""
    explained = sum(cause.share for cause in found if cause.id != "optimizer")
    return max(0.0, e.computing * (1.0 - min(1.0, explained)))
