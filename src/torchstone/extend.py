"""The public door for plug-ins: the base class of every family, and the nouns and errors that they speak in.

Where these live inside may change; what this module gives stays. The base classes are written out in
`plugins/protocols.py` and, for devices, telemetry and launchers, in `plugins/machine_protocols.py`.
"""

import os
from pathlib import Path

from torchstone.core.errors import MissingError, TorchstoneError, Unsupported, UsageError, unknown
from torchstone.core.messages import Words
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import AXES, Axis, Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.estimate import Estimate, Finding, Severity
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Host, Machine, Room, StepCounts
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.model import Batch, DataCard, InputSpec, LoadedModel, ModelCard, Unreadable, View
from torchstone.core.schema.run import Head, Plan, Run, Slot
from torchstone.core.schema.search import Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.submission import Job, Phase, ShareState, Submission
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status, Trial
from torchstone.plugins.machine_protocols import (
    Cluster,
    Device,
    Gauge,
    HalfSubmitted,
    Launcher,
    LiveTrial,
    Stopwatch,
    TelemetrySource,
    Vendor,
)
from torchstone.plugins.protocols import (
    Batches,
    Check,
    Command,
    DataSource,
    Engine,
    Exporter,
    Importer,
    Mark,
    ModelSource,
    OpenRuntime,
    Prepared,
    Runtime,
    Samples,
    Searcher,
    Streamable,
    Trainable,
    check,
)

__all__ = [
    "AXES",
    "Axis",
    "Batch",
    "Batches",
    "Case",
    "Check",
    "Cluster",
    "Command",
    "DataCard",
    "DataSource",
    "Device",
    "DeviceInfo",
    "Engine",
    "Estimate",
    "Exporter",
    "Facts",
    "Finding",
    "Gauge",
    "HalfSubmitted",
    "Head",
    "Host",
    "Importer",
    "InputSpec",
    "Job",
    "Launcher",
    "LiveTrial",
    "LoadedModel",
    "Machine",
    "Mark",
    "Measurement",
    "MissingError",
    "ModelCard",
    "ModelSource",
    "OpenRuntime",
    "Outcome",
    "PeakMemory",
    "Phase",
    "Placement",
    "Plan",
    "Point",
    "Prepared",
    "Probe",
    "ProbeResult",
    "Room",
    "Run",
    "Runtime",
    "Samples",
    "Scalar",
    "SearchProblem",
    "Searcher",
    "Series",
    "Severity",
    "ShareState",
    "Slot",
    "Stage",
    "Statement",
    "Status",
    "StepCounts",
    "Stopwatch",
    "Streamable",
    "Submission",
    "Task",
    "TelemetrySource",
    "TorchstoneError",
    "Trainable",
    "Trial",
    "Unreadable",
    "Unsupported",
    "UsageError",
    "Vendor",
    "View",
    "Words",
    "Workload",
    "check",
    "stored_run",
    "unknown",
]


def stored_run(word: str = "latest", folder: Path | None = None) -> Run:
    """Return a stored run by path, id, unique prefix or name: what a command reads.

    `folder`: None is $TORCHSTONE_OUTPUT, or outputs. Raises UsageError where there is no such run.
    """
    from torchstone.storage.query import locate, read_run

    return read_run(locate(folder or Path(os.environ.get("TORCHSTONE_OUTPUT", "outputs")), word))
