"""Figures as scalars of TensorBoard, in an event file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.exporters._points import points
from torchstone.plugins.protocols import Exporter


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
            for number, (labels, figures) in enumerate(points(rows), 1):
                values = [Summary.Value(tag=f"{name}/{number}", simple_value=value) for name, value in figures.items()]
                settings = "\n".join(f"    {name}: {value}" for name, value in labels.items())
                about = create_summary_metadata(display_name="", description="")
                told = make_tensor_proto([settings.encode()])
                values.append(Summary.Value(tag=f"settings/{number}", tensor=told, metadata=about))
                events.write(Event(wall_time=began_s, step=0, summary=Summary(value=values)).SerializeToString())
            events.flush()


PLUGIN: Exporter = TensorBoard()
