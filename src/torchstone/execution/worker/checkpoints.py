"""A training on disk: the weights after each epoch, and the state that lets it go on as if it had never been cut.

All of it is safetensors: what lies in a folder may come from anyone, and nothing there is unpickled. Files are written
beside their place and moved, so that a full disk or a kill leaves the one before.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.own_files import moved
from torchstone.execution.worker.awake import awake
from torchstone.plugins.protocols import Trainable

STATE = "training_state.safetensors"
_META = "training"
_LARGEST_STATE_BYTES = 1 << 26  # of what is not tensors: the times of an epoch's batches, mostly


def checkpoint_name(epoch: int) -> str:
    """Return the name of the weights after an epoch."""
    return f"checkpoint_epoch_{epoch}.safetensors"


def save_weights(module: Any, file: Path) -> None:
    """Write the weights, those shared by several layers once. Raises OSError."""
    library = _library()
    _moved(file, lambda beside: library.save_model(module, str(beside)))


def load_weights(module: Any, file: Path) -> None:
    """Read weights into a module. Raises UsageError for a file that is none, or of another model, naming tensors."""
    library = _library()
    try:
        library.load_model(module, str(file), strict=True)
    except RuntimeError as error:  # missing, unexpected, or of another shape: one tensor a line
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(f"{file}: weights of a different model: {' '.join(lines)[:400]}") from error
    except FileNotFoundError as error:
        raise UsageError(f"{file}: no such file") from error
    except Exception as error:  # safetensors' own error for a file that is cut off or none
        raise UsageError(f"{file}: cannot be read as safetensors: {str(error).splitlines()[0][:200]}") from error


def save_state(prepared: Trainable, schedule: Any, progress: Mapping[str, Any], file: Path) -> None:
    """Write everything but the weights: optimizer, scaler, schedule, random generators, and how far it is."""
    import torch

    tensors: dict[str, Any] = {"generator/cpu": torch.get_rng_state()}
    # Each accelerator has random numbers of its own, as dropout draws them.
    tensors.update({f"generator/{kind}": module.get_rng_state() for kind, module in awake()})
    optimizer = prepared.optimizer.state_dict()
    plain: dict[str, dict[str, Any]] = {}
    for number, values in optimizer["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"optimizer/{number}/{name}"] = value.detach().cpu().contiguous()
            else:
                plain.setdefault(str(number), {})[name] = value
    told = {
        "progress": dict(progress), "groups": optimizer["param_groups"], "plain": plain,
        "schedule": schedule.state_dict(), "python": random.getstate(),
        "scaler": prepared.scaler.state_dict() if prepared.scaler is not None else None,
    }  # fmt: skip
    library = _library()
    _moved(file, lambda beside: library.save_file(tensors, str(beside), metadata={_META: json.dumps(told)}))


def load_state(prepared: Trainable, schedule: Any, file: Path) -> Mapping[str, Any]:
    """Put everything back, and return how far it was. Raises UsageError for a file that is not of this training."""
    import torch
    from safetensors import safe_open

    _library()
    try:
        with safe_open(str(file), framework="pt") as opened:
            text = (opened.metadata() or {}).get(_META, "")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  not a mapping
        if len(text) > _LARGEST_STATE_BYTES:
            raise UsageError(f"{file}: its metadata is too long for a training checkpoint")
        told = json.loads(text)
        state: dict[int, dict[str, Any]] = {int(n): dict(values) for n, values in told["plain"].items()}
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            if kind == "optimizer":
                number, _, field = rest.partition("/")
                state.setdefault(int(number), {})[field] = value
        prepared.optimizer.load_state_dict({"state": state, "param_groups": told["groups"]})
        _lay_out(prepared.optimizer)
        schedule.load_state_dict(told["schedule"])
        if prepared.scaler is not None:
            prepared.scaler.load_state_dict(told["scaler"])
        version, numbers, gauss = told["python"]
        random.setstate((version, tuple(numbers), gauss))
        torch.set_rng_state(tensors["generator/cpu"])
        for kind, module in awake():
            if f"generator/{kind}" in tensors:
                module.set_rng_state(tensors[f"generator/{kind}"])
    except UsageError:
        raise
    except Exception as error:  # whatever is wrong in a file from outside: none of it is this training's state
        raise UsageError(f"{file}: not a checkpoint of this training: {str(error).splitlines()[0][:200]}") from error
    return dict(told["progress"])


def _lay_out(optimizer: Any) -> None:
    """Give each state the memory layout of its parameter: fused kernels walk both as they lie, and NHWC differs."""
    import torch

    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            # The count of steps stays where torch has put it: for a weight that is one number, its shape is the same.
            if isinstance(value, torch.Tensor) and value.dim() and value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def _moved(file: Path, write: Any) -> None:
    with moved(file) as beside:
        write(beside)
        with beside.open("rb") as written:
            os.fsync(written.fileno())


def _library() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingError("train: needs safetensors: pip install 'torchstone[models]'") from error
    return safetensors.torch
