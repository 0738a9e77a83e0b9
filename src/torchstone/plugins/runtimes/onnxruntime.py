"""ONNX Runtime's CPU execution provider, on what torch.onnx.export writes of an exported program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.plugins.protocols import OpenRuntime, Runtime

_FILE = "model.onnx"
_QUANTIZED = ("MatMulInteger", "DynamicQuantizeLSTM", "MatMulNBits")  # what quantizers make of operators
_NEEDS = ("onnxruntime", "onnx", "onnxscript")
# Threads that spin between operators are off in pools of every runtime here: theirs would be the only ones.
_ENTRIES = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}


class OnnxRuntime(Runtime):
    """Opens sessions with as many threads as torch would use."""

    describes = "ONNX Runtime's CPU execution provider"
    quantizations = ("int8-dynamic", "int8-weights")

    def missing(self) -> str | None:
        if all(find_spec(name) is not None for name in _NEEDS):
            return None
        return f"runtime onnxruntime needs {', '.join(_NEEDS)}: pip install 'torchstone[onnxruntime]'"

    def export(self, program: Any, folder: Path) -> None:
        import torch

        torch.onnx.export(program, dynamo=True, verbose=False, external_data=True, f=folder / _FILE)

    def quantize(self, folder: Path, quantization: str) -> None:
        import onnx
        from onnxruntime import quantization as quantizers
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        whole = quantizers.onnx_model.ONNXModel(onnx.load(folder / _FILE))
        whole.replace_gemm_with_matmul()  # a linear layer is either: only MatMul has weights in 8 bits
        for file in folder.iterdir():
            file.unlink()
        if quantization == "int8-weights":
            blocks = MatMulNBitsQuantizer(whole.model, bits=8, is_symmetric=True)
            blocks.process()
            quantized = blocks.model
        else:
            # Of convolutions there are no signed 8-bit kernels; linear and recurrent layers are what eager mode has.
            kinds = ["MatMul", "LSTM"]
            quantizers.quantize_dynamic(whole.model, folder / _FILE, kinds, use_external_data_format=True)
            quantized = quantizers.onnx_model.ONNXModel(onnx.load(folder / _FILE))
        if not any(node.op_type in _QUANTIZED for node in quantized.model.graph.node):
            raise Unsupported(f"runtime=onnxruntime, quantization={quantization}: the model has no linear layer")
        if quantization == "int8-weights":
            quantized.save_model_to_file(folder / _FILE, use_external_data_format=True)

    def open(self, folder: Path, threads: int) -> OpenRuntime:
        import onnxruntime
        import torch

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        for key, value in _ENTRIES.items():
            options.add_session_config_entry(key, value)
        session = onnxruntime.InferenceSession(folder / _FILE, options, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]

        def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
            found = session.run(None, {name: tensors[name].numpy() for name in names})
            return [torch.from_numpy(array) for array in found]

        said = {"intra_op_num_threads": str(threads), "inter_op_num_threads": "1", **_ENTRIES}
        return OpenRuntime(answer, f"onnxruntime {onnxruntime.__version__}", options.intra_op_num_threads, said)


PLUGIN: Runtime = OnnxRuntime()
