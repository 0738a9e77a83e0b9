"""ExecuTorch with XNNPACK's kernels, on what its compiler lowers of an exported program."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.plugins.protocols import OpenRuntime, Runtime

_NAMES = "input_names"  # the method of a file that tells them: ExecuTorch itself knows inputs by their order only


class ExecuTorch(Runtime):
    """Gives XNNPACK what it has kernels for, with as many threads as torch would use; other operators have one."""

    describes = "ExecuTorch with XNNPACK's kernels"
    suffixes = (".pte",)
    takes = "torch tensors"

    def missing(self) -> str | None:
        return None if find_spec("executorch") else "runtime executorch: pip install 'torchstone[executorch]'"

    def export(self, program: Any, folder: Path) -> None:
        with warnings.catch_warnings():  # importing it turns a filter on again
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
            from executorch.exir import to_edge_transform_and_lower

            warnings.simplefilter("ignore")
            inputs = program.example_inputs[1]
            for name, tensor in inputs.items():
                if not tensor.is_contiguous():  # a file reads the memory as it lies, whatever strides a tensor has
                    raise ValueError(f"the memory of input {name} is not contiguous")
            names = {_NAMES: ",".join(inputs)}
            lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()], constant_methods=names)
            Path(_file(folder)).write_bytes(lowered.to_executorch().buffer)

    def open(self, folder: Path, threads: int, device: str) -> OpenRuntime:
        from executorch.extension.pybindings import portable_lib
        from executorch.version import __version__

        with _silent():
            portable_lib._unsafe_reset_threadpool(threads)
            used = portable_lib._threadpool_get_thread_count()
        model = portable_lib._load_for_executorch(_file(folder))
        names = model.run_method(_NAMES, [])[0].split(",")

        def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
            inputs = [tensors[name].contiguous() for name in names]
            try:  # not cloned: torch's threads would copy what is large
                found: Sequence[Any] = model.run_method("forward", inputs, clone_outputs=False)
            except RuntimeError as error:  # some kernels refuse only now, as that of a 3-D convolution
                raise NotImplementedError(str(error)) from error
            return found

        return OpenRuntime(answer, f"executorch {__version__}", used, {"backend": "XnnpackBackend"})

    def usage(self, file: str, threads: int, device: str) -> Sequence[str]:
        return (
            "from executorch.extension.pybindings import portable_lib",
            f"portable_lib._unsafe_reset_threadpool({threads})",
            f"model = portable_lib._load_for_executorch({file!r})",
            f'names = model.run_method("{_NAMES}", [])[0].split(",")',
            'outputs = model.run_method("forward", [inputs[name].contiguous() for name in names])',
        )


@contextmanager
def _silent() -> Iterator[None]:
    """Drop what the library's C++ code writes to stderr of the processor and of each new pool."""
    with Path(os.devnull).open("wb") as nowhere:
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _file(folder: Path) -> str:
    return str(folder / f"{folder.name}.pte")


PLUGIN: Runtime = ExecuTorch()
