"""Figures as runs of MLflow, in a database of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.exporters._points import points
from torchstone.plugins.protocols import Exporter


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
        for number, (labels, figures) in enumerate(points(rows), 1):
            made = client.create_run(experiment, run_name=f"{run.head.name} {number}").info.run_id
            metrics = [Metric(name, value, 0, 0) for name, value in figures.items()]
            client.log_batch(made, metrics, [Param(name, value) for name, value in labels.items()])
            client.set_terminated(made)


PLUGIN: Exporter = MlFlow()
