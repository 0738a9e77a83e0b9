"""What makes a comparison of stored runs fail, for CI: figures that are worse or unclear."""

from __future__ import annotations

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns, Judged
from torchstone.core.schema.comparison import Judgement


class Gate(msgspec.Struct, frozen=True):
    """What makes a comparison fail: figures that are worse, and by more than `worse_by`; that are unclear; lost Cases.

    Lost Cases (matching.lost) have no figure: whoever asks for `missing` looks for them beside `failing`.
    """

    worse: bool = False
    worse_by: float = 0.0
    unclear: bool = False
    missing: bool = False


def failing(compared: ComparedRuns, gate: Gate) -> list[Judged]:
    """Return the comparisons that a gate does not let through; what is not comparable passes none.

    The start-up of a process (block `start`) is no matter of a gate.
    """
    return [one for one in compared.judged if one.block != "start" and _fails(one, gate)]


def _fails(one: Judged, gate: Gate) -> bool:
    found = one.comparison
    if found.verdict == Judgement.NOT_COMPARABLE or found.ratio is None:
        return True
    if found.verdict == Judgement.WORSE:
        return gate.worse and max(found.ratio.value, 1.0 / found.ratio.value) > 1.0 + gate.worse_by
    return gate.unclear and found.verdict == Judgement.UNCLEAR
