"""Puts the answer of a tune together from what its record holds: the choices, the gain, the epoch, and why."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.advice.choices import best_efficiency, choice_of, highest_throughput, is_safe, pareto
from torchstone.analysis.advice.feeding import feeding
from torchstone.analysis.summary import CaseSummary, summarize
from torchstone.core.figures import figures
from torchstone.core.quality import is_as_good, quality_of, quality_of_trials
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import Choice, TuneResult, TuneSpec
from torchstone.core.schema.axis import EAGER, VARIANT_AXES, Scalar, followers, variant_name
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import PEAKS, peak_memory
from torchstone.core.schema.quality import AnswerCounts
from torchstone.core.schema.run import Run
from torchstone.core.schema.search import Part, Point, Probe, ProbeResult
from torchstone.core.schema.trial import Purpose, Stage, Status, Trial, estimation_trials, replicates, undisturbed
from torchstone.core.stats.interval import over_trials
from torchstone.execution.controller.active_run import ActiveRun, OutOfTime
from torchstone.storage.query import entry_of
from torchstone.workflows.tune.space import TuneSpace, applied

# objective → (figures of which the first that is there counts, whether less is better)
OBJECTIVES: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "throughput": (("throughput",), False),
    "latency": (("latency_per_batch_p50_s", "step_time_p50"), True),  # of the p95 a probe of a few steps says little
    "efficiency": (("throughput",), False),  # the search is for speed; memory decides among the fastest
    "energy": (("energy_per_item_j",), True),
    # On the CPU a trial's own peak holds torch's module and its export, whatever computes.
    "memory": (("loaded_peak_bytes", *PEAKS), True),
}
_LATENCY = ("latency_per_batch_p95_s", "latency_per_batch_p50_s", "step_time_p50")


def objective_value(values: Mapping[str, float], objective: str) -> float | None:
    """Return what figures are worth: the figure itself, or its inverse where less is better."""
    names, less = OBJECTIVES[objective]
    found = _first(values, names)
    return None if found is None or found <= 0.0 else 1.0 / found if less else found


def reading_of(trial: Trial, probe: Probe, spec: TuneSpec, answers: AnswerCounts | None = None) -> ProbeResult:
    """Return what a searcher is told of the trial that its probe became; nothing of what is not shown to be as good.

    `answers`: the items that were compared in an earlier trial of its Case.
    """
    values = figures(trial).values
    compared = (values.get("relative_output_error"), trial.facts.answers or answers)
    quality = quality_of([compared], spec.constraints.quality_margin) if _chooses(spec) else None
    lesser = None if quality is None or is_as_good(quality) else quality.verdict
    whole = probe.part == Part.WHOLE
    value = objective_value(values, spec.objective if whole else "throughput")
    retries, window_s = trial.values("allocator_retries"), trial.values("window_time_s", Stage.STEADY)
    return ProbeResult(
        probe=probe,
        status=trial.outcome.status,
        cost_s=trial.duration_s,
        value=value if lesser is None and trial.outcome.status == Status.OK else None,
        peak_bytes=peak_memory(values, spec.base.placement.device),
        wait_share=values.get("data_wait_share"),
        step_s=values.get("step_time_p50"),
        retries=retries[0] if retries else None,
        allowed=not whole or shortfall(values, spec) is None,
        window_s=sum(window_s) or None,
        quality=lesser,
    )


def _chooses(spec: TuneSpec) -> bool:
    """Say whether how good a point is counts: not where torch's own precision was given, and nothing else is there."""
    other = variant_name({**spec.base.configuration, "precision": "fp32"}) != EAGER
    return other or any(axis in spec.axes for axis in (*VARIANT_AXES, "precision"))


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


def answer_of(
    run: Run,
    space: TuneSpace,
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
    best = recommended_choice(finalists, spec)
    against = final.get(present_id or "", ())
    return TuneResult(
        recommended=best,
        highest_throughput=highest_throughput(finalists) or best,
        best_efficiency=efficient,
        pareto=pareto(finalists),
        present=choices.get(present_id or ""),
        gain=gain(final[best.case_id], against, spec) if against and best.case_id != present_id else None,
        epoch_time_s=cases[best.case_id].estimates.get("epoch_time_s"),
        settings=_settings(cases[best.case_id], space),
        why=tuple(_why(best, cases[best.case_id], readings)),
        searched_s=sum(trial.duration_s for trial in run.trials if trial.purpose == Purpose.PROBE),
        everything_s=_everything_s(readings, len(space.points)),
        points=len(space.points),
        probes=sum(trial.purpose == Purpose.PROBE for trial in run.trials),
        tried=len(tried),
        untried=_untried(space, tried),
        objective=spec.objective,
    )


def recommended_choice(ranking: Sequence[Choice], spec: TuneSpec) -> Choice:
    """Return what is recommended of the final round, best first: the first that is safe, or the most efficient."""
    efficient = best_efficiency(ranking)
    if spec.objective == "efficiency" and efficient is not None:
        return efficient
    return next((choice for choice in ranking if is_safe(choice)), ranking[0])


def _settings(case: CaseSummary, space: TuneSpace) -> dict[str, Scalar]:
    """Return what the search decided, what follows from it, and what was measured otherwise than the user has it."""
    follows = set(followers("batch_size")) if space.spec.learning_rate_rule is not None else set()
    if space.spec.constraints.effective_batch is not None:
        follows.add("grad_accumulation")
    named = {*space.axes, *follows, *(space.spec.present or {})}
    settings = case.configuration if case.workload.is_program else applied(case.configuration)
    return {name: value for name, value in settings.items() if name in named}


def _tried(space: TuneSpace, final: Mapping[str, Sequence[Trial]], readings: Sequence[ProbeResult]) -> list[Point]:
    """Return the points of which whole steps were run, however that ended."""
    present = space.present()
    run = [r.probe.point for r in readings if r.probe.part == Part.WHOLE]
    run += [space.point_of(present)] if present is not None and present.case_id in final else []
    return [point for point in space.points if point in run or space.case(point).case_id in final]


def _untried(space: TuneSpace, tried: Sequence[Point]) -> dict[str, tuple[Scalar, ...]]:
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
            fed.value,
            eaten.value,
            best.throughput,
            share.value if share is not None else None,
            int(workers) if isinstance(workers, int) else None,
        ).seen
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


