"""What trackers of experiments take: MLflow, Prometheus, TensorBoard and Weights & Biases."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Exporter

Point = tuple[dict[str, str], dict[str, float]]
_ENDS = ("_low", "_high")  # of the interval


def tracker_points(rows: Sequence[Mapping[str, Scalar]]) -> Iterator[Point]:
    """Yield (labels, figures) of each row that has figures; what is missing is left out. Raises UsageError for none."""
    found = [_point(row) for row in rows]
    measured = [(labels, figures) for labels, figures in found if figures]
    if not measured:
        raise UsageError("no figures in these rows: use --rows cases or --rows trials")
    yield from measured


def _point(row: Mapping[str, Scalar]) -> Point:
    figures: dict[str, float] = {}
    labels: dict[str, str] = {}
    for name, value in row.items():
        if _is_figure(name) and isinstance(value, int | float) and math.isfinite(value):
            figures[name] = float(value)
        elif value is not None and not _is_figure(name):
            labels[name] = str(value)
    return labels, figures


def _is_figure(name: str) -> bool:
    stem = next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)
    return stem in FIGURES or name.startswith("phase_")


# ── mlflow ───────────────────────────────────────────────────────────────────────────────────────────────────


class MlFlow(Exporter):
    """Writes a run of MLflow a row, its settings as parameters: `mlflow ui --backend-store-uri sqlite:///FILE`."""

    describes = "MLflow, a database of SQLite with a run a row (needs mlflow)"
    suffix = ".mlflow"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Metric, Param

            client = MlflowClient(tracking_uri=f"sqlite:///{path.absolute()}")
        except ImportError as fault:  # mlflow-skinny alone has no databases
            raise MissingError("mlflow needs its library: pip install mlflow") from fault
        experiment = client.create_experiment("torchstone")
        for number, (labels, figures) in enumerate(tracker_points(rows), 1):
            made = client.create_run(experiment, run_name=f"{run.head.name} {number}").info.run_id
            metrics = [Metric(name, value, 0, 0) for name, value in figures.items()]
            client.log_batch(made, metrics, [Param(name, value) for name, value in labels.items()])
            client.set_terminated(made)


# ── prometheus ───────────────────────────────────────────────────────────────────────────────────────────────

# Figures in the text format of Prometheus, for its node exporter's textfile collector or a push gateway.

_LABELS = ("run_id", "case_id", "trial_id", "name", "task", "model", "dataset", "device", "batch_size", "precision")


class Prometheus(Exporter):
    """Writes one gauge a figure, labelled by what was measured. Further settings are those of the case_id."""

    describes = "Prometheus text, a gauge a figure (needs prometheus-client)"
    suffix = ".prom"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            from prometheus_client import CollectorRegistry, Gauge, generate_latest
        except ImportError as fault:
            raise MissingError("prometheus needs its library: pip install prometheus-client") from fault
        registry, gauges = CollectorRegistry(), dict[str, Gauge]()
        for labels, figures in tracker_points(rows):
            kept = [labels.get(name, "") for name in _LABELS]
            for name, value in figures.items():
                if name not in gauges:
                    gauges[name] = Gauge(f"torchstone_{name}", f"torchstone {name}", _LABELS, registry=registry)
                gauges[name].labels(*kept).set(value)
        path.write_bytes(generate_latest(registry))


# ── tensorboard ──────────────────────────────────────────────────────────────────────────────────────────────


class TensorBoard(Exporter):
    """Writes a scalar a figure and row, `throughput/1`; its settings are a text, `settings/1`. torch is not needed."""

    describes = "TensorBoard events, a scalar a figure (needs tensorboard)"
    suffix = ".tfevents"  # TensorBoard looks for that word in names of files
    folder = "data/tensorboard"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.plugins.text.metadata import create_summary_metadata
            from tensorboard.summary.writer.record_writer import RecordWriter
            from tensorboard.util.tensor_util import make_tensor_proto
        except ImportError as fault:
            raise MissingError("tensorboard needs its library: pip install tensorboard") from fault
        began_s = datetime.datetime.fromisoformat(run.head.started_utc).timestamp()
        with path.open("wb") as file:
            events = RecordWriter(file)
            events.write(Event(wall_time=began_s, file_version="brain.Event:2").SerializeToString())
            for number, (labels, figures) in enumerate(tracker_points(rows), 1):
                values = [Summary.Value(tag=f"{name}/{number}", simple_value=value) for name, value in figures.items()]
                settings = "\n".join(f"    {name}: {value}" for name, value in labels.items())
                about = create_summary_metadata(display_name="", description="")
                told = make_tensor_proto([settings.encode()])
                values.append(Summary.Value(tag=f"settings/{number}", tensor=told, metadata=about))
                events.write(Event(wall_time=began_s, step=0, summary=Summary(value=values)).SerializeToString())
            events.flush()


# ── wandb ────────────────────────────────────────────────────────────────────────────────────────────────────


class WandB(Exporter):
    """Writes a run of W&B a row, its settings as its configuration. Nothing is sent: `wandb sync FOLDER/wandb/*`."""

    describes = "Weights & Biases, a folder with an offline run a row (needs wandb)"
    suffix = ".wandb"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            import wandb
        except ImportError as fault:
            raise MissingError("wandb needs its library: pip install wandb") from fault
        path.mkdir()
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True, save_code=False)
        for number, (labels, figures) in enumerate(tracker_points(rows), 1):
            name = f"{run.head.name} {number}"
            made = wandb.init(
                mode="offline",
                project="torchstone",
                dir=path,
                name=name,
                config=labels,
                reinit="create_new",
                settings=quiet,
            )
            made.log(figures)
            made.finish()


PLUGINS: Mapping[str, Exporter] = {
    "mlflow": MlFlow(),
    "prometheus": Prometheus(),
    "tensorboard": TensorBoard(),
    "wandb": WandB(),
}
