"""The folder analysis_results/: plots of each device and over devices, and a table of averages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns, JudgedFigure
from torchstone.analysis.compare.inputs import COMPARISON, ComparedInput, device_of, uncompared_cases
from torchstone.analysis.compare.runtimes import reached_by, runtime_ratios, runtime_s
from torchstone.analysis.compare.task_answers import task_answers
from torchstone.analysis.rows import case_rows
from torchstone.core.charts.drawing import draw
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.own_files import replacing, write_whole
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import SCHEMA, Run
from torchstone.plugins import registry
from torchstone.report.charts.courses import training_charts
from torchstone.report.diagnosis_messages import with_texts
from torchstone.report.document import Chart
from torchstone.report.documents.comparison import answer_words, folder_name, of_each, over_all, purpose
from torchstone.report.pictures import file_name
from torchstone.storage.run_document import write_new

# Column of comparative_statistics.csv → figure of which it is the mean over the Cases of a run.
_MEANS = {
    "mean_throughput": "throughput",
    "mean_step_time_s": "step_time_mean",
    "mean_latency_per_batch_p50_s": "latency_per_batch_p50_s",
    "mean_latency_per_batch_p95_s": "latency_per_batch_p95_s",
    "mean_device_utilization": "device_utilization",
    "mean_peak_reserved_bytes": "peak_reserved_bytes",
    "mean_peak_rss_bytes": "peak_rss_bytes",
    "mean_device_temperature_c": "device_temperature_c",
    "mean_power_w": "average_power_w",
    "mean_energy_per_item_j": "energy_per_item_j",
    "mean_loss": "loss_mean",
    "mean_device_memory_used_bytes": "mean_device_memory_used_bytes",
}
_SUFFIXES = (".svg", ".png")
_OF_EPOCHS = ("train_loss", "val_loss", "train_accuracy", "val_accuracy")
_GAUGES = {
    "mean_device_utilization": "device_utilization",
    "mean_device_memory_used_bytes": "device_memory_used_bytes",
    "mean_device_temperature_c": "device_temperature_c",
    "mean_power_w": "device_power_w",
}


def write_analysis(
    participants: Sequence[ComparedInput], folder: Path, prices: Mapping[str, float] | None = None
) -> list[Path]:
    """Write plots (SVG and PNG) and statistics below `folder`/analysis_results; return the files.

    plots/ has the pictures over all and of each participant, a folder named after a participant those of its
    trainings. `prices`: money an hour, by the letter of a participant. Raises MissingError without vl-convert,
    TorchstoneError if a file cannot be written.
    """
    top = folder / "analysis_results"
    drawn = {top / "plots": [*over_all(participants, prices), *of_each(participants)], **_trainings(participants, top)}
    try:
        written = []
        for there, chart in ((there, chart) for there, charts in drawn.items() for chart in charts):
            for suffix in _SUFFIXES:
                with replacing(there / f"{chart.name}{suffix}", folder) as beside:
                    draw(chart.picture, beside)
                written.append(there / f"{chart.name}{suffix}")
        table = top / "stats" / "comparative_statistics.csv"
        rows = [row for one in participants for row in _averages(one)]
        with replacing(table, folder) as beside:
            registry.load("exporters", "csv").write(participants[0].runs[0], rows, beside)
    except OSError as fault:
        raise TorchstoneError(f"cannot write {top}: {fault.strerror}") from fault
    return [*written, table]


def _trainings(participants: Sequence[ComparedInput], top: Path) -> Mapping[Path, list[Chart]]:
    """Return the pictures of each training by their folder: that of its side, and where that has several, its run's."""
    found: dict[Path, list[Chart]] = {}
    for one in participants:
        own = top / folder_name(one)
        for run_id, metrics in one.trainings.items():
            there = own / file_name(run_id) if len(one.trainings) > 1 else own
            found[there] = training_charts(metrics, one.label)
    return found


def _averages(one: ComparedInput) -> Iterator[dict[str, Scalar]]:
    for run in one.runs:
        device, rows = device_of(run), case_rows(run)
        yield {
            "letter": one.letter,
            "label": one.label,
            "run_id": run.head.run_id,
            "run_name": run.head.name,
            "host": run.head.machine.host.hostname,
            "device": device.name if device is not None else None,
            "cases": len(rows),
            "trials": len(run.trials),
            **{column: _mean([row.get(figure) for row in rows]) for column, figure in _MEANS.items()},
            **_reached(one, run),
        }


