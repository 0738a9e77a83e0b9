"""Memory that is given back and fetched again in every step, or that is short."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.analysis.advice import rules, usual
from torchstone.core import units
from torchstone.core.schema.advice import Remedy
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.diagnosis import Cause, Kind, WhatIf
from torchstone.core.schema.host_profile import HostProfile
from torchstone.core.schema.memory_figures import peak_memory
from torchstone.workflows.diagnose.evidence import Evidence

_FAULTS = 100  # a step
_SWAPS = 0.5  # page faults a step that read a disk
_FLUSHING = 0.3  # of the step: what flushes are taken to cost until a smaller batch says more
_KEPT_HEAP = Remedy(
    "heap=fixed: glibc keeps what it was given", "heap",
    "MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296, or jemalloc or tcmalloc",
)  # fmt: skip
_BUFFERS = Remedy("buffers that are made once, and written with out= or in place")
_EXPANDABLE = Remedy("PYTORCH_ALLOC_CONF=expandable_segments:True, against fragmentation")


def thrashing(e: Evidence) -> Cause | None:
    """Return the cause: page faults of a heap that is given back in every step, or swapping."""
    look = e.look
    if look is None or e.accelerator:
        return None
    cpu_s = look.user_s + look.system_s
    share = look.system_s / cpu_s if cpu_s > 0.0 else 0.0
    swaps = look.major_faults >= _SWAPS
    if swaps:
        share = max(share, 1.0 - look.main_busy)
    if share < rules.PRESSURE.least or (look.minor_faults < _FAULTS and not swaps):
        return None
    title = (
        "the host swaps: pages are read from disk in every step"
        if swaps
        else "memory is given back and fetched again in every step: page faults"
    )
    given_back = e.heap not in ("fixed", "huge")
    what = [WhatIf({}, "glibc keeps what it was given", heap="fixed")] if given_back else []
    remedies = (*([_KEPT_HEAP] if given_back else []), *rules.PRESSURE.remedies(e.known), _BUFFERS)
    return Cause(
        "thrashing", Kind.MEMORY, title, share, tuple(_faults(look)),
        usual=(*rules.PRESSURE.usual(e.known), "large temporaries"), remedies=remedies,
        what_ifs=(*what, *_smaller(e)) if swaps or not what else tuple(what),
    )  # fmt: skip


def _faults(look: HostProfile) -> Iterator[str]:
    yield f"{look.minor_faults:,.0f} page faults a step without the disk, {look.major_faults:,.1f} that read from it"
    cpu_s = look.user_s + look.system_s
    if cpu_s > 0.0:
        spent = f"{units.quantity(look.system_s, 's')} of {units.quantity(cpu_s, 's')} a step"
        yield f"the kernel takes {100 * look.system_s / cpu_s:.0f} % of the CPU time ({spent})"
    if look.major_faults >= _SWAPS:
        yield f"the main thread waits {100 * (1.0 - look.main_busy):.0f} % of the time"


def short_memory(e: Evidence) -> Cause | None:
    """Return the cause: a device whose allocator had to flush its cache and try again."""
    retries = e.figures.get("allocator_retries") or 0.0
    if retries <= 0.0:
        return None
    rule, known = rules.FULL_MEMORY, e.known
    held = e.device.memory_bytes if e.device is not None else None
    peak = peak_memory(e.figures, e.case.placement.device)
    full = (
        f", the peak is {units.quantity(peak / held, 'ratio')} of {units.quantity(held, 'bytes')} "
        f"(usual: {usual.band(usual.MEMORY)}, safe: up to {100 * rule.least:.0f} %)"
        if held and peak
        else ""
    )
    return Cause(
        "short_memory", Kind.MEMORY, "memory is short: the allocator flushes its cache and tries again", _FLUSHING,
        (f"it did {retries:.0f} times{full}",), usual=tuple(rule.usual(known)),
        remedies=(*rule.remedies(known), _EXPANDABLE), what_ifs=tuple(_smaller(e)),
    )  # fmt: skip


def _smaller(e: Evidence) -> Iterator[WhatIf]:
    size, accumulation = e.batch_size, e.setting("grad_accumulation")
    if size > 1:
        settings: dict[str, Scalar] = {"batch_size": size // 2}
        if isinstance(accumulation, int):
            settings["grad_accumulation"] = 2 * accumulation
        yield WhatIf(settings, "the same work in smaller pieces")
    if e.setting("gradient_checkpointing") is False:
        yield WhatIf({"gradient_checkpointing": True}, "activations computed again instead of kept")
