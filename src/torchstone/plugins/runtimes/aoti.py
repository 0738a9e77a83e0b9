"""AOTInductor: torch's compiler ahead of time, to a package that torch loads without compiling."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.plugins.protocols import OpenRuntime, Runtime


class AotInductor(Runtime):
    """Compiles with this machine's C++ compiler; what it makes computes with torch's own threads."""

    describes = "AOTInductor: torch.compile's kernels, compiled ahead of time"
    devices = ("cpu", "cuda", "rocm", "xpu")
    suffixes = (".pt2",)
    takes = "torch tensors"

    def missing(self) -> str | None:
        compiler = os.environ.get("CXX") or "g++"
        if shutil.which(compiler):
            return None
        return f"runtime aoti needs a C++ compiler, and there is no {compiler}: install one, or set CXX"

    def export(self, program: Any, folder: Path) -> None:
        from torch import _inductor as inductor

        with inductor.config.patch(compile_threads=1):  # no pool of processes, which would idle beside the windows
            inductor.aoti_compile_and_package(program, package_path=_file(folder))

    def open(self, folder: Path, threads: int, device: str) -> OpenRuntime:
        import torch

        number = int(device.partition(":")[2] or -1)
        load = torch._inductor.aoti_load_package(_file(folder), device_index=number)

        def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
            found: Sequence[Any] = load(**tensors)
            return found

        return OpenRuntime(answer, f"torch {torch.__version__}", torch.get_num_threads(), {})

    def usage(self, file: str, threads: int, device: str) -> Sequence[str]:
        return (
            f"import torch; torch.set_num_threads({threads})",
            f"model = torch._inductor.aoti_load_package({file!r})",
            "with torch.inference_mode(): outputs = model(**inputs)",
        )


def _file(folder: Path) -> str:
    return str(folder / f"{folder.name}.pt2")


PLUGIN: Runtime = AotInductor()
