"""The user's own code in the step: values asked of tensors one by one, and loops in Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torchstone.core import units
from torchstone.core.schema.advice import Remedy
from torchstone.core.schema.diagnosis import Cause, Kind
from torchstone.core.schema.host_profile import HostLine
from torchstone.core.schema.phase import BACKWARD, FORWARD
from torchstone.workflows.diagnose.causes.lines import near, place
from torchstone.workflows.diagnose.evidence import Evidence

_WORTH = 0.10
_LOOP = 16  # times a step that a line runs: a loop
_SMALL_S = 0.5e-3  # of a single run of a line: what it computes is no work worth a call from Python
_SURE = 1.96


def waits(e: Evidence) -> Cause | None:
    """Return the cause: values that the host asks for, each of which it waits for."""
    asking = [line for line in e.own_lines if (line.waits_per_step or 0.0) > 0.0]
    functions = {(line.file, line.function) for line in asking}
    lines = [one for one in e.own_lines if (one.file, one.function) in functions and (one in asking or _loops(one))]
    share = sum(line.share for line in lines)
    number = sum(line.waits_per_step or 0.0 for line in asking)
    if e.look is None or share < _WORTH or number < 1.0:
        return None
    first = max(asking, key=lambda line: line.waits_per_step or 0.0)
    title = f"the step asks tensors for their values {number:,.0f} times (item() or the like), and waits for each"
    remedies = (
        Remedy("keep what is counted on the device (sums of tensors), and read it every 50 steps or so"),
        Remedy("work on whole tensors instead of item by item: (answers == labels).sum()"),
        Remedy("print and log outside the step"),
    )
    return Cause(
        "waits", Kind.OVERHEAD, title, share,
        (
            f"{near(first.file)}:{first.line} asks {first.waits_per_step:,.0f} times a step",
            f"those lines take {100 * share:.0f} % of the step, by {e.look.samples:,} samples of the host's stack",
        ),
        high=_upper(share, e.look.samples), where=tuple(map(place, lines[:3])),
        usual=("item(), tolist(), cpu(), print in the step", "metrics counted item by item"), remedies=remedies,
        own_code=True,
    )  # fmt: skip


def python_loop(e: Evidence) -> Cause | None:
    """Return the cause: lines of a loop that run often, for little work each time."""
    if e.look is None:
        return None
    asking = {(line.file, line.function) for line in e.own_lines if (line.waits_per_step or 0.0) > 0.0}
    lines = [line for line in e.own_lines if _loops(line) and (line.file, line.function) not in asking]
    lines = [line for line in lines if _each_s(e, line) <= _SMALL_S]
    own = sum(line.share for line in lines)
    share = _with_backward(e, lines, own)
    if share < _WORTH:
        return None
    first = lines[0]
    title = f"a loop in Python: line {first.line} of {first.file.rpartition('/')[2]} runs {_times(first)} times a step"
    remedies = (
        Remedy("operators on whole tensors in place of the loop (matmul, cumsum, scan, unfold, einsum)"),
        Remedy("torch.compile, which can unroll a loop of a fixed length", "compile"),
        Remedy("a kernel of its own (Triton, C++), where no operator does it"),
    )
    return Cause(
        "python_loop", Kind.OVERHEAD, title, share, tuple(_loop_evidence(e, lines, own, share)),
        high=min(0.98, _upper(own, e.look.samples) / max(own, 1e-9) * share), where=tuple(map(place, lines[:3])),
        usual=("a recurrence or a search written step by step", "a loop over items of a batch"), remedies=remedies,
        own_code=True,
    )  # fmt: skip


def _loop_evidence(e: Evidence, lines: Sequence[HostLine], own: float, share: float) -> Iterator[str]:
    if e.look is None:
        return
    each = units.quantity(_each_s(e, lines[0]), "s", 2)
    yield f"{near(lines[0].file)}:{lines[0].line} runs {_times(lines[0])} times a step, {each} each time"
    yield f"the loop takes {100 * own:.0f} % of the step, by {e.look.samples:,} samples of the host's stack"
    if share > own * 1.01:
        yield f"its part of the backward pass makes that {100 * share:.0f} %"
    if e.look.operators is not None:
        yield f"{e.look.operators.calls:,} operators a step"


def _times(line: HostLine) -> str:
    return f"{line.runs_per_step or 0.0:,.0f}"


def _loops(line: HostLine) -> bool:
    return (line.runs_per_step or 0.0) >= _LOOP


def _each_s(e: Evidence, line: HostLine) -> float:
    return line.share * (e.look.step_s if e.look is not None else 0.0) / max(1.0, line.runs_per_step or 1.0)


def _with_backward(e: Evidence, lines: Sequence[HostLine], own: float) -> float:
    """Add the part of the backward pass that undoes the loop: as much of it as of the forward pass.

    A loop that calls no operators (fewer than it has runs) leaves nothing to undo.
    """
    if e.look is None or not e.trains:
        return own
    forward = e.look.phases.get(FORWARD, 0.0)
    inside = sum(line.share for line in lines if line.phase == FORWARD)
    runs = max((line.runs_per_step or 0.0 for line in lines), default=0.0)
    operators = e.look.operators.calls if e.look.operators is not None else 0.0
    if forward <= 0.0 or runs <= 0.0 or operators < runs:
        return own
    return min(0.98, own + e.look.phases.get(BACKWARD, 0.0) * min(1.0, inside / forward))


def _upper(share: float, samples: int) -> float:
    """Return the upper end of the 95 % confidence interval of a share of samples (Wilson, JASA 22, 1927)."""
    n = max(1, samples)
    centre = share + _SURE**2 / (2 * n)
    half = _SURE * math.sqrt(share * (1.0 - share) / n + _SURE**2 / (4 * n * n))
    return min(0.98, (centre + half) / (1.0 + _SURE**2 / n))
