"""The rows of a diagnosis: one for each device and batch size, what failed and what was skipped among them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.metric import PHASES
from torchstone.core.schema.peak_memory import DEVICE_PEAKS, HOST_PEAK
from torchstone.core.schema.trial import Status

Row = dict[str, Scalar]

PHASE_COLUMNS = {f"{phase}_s": f"phase_{phase}_s" for phase in PHASES}
HOST_MEMORY, DEVICE_MEMORY = HOST_PEAK, DEVICE_PEAKS[0]
# Column ← figure. Times are means of a step.
COLUMNS = {
    "throughput": "throughput",
    "step_s": "step_time_mean",
    **PHASE_COLUMNS,
    HOST_MEMORY: HOST_MEMORY,
    DEVICE_MEMORY: DEVICE_MEMORY,
    "device_utilization": "device_utilization",
    "loss_last": "loss_last",
}
LOW, HIGH = "throughput_low", "throughput_high"  # ends of the 95 % interval over trials; None of one trial
SKIPPED = "skipped"


class Swept(msgspec.Struct, frozen=True):
    """A run over batch sizes and devices. `skipped`: devices that are not here, and why."""

    summary: RunSummary
    skipped: Mapping[str, str]


def sweep_rows(swept: Swept) -> list[Row]:
    """Return the rows in the order measured. What was not measured is None, never 0."""
    rows = [_row(case) for case in swept.summary.cases]
    for device, why in swept.skipped.items():
        rows.append({**dict.fromkeys(rows[0]), "device": device, "status": SKIPPED, "message": why})
    return rows


def _row(case: CaseSummary) -> Row:
    failed = next((t.outcome for t in case.trials if t.outcome.status != Status.OK), None)
    return {
        "device": str(case.placement),
        "batch_size": case.configuration["batch_size"],
        "status": str(Status.OK if failed is None else failed.status),
        "message": None if failed is None else failed.message,
        **{column: _value(case, figure) for column, figure in COLUMNS.items()},
        **_ends(case),
        "verdict": str(case.verdict),
    }


def _ends(case: CaseSummary) -> Row:
    found = case.estimates.get("throughput")
    return {LOW: found.low if found is not None else None, HIGH: found.high if found is not None else None}


def _value(case: CaseSummary, figure: str) -> float | None:
    found = case.estimates.get(figure)
    return None if found is None else found.value
