"""OpenVINO's CPU plug-in, on what openvino.convert_model makes of an exported program."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.plugins.protocols import OpenRuntime, Runtime

# fp32 as eager mode has it: where the CPU has bf16 products, OpenVINO else takes them by itself.
_FP32 = {"INFERENCE_PRECISION_HINT": "f32"}
# Numbers of an input that share a scale where products are of 8 bits (as OpenVINO has it by itself); 0: they are not.
_INPUT_GROUPS = {"int8-dynamic": "32", "int8-weights": "0"}
# One stream of all threads, on the cores that the kernel gives them, as torch's are.
_ALIKE = {"NUM_STREAMS": "1", "ENABLE_CPU_PINNING": "NO", "ENABLE_HYPER_THREADING": "YES"}


class OpenVino(Runtime):
    """Compiles models for one stream of as many threads as torch would use."""

    describes = "OpenVINO's CPU plug-in"
    suffixes = (".xml", ".bin")
    quantizations = tuple(_INPUT_GROUPS)

    def missing(self) -> str | None:
        return None if find_spec("openvino") else "runtime openvino: pip install 'torchstone[openvino]'"

    def export(self, program: Any, folder: Path) -> None:
        openvino = _openvino()
        openvino.save_model(openvino.convert_model(program), _file(folder), compress_to_fp16=False)

    def quantize(self, folder: Path, quantization: str, calibration: Iterable[Mapping[str, Any]]) -> None:
        if find_spec("nncf") is None:
            raise Unsupported(f"runtime=openvino, quantization={quantization} needs nncf: pip install nncf")
        openvino = _openvino()
        import nncf

        model = openvino.Core().read_model(_file(folder))
        with redirect_stdout(io.StringIO()):  # bars of progress
            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
        model.set_rt_info(_INPUT_GROUPS[quantization], ["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])
        small = folder / "quantized.xml"
        openvino.save_model(model, small, compress_to_fp16=False)
        del model  # its weights are in the file that goes
        for suffix in self.suffixes:
            small.with_suffix(suffix).replace(_file(folder).with_suffix(suffix))

    def open(self, folder: Path, threads: int, device: str) -> OpenRuntime:
        import torch

        openvino = _openvino()
        options = _options(threads)
        compiled = openvino.Core().compile_model(_file(folder), "CPU", options)
        request = compiled.create_infer_request()
        names = [one.get_any_name() for one in compiled.inputs]

        def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
            found = request.infer([tensors[name].numpy() for name in names], share_inputs=True, share_outputs=True)
            return [torch.from_numpy(array) for array in found.values()]

        library = f"openvino {openvino.__version__.partition('-')[0]}"
        return OpenRuntime(answer, library, int(compiled.get_property("INFERENCE_NUM_THREADS")), options)

    def usage(self, file: str, threads: int, device: str) -> Sequence[str]:
        return (
            "import openvino",
            f'model = openvino.Core().compile_model({file!r}, "CPU", {_options(threads)})',
            "outputs = list(model(inputs).values())",
        )


def _file(folder: Path) -> Path:
    return folder / f"{folder.name}.xml"


def _options(threads: int) -> dict[str, str]:
    return {"INFERENCE_NUM_THREADS": str(threads), **_ALIKE, **_FP32}


def _openvino() -> Any:
    """Import OpenVINO without its telemetry, which reports each import and each conversion to its makers."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # as import understands it
    import openvino

    return openvino


PLUGIN: Runtime = OpenVino()
