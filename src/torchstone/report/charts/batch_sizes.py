"""The pictures of a run over its batch sizes: throughput, latency, memory, energy, efficiency."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.analyses import analyses
from torchstone.analysis.advice.grouping import over_devices
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts.picture import Line, Panel, Picture
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.memory_figures import PEAKS
from torchstone.report.charts.curves import MOST_CURVES, Named, named, panels, placed
from torchstone.report.charts.names import device_names, workload_name
from torchstone.report.document import Chart

THROUGHPUT = "throughput_vs_batch_size"
_MOST_PANELS = 12
_FEWEST = 2  # batch sizes that are a curve
_SCALING = "scaling"  # no figure of a case: it is one of several together


class _Question(msgspec.Struct, frozen=True):
    """A picture: the name of its file, its title, and figures in words: of each group the first that was measured."""

    name: str
    title: str
    figures: tuple[tuple[tuple[str, str], ...], ...]
    says: str


_RATES = (("output_token_throughput", "output tokens"), ("throughput", ""))
_QUESTIONS = (
    _Question(THROUGHPUT, "Throughput by batch size", (_RATES,), "how throughput moves"),
    _Question(
        "latency_vs_batch_size", "Latency by batch size",
        (
            (("latency_per_batch_p50_s", "median latency of a batch"), ("time_to_first_token_p50_s", "median TTFT"),
             ("step_time_p50", "median step")),
            (("latency_per_batch_p95_s", "p95 latency of a batch"), ("time_per_output_token_p50_s", "median TPOT")),
        ),
        "how long a batch takes",
    ),
    _Question(
        "memory_usage", "Memory by batch size",
        (((PEAKS[0], "device memory, reserved"),), ((PEAKS[1], "device memory, allocated"),),
         ((PEAKS[2], "host memory, resident"),), (("kv_cache_bytes", "KV cache"),)),
        "how much memory is taken at most",
    ),
    _Question(
        "energy_vs_batch_size", "Energy by batch size",
        ((("energy_per_item_j", "energy an item"),), (("average_power_w", "mean power"),)),
        "how much energy an item takes",
    ),
    _Question(
        "scaling_efficiency", "Scaling efficiency by batch size",
        (((_SCALING, "throughput, of what steps of equal length would give"),),),
        "how much of a larger batch is gained",
    ),
    _Question(
        "hardware_efficiency", "Share of the peak rate by batch size",
        ((("mfu_measured", "MFU (measured peak)"), ("mfu_datasheet", "MFU (datasheet)")),
         (("device_utilization", "device in use"),)),
        "how much of the device is used",
    ),
)  # fmt: skip


def batch_size_charts(run: RunSummary) -> list[Chart]:
    """Return the pictures that a run has two batch sizes for."""
    name_of = device_names(run.machine)
    workloads = over_devices(on_devices_here(run))
    curves = [(own, named(placed(own, name_of), _rate)) for own in workloads]
    drawn = [(own, told) for own, told in curves if told.sizes >= _FEWEST]
    scaling = _scaling(run) if drawn else {}
    several = len(workloads) > 1
    found = [_chart(question, drawn, scaling, several=several) for question in _QUESTIONS]
    return [chart for chart in found if chart is not None]


def _rate(case: CaseSummary) -> float:
    found = case.estimates.get("throughput")
    return found.value if found is not None else 0.0


def _chart(
    question: _Question, drawn: Sequence[tuple[Sequence[CaseSummary], Named]], scaling: Mapping[str, Estimate], *,
    several: bool,
) -> Chart | None:  # fmt: skip
    found: list[Panel] = []
    for cases, told in drawn:
        group = workload_name(cases[0]) if several else ""
        for figures in question.figures:
            of = [_of(name, scaling) for name, _ in figures]
            measured = [any(one(case) is not None for case in cases) for one in of]
            if any(measured):
                at = measured.index(True)
                figure = figures[at]
                unit = _unit(figure[0], cases[0])
                found += panels(figure[1] or f"{cases[0].workload.item}s/s", told, of[at], unit, group)
    if not found:
        return None
    picture = Picture(question.title, tuple(found[:_MOST_PANELS]), _left_out(drawn, len(found)), columns=2)
    says = f"{question.title}: {question.says}, with 95 % confidence intervals; {_highest(found[0])}"
    return Chart(question.name, says, picture)


def _highest(panel: Panel) -> str:
    """Return the highest point of a panel in words, for who cannot see it."""
    top = max(panel.values, key=lambda value: float(value["value"]), default=None)
    if top is None:
        return "no value is certain enough to be drawn"
    unit = next((mark.y.title for mark in panel.marks if isinstance(mark, Line)), "")
    which = f" ({top['curve']})" if panel.colours is not None and len(panel.colours.names) > 1 else ""
    return f"the highest is {units.significant(top['value'], 3)} {unit} at batch size {top['batch']}{which}"


def _unit(figure: str, case: CaseSummary) -> str:
    if figure == "throughput":
        return f"{case.workload.item}s/s"
    return "output tokens/s" if figure == "output_token_throughput" else ""


def _of(figure: str, scaling: Mapping[str, Estimate]) -> Callable[[CaseSummary], Estimate | None]:
    def of(case: CaseSummary) -> Estimate | None:
        found = scaling.get(case.case_id) if figure == _SCALING else case.estimates.get(figure)
        return found if found is not None and found.supported else None

    return of


def _left_out(drawn: Sequence[tuple[Sequence[CaseSummary], Named]], found: int) -> str:
    """Return what does not fit into a picture; "": nothing."""
    lost = sum(told.left_out for _, told in drawn)
    words = [f"of more than {MOST_CURVES} curves a panel the fastest; {lost} more are in the tables"] if lost else []
    words += [f"{found - _MOST_PANELS} more panels are left out"] if found > _MOST_PANELS else []
    return "; ".join(words)


def _scaling(run: RunSummary) -> dict[str, Estimate]:
    """Return by case_id throughput ÷ that of the smallest batch, over how many times as many items a step has.

    1 is what steps of equal length would give. The intervals of one curve hold together (analysis/advice/analyses.py).
    """
    trials = {case.case_id: case.estimates["throughput"].trials for case in run.cases if "throughput" in case.estimates}
    found = {}
    for one in analyses(run):
        first = one.lines[0].value
        for line in one.lines if one.by == "batch_size" else ():
            if line.efficiency is None or not isinstance(line.value, int) or not isinstance(first, int) or not first:
                continue
            ends = (line.ratio_low, line.ratio_high)
            low, high = (None if end is None else end * first / line.value for end in ends)
            found[line.case_id] = Estimate(
                line.efficiency, low, high, 0.95, "ratio", "ratio of throughputs", trials[line.case_id], 0
            )
    return found
