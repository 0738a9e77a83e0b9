"""Puts the answer of a tune together from what its record holds: the choices, the gain, the epoch, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.advice.choices import best_efficiency, choice_of, highest_throughput, is_safe, pareto
from torchstone.analysis.advice.feeding import feeding
from torchstone.analysis.summary import CaseSummary, summarize
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import Choice, TuneResult, TuneSpec
from torchstone.core.schema.axis import Scalar, followers
from torchstone.core.schema.run import Run
from torchstone.core.schema.search import Part, Point, ProbeResult
from torchstone.core.schema.trial import Trial
from torchstone.storage.query import entry_of
from torchstone.workflows.tune.final_round import gain
from torchstone.workflows.tune.space import Space, applied


def answer_of(
    run: Run,
    space: Space,
    final: Mapping[str, Sequence[Trial]],
    ranking: Sequence[str],
    readings: Sequence[ProbeResult],
) -> TuneResult:
    """Return the TuneResult. `final`: trials of the final round by Case id; `ranking`: Case ids, best first."""
    spec, head = space.spec, run.head
    summary = summarize(entry_of(run, Path()))
    cases = {case.case_id: case for case in summary.cases}
    choices = {case_id: choice_of(case, head.machine, space.axes) for case_id, case in cases.items()}
    finalists = [choices[case_id] for case_id in ranking]
    present = space.present()
    present_id = present.case_id if present is not None else None
    efficient = best_efficiency(finalists)
    tried = _tried(space, final, readings)
    best = best_of(finalists, spec)
    against = final.get(present_id or "", ())
    return TuneResult(
        recommended=best, highest_throughput=highest_throughput(finalists) or best, best_efficiency=efficient,
        pareto=pareto(finalists), present=choices.get(present_id or ""),
        gain=gain(final[best.case_id], against, spec) if against and best.case_id != present_id else None,
        epoch_time_s=cases[best.case_id].estimates.get("epoch_time_s"),
        settings=_settings(cases[best.case_id], space), why=tuple(_why(best, cases[best.case_id], readings)),
        searched_s=sum(reading.cost_s for reading in readings), everything_s=_everything_s(readings, len(space.points)),
        points=len(space.points), probes=len(readings), tried=len(tried), untried=_untried(space, tried),
    )  # fmt: skip


def best_of(ranking: Sequence[Choice], spec: TuneSpec) -> Choice:
    """Return what is recommended of the final round, best first: the first that is safe, or the most efficient."""
    efficient = best_efficiency(ranking)
    if spec.objective == "efficiency" and efficient is not None:
        return efficient
    return next((choice for choice in ranking if is_safe(choice)), ranking[0])


def _settings(case: CaseSummary, space: Space) -> dict[str, Scalar]:
    """Return what the search decided, what follows from it, and what was measured otherwise than the user has it."""
    follows = set(followers("batch_size")) if space.spec.learning_rate_rule is not None else set()
    if space.spec.constraints.effective_batch is not None:
        follows.add("grad_accumulation")
    named = {*space.axes, *follows, *(space.spec.present or {})}
    settings = case.configuration if case.workload.is_program else applied(case.configuration)
    return {name: value for name, value in settings.items() if name in named}


def _tried(space: Space, final: Mapping[str, Sequence[Trial]], readings: Sequence[ProbeResult]) -> list[Point]:
    """Return the points of which whole steps were run, however that ended."""
    present = space.present()
    run = [r.probe.point for r in readings if r.probe.part == Part.WHOLE]
    run += [space.point_of(present)] if present is not None and present.case_id in final else []
    return [point for point in space.points if point in run or space.case(point).case_id in final]


def _untried(space: Space, tried: Sequence[Point]) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of each axis that none of these points has, of those that some point may have."""
    found = {}
    for axis in space.axes:
        had = {point[axis] for point in tried}
        found[axis] = tuple(dict.fromkeys(point[axis] for point in space.points if point[axis] not in had))
    return {axis: values for axis, values in found.items() if values}


def _everything_s(readings: Sequence[ProbeResult], points: int) -> float | None:
    """Estimate what a full trial of every point would cost from the whole steps that were probed."""
    whole = [r for r in readings if r.probe.part == Part.WHOLE and r.value is not None]
    costs = [r.cost_s / max(r.probe.effort, 0.1) for r in whole]
    return points * sum(costs) / len(costs) if costs else None


def _why(best: Choice, case: CaseSummary, readings: Sequence[ProbeResult]) -> Iterator[Statement]:
    fed = nearest(readings, best.point, Part.LOADER, ("num_workers", "pin_memory", "batch_size"))
    eaten = nearest(readings, best.point, Part.DEVICE, ("precision", "batch_size"))
    if best.throughput is not None and fed is not None and eaten is not None:
        share = case.estimates.get("data_wait_share")
        workers = case.configuration.get("num_workers")
        yield from feeding(
            fed.value, eaten.value, best.throughput, share.value if share is not None else None,
            int(workers) if isinstance(workers, int) else None,
        ).seen  # fmt: skip
    if rates := _rates(readings, "num_workers", Part.LOADER):
        yield Statement("loader_alone", {"rates": rates})
    if rates := _rates(readings, "precision", Part.DEVICE):
        yield Statement("device_alone", {"rates": rates})
    yield from _memory(best, readings)


def nearest(readings: Sequence[ProbeResult], point: Point, part: Part, axes: Sequence[str]) -> ProbeResult | None:
    """Return the reading of that part that shares most of the named axes (the first weigh most) with a point."""
    known = [r for r in readings if r.probe.part == part and r.value is not None]
    same = lambda r: tuple(r.probe.point.get(axis) == point.get(axis) for axis in axes)
    return max(known, key=same, default=None)


def _rates(readings: Sequence[ProbeResult], axis: str, part: Part) -> tuple[Statement, ...]:
    """Return the best rate seen with each value of an axis; nothing where there is one value."""
    best: dict[Scalar, float] = {}
    for r in readings:
        if r.probe.part == part and r.value is not None and axis in r.probe.point:
            value = r.probe.point[axis]
            best[value] = max(r.value, best.get(value, 0.0))
    if len(best) < 2:
        return ()
    ordered = sorted(best.items(), key=str)
    return tuple(Statement("rate_with", {"rate": rate, "axis": axis, "value": value}) for value, rate in ordered)


def _memory(best: Choice, readings: Sequence[ProbeResult]) -> Iterator[Statement]:
    hit = sum(r.status == "out_of_memory" for r in readings)
    if best.memory_bytes is None or best.memory_share is None:
        return
    yield Statement("peak_memory", {"memory_bytes": best.memory_bytes, "share": best.memory_share})
    yield Statement("probes_ran_out", {"hit": hit, "probes": len(readings)}) if hit else Statement("no_probe_ran_out")
