"""What a trial is worth to a TuneSpec: its value (higher is better), and whether it keeps to the constraints."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.figures import figures
from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.memory_figures import peak_memory
from torchstone.core.schema.search import Part, Probe, ProbeResult
from torchstone.core.schema.trial import Stage, Status, Trial

# objective → (figures of which the first that is there counts, whether less is better)
OBJECTIVES: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "throughput": (("throughput",), False),
    "latency": (("latency_per_batch_p95_s", "latency_per_batch_p50_s", "step_time_p50"), True),
    "efficiency": (("throughput",), False),  # the search is for speed; memory decides among the fastest
    "energy": (("energy_per_item_j",), True),
}
_LATENCY = ("latency_per_batch_p95_s", "latency_per_batch_p50_s", "step_time_p50")


def value_of(values: Mapping[str, float], objective: str) -> float | None:
    """Return what figures are worth: the figure itself, or its inverse where less is better."""
    names, less = OBJECTIVES[objective]
    found = _first(values, names)
    return None if found is None or found <= 0.0 else 1.0 / found if less else found


def reading_of(trial: Trial, probe: Probe, spec: TuneSpec) -> ProbeResult:
    """Return what a searcher is told of the trial that its probe became."""
    values = figures(trial).values
    whole = probe.part == Part.WHOLE
    value = value_of(values, spec.objective if whole else "throughput")
    retries, window_s = trial.values("allocator_retries"), trial.values("window_time_s", Stage.STEADY)
    return ProbeResult(
        probe=probe, status=trial.outcome.status, cost_s=trial.duration_s,
        value=value if trial.outcome.status == Status.OK else None,
        peak_bytes=peak_memory(values, spec.base.placement.device),
        wait_share=values.get("data_wait_share"), step_s=values.get("step_time_p50"),
        retries=retries[0] if retries else None, allowed=not whole or shortfall(values, spec) is None,
        window_s=sum(window_s) or None,
    )  # fmt: skip


def shortfall(values: Mapping[str, float], spec: TuneSpec) -> tuple[str, float] | None:
    """Return the constraint that figures miss most, and by which factor (above 1); None where they keep to all."""
    constraints, missed = spec.constraints, list[tuple[str, float]]()
    memory = peak_memory(values, spec.base.placement.device)
    latency, throughput = _first(values, _LATENCY), values.get("throughput")
    if constraints.max_memory_bytes is not None and memory is not None:
        missed.append(("max-memory", memory / constraints.max_memory_bytes))
    if constraints.max_latency_s is not None and latency is not None:
        missed.append(("max-latency", latency / constraints.max_latency_s))
    if constraints.min_throughput is not None and throughput:
        missed.append(("min-throughput", constraints.min_throughput / throughput))
    worst = max(missed, key=lambda found: found[1], default=None)
    return worst if worst is not None and worst[1] > 1.0 else None


def _first(values: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((values[name] for name in names if name in values), None)
