"""What one step needs: operations, traffic and operators, counted outside timing."""

from __future__ import annotations

import msgspec

from torchstone.core.schema.advice import Statement


class Counted(msgspec.Struct, frozen=True):
    """What was counted of one step; what could not be is None, for the reason `why_not`, which no page shows.

    `flops`: 2 a multiply-add, of products only. `traffic_bytes`: every product (of matrices, convolution, attention)
    reads its operands and writes its result once, an optimizer reads and writes weights, gradients and its own state
    once, and all else happens on the way: no way to compute the step moves less, unless a cache keeps it.
    `operators`: calls of torch's operators that make a device work, views left out, the optimizer's left out.
    """

    flops: float | None = None
    traffic_bytes: float | None = None
    operators: float | None = None
    why_not: Statement | None = None
