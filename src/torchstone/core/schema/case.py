"""Workload, Placement and Case: what is computed, with which settings, on what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import PurePath

import msgspec

from torchstone.core.schema.axis import Scalar

# One process, however that was said, is the same work as where nobody asked for ranks.
_ALONE = {"world_size": 1, "nodes": 1, "strategy": "none", "backend": "auto"}.items()


class Task(StrEnum):
    """What an engine does. The engine's plug-in has the same name."""

    INFER = "infer"
    TRAIN = "train"
    LOAD = "load"
    GENERATE = "generate"
    LOADGEN = "loadgen"
    CALL = "call"


class Workload(msgspec.Struct, frozen=True):
    """What is computed. `fixed` holds what never varies within a run (weights, digest of the data, …).

    `data_options`: which split of the data, how much of it, and what its source was told beside its path.
    """

    task: Task
    model: str
    data: str
    item: str
    family: str | None = None
    fixed: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    data_options: Mapping[str, Scalar] = msgspec.field(default_factory=dict)

    @property
    def is_loop(self) -> bool:
        """Whether it is a loop of the user's own, which ends where it ends (`torchstone.window`)."""
        return self.model.startswith("loop:")

    @property
    def is_program(self) -> bool:
        """Whether it is a command as somebody types it, and `model` its words."""
        return self.model.startswith("program:")

    def canonical(self) -> Mapping[str, object]:
        """Return what identifies the Workload on any machine: without folders; the digest of data is in `fixed`."""
        return {
            "task": str(self.task),
            "model": portable(self.model),
            "data": portable(self.data),
            "item": self.item,
            "fixed": dict(self.fixed),
            **({"data_options": dict(self.data_options)} if self.data_options else {}),
        }


class Placement(msgspec.Struct, frozen=True):
    """On what: device kind (cpu, cuda, rocm, mps, xpu), which one, how many of them on each of how many nodes."""

    device: str
    index: int = 0
    count: int = 1
    nodes: int = 1

    @property
    def devices(self) -> int:
        """How many devices there are in all."""
        return self.count * self.nodes

    @property
    def paid(self) -> int:
        """How many times a price of an hour is paid: for each device; for each machine, where ranks share its CPU."""
        return self.nodes if self.device == "cpu" else self.devices

    def canonical(self) -> Mapping[str, object]:
        """Return the identity: which card of several equal ones it was is not part of it."""
        return {"device": self.device, "count": self.count, "nodes": self.nodes}

    def __str__(self) -> str:
        return self.device if self.device in ("cpu", "mps", "unknown") else f"{self.device}:{self.index}"


class Case(msgspec.Struct, frozen=True, dict=True):
    """Workload × Configuration × Placement: the thing that is measured and compared.

    What is computed of it again and again may be kept in its __dict__, which is no part of it.
    """

    workload: Workload
    configuration: Mapping[str, Scalar]
    placement: Placement

    @cached_property
    def case_id(self) -> str:
        """12 hex digits of the SHA-256 of the canonical JSON: equal on every machine for equal work."""
        body = {
            "workload": self.workload.canonical(),
            "configuration": dict(setting for setting in self.configuration.items() if setting not in _ALONE),
            "placement": self.placement.canonical(),
        }
        return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()[:12]


def portable(spec: str) -> str:
    """Return `scheme:path[:function]` with the path's folders left out, so that it reads the same on every machine."""
    scheme, colon, rest = spec.partition(":")
    if scheme == "program":  # a command, as it was typed
        return rest
    return f"{scheme}:{PurePath(rest).name}" if colon and _is_path(scheme, rest) else spec


def model_name(spec: str) -> str:
    """Return a model as people know it, without its source and its folders: "cnn", "mine.py:load", "owner/name".

    Of a program that is its command up to the script: "python train.py …".
    """
    shown = portable(spec)
    if not spec.startswith("program:"):
        return shown.partition(":")[2] or spec
    words = shown.split(" ")
    script = next((n for n, word in enumerate(words) if word.endswith(".py")), len(words) - 1)
    return " ".join(words[: script + 1]) + " …" * (script + 1 < len(words))


def _is_path(scheme: str, rest: str) -> bool:
    """Tell a folder, or a file after an @, from an owner/name of the model hub."""
    if scheme in ("hf", "hub"):
        return rest.startswith(("/", ".", "~")) or "@" in rest
    return len(PurePath(rest).parts) > 1
