"""A usual run: six cases of five trials each, of a machine that is quiet or busy, made of trials that were measured."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache

import msgspec
from kinds import RUNS
from reported import looked_at

from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Trial

_POINTS = [(size, precision) for size in (4, 16, 64) for precision in ("fp32", "bf16")]
_TRIALS = 5
_QUIET, _BUSY = 0.004, 0.5  # deviations of the logarithm from trial to trial


@cache
def six_cases(*, busy: bool) -> Run:
    """The run, with the findings of its checks."""
    found, dice = RUNS["infer"](), random.Random(7)
    first, model = found.head.plan.cases[0], found.trials[0]
    cases = [
        msgspec.structs.replace(
            first, configuration={**first.configuration, "batch_size": size, "precision": precision}
        )
        for size, precision in _POINTS
    ]
    plan = msgspec.structs.replace(found.head.plan, cases=tuple(cases))
    head = msgspec.structs.replace(
        found.head, plan=plan, name="cnn", procedure=msgspec.structs.replace(found.head.procedure, trials=_TRIALS)
    )
    trials: list[Trial] = []
    for n in range(_TRIALS):
        for case, (size, precision) in zip(cases, _POINTS, strict=True):
            pace = (
                size**0.8 * (0.7 if precision == "bf16" else 1.0) * math.exp(dice.gauss(0.0, _BUSY if busy else _QUIET))
            )
            trials.append(msgspec.structs.replace(
                model, trial_id=f"t{len(trials)}", case_id=case.case_id, number=n, order=len(trials),
                measurements=tuple(_at(model, pace, size, 16 if precision == "bf16" else 32, dice)),
                disturbance=model.disturbance if busy else None, series=model.series if busy else (),
            ))  # fmt: skip
    return looked_at(msgspec.structs.replace(found, head=head, trials=tuple(trials)))


def _at(model: Trial, pace: float, size: int, bits: int, dice: random.Random) -> Iterator[Measurement]:
    """Yield what was measured, its times at another pace and its items those of another batch; a window of 40 steps."""
    steps = {
        window: [0.02 * pace * math.exp(dice.gauss(0.0, 0.01)) for _ in range(40)]
        for window in ("latency", "throughput", "anatomy", None)
    }
    for one in model.measurements:
        values = one.values
        if one.metric in ("latency_s", "step_time_s", "anatomy_step_time_s"):
            values = tuple(steps[one.window])
        elif one.metric == "phase_time_s":
            values = tuple((1.0 if one.phase == "forward" else 0.0) * step for step in steps["anatomy"])
        elif one.metric == "fingerprint":
            values = tuple(value + 0.01 * size + 1e-5 * bits for value in values)
        elif one.metric == "items":
            values = (float(size),) * 40
        elif one.metric == "data_wait_s":
            values = (0.0,) * 40
        elif one.metric == "window_time_s":
            values = (sum(steps[one.window]),)
        elif one.metric == "window_span_s":
            values = (1.0, 1.0 + sum(steps[one.window]))
        yield msgspec.structs.replace(one, values=values)
