"""timm's benchmark.py: its results CSV, a row a model, with the columns infer_* and train_*."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, number, rows_of, scaled, text_of, whole, word
from torchstone.plugins.protocols import Importer

_TASKS = {"infer": Task.INFER, "train": Task.TRAIN}
_PHASES = {"fwd": "phase_forward_s", "bwd": "phase_backward_s", "opt": "phase_optimizer_s"}
# What the archive's file names say: benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo.csv
_NAME = re.compile(
    r"benchmark-(?:infer|train)-(?P<precision>\w+)-(?P<layout>nchw|nhwc)-pt(?P<torch>\d+)"
    r"-(?:cu(?P<cuda>\d+)-(?P<card>[^-.]+)|cpu-(?P<processor>[^-.]+))(?P<dynamo>-dynamo)?"
)
_GEFORCE = re.compile(r"(?:rtx)?(\d{4})(ti)?")


class Timm(Importer):
    """It keeps no spread and no raw values: all is what it says. The card is in the file's name, or nowhere."""

    describes = "timm benchmark.py: results CSV (infer_*, train_*)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        header = beginning.split(b"\n", 1)[0]
        return header.startswith(b"model,") and (
            b"infer_samples_per_sec" in header or b"train_samples_per_sec" in header
        )

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows = rows_of(text, str(path))
        if not rows:
            raise UsageError(f"{path}: no rows below the header")
        said = _NAME.search(path.name)
        about = said.groupdict() if said else {}
        placement = Placement("cpu" if about.get("processor") else "cuda")
        making = draft.Draft("timm benchmark.py", path, digest(text), _machine(about))
        settings: dict[str, Scalar] = {
            "precision": draft.precision_of(about.get("precision")),
            "compile": "default" if about.get("dynamo") else None,
            "channels_last": "on" if about.get("layout") == "nhwc" else None,
        }
        for line, row in enumerate(rows, 2):
            _add(making, row, settings, placement, f"{path}:{line}")
        made = making.run()
        if not made.trials:
            raise UsageError(f"{path}: no row has a batch size and a rate, or an error")
        return [made]


def _machine(about: Mapping[str, str | None]) -> Machine:
    card = about.get("card")
    if card and (known := _GEFORCE.fullmatch(card)) is not None:
        card = f"NVIDIA GeForce RTX {known[1]}{' Ti' if known[2] else ''}"
    devices = () if about.get("processor") else (draft.a_device("cuda", 0, card),)
    return draft.a_machine({**about, "torch_version": _version(about.get("torch") or "")}, devices)


def _version(digits: str) -> str | None:
    """Return the version that 240, 1121 or 113 stands for: before 2.0 the second number has two digits."""
    if len(digits) < 3:
        return None
    if digits.startswith("1"):
        return ".".join(("1", digits[1:3], *digits[3:]))
    return f"{digits[0]}.{digits[1:-1]}.{digits[-1]}"


def _add(
    making: draft.Draft, row: Mapping[str, str], settings: Mapping[str, Scalar], placement: Placement, where: str
) -> None:
    name = word(row.get("model"))
    if name is None:
        raise UsageError(f"{where}: no model")
    failed = word(row.get("error"))
    for prefix, task in _TASKS.items():
        size = whole(row.get(f"{prefix}_batch_size"))
        rate = number(row.get(f"{prefix}_samples_per_sec"))
        if size is None or rate is None:
            continue
        own = {"batch_size": size, "image_size": whole(row.get(f"{prefix}_img_size")), **settings}
        case = draft.a_case(task, f"timm:{name}", own, placement, item="image", data="synthetic")
        macs = number(row.get(f"{prefix}_gmacs"))
        step_s = scaled(row.get(f"{prefix}_step_time"), 1e-3)
        flops = 2e9 * macs * size if macs is not None else None
        claimed = {
            "throughput": rate,
            "step_time_mean": step_s,
            "flops_per_step": flops,
            "achieved_flops": flops / step_s if flops and step_s else None,
            **{figure: scaled(row.get(f"{prefix}_{phase}_time"), 1e-3) for phase, figure in _PHASES.items()},
        }
        making.add(case, claimed, facts=Facts(parameters=whole(scaled(row.get("param_count"), 1e6))))
        failed = None
    if failed is not None:
        case = draft.a_case(Task.INFER, f"timm:{name}", settings, placement, item="image", data="synthetic")
        status = Status.OUT_OF_MEMORY if "out of memory" in failed.lower() else Status.CRASHED
        making.add(case, {}, outcome=Outcome(status, failed))


PLUGIN: Importer = Timm()
