"""What the recorded Cases of a diagnosis say together; three questions of a slow training; and what to check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.analysis.advice import batch_curve, rules, setting
from torchstone.analysis.advice.choices import choice_of
from torchstone.analysis.advice.curves import (
    curve_of,
    phases_s,
    ran_out,
    read_memory,
    read_phases,
    read_single_items,
    read_spread,
)
from torchstone.analysis.advice.devices import beside_the_cpu
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.advice import Advice, Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.diagnosis import Check
from torchstone.core.schema.phase import BACKWARD, DATA, DECODE, FORWARD, PREFILL


def patterns(run: RunSummary, case: CaseSummary) -> list[Advice]:
    """Return what is seen of a Case beside those like it, and of each accelerator beside the CPU."""
    beside = (told.advice for told in beside_the_cpu(_alike(run, case)))
    return [*_over_batch_sizes(run, case), *beside, *_of_its_step(run, case)]


def _over_batch_sizes(run: RunSummary, case: CaseSummary) -> Iterator[Advice]:
    here = [one for one in _alike(run, case) if one.placement == case.placement]
    curve = curve_of(case, here, run.machine)
    if curve is not None:
        yield Advice((batch_curve.speed_up(curve, case.workload.item),))
        yield from batch_curve.advise(curve, case.configuration, ran_out(case, run.cases))


def _of_its_step(run: RunSummary, case: CaseSummary) -> Iterator[Advice]:
    yield from read_single_items(case, run)
    yield from read_phases(case, run)
    yield from read_memory(case, run)
    yield from read_spread(case, run.procedure)


def _alike(run: RunSummary, case: CaseSummary) -> list[CaseSummary]:
    """Return the Cases of the same workload that have a figure."""
    return [one for one in run.cases if one.workload == case.workload and "throughput" in one.estimates]


# ── three questions of a slow training ──────────────────────────────────────────────────────────────────────


def questions(case: CaseSummary) -> tuple[Statement, ...]:
    """Return the questions with their answers, by shares of the step: loading, a device that idles, computing."""
    busy = case.estimates.get("device_utilization")
    return three_questions(phases_s(case), busy.value if busy is not None else None)


def three_questions(spent_s: Mapping[str, float], utilization: float | None) -> tuple[Statement, ...]:
    """Return the same. `spent_s`: phase → seconds, summing to the step."""
    step_s = sum(spent_s.values())
    if step_s <= 0.0:
        return ()
    data_s = spent_s.get(DATA, 0.0)
    loads, computes = (
        share / step_s for share in (data_s, sum(spent_s.get(n, 0.0) for n in (PREFILL, DECODE, FORWARD, BACKWARD)))
    )
    low, high = setting.UTILIZATION
    if utilization is None:
        idles = Statement("is_utilization_known")
    else:
        idles = Statement("is_utilization_low", {
            "answer": utilization < low, "share": utilization, "low": low, "high": high,
        })  # fmt: skip
    return (
        Statement("is_io_high", {"answer": loads >= rules.LOADER.least, "share": loads, "time_s": data_s}), idles,
        Statement("are_passes_slow", {"answer": computes >= rules.COMPUTING.least, "share": computes}),
    )  # fmt: skip


# ── before a long training ──────────────────────────────────────────────────────────────────────────────────


def checklist(run: RunSummary, case: CaseSummary) -> tuple[Check, ...]:
    """Return what to have looked at before a long training begins, and what is known of each."""
    chosen, sizes = choice_of(case, run.machine, ()), _tried(run, case, "batch_size")
    rate, mixed = chosen.throughput, case.configuration.get("precision")
    lines = [
        Check("measured", done=rate is not None),
        Check("batch_sizes_compared", {"tried": sizes}, done=len(sizes) > 1),
    ]
    if case.configuration.get("feed") == "loader":
        workers = _tried(run, case, "num_workers")
        lines.append(Check("workers_compared", {"tried": workers}, done=len(workers) > 1))
    narrow = mixed not in ("fp32", None) or len(_tried(run, case, "precision")) > 1
    lines.append(Check("precision_compared", {"precision": mixed}, done=narrow))
    lines.append(_memory(chosen.memory_share))
    lines.append(Check("throughput_known", {"rate": rate}, done=rate is not None))
    return tuple(lines)


def _tried(run: RunSummary, case: CaseSummary, axis: str) -> tuple[Scalar, ...]:
    values = {one.configuration.get(axis) for one in _alike(run, case)} - {None}
    return tuple(sorted(values, key=lambda value: (len(str(value)), str(value))))


def _memory(share: float | None) -> Check:
    if share is None:
        return Check("memory_unknown")
    (low, high), safe = setting.MEMORY, rules.FULL_MEMORY.least
    usual = "memory_is_above" if share > high else "memory_is_below" if share < low else "memory_is_within"
    return Check(
        "memory_is_full" if share > safe else usual,
        {"share": share, "low": low, "high": high, "safe": safe},
        done=share <= safe,
    )
