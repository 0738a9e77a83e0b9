"""Training benchmarks as a JSON tree: family → model → hardware → configuration, with times, losses and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Outcome, Status
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, number, numbers, parsed, part, scaled, text_of, whole, word
from torchstone.plugins.protocols import Importer

_MIB = 2.0**20
_KEY = re.compile(r"batch_(?P<batch>\d+)_seq_(?P<seq>\d+)_lr_(?P<lr>[\d.e+-]+)_opt_(?P<opt>\w+?)_accum_(?P<accum>\d+)")
_OK = ("completed", "success", "ok")
_STATISTICS = ("min", "max", "mean", "std")
_TREE = (b'"system_info"', b'"benchmarks"')
_MARKS = (b'"training_results"', b'"performance_summary"', b'"model_load_time"')


class TrainingTree(Importer):
    """A Case for each configuration on each hardware. The form is in docs/checks.md."""

    describes = "training benchmark trees as JSON: family → model → hardware → configuration"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".json" or b'"record"' in beginning[:64] or not beginning.lstrip().startswith(b"{"):
            return False
        return all(mark in beginning for mark in _TREE) and any(mark in beginning for mark in _MARKS)

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = part(parsed(text, str(path)))
        making = draft.Draft("training benchmark tree", path, digest(text), _machine(found), found.get("timestamp"))
        for family, models in part(found, "benchmarks").items():
            for model, hardware in part(models).items():
                for kind, about in part(hardware).items():
                    _add(making, word(family), f"hf:{word(model) or draft.UNKNOWN}", draft.placed(kind), part(about))
        made = making.run()
        if not made.trials:
            raise UsageError(f"{path}: no tree of benchmarks: family → model → hardware")
        return [made]


def _machine(found: Mapping[str, Any]) -> Machine:
    """Return the machine. Its GPU has no name there: only that there was one."""
    about = part(found, "system_info")
    named = word(about.get("gpu_name")) or word(about.get("cuda_device_name"))
    devices = [draft.a_device("cuda", 0, named)] if about.get("cuda_available") else []
    return draft.a_machine(about, devices)


def _add(making: draft.Draft, family: str | None, model: str, placement: Placement, about: Mapping[str, Any]) -> None:
    results = part(about, "training_results")
    load_s = number(about.get("model_load_time"))
    for key, result in results.items():
        result = part(result)  # noqa: PLW2901  the object, or an empty one
        case = _case(str(key), result, model, placement, family)
        if result.get("status", "completed") not in _OK:
            making.add(case, {}, outcome=_failed(result))
            continue
        claimed, measured = _figures(result, case, load_s)
        making.add(case, claimed, measured, Facts(distributed=result.get("distributed") is True))
    if not results:
        making.add(draft.a_case(Task.TRAIN, model, {}, placement, family=family), {}, outcome=_failed(about))


def _failed(about: Mapping[str, Any]) -> Outcome:
    said = word(about.get("error")) or word(about.get("status")) or "no results"
    memory = "out of memory" in said.lower() or said.lower() == "oom"
    return Outcome(Status.OUT_OF_MEMORY if memory else Status.CRASHED, said)


def _case(key: str, result: Mapping[str, Any], model: str, placement: Placement, family: str | None) -> Case:
    said = match.groupdict() if (match := _KEY.search(key)) else {}
    size, pulls = (
        result.get("batch_size", said.get("batch")),
        result.get("gradient_accumulation_steps", said.get("accum")),
    )
    settings: dict[str, Scalar] = {
        "batch_size": whole(size),
        "sequence_length": whole(said.get("seq")),
        "learning_rate": number(said.get("lr")),
        "optimizer": said.get("opt"),
        "grad_accumulation": whole(pulls),
        "precision": "fp16" if result.get("mixed_precision") is True else "fp32",
    }
    return draft.a_case(Task.TRAIN, model, settings, placement, item="sequence", family=family)


def _figures(
    result: Mapping[str, Any], case: Case, load_s: float | None
) -> tuple[dict[str, float | None], list[Measurement]]:
    times, losses, memory = (part(result, name) for name in ("training_time", "loss", "memory_usage"))
    size = number(case.configuration.get("batch_size"))  # the result's own, or that of its key
    claimed: dict[str, float | None] = {f"step_time_{name}": number(times.get(name)) for name in _STATISTICS}
    claimed |= {f"loss_{name}": number(losses.get(name)) for name in _STATISTICS}
    claimed |= {
        "peak_allocated_bytes": scaled(memory.get("max"), _MIB),
        "throughput": number(result.get("throughput")),
        "mean_allocated_bytes": scaled(memory.get("mean"), _MIB),
        "loss_convergence_rate": number(result.get("loss_convergence_rate")),
        "model_load_time_s": load_s,
        # An iteration is one pass, whether its gradients are accumulated or not.
        "items_per_step": size,
    }
    steps = numbers(times.get("per_iteration"))
    measured = draft.back_to_back(steps, size) if steps else []
    return claimed, [*measured, draft.steady("loss", numbers(losses.get("per_iteration")))]


PLUGIN: Importer = TrainingTree()
