"""Was the machine ours alone: other programs, the hypervisor, other ranks, heat and power."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from torchstone.core.messages import Values
from torchstone.core.over_ranks import slowest
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import VARIANT_AXES, Scalar, variant_name
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.ranks import world_size
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Disturber, Trial, ended_well, is_of_busy_machine, replicates
from torchstone.core.stats.disturbance import TOLERATED_CORES, disturbers
from torchstone.core.stats.readings import (
    FEWEST_TICKS,
    energy_tick_s,
    gauge,
    other_cpu_cores,
    own_cpu_cores,
    processes_on_device,
    spans_s,
    steal_share,
    ticked_enough,
)
from torchstone.plugins.checks._cases import INLINE, longer, many, option, sound, trials_by_case
from torchstone.plugins.protocols import check

_OWN_CHECKS = (Disturber.STEAL, Disturber.SWAP, Disturber.DEVICE_SHARED, Disturber.DEVICE_THROTTLED)


@check("trials disturbed by other programs, an exhausted CPU quota or a stop signal")
def neighbours(run: Run) -> Iterator[Finding]:
    """Fire where trials were disturbed: information where they are left out, a warning where too few others remain."""
    for case_id, _, trials in trials_by_case(run):
        good = replicates(ended_well(trials))
        if not any(trial.disturbance is not None for trial in good):
            yield from _unjudged(case_id, good)
            continue
        disturbed = [trial for trial in good if trial.disturbed]
        causes = _causes(disturbed)
        if not disturbed:
            continue
        seen = [trial.disturbance for trial in disturbed if trial.disturbance is not None]
        counts = {"trials": len(disturbed), "of": len(good)}
        if not is_of_busy_machine(good):
            by, values = disturbers(seen, causes[0])
            yield Finding("neighbours", Severity.INFO, case_id, {**counts, **values}, f"left_out.{by}")
        elif (cause := next((cause for cause in causes if cause not in _OWN_CHECKS), None)) is not None:
            by, values = disturbers(seen, cause)
            yield Finding("neighbours", Severity.WARNING, case_id, {**counts, **values}, f"busy.{by}")


def _causes(disturbed: Sequence[Trial]) -> list[Disturber]:
    """Return what disturbed the trials, what disturbed most of them first."""
    found = [cause for trial in disturbed if trial.disturbance is not None for cause in trial.disturbance.causes]
    return sorted(dict.fromkeys(found), key=lambda cause: -found.count(cause))


def _unjudged(case_id: str, trials: Sequence[Trial]) -> Iterator[Finding]:
    """Yield a warning where others used more than 0.15 cores in more than a tenth of trials that are all kept."""
    used = [cores for trial in trials if (cores := other_cpu_cores(trial)) is not None]
    busy = [cores for cores in used if cores > TOLERATED_CORES]
    if many(len(busy), len(used)):
        values: Values = {"cores": max(busy), "trials": len(busy), "of": len(used)}
        yield Finding("neighbours", Severity.WARNING, case_id, values, "kept")


TOLERATED_STEAL = 0.02


@check("CPU time stolen by other virtual machines")
def steal(run: Run) -> Iterator[Finding]:
    """Fire where the hypervisor took more than 2 % of the CPU time in the windows of more than a tenth of trials."""
    procedure = run.head.procedure
    for case_id, _, trials in sound(run):
        judged = [t for t in trials if t.disturbance is None or t.disturbed]
        shares = [share for trial in judged if (share := steal_share(trial)) is not None]
        stolen = [share for share in shares if share > TOLERATED_STEAL]
        if many(len(stolen), len(trials)):
            more = "--within 10m"
            if not procedure.in_rounds:
                more = option(procedure, "trials", max(5, 2 * procedure.repetitions))
            values: Values = {"share": max(stolen), "trials": len(stolen), "of": len(trials), "setting": more}
            remedies = ("quiet_host", "more_trials") if procedure.fit is None else ("quiet_host",)
            yield Finding("steal", Severity.WARNING, case_id, values, remedies=remedies)


@check("other processes on the device during a trial")
def other_processes(run: Run) -> Iterator[Finding]:
    """Fire where another process held the device during the windows of more than a tenth of the trials."""
    for case_id, case, trials in sound(run):
        counts = [found[0] for trial in trials if (found := processes_on_device(trial)) is not None]
        beside = [count for count in counts if count > 0]
        if many(len(beside), len(counts)):
            place = case.placement
            free = [d for d in run.head.machine.devices if d.kind == place.device and d.index != place.index]
            other = {"other": f"{free[0].kind}:{free[0].index}"} if free else {}
            values: Values = {
                "processes": int(max(beside)),
                "device": str(place),
                "trials": len(beside),
                "of": len(counts),
                **other,
            }
            remedies = ("stop_processes", "other_device") if free else ("stop_processes",)
            yield Finding("other_processes", Severity.WARNING, case_id, values, remedies=remedies)


_EXCESS = 0.1
_SHARE = 0.8  # of the steps; by chance a rank of two is the slowest in half of them


@check("a rank that is slower than the others")
def slow_rank(run: Run) -> Iterator[Finding]:
    """Fire where the same rank is slowest in 80 % of the steps of most trials, by more than 10 %."""
    for case_id, _, trials in sound(run):
        told = [found for trial in trials if (found := slowest(trial)) is not None]
        late = [found for found in told if found.share >= _SHARE and found.excess > _EXCESS]
        for rank in sorted({found.rank for found in late}):
            own = [found for found in late if found.rank == rank]
            if 2 * len(own) <= len(told):
                continue
            share, excess = fmean(found.share for found in own), fmean(found.excess for found in own)
            values: Values = {"rank": rank, "share": share, "excess": excess, "trials": len(own), "of": len(told)}
            yield Finding("slow_rank", Severity.WARNING, case_id, values)


@check("more ranks than cores")
def shared_cores(run: Run) -> Iterator[Finding]:
    """Fire where a trial on the CPU has more ranks than there are logical cores."""
    for case_id, case, trials in sound(run):
        cores = min((c for t in trials if (c := t.facts.logical_cores) is not None), default=None)
        ranks = world_size(case.configuration)
        if case.placement.device == "cpu" and cores is not None and ranks > cores:
            yield Finding("shared_cores", Severity.WARNING, case_id, {"ranks": ranks, "cores": cores})


_BEYOND_CORES, _COUNTED_S = 0.25, 1.0  # the kernel counts in ticks of 10 ms, and readings are 0.1 s apart


@check("an inference that used more cores than it has threads, or than other runtimes have")
def beyond_threads(run: Run) -> Iterator[Finding]:
    """Fire where more than half of the trials kept 0.25 cores more busy, over 1 s, than they may have threads.

    Where none are asked for, that is the fewest in effect among Cases that differ in runtime and quantization alone.
    Left out is what has other processes or threads by right: the user's own process, and processes that load data.
    """
    alike: dict[str, list[tuple[str, Case, tuple[Trial, ...]]]] = {}
    for case_id, case, trials in sound(run):
        if case.workload.task == Task.INFER and _computes_alone(case) and run.head.procedure.isolation != INLINE:
            rest = {axis: value for axis, value in case.configuration.items() if axis not in VARIANT_AXES}
            key = f"{case.workload.canonical()} {sorted(rest.items())}"
            alike.setdefault(key, []).append((case_id, case, trials))
    for cases in alike.values():
        in_effect = (trial.facts.threads_in_effect for _, _, trials in cases for trial in trials)
        threads = cases[0][1].configuration.get("threads") or min(filter(None, in_effect), default=None)
        if not isinstance(threads, int):
            continue
        for case_id, case, trials in cases:
            used = [cores for one in trials if _windows_s(one) >= _COUNTED_S and (cores := own_cpu_cores(one))]
            beyond = [cores for cores in used if cores > threads + _BEYOND_CORES]
            if 2 * len(beyond) > len(used):
                name = variant_name(case.configuration)
                values: Values = {"runtime": name, "cores": max(beyond), "threads": threads}
                counts = {"trials": len(beyond), "of": len(used)}
                yield Finding("beyond_threads", Severity.WARNING, case_id, {**values, **counts})


def _computes_alone(case: Case) -> bool:
    """Say whether a trial on the CPU loads its data in the process that computes."""
    fed = case.configuration.get("feed") == "resident" or not case.configuration.get("num_workers")
    return case.placement.device == "cpu" and fed


def _windows_s(trial: Trial) -> float:
    return sum(end - begin for begin, end in spans_s(trial))


TOLERATED_THROTTLING = 0.05


@check("a device throttled by heat or power")
def throttled(run: Run) -> Iterator[Finding]:
    """Fire where the device was throttled in more than 5 % of the readings of more than a tenth of the trials.

    A card at work whose power limit holds its clock is as it should be, and will be when it is used. That is told. It
    is a warning where heat or the hardware did it, or where the reason is not recorded.
    """
    procedure = run.head.procedure
    for case_id, _, trials in sound(run):
        shares = [found[0] for trial in trials if (found := gauge(trial, "device_throttled")) is not None]
        limits = [share for trial in trials if (share := _beyond_power(trial)) is not None]
        if many(sum(share > TOLERATED_THROTTLING for share in limits), len(limits)):
            values: Values = {**_held(limits), "longer": longer(procedure)}
            yield Finding("throttled", Severity.WARNING, case_id, values)
        elif many(sum(share > TOLERATED_THROTTLING for share in shares), len(shares)):
            yield Finding("throttled", Severity.INFO, case_id, _held(shares), "power_limit")


def _beyond_power(trial: Trial) -> float | None:
    """Return the share of readings in which something else than the power limit, or nobody knows what, held it down."""
    held, capped = gauge(trial, "device_throttled"), gauge(trial, "device_power_capped")
    return None if held is None else held[0] - (capped[0] if capped is not None else 0.0)


def _held(shares: Sequence[float]) -> Mapping[str, float]:
    held = [share for share in shares if share > TOLERATED_THROTTLING]
    return {"share": max(held), "trials": len(held), "of": len(shares)}


@check("windows too short for the device's energy counter")
def energy_ticks(run: Run) -> Iterator[Finding]:
    """Tell where the energy counter moved fewer than 20 times in the windows of more than a tenth of the trials."""
    procedure = run.head.procedure
    asked_for = procedure.iterations is not None or procedure.epochs is not None
    for case_id, _, trials in sound(run):
        counted = [t for t in trials if any(s.metric == "device_energy_j" for s in t.series) and spans_s(t)]
        short = [trial for trial in counted if not ticked_enough(trial)]
        if many(len(short), len(counted)):
            values: Values = {
                "updates": round(max(map(_ticks, short))),
                "trials": len(short),
                "of": len(counted),
                "fewest": FEWEST_TICKS,
                "longer": longer(procedure),
            }
            # Windows become longer by more steps where so many were asked for, else by not ending so soon.
            remedies = ("longer_windows" if asked_for else "closer_target",)
            yield Finding("energy_ticks", Severity.INFO, case_id, values, remedies=remedies)


def _ticks(trial: Trial) -> float:
    tick_s = energy_tick_s(trial)
    return _windows_s(trial) / tick_s if tick_s else 0.0


@check("trials started as new interpreters, because an import had initialised a device's driver")
def not_forked(run: Run) -> Iterator[Finding]:
    """Fire once a run. The figures are as good as any, and each trial took seconds longer to start."""
    trials = [trial for _, _, trials in trials_by_case(run) for trial in trials]
    reasons = [trial.facts.not_forked for trial in trials if trial.facts.not_forked is not None]
    if reasons:
        values: Values = {"trials": len(reasons), "of": len(trials), **_scalars(reasons[0])}
        yield Finding("not_forked", Severity.INFO, "run", values, reasons[0].id)


def _scalars(reason: Statement) -> dict[str, Scalar]:
    return {name: value for name, value in reason.values.items() if isinstance(value, Scalar)}
