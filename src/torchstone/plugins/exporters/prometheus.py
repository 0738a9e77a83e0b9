"""Figures in the text format of Prometheus, for its node exporter's textfile collector or a push gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.exporters._points import points
from torchstone.plugins.protocols import Exporter

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
        for labels, figures in points(rows):
            kept = [labels.get(name, "") for name in _LABELS]
            for name, value in figures.items():
                if name not in gauges:
                    gauges[name] = Gauge(f"torchstone_{name}", f"torchstone {name}", _LABELS, registry=registry)
                gauges[name].labels(*kept).set(value)
        path.write_bytes(generate_latest(registry))


PLUGIN: Exporter = Prometheus()