def _mean(values: Sequence[Scalar]) -> float | None:
    known = [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    return fmean(known) if known else None


def _reached(one: ComparedInput, run: Run) -> dict[str, Scalar]:
    """Return what a training to an end reached, its means over epochs, and those of its gauges over all its time."""
    metrics = one.trainings.get(run.head.run_id)
    epochs = metrics.epochs if metrics else ()
    read = {series.metric: series.values for series in metrics.telemetry} if metrics else {}
    gauges = {column: _mean(read[gauge]) for column, gauge in _GAUGES.items() if gauge in read}
    return {
        "train_accuracy": metrics.final_train_accuracy if metrics else None,
        "val_accuracy": metrics.final_val_accuracy if metrics else None,
        **{f"mean_{name}": _mean([getattr(epoch, name) for epoch in epochs]) for name in _OF_EPOCHS},
        **gauges,
    }


# ── as JSON ─────────────────────────────────────────────────────────────────────────────────────────────────


_BEGINNING = b'{"record":"comparison"'


def comparison_json(compared: ComparedRuns) -> dict[str, Any]:
    """Return the document: who was compared on which machine, every comparison, and the answer to each task."""
    return {
        "record": "comparison",
        "schema": SCHEMA,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "baseline": compared.participants[0].letter,
        "margin": compared.margin,
        "levels": {"first_figures": compared.levels[0], "other_figures": compared.levels[1]},
        "answers": [
            {**msgspec.structs.asdict(one), "purpose": purpose(one), "words": answer_words(one, compared)}
            for one in task_answers(compared)
        ],
        "participants": [_participant(one) for one in compared.participants],
        "machines": {one.letter: one.runs[-1].head.machine for one in compared.participants},
        "comparisons": [_comparison(one) for one in compared.judged],
        "total_runtimes": runtime_ratios(compared),
        "compared_with_nothing": uncompared_cases(compared.participants, compared.matched),
        **({"prices": compared.request.offers} if compared.request.offers else {}),
    }


def _participant(one: ComparedInput) -> Mapping[str, Any]:
    return {
        "letter": one.letter,
        "label": one.label,
        "word": one.word,
        "runs": [
            {"run_id": head.run_id, "name": head.name, "started_utc": head.started_utc, "procedure": head.procedure}
            for head in (run.head for run in one.runs)
        ],
        "runtime_s": runtime_s(one),
        "accuracies": reached_by(one),
    }


def _comparison(one: JudgedFigure) -> Mapping[str, Any]:
    return {
        "case": one.case,
        "task": one.task,
        "block": one.block,
        "unit": one.unit,
        **msgspec.structs.asdict(one.comparison),
        "why": with_texts(one.comparison.why),
        "baseline_value": one.baseline_value,
        "candidate_value": one.candidate_value,
        "differing": with_texts(one.comparison.differing),
        "labels": with_texts(one.labels),
    }


def checked_output(file: Path) -> Path:
    """Return the file if a comparison may be written there. Raises UsageError if something else lies there."""
    if file.exists():
        begins = b""
        if file.is_file():
            with file.open("rb") as there:
                begins = there.read(len(_BEGINNING))
        if begins != _BEGINNING:
            raise UsageError(f"--output {file} is there already, and no comparison; name another file")
    return file


def write_comparison(document: Mapping[str, Any], folder: Path, file: Path | None = None) -> Path:
    """Write it into the output folder under a name of its own, or to `file`; return the path.

    Raises TorchstoneError if it cannot be written.
    """
    data = encode(document) + b"\n"
    moment = datetime.fromisoformat(document["created_utc"]).strftime("%Y%m%d_%H%M%S")
    try:
        if file is not None:
            return write_whole(file, data)
        folder.mkdir(parents=True, exist_ok=True)
        return write_new(folder, f"{COMPARISON}{moment}", data)
    except OSError as fault:
        raise TorchstoneError(f"cannot write {file or folder}: {fault.strerror}") from fault
