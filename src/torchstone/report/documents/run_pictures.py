"""The pictures of a stored run, in the order of a page: over batch sizes first, then single steps and gauges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.advice.loss_curves import METRICS, compared, compared_cases
from torchstone.analysis.summary import RunSummary
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import TrainingMetrics
from torchstone.report.charts import courses, settings
from torchstone.report.charts.batch_sizes import LATENCY, THROUGHPUT, batch_size_charts, phases_chart
from torchstone.report.charts.cases import chosen_cases, device_names
from torchstone.report.document import Chart, Section
from torchstone.report.documents.run import without_probes
from torchstone.storage.record_reader import RecordPart

OVER_SETTINGS, SINGLE_STEPS = "Pictures over the settings", "Single steps and gauges"
FIRST, MORE = "Pictures", "More pictures"
TRAINING = "Course of the training"


def run_pictures(summary: RunSummary, run: Run, training: TrainingMetrics | None = None) -> tuple[Section, ...]:
    """Return the picture that a run is about, and folded a section for each kind of picture that it has data for.

    What a search only probed is in the picture of the search alone: probes are no results.

    `run`: what its record has, raw values too, or of it the `pictured_part`; `training`: of a training to its end what
    its file of metrics has.
    """
    shown = without_probes(summary)
    search = courses.search_chart(summary) if isinstance(summary.answer, TuneResult) else None
    kinds: dict[str, list[Chart]] = {
        TRAINING: list(_of_a_training(summary, training)),
        OVER_SETTINGS: [*_over_settings(shown, run), *([search] if search is not None else [])],
        SINGLE_STEPS: list(_of_steps(shown, run)) if training is None else [],
    }
    found = [chart for charts in kinds.values() for chart in charts]
    if not found:
        return ()
    first = _side_by_side(found) or found[0]
    rest = (Section(kind, left) for kind, charts in kinds.items() if (left := tuple(c for c in charts if c != first)))
    more = tuple(rest)
    return (Section(FIRST, (first,)), *((Section(MORE, more, folded=True),) if more else ()))


def _side_by_side(charts: Sequence[Chart]) -> Chart | None:
    """Return throughput and latency of one device in one picture; None where one of them is missing, or is more."""
    named = {chart.name: chart for chart in charts}
    rates, times = named.get(THROUGHPUT), named.get(LATENCY)
    if rates is None or times is None or len(rates.picture.panels) > 1:
        return None
    picture = Picture(
        "Throughput and latency by batch size", (*rates.picture.panels, times.picture.panels[0]), columns=2
    )
    return Chart("throughput_and_latency", f"{rates.says}. {times.says}", picture)


def pictured_part(summary: RunSummary) -> RecordPart:
    """Return which part of a run's record its pictures show: single steps of a few Cases, and losses."""
    whole = frozenset(case.case_id for case in chosen_cases(without_probes(summary)))
    return RecordPart(whole, compared_cases(summary), METRICS)


def _over_settings(summary: RunSummary, run: Run) -> Iterator[Chart]:
    yield from batch_size_charts(summary)
    losses = courses.losses_chart(summary, run) if compared(summary) else None
    over = (settings.ranks_chart, phases_chart, settings.pareto_chart, settings.roofline_chart)
    found = (*(chart(summary) for chart in over), losses)
    yield from (chart for chart in found if chart is not None)


def _of_a_training(summary: RunSummary, training: TrainingMetrics | None) -> Iterator[Chart]:
    if training is not None and summary.cases:
        yield from courses.training_charts(training, device_names(summary.machine)(summary.cases[0]))


def _of_steps(summary: RunSummary, run: Run) -> Iterator[Chart]:
    yield from courses.sample_charts(summary, run)
    telemetry = courses.telemetry_chart(summary, run)
    if telemetry is not None:
        yield telemetry
