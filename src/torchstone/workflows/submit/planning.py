"""From a request to a plan that jobs carry out: the same sketches and the same order as of `run`, in shares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.page_locking import notes
from torchstone.core.schema.run import SCHEMA, Plan
from torchstone.core.schema.submission import Submission
from torchstone.execution import machine_facts, plan
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.plan import Sketch
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Cluster
from torchstone.workflows.campaign import code_of

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest


class Asked(msgspec.Struct, frozen=True):
    """How a run is handed over. `rehearse`: the user's own code does one step here first, on the CPU.

    `when_busy`: what a job does while another torchstone measures on its cards or cores.
    """

    cluster: str
    wanted: Mapping[str, str]
    cases_per_job: int
    output: Path
    formats: str = "md"
    rehearse: bool = True
    when_busy: str = "wait"


def planned(request: RunRequest, asked: Asked, command: Sequence[str], watcher: Watcher) -> Submission:
    """Return what jobs are told. Everything that can be wrong with the request is found here. Raises UsageError."""
    cluster: Cluster = registry.load("clusters", asked.cluster)
    for name in asked.wanted:
        if name not in cluster.takes:
            raise UsageError(f"--{name.replace('_', '-')} is not an option of {asked.cluster}")
    sketches = [plan.sketch(workload.excluding(request.exclude)) for workload in request.workloads]
    placements = _placements(request.device, asked.wanted)
    for sketch in sketches:
        if any(one.get("precision") == "auto" for one in sketch.configurations):
            raise UsageError("precision=auto is decided by a device that only the job sees; name one: fp32, bf16, …")
    machine = Machine(machine_facts.host(), (), {}, machine_facts.settings())
    procedure = request.procedure
    if asked.rehearse:
        sketches = _rehearsed(sketches, request, watcher)
    whole = plan.arrange(sketches, placements, machine, procedure.repetitions, procedure.seed, request.first)
    # Not entered: it is the same head as that of a run, without anything started.
    head = Session(procedure, ()).head(
        whole, machine, request.name or "run", command, source=request.source, code=code_of(sketches)
    )
    if not cluster.spreads and any(case.placement.nodes > 1 for case in whole.cases):
        raise UsageError(f"nodes: a task of {asked.cluster} measures on one machine; --on slurm has several for a job")
    told = notes([one.configurations for one in sketches], placements)
    return Submission(
        SCHEMA, head, shares_of(whole, asked.cases_per_job), asked.cluster, asked.wanted, str(Path.cwd()),
        str(asked.output.absolute()), sys.executable, asked.formats, tuple(told), asked.when_busy,
    )  # fmt: skip


def shares_of(whole: Plan, cases_per_job: int) -> tuple[tuple[int, ...], ...]:
    """Return the places of the cases in shares of so many, in the order of the plan: neighbours share a machine."""
    places = range(len(whole.cases))
    return tuple(tuple(places[start : start + cases_per_job]) for start in range(0, len(places), cases_per_job))


def _placements(words: str, wanted: Mapping[str, str]) -> list[Placement]:
    """Return the Placements of the words of --device. What `auto` means is not asked of this machine: it has no job."""
    found = []
    for word in words.split(","):
        kind, _, number = word.partition(":")
        if word == "auto":
            if "gpu" in wanted.get("gres", "") or "accelerator_type" in wanted:
                raise UsageError("name the kind of device that the jobs get: --device cuda (or rocm, xpu)")
            kind = "cpu"
        if kind not in (kinds := registry.names("devices")):
            raise unknown("device", word, (*kinds, "auto"))
        found.append(Placement(kind, int(number) if number.isdigit() else 0))
    return found


def _rehearsed(sketches: Sequence[Sketch], request: RunRequest, watcher: Watcher) -> list[Sketch]:
    """Return the Sketches with what the user's own code decides, as one step on this machine's CPU shows."""
    if not any(sketch.own for sketch in sketches):
        return list(sketches)
    found = []
    with Session(request.procedure, [sketch.workload.model for sketch in sketches], watcher) as session:
        machine, _ = session.inspect()
        for sketch in sketches:
            case = plan.first_case(sketch, Placement("cpu"), machine)
            own = sketch.own
            found.append(plan.settled(sketch, session.rehearsed(case, sketch.left_open)) if own else sketch)
    return found
