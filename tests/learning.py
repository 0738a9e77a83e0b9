"""Builders of trainings by their losses."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from build import a_case, a_run, a_trial

from torchstone.core.schema.case import Case
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status, Trial

ITEMS = 16


def falling(
    steps: int = 100, slope: float = -0.01, start: float = 2.3, noise: float = 0.05, seed: int = 1
) -> list[float]:
    """Losses that shrink by a constant factor, on the same batches for the same seed."""
    chance = random.Random(seed)
    return [start * math.exp(slope * step + chance.gauss(0.0, noise)) for step in range(steps)]


def rising(steps: int = 100) -> list[float]:
    """Losses that leave for good."""
    return falling(steps // 2) + falling(steps - steps // 2, start=40.0, slope=0.0)


def a_training(configuration: Mapping[str, Any]) -> Case:
    """A training by a loader on real data, with every axis that matters to its loss."""
    base = {
        "batch_size": ITEMS, "precision": "fp32", "optimizer": "adamw", "learning_rate": 1e-3, "grad_accumulation": 1,
        "grad_clip": 0.0, "feed": "loader",
    }  # fmt: skip
    return a_case({**base, **configuration}, data="digits")


def of_losses(
    trainings: Sequence[tuple[Mapping[str, Any], Sequence[float]]], *, trials: int = 3, step_s: Sequence[float] = ()
) -> Run:
    """A run of trainings, each with the same losses in every trial, as trials of one seed have them.

    `step_s`: the time of a step of each training; a loss that is not finite ends its trial as it does in a run.
    """
    cases = [a_training(configuration) for configuration, _ in trainings]
    taken: list[Trial] = []
    for place, (case, (_, losses)) in enumerate(zip(cases, trainings, strict=True)):
        each_s = step_s[place] if step_s else 0.01
        lost = not all(map(math.isfinite, losses))
        ended = {"outcome": Outcome(Status.CRASHED, "the loss is nan")} if lost else {}
        for number in range(trials):
            times_s = [each_s * (1.0 + 0.01 * number)] * (len(losses) - 1)
            about: dict[str, Any] = {
                "case_id": case.case_id,
                "trial_id": f"t{place}-{number}",
                "number": number,
                **ended,
            }
            steady = {"loss": losses, "peak_rss_bytes": [3e8 + 1e8 * place]}
            taken.append(a_trial(times_s, items=ITEMS, order=len(taken), steady=steady, **about))
    return a_run(taken, cases=cases)
