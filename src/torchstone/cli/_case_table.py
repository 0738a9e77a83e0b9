"""The table of a run: Cases of one workload together, the axes that vary as columns, each figure with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone import units
from torchstone.cli._table import Column, plain, show
from torchstone.summary import CaseSummary, RunSummary
from torchstone.terms.estimate import Estimate, Verdict
from torchstone.terms.trial import Status

# title, figure, rank (the highest leaves first when the terminal is narrow), with interval
_FIGURES = (
    ("throughput", "throughput", 1, True),
    ("tokens/s", "token_throughput", 12, False),
    ("step", "step_time", 5, True),
    ("latency\np50", "latency_per_batch_p50_s", 2, True),
    ("latency\np95", "latency_per_batch_p95_s", 4, False),
    ("latency\np99", "latency_per_batch_p99_s", 9, False),
    ("first\nprediction", "time_to_first_prediction_s", 10, False),
    ("data\nwait", "data_wait_share", 11, False),
    ("peak\ndevice", "peak_reserved_bytes", 3, False),
    ("peak\nRSS", "peak_rss_bytes", 7, False),
    ("power", "average_power_w", 8, False),
    ("energy\n/item", "energy_per_item_j", 8, False),
    ("achieved", "achieved_flops", 6, False),
    ("loss\nfirst", "loss_first", 13, False),
    ("loss\nlast", "loss_last", 13, False),
    ("model\nload", "model_load_time_s", 14, False),
)
# Settings worth naming above a table even where they do not vary.
_HEADLINE = ("precision", "sequence_length", "image_size", "compile", "optimizer", "feed")


def print_cases(run: RunSummary, width: int | None = None) -> None:
    """Print one table a workload and device."""
    for cases in _groups(run.cases):
        first = cases[0]
        varying = _varying(cases)
        fixed = [name for name in _HEADLINE if name in first.configuration and name not in varying]
        settings = ", ".join(f"{name} {first.configuration[name]}" for name in fixed)
        head = f"{first.workload.task} {first.workload.model} on {first.placement}, data {first.workload.data}"
        print("\n" + plain(head) + "\n  " + plain(settings))
        show(list(_columns(cases, varying)), width)


def _groups(cases: Sequence[CaseSummary]) -> Iterator[list[CaseSummary]]:
    groups: dict[tuple[str, ...], list[CaseSummary]] = {}
    for case in cases:
        key = (str(case.workload.task), case.workload.model, case.workload.data, str(case.placement))
        groups.setdefault(key, []).append(case)
    yield from groups.values()


def _varying(cases: Sequence[CaseSummary]) -> list[str]:
    names = cases[0].configuration
    return [n for n in names if n == "batch_size" or len({c.configuration.get(n) for c in cases}) > 1]


def _columns(cases: Sequence[CaseSummary], varying: Sequence[str]) -> Iterator[Column]:
    for name in varying:
        yield Column(name.replace("_", "\n", 1), [plain(c.configuration.get(name)) for c in cases])
    for title, figure, rank, interval in _FIGURES:
        found = [c.estimates.get(figure) for c in cases]
        yield Column(title, [_cell(e) for e in found], rank)
        if interval:
            yield Column("±", [units.spread(e.value, e.low, e.high) if e else "" for e in found], rank)
    yield Column("trials", [_trials(c) for c in cases], 9)
    yield Column("verdict", [_verdict(c) for c in cases], 0, left=True)


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return units.MISSING
    if not estimate.supported:
        return f"({units.quantity(estimate.value, estimate.unit)})"
    return units.quantity(estimate.value, estimate.unit)


def _trials(case: CaseSummary) -> str:
    good = sum(t.outcome.status == Status.OK for t in case.trials)
    return str(good) if good == len(case.trials) else f"{good} of {len(case.trials)}"


def _verdict(case: CaseSummary) -> str:
    bad = next((t.outcome.status for t in case.trials if t.outcome.status != Status.OK), None)
    if bad is not None and case.verdict == Verdict.INVALID:
        return str(bad)
    return str(case.verdict) if case.trials else "not taken"
