"""The table of an optimal-configuration finder: batch, workers, AMP, phases in ms, samples/s, GPU %, memory, status."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.trial import Outcome, Status
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._reading import number, scaled, whole

COLUMNS = ("Batch", "Workers", "AMP", "I/O(ms)", "Fwd(ms)", "Bwd(ms)", "Total(ms)", "Samples/s")
_MS = 1e-3
_GB = 1e9
_PHASES = {"I/O(ms)": "data", "Fwd(ms)": "forward", "Bwd(ms)": "backward", "Opt(ms)": "optimizer"}
_NOT_OK = ("oom", "out of memory", "fail", "error", "❌")


def add(making: draft.Draft, row: Mapping[str, str], best: Mapping[str, Scalar] | None = None) -> None:
    """Add the trial of a row; `best`: for what the tool recommends it."""
    case = _case(row)
    status = row.get("Status", "").lower()
    if any(mark in status for mark in _NOT_OK):
        memory = "oom" in status or "memory" in status
        outcome = Outcome(Status.OUT_OF_MEMORY if memory else Status.CRASHED, row.get("Status"))
        making.add(case, {}, outcome=outcome)
        return
    claimed = {
        **{f"phase_{phase}_s": scaled(row.get(column), _MS) for column, phase in _PHASES.items()},
        "anatomy_step_s": scaled(row.get("Total(ms)"), _MS), "throughput": number(row.get("Samples/s")),
        "device_utilization": scaled(row.get("GPU%"), 0.01),
        "device_memory_used_bytes": scaled(row.get("Mem(GB)"), _GB),
    }  # fmt: skip
    making.add(case, claimed, facts=best)


def batch_of(row: Mapping[str, str]) -> int | None:
    """Return the batch size of a row."""
    return whole(row.get("Batch"))


def _case(row: Mapping[str, str]) -> Case:
    amp = row.get("AMP", "").strip().lower()
    settings: dict[str, Scalar] = {
        "batch_size": batch_of(row), "num_workers": whole(row.get("Workers")),
        "precision": "fp16" if amp in ("yes", "true", "1", "on") else "fp32" if amp else None,
    }  # fmt: skip
    return draft.a_case(Task.TRAIN, "external:unknown", settings, Placement("cuda"))
