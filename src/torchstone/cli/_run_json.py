"""The JSON document of a run: its summary, and beside it what is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.advice.readings import readings
from torchstone.summary import RunSummary


def whole(run: RunSummary) -> Mapping[str, Any]:
    """Return the summary with the keys of its readings: advice, convergence, performance_…."""
    return {**msgspec.structs.asdict(run), **msgspec.structs.asdict(readings(run))}
