"""The steps of every task on CUDA tensors that have shapes and no data: `python shapes_on_cuda.py LIBRARY [--whole]`.

torch's FakeTensorMode has tensors of any device, and refuses what a device refuses: operands on two devices, formats
that do not go together. Autograd asks the device's runtime; stubs/cuda_shapes.cpp stands in for it, in the library that
is loaded before torch. Who reads a number of a device's tensor waits for the device, and is written down. Prints a line
of JSON a step: its name, what it raised, and who waited within it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__":
    ctypes.CDLL(sys.argv[1])

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.model import Batch, View
from torchstone.execution.timing.loop import unmarked
from torchstone.execution.worker.train_loop import judge_model
from torchstone.plugins import registry
from torchstone.plugins.tasks import _batches, _flops, _peak_memory

CARD = DeviceInfo(
    "cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", memory_bytes=141 << 30, compute_capability="9.0",
    precisions=("fp32", "tf32", "bf16", "fp16"),
)  # fmt: skip
SIZES = {
    "batch_size": 2, "sequence_length": 8, "image_size": 32, "audio_s": 0.25, "new_tokens": 3, "learning_rate": 0.1,
    "channels_last": False,
}  # fmt: skip
NETS = ("cnn", "mlp", "gesture-tiny", "denoiser-small", "text-small")
TWINS = (
    "distilbert-tiny", "bert-tiny", "roberta-tiny", "gpt2-tiny", "opt-tiny", "vit-tiny", "resnet-tiny",
    "wav2vec2-tiny", "whisper-tiny-twin", "clip-tiny",
)  # fmt: skip
_EACH_KIND = ("bert-tiny", "gpt2-tiny", "vit-tiny", "whisper-tiny-twin", "clip-tiny")
LOADED, RESIDENT = {"feed": "loader"}, {"feed": "resident"}
PLANTED = "planted"
_VALUE = torch.ops.aten._local_scalar_dense.default
_COPY, _COPY_INTO = torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default

Axes = Mapping[str, Any]
Spoil = Callable[[Any], Any]  # what a loss returns → what it returns in its place


class Waits(TorchDispatchMode):
    """Notes who reads a number of a device's tensor, and gives a likely one. Use it within FakeTensorMode."""

    def __init__(self) -> None:
        super().__init__()
        self.by: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator on shapes."""
        kwargs = kwargs or {}
        if func is _VALUE:
            if args[0].device.type != "cpu":
                self.by.append(_caller())
            return False if args[0].dtype == torch.bool else 1.0 if args[0].is_floating_point() else 1
        if torch.is_inference_mode_enabled() and _peak_memory._has_parts(func):
            with self:  # as LiveStorages does: composite operators fall into their parts
                return func._op_dk(_peak_memory._COMPOSITE, *args, **kwargs)
        if func.overloadpacket.__name__.startswith("_fused_") and not func._schema.returns:
            return _updated(args, kwargs)
        result = func(*args, **kwargs)
        if func in (_COPY, _COPY_INTO):
            source = args[1 if func is _COPY_INTO else 0]
            if source.device.type != "cpu" and result.device.type == "cpu":
                self.by.append(_caller())
        return result


def _updated(args: Any, kwargs: Any) -> None:
    """Refuse a fused update of tensors that are not all on one device: not every one has a shape function."""
    places = {leaf.device for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
    if len(places) > 1:
        raise RuntimeError(f"a fused optimizer was given tensors on {', '.join(sorted(map(str, places)))}")


def _caller() -> str:
    """Return file and function of the innermost frame that is neither torch's nor ours."""
    frames = [frame for frame in traceback.extract_stack() if "/torch/" not in frame.filename]
    other = [frame for frame in frames if frame.name not in ("__torch_dispatch__", "_caller")]
    return f"{Path(other[-1].filename).parent.name}/{Path(other[-1].filename).name}:{other[-1].name}"


def as_on_a_card() -> None:
    """Have torch.cuda say what it says where there is a card; compile nothing, and move modules without data."""
    told: dict[str, Any] = {
        "is_available": lambda: True, "is_initialized": lambda: True, "_lazy_init": lambda: None,
        "current_device": lambda: 0, "device_count": lambda: 1, "get_device_capability": lambda *_: (9, 0),
        "is_bf16_supported": lambda *_, **__: True, "is_current_stream_capturing": lambda: False,
    }  # fmt: skip
    for name, call in told.items():
        setattr(torch.cuda, name, call)
    changed: Any = torch
    changed.compile = lambda module, **_: module
    changed.nn.Module.to = moved
    numbers_first: Any = FakeTensorMode
    numbers_first.avoid_device_init = True  # torch.tensor(…, device="cuda") has its numbers on the CPU first


