"""Quantities: their units, which way is better, and how several values become one."""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """The units a quantity may have; `units.py` is the only place that prints them."""

    SECOND = "s"
    BYTE = "bytes"
    JOULE = "J"
    WATT = "W"
    HERTZ = "Hz"
    CELSIUS = "°C"
    ITEM_RATE = "items/s"
    TOKEN_RATE = "tokens/s"
    FLOP = "FLOP"
    FLOP_RATE = "FLOP/s"
    RATIO = "ratio"
    COUNT = "count"
    NUMBER = "number"


class Better(StrEnum):
    """Which direction is an improvement."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Pool(StrEnum):
    """How values of one Metric become one figure, over the steps of a Trial or over its ranks."""

    MEDIAN = "median"
    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    FIRST = "first"
    LAST = "last"
    ONLY = "only"