_LEVEL = 0.95
_SURE = 0.99  # of what ends the rounds: they are looked at several times


MOST_ROUNDS = 8  # of the final comparison, where it takes so many to tell the best from the next


def run_rounds(
    cases: Sequence[Case],
    spec: TuneSpec,
    open_run: ActiveRun,
    seed: int,
    recorded: Iterable[Trial] = (),
    most_s: float = 0.0,
) -> dict[str, list[Trial]]:
    """Take `spec.final_trials` rounds of every Case, in random order within a round; return the trials by Case id.

    The first round keeps the order of `cases`, the search's best first: where the time that was given is over before it
    is, what was measured is the answer. Then, up to MOST_ROUNDS, those of which any may be the best, as long as all
    rounds take less than `most_s`. `recorded`: trials of a run that goes on are reused, not taken again.
    """
    whole = (t for t in replicates(recorded) if t.outcome.status != Status.INTERRUPTED)
    done = {(t.case_id, t.number): t for t in whole}
    found: dict[str, list[Trial]] = {case.case_id: [] for case in cases}
    dice = random.Random(seed)
    try:
        for number in itertools.count():
            order = list(cases)
            if number >= spec.final_trials:
                order = _undecided(cases, found, spec) if number < MOST_ROUNDS else []
                spent_s = sum(trial.duration_s for trials in found.values() for trial in trials)
                if not order or spent_s + sum(found[case.case_id][-1].duration_s for case in order) > most_s:
                    break
            if number:
                dice.shuffle(order)
            for case in order:
                trial = done.get((case.case_id, number))
                if trial is None:
                    open_run.add(case)
                    trial = open_run.take(case, number)
                found[case.case_id].append(trial)
    except OutOfTime:
        if open_run.session.procedure.within_s is None or not any(found.values()):
            raise  # `resume` goes on; who said how long it may take in all has the rounds that there are
    return found


def _undecided(cases: Sequence[Case], found: Mapping[str, Sequence[Trial]], spec: TuneSpec) -> list[Case]:
    """Return the best, those not shown to be less, and the present settings; none where the best is known."""
    ranking = ranked_cases(found, spec)
    ratios = {other: gain(found[ranking[0]], found[other], spec, _SURE) for other in ranking[1:]}
    as_good = [other for other, ratio in ratios.items() if ratio is None or ratio.low is None or ratio.low <= 1.0]
    present = TuneSpace(spec).present()
    named = {ranking[0], *as_good, present.case_id if present is not None else ""} if as_good else set()
    return [case for case in cases if case.case_id in named]


def ranked_cases(found: Mapping[str, Sequence[Trial]], spec: TuneSpec) -> list[str]:
    """Return the ids of Cases of which every trial ended well and kept to the constraints, best first."""
    space = TuneSpace(spec)
    present = space.present()
    other = present.case_id if present is not None and not space.keeps_the_batch(present) else None
    worth = {case_id: worth_of(trials, spec) for case_id, trials in found.items() if case_id != other}
    return sorted((c for c, value in worth.items() if value is not None), key=lambda c: worth[c] or 0.0, reverse=True)


def worth_of(trials: Sequence[Trial], spec: TuneSpec) -> float | None:
    """Return the geometric mean of what the trials of a Case are worth.

    None where one failed or missed a limit, and where it is not shown to be as good as eager mode in fp32.
    """
    if _chooses(spec) and not is_as_good(quality_of_trials(trials, spec.constraints.quality_margin)):
        return None
    logs: list[float] = []
    used = {trial.trial_id for trial in estimation_trials(trials)}
    for trial in trials:
        values = figures(trial).values
        value = objective_value(values, spec.objective)
        if trial.outcome.status != Status.OK or value is None or shortfall(values, spec) is not None:
            return None
        if trial.trial_id in used:
            logs.append(math.log(value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def gain(better: Sequence[Trial], than: Sequence[Trial], spec: TuneSpec, level: float = _LEVEL) -> Estimate | None:
    """Return the ratio of two Cases' worth with its interval over rounds (above 1: `better` is); None without a pair.

    A round is a pair taken within minutes, so that slow drift cancels in its ratio (Kalibera & Jones, ISMM 2013). One
    that other programs disturbed is left out, where enough others are there.
    """
    ratios: list[float] = []
    pairs = list(zip(better, than, strict=False))
    kept = undisturbed([one.disturbed or other.disturbed for one, other in pairs])
    for one, other in itertools.compress(pairs, kept):
        a, b = (objective_value(figures(t).values, spec.objective) for t in (one, other))
        if a is not None and b is not None and one.outcome.status == other.outcome.status == Status.OK:
            ratios.append(a / b)
    if not ratios:
        return None
    value, low, high, method = over_trials(ratios, level)
    note = None if len(ratios) > 1 else "one round: no interval"
    method = f"{method}, ratios of rounds"
    return Estimate(value, low, high, level, "ratio", method, len(ratios), len(ratios), note=note)
