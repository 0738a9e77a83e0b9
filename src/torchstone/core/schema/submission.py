"""Submission: a run whose plan is carried out by jobs of a cluster, a share of the cases each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.run import Head


class Submission(msgspec.Struct, frozen=True, tag="submission", tag_field="record"):
    """What jobs are told. `head`: of the merged run; its machine is the one that submitted, as far as it is known.

    `shares`: the places of the cases in the plan, a job each. `cluster`: the plug-in; `wanted`: what it was asked for
    (partition, time, …). `folder`: where the command was typed, and jobs work. `output`: the output folder. `python`:
    the interpreter that has torchstone. `formats`: of the report that is written at the end.
    """

    schema: int
    head: Head
    shares: tuple[tuple[int, ...], ...]
    cluster: str
    wanted: Mapping[str, str]
    folder: str
    output: str
    python: str
    formats: str = "md"
    notes: tuple[Finding, ...] = ()  # on what was asked for
    when_busy: str = "wait"  # what a job does while another torchstone measures on its cards or cores


class Job(msgspec.Struct, frozen=True):
    """Shares that were handed to a cluster in one go, with the name that it gave them."""

    job_id: str
    shares: tuple[int, ...]
    submitted_utc: str


class Phase(StrEnum):
    """How far the job of a share is."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"


class ShareState(msgspec.Struct, frozen=True):
    """What a cluster says of the job of a share. `word`: its own term, COMPLETED or TIMEOUT; `job`: its own name.

    `why`: its own term for what a job waits for. `node_s`: seconds on nodes, all restarts, where it accounts for them.
    """

    phase: Phase
    word: str
    job: str
    why: str | None = None
    node_s: float | None = None
