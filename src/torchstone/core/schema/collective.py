"""A collective operation of ranks: what kind, how much, of which numbers."""

from __future__ import annotations

import msgspec

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"


class Collective(msgspec.Struct, frozen=True):
    """`elements`: of the whole, before it is scattered or once it is gathered. `dtype`: torch's word, as "float32"."""

    kind: str
    elements: int
    dtype: str
    bytes: int
