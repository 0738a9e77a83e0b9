"""Results that vary much from trial to trial, and what makes them steadier."""

from __future__ import annotations

from torchstone.analysis.advice import rules
from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.procedure import Procedure

_LARGE = 0.10  # half the interval, of the value
_TRIALS, _WARMUP, _BUDGET_S = 10, 50, 20.0


def read_spread(case: CaseSummary, procedure: Procedure) -> Advice | None:
    """Return what a wide interval of the throughput says; None where it is narrow, or there is none.

    `procedure`: how it was measured; more of each is advised.
    """
    rate = case.estimates.get("throughput")
    if rate is None or rate.low is None or rate.high is None or rate.value <= 0.0:
        return None
    if max(rate.high - rate.value, rate.value - rate.low) <= _LARGE * rate.value:
        return None
    around = units.spread(rate.value, rate.low, rate.high)
    return Advice(
        f"throughput varies much: {around} over {rate.trials} trials",
        (rules.OTHER_WORK, "too few trials", "warm-up that was not over", "changing clocks"),
        (
            rules.END_OTHERS.text, f"--trials {max(_TRIALS, 2 * rate.trials)}",
            f"--warmup {max(_WARMUP, 2 * (procedure.warmup or 0))}",
            f"--budget {max(_BUDGET_S, 4 * procedure.budget_s):g}s for longer windows",
            "torchstone ab for the difference of two settings",
        ),
    )  # fmt: skip
