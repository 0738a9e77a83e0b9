"""A1: does what a template imports ask the driver, and does a fork of it reach the device?

Each model's library is imported by the template's own function in an interpreter of its own; then the driver is asked
whether somebody has initialised it, which initialises nothing; then that process forks, and its child computes.
`python -m run_sheet.forks KIND SCHEME:NAME …` is that interpreter, and prints one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

from run_sheet.here import Done, Here

# name in the figures → what is imported, and the library without which there is nothing to import
_IMPORTS: Mapping[str, tuple[str, str]] = {
    "builtin": ("builtin:cnn", "torch"), "bert": ("hf:bert-base-uncased", "transformers"),
    "gpt2": ("hf:gpt2", "transformers"), "timm": ("timm:resnet50", "timm"),
    "torchvision": ("torchvision:resnet50", "torchvision"),
}  # fmt: skip
_QUICK = ("builtin", "bert")
NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED of cuda.h
_CHILD_S = 60
# Have torch ask NVML whether there is a device, which does not initialise the driver (torch.cuda, since 2.0).
_BY_NVML = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def probe(here: Here) -> None:
    """Note for each library the driver's code after the import, and whether a forked child computed.

    Raises RuntimeError without torch: where nothing is imported, nothing is shown.
    """
    there = {name: model for name, (model, library) in _IMPORTS.items() if find_spec(library) is not None}
    asked = {name: model for name, model in there.items() if not here.quick or name in _QUICK}
    if not asked:
        raise RuntimeError("torch is not installed: there is nothing to import")
    tries: dict[str, tuple[str, Mapping[str, str]]] = {name: (model, _BY_NVML) for name, model in asked.items()}
    if here.device == "cuda":  # and as it is where nobody asks for NVML
        tries.update(
            {f"{name}_plain": (model, {"PYTORCH_NVML_BASED_CUDA_CHECK": "0"}) for name, model in asked.items()}
        )
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        done = dict(zip(tries, pool.map(lambda one: _imported(here, *one), tries.values()), strict=True))
    good, clean, plain_clean = True, True, True
    for name, ended in done.items():
        told = _told(ended)
        here.note(f"code_{name}", told.get("code"))
        here.note(f"child_{name}", told["child"])
        if told.get("asked"):
            here.note(f"asked_{name}", str(told["asked"]))
        if name.endswith("_plain"):
            plain_clean &= told.get("code") == NOT_INITIALIZED
        else:
            good &= told["child"] == "ok"
            clean &= told.get("code") == NOT_INITIALIZED
    here.note("children_work", good)
    if here.device == "cuda":  # no other driver has a question that initialises nothing
        here.note("not_initialised", clean)
        here.note("not_initialised_plain", plain_clean)


def _imported(here: Here, model: str, more: Mapping[str, str]) -> Done:
    return here.python("-m", "run_sheet.forks", here.torch_kind, model, limit_s=150, more=more)


def _told(ended: Done) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(ended.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"child": f"no answer: {ended.last_line}"}
    return told


# ── the interpreter that is asked ───────────────────────────────────────────────────────────────────────────


def main(kind: str, models: list[str]) -> dict[str, Any]:
    """Import, ask, fork, compute. `child`: "ok", or what went wrong in it."""
    from torchstone.execution.worker.template import _import_for

    _import_for(models)
    told: dict[str, Any] = {"code": driver_code() if kind == "cuda" else None, "child": in_a_fork(kind)}
    told["asked"] = [name for name in ("torch.cuda.is_initialized",) if kind == "cuda" and _initialised()]
    return told


def driver_code() -> int | None:
    """Return what cuDeviceGetCount answers: 3 while nobody has called cuInit; None where there is no driver library."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    code: int = library.cuDeviceGetCount(ctypes.byref(number))
    return code


def _initialised() -> bool:
    import torch

    return bool(torch.cuda.is_initialized())


def in_a_fork(kind: str) -> str:
    """Fork, have the child compute on the device, and return "ok" or how it ended. One that hangs is ended."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        signal.alarm(_CHILD_S)
        try:
            os.write(write, _computed(kind).encode()[:1000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        words = told.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return words or "no answer"


def _computed(kind: str) -> str:
    try:
        import torch

        numbers = torch.zeros(1000, device=kind) + 1.0
        total = float(numbers.sum())
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).strip() or 'no words').splitlines()[0]}"
    return "ok" if total == 1000.0 else f"1000 ones sum to {total}"


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
