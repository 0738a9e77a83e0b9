"""ONNX Runtime's execution providers of a CPU and of CUDA, on what torch.onnx.export writes of an exported program."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.plugins.protocols import Infer, OpenRuntime, Runtime

# What quantizers make of operators.
_QUANTIZED = ("MatMulInteger", "DynamicQuantizeLSTM", "MatMulNBits", "QuantizeLinear")
_BITS = {"int8-weights": (8, 128), "int4-weights": (4, 32)}  # of a weight, and weights that share a scale
_NEEDS = ("onnxruntime", "onnx", "onnxscript")
# Threads that spin between operators are off in pools of every runtime here: theirs would be the only ones.
_ENTRIES = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}


def _saturates() -> bool:
    """Say whether products of 8 bits are summed in pairs of 16, which saturate: x86 without VNNI. Weights then have 7.

    https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html, "reduce_range".
    """
    import torch

    return platform.machine() in ("x86_64", "AMD64") and not torch.cpu._is_vnni_supported()


class OnnxRuntime(Runtime):
    """Opens sessions with as many threads as torch would use."""

    describes = "ONNX Runtime, on a CPU or a CUDA device"
    devices = ("cpu", "cuda")
    quantizations = ("int8-dynamic", "int8-static", *_BITS)
    suffixes = (".onnx", ".onnx.data")

    def missing(self) -> str | None:
        if all(find_spec(name) is not None for name in _NEEDS):
            return None
        return f"runtime onnxruntime needs {', '.join(_NEEDS)}: pip install 'torchstone[onnxruntime]'"

    def export(self, program: Any, folder: Path) -> None:
        import torch

        torch.onnx.export(program, dynamo=True, verbose=False, external_data=True, f=_file(folder))

    def quantize(self, folder: Path, quantization: str, calibration: Iterable[Mapping[str, Any]]) -> None:
        import onnx
        from onnxruntime import quantization as quantizers
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        whole, target = quantizers.onnx_model.ONNXModel(onnx.load(_file(folder))), _file(folder)
        for file in folder.iterdir():
            file.unlink()
        if quantization == "int8-static":

            class Reader(quantizers.CalibrationDataReader):  # type: ignore[misc]  # the library has no types
                """Gives the batches one after another."""

                batches = iter(calibration)
                names = tuple(one.name for one in whole.model.graph.input)

                def get_next(self) -> dict[str, Any] | None:
                    batch = next(self.batches, None)
                    return None if batch is None else {name: batch[name].numpy(force=True) for name in self.names}

            kinds = ["Conv", "Gemm", "MatMul"]
            quantizers.quantize_static(
                whole.model,
                target,
                Reader(),
                op_types_to_quantize=kinds,
                per_channel=True,
                reduce_range=_saturates(),
                use_external_data_format=True,
            )
        elif quantization == "int8-dynamic":
            whole.replace_gemm_with_matmul()  # a linear layer is either: only MatMul has these formats
            # Of convolutions there are no signed 8-bit kernels; linear and recurrent layers are what eager mode has.
            quantizers.quantize_dynamic(
                whole.model, target, ["MatMul", "LSTM"], reduce_range=_saturates(), use_external_data_format=True
            )
        else:
            whole.replace_gemm_with_matmul()
            bits, block = _BITS[quantization]
            blocks = MatMulNBitsQuantizer(whole.model, bits=bits, block_size=block, is_symmetric=True)
            blocks.process()
            blocks.model.save_model_to_file(target, use_external_data_format=True)
        quantized = onnx.load(target, load_external_data=False)
        if not any(node.op_type in _QUANTIZED for node in quantized.graph.node):
            raise Unsupported(f"runtime=onnxruntime, quantization={quantization}: the model has no layer of that kind")

    def open(self, folder: Path, threads: int, device: str) -> OpenRuntime:
        import onnxruntime
        import torch

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        for key, value in _ENTRIES.items():
            options.add_session_config_entry(key, value)
        providers, where = _providers(device), torch.device(device)
        first = providers[0] if isinstance(providers[0], str) else providers[0][0]
        if first not in onnxruntime.get_available_providers():
            raise Unsupported(f"runtime=onnxruntime: this onnxruntime has no {first}: pip install onnxruntime-gpu")
        session = onnxruntime.InferenceSession(_file(folder), options, providers=providers)
        if session.get_providers()[0] != first:  # it goes on with a CPU where it cannot load what the device needs
            raise Unsupported(f"runtime=onnxruntime: {first} cannot be loaded: its CUDA must be that of torch")
        answer = _on_host(session) if where.type == "cpu" else on_device(session, where.type, where.index or 0)
        said = {"intra_op_num_threads": str(threads), "inter_op_num_threads": "1", **_ENTRIES, "provider": first}
        return OpenRuntime(answer, f"onnxruntime {onnxruntime.__version__}", options.intra_op_num_threads, said)

    def usage(self, file: str, threads: int, device: str) -> Sequence[str]:
        return (
            "import onnxruntime; options = onnxruntime.SessionOptions()",
            f"options.intra_op_num_threads, options.inter_op_num_threads = {threads}, 1",
            *(f"options.add_session_config_entry({key!r}, {value!r})" for key, value in _ENTRIES.items()),
            f"model = onnxruntime.InferenceSession({file!r}, options, providers={_providers(device)})",
            "outputs = model.run(None, inputs)",
        )


def _providers(device: str) -> list[Any]:
    """Return what a session is asked to compute with: the CPU last, for what has no kernel on the device."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return ["CPUExecutionProvider"]
    options = {"device_id": number or "0", "use_tf32": "0"}  # fp32, as asked for; by itself it rounds products
    return [("CUDAExecutionProvider", options), "CPUExecutionProvider"]


def _on_host(session: Any) -> Infer:
    import torch

    names = [one.name for one in session.get_inputs()]

    def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
        found = session.run(None, {name: tensors[name].numpy() for name in names})
        return [torch.from_numpy(array) for array in found]

    return answer


def on_device(session: Any, kind: str, number: int) -> Infer:
    """Return what answers where the tensors lie: `session.run` would copy all of them from the host and back."""
    import torch

    inputs, outputs = ([one.name for one in some] for some in (session.get_inputs(), session.get_outputs()))

    def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
        binding = session.io_binding()
        given = {name: tensors[name].contiguous() for name in inputs}
        for name, tensor in given.items():
            dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
            binding.bind_input(name, kind, number, dtype, tuple(tensor.shape), tensor.data_ptr())
        for name in outputs:
            binding.bind_output(name, kind, number)
        binding.synchronize_inputs()  # torch's stream, in which they were copied, is not that of the session
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return [torch.utils.dlpack.from_dlpack(value) for value in binding.get_outputs()]

    return answer


def _file(folder: Path) -> Path:
    return folder / f"{folder.name}.onnx"


PLUGIN: Runtime = OnnxRuntime()
