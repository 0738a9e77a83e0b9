"""The whole examination of a machine: a look, a noise floor from equal processes, and an A/A test."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median, stdev

import msgspec

from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.comparison import Comparison, Rules
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.stats.readings import steal_share
from torchstone.execution import plan
from torchstone.execution.controller.device_lock import BusyError, WhenBusy, held
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.timing.clock import resolution_s, system_clock
from torchstone.workflows.ab.experiment import ExperimentResult, Variant, as_ab_does, compare_live
from torchstone.workflows.machine_check import conditions, sensing
from torchstone.workflows.machine_check.conditions import Condition, Fitness, worst

MODEL = "builtin:mlp"  # what stands for a step: a few milliseconds of products, the same everywhere
_BATCH = 64
_SPIN_S = 1.5
_PROCESSES = 4
_STEADY_S, _WARM_S = 1.0, 0.5
_EXPERIMENT_S = 30.0
_MINUTE_S = 60.0
_FALSE_ALARMS = 0.01
_FOUND = 1.0 + 1.645 / 2.576  # half-widths (99 %) of a difference that is found 19 times in 20


class Examination(msgspec.Struct, frozen=True):
    """The verdict, what it is made of, and the A/A test (None: left out).

    `settled_in_a_minute`: the relative difference that a minute of `ab` finds 19 times in 20.
    """

    verdict: Fitness
    conditions: tuple[Condition, ...]
    settled_in_a_minute: float | None
    aa: Comparison | None


def examine(device: str, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> Examination:
    """Examine this machine and that device; `folder`: where records go. Raises UsageError if there is no such device.

    `tell` is told what happens next. Where another torchstone measures it is left in peace: only a look is taken.
    """
    tell("other processes")
    with Session(_procedure(), (MODEL,)) as session, contextlib.ExitStack() as locks:
        machine, found = session.inspect()
        placement = plan.place(device, found, machine)
        gauges = sensing.Gauges(machine.device(placement.device, placement.index))
        holder: str | None = None
        try:
            locks.enter_context(held([placement], machine, "machine check", WhenBusy("refuse")))
        except BusyError as busy:
            holder = busy.seen
        before = gauges.read("host_swapped_bytes"), sensing.throttle_events()
        spun = sensing.spin(_SPIN_S, gauges)
        seen = [
            conditions.alone(holder),
            conditions.neighbours(spun.others_cores, machine.host.logical_cores or 1, spun.others),
            conditions.lost_time(spun.lost_share, spun.longest_s),
        ]
        case = _case(placement, machine)
        if holder is None:
            tell(f"noise floor: {_PROCESSES} processes of the same code")
            seen += _of_trials(_trials(session, case, machine))
        seen += _of_device(gauges, placement.device)
        seen += _of_host(machine, gauges, *before, folder)
        aa_test: ExperimentResult | None = None
        if holder is None and not quick:
            tell("an A/A test")
            # So small a margin settles nothing: the whole time is used.
            rules = Rules(margin=1e-6, false_alarms=_FALSE_ALARMS, budget_s=_EXPERIMENT_S)
            aa_test = compare_live(Variant("A", case), Variant("A again", case), rules, as_ab_does(_procedure()))
    difference = None if aa_test is None else settled_in_a_minute(aa_test)
    if aa_test is not None:
        seen.append(conditions.settled(difference, aa_test.comparison.why_text or str(aa_test.comparison.verdict)))
    return Examination(worst(seen), tuple(seen), difference, None if aa_test is None else aa_test.comparison)


def _case(placement: Placement, machine: Machine) -> Case:
    sketch = plan.sketch(WorkloadRequest("train", MODEL, axes={"batch_size": (_BATCH,)}))
    return plan.arrange([sketch], [placement], machine, 1, 0, ()).cases[0]


def _trials(session: Session, case: Case, machine: Machine) -> list[Trial]:
    info = machine.device(case.placement.device, case.placement.index)
    requests = [TrialRequest(case, session.procedure, number) for number in range(_PROCESSES)]
    return [TrialDrive(request, info, Silent()).run(session.launcher, request.number) for request in requests]


def settled_in_a_minute(aa_test: ExperimentResult) -> float | None:
    """Return the relative difference that an experiment of a minute would find 19 times in 20, from one of equal sides.

    Its interval narrows with the root of its time; a difference is found so often if it is as large as the interval's
    half-width and 1.645 standard errors more.
    """
    ratio = aa_test.comparison.ratio
    if ratio is None or ratio.low is None or ratio.high is None or aa_test.elapsed_s <= 0.0:
        return None
    half = math.log(ratio.high / ratio.low) / 2.0
    return math.expm1(_FOUND * half * math.sqrt(aa_test.elapsed_s / _MINUTE_S))


def _procedure() -> Procedure:
    return Procedure(
        trials=_PROCESSES, warmup_budget_s=_WARM_S, budget_s=_STEADY_S, target=None, telemetry_period_s=0.2,
        count_flops=False, phases=False, timeout_s=60.0,
    )  # fmt: skip


def _of_trials(trials: Sequence[Trial]) -> list[Condition]:
    steps = [trial.values("step_time_s") for trial in trials if trial.outcome.status == Status.OK]
    steps = [values for values in steps if len(values) > 1]
    if len(steps) < 2:
        ended = next((t.outcome.message for t in trials if t.outcome.status != Status.OK), None)
        said = f"a small training failed: {ended}"
        return [Condition("spread of processes", said, Fitness.UNFIT, f"see `torchstone run --model {MODEL}`")]
    centres = [median(values) for values in steps]
    spreads = [1.4826 * median(abs(v - c) for v in values) / c for values, c in zip(steps, centres, strict=True)]
    stolen = [share for trial in trials if (share := steal_share(trial)) is not None]
    return [
        conditions.within(median(spreads)),
        conditions.between(stdev(map(math.log, centres)), len(steps)),
        conditions.steal(fmean(stolen) if stolen else None),
    ]


def _of_device(gauges: sensing.Gauges, kind: str) -> list[Condition]:
    if kind == "cpu":
        return []
    return [
        conditions.device_neighbours(gauges.read("device_other_processes")),
        conditions.temperature("device's temperature", gauges.read("device_temperature_c")),
    ]


def _of_host(
    machine: Machine, gauges: sensing.Gauges, swapped: float | None, throttled: int | None, folder: Path
) -> list[Condition]:
    now, events = gauges.read("host_swapped_bytes"), sensing.throttle_events()
    return [
        conditions.throttling(
            gauges.read("device_throttled"), None if throttled is None or events is None else events - throttled
        ),
        conditions.temperature("temperature", gauges.read("host_temperature_c")),
        conditions.governor(machine.host.governor),
        conditions.turbo(machine.settings.get("turbo")),
        conditions.swapping(None if now is None or swapped is None else now - swapped),
        conditions.memory(available_bytes(), machine.host.memory_bytes),
        conditions.disk(shutil.disk_usage(folder).free, str(folder)),
        conditions.clock(resolution_s(system_clock)),
    ]