def moved(module: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the module elsewhere, or in another layout: tensors without data cannot be exchanged in place."""
    asked_for: Any = torch._C._nn._parse_to(*args, **kwargs)
    device, dtype, _, layout = asked_for
    there: dict[int, Any] = {}  # what several modules share stays shared

    def placed(tensor: Any) -> Any:
        how = {"memory_format": layout} if layout is not None and tensor.dim() == 4 else {}
        return tensor.detach().to(device, dtype, **how)

    for part in module.modules():
        weights: dict[str, Any] = part._parameters
        for name, tensor in weights.items():
            if tensor is not None and id(tensor) not in there:
                there[id(tensor)] = tensor, torch.nn.Parameter(placed(tensor), tensor.requires_grad)
            weights[name] = None if tensor is None else there[id(tensor)][1]
        for name, tensor in part._buffers.items():
            part._buffers[name] = None if tensor is None else placed(tensor)
    return module


def step(task: str, name: str, full: bool, axes: Axes, spoil: Spoil | None = None) -> list[str]:
    """Prepare a model, take two steps, and read what came of them; return who waited within the steps."""
    engine = registry.load("engines", task)
    configuration = {axis: AXES[axis].default for axis in engine.axes} | SIZES | dict(axes)
    scheme, _, bare = name.partition(":")
    source = registry.load("models", scheme)
    card = source.card(bare, {})
    case = Case(Workload(Task(task), name, "synthetic", card.item, fixed=card.fixed), configuration, Placement("cuda"))
    model = source.load(bare, case.workload, configuration)
    if spoil is not None:
        plain = model.loss
        model.loss = lambda module, tensors: spoil(plain(module, tensors))
    device = registry.load("devices", "cuda").pretend(CARD)
    device.compile_objection = lambda: None  # Triton is not asked
    mode = FakeTensorMode(allow_non_fake_inputs=False)

    def empty(tensor: Any) -> Any:
        with mode:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)

    drawn = _drawn(model, configuration, full=full)
    model.module = _flops.twin(model.module, empty)
    tensors = {key: mode.from_tensor(value) for key, value in drawn.tensors.items()}
    batch = Batch(tensors, drawn.items, drawn.tokens)
    with mode, Waits() as waits:
        prepared = engine.prepare(case, model, device)
        loaded = configuration["feed"] == "loader"
        pull = (lambda: batch) if loaded else _batches.Resident([batch], configuration, device).next
        for _ in range(2):
            prepared.step(pull, unmarked)
        within = list(waits.by)
        prepared.results()
        if task == "train" and loaded:  # as validation does, which pulls from a loader
            once: Any = SimpleNamespace(next=iter([batch]).__next__)
            judge_model(prepared, once, model.input)
    return within


def _drawn(model: Any, configuration: Axes, *, full: bool) -> Batch:
    view = View(model.input, configuration, model.tokenizer, 0, {}, None)
    samples = registry.load("data", "synthetic").samples("full" if full else "", view)
    return _batches.collate([samples[index] for index in range(int(configuration["batch_size"]))])


def asked(*, whole: bool) -> Iterator[tuple[str, str, bool, Axes]]:
    """Yield task, model, whether texts have no padding, and axes. `whole`: every model by every task and format."""
    names = [*(f"builtin:{name}" for name in NETS), *(f"hf:{name}" for name in (TWINS if whole else _EACH_KIND))]
    for place, name in enumerate(names):
        for task in ("infer", "train") if whole else ("train",):
            for precision in ("fp32", "tf32", "bf16", "fp16") if whole else ("bf16", "fp16")[place % 2 :][:1]:
                if (task, name) != ("train", "hf:wav2vec2-tiny"):  # its masking looks for what is masked, and waits
                    yield task, name, False, {"precision": precision, **LOADED}
    for name in ("builtin:gesture-tiny", "hf:wav2vec2-tiny"):
        yield "infer", name, False, {"precision": "fp16", **LOADED}
    yield "train", "builtin:mlp", False, {"precision": "tf32", **LOADED}
    for optimizer in ("sgd", "adam", "adamw"):
        for fused in ("on", "off"):
            more = {"precision": "fp16", "grad_clip": 1.0, "grad_accumulation": 2, **RESIDENT}
            yield "train", "builtin:mlp", False, {"optimizer": optimizer, "fused": fused, **more}
    for name in ("hf:bert-tiny", "hf:gpt2-tiny", "hf:vit-tiny") if whole else ("hf:gpt2-tiny",):
        yield "train", name, True, {"gradient_checkpointing": True, "precision": "bf16", **LOADED}
    for task, feed in (("infer", RESIDENT), ("train", LOADED)):
        axes = {"channels_last": True, "precision": "fp16", "pin_memory": feed is LOADED, **feed}
        yield task, "hf:resnet-tiny" if whole else "builtin:cnn", False, axes
    for mode in ("default", "reduce-overhead", "max-autotune") if whole else ("reduce-overhead",):
        for task in ("infer", "train"):
            yield task, "builtin:mlp", True, {"compile": mode, "precision": "bf16", **LOADED}
    for name in ("hf:gpt2-tiny", "hf:opt-tiny"):
        yield "generate", name, False, {"mode": "throughput", "compile": "off", "precision": "fp32", **LOADED}
        if whole:
            yield "generate", name, True, {"mode": "throughput", "compile": "default", "precision": "bf16", **LOADED}
    yield "generate", "hf:gpt2-tiny", True, {"mode": "latency", "compile": "off", "precision": "fp16", **LOADED}


def planted() -> Iterator[tuple[str, Spoil]]:
    """Yield mistakes that a CPU forgives and a card does not: what this program is for."""
    yield f"{PLANTED} tensor of the CPU", lambda loss: loss + torch.ones(1).sum() * torch.ones(1)
    yield f"{PLANTED} reading", lambda loss: loss * float(loss.detach())


def main() -> None:
    """Take every step."""
    warnings.simplefilter("ignore")
    as_on_a_card()
    for task, name, full, axes in asked(whole="--whole" in sys.argv):
        words = " ".join(f"{axis}={value}" for axis, value in axes.items())
        _tell(f"{task} {name}{' full' * full} {words}", partial(step, task, name, full, axes))
    for name, spoil in planted():
        _tell(name, partial(step, "train", "builtin:mlp", False, {"precision": "bf16", **LOADED}, spoil))


def _tell(name: str, take: Callable[[], list[str]]) -> None:
    told: dict[str, Any] = {"step": name, "error": None, "waits": []}
    try:
        told["waits"] = take()
    except Exception as error:  # whatever it is, it would be one on the device
        told["error"] = f"{type(error).__name__}: {str(error).strip()}"[:500]
        told["trace"] = traceback.format_exc()[-3000:]
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
