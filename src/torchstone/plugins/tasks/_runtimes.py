"""Exports a model, quantizes it, opens it in a runtime, and compares its outputs with those of eager mode in fp32."""

from __future__ import annotations

import copy
import functools
import importlib.metadata
import logging
import math
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch.utils import _pytree as pytree

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import EAGER, UNQUANTIZED, Scalar
from torchstone.core.schema.facts import Facts, SettingFact
from torchstone.core.schema.quality import AnswerCounts, NextToken
from torchstone.plugins import registry
from torchstone.plugins.choices import RuntimeVariant, axis_conflict, variant_in
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Infer, OpenRuntime, Runtime, Samples, SavedFile
from torchstone.plugins.tasks._batches import collate_of

COMPARED = 4  # batches: as many as a resident feed has
PROGRAM, TRACED = ".pt2", ".pt"  # of what torch itself loads
_MOST = 200  # characters of what a library says
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))

Forward = Callable[[Any, Mapping[str, Any]], Any]


def variant_of(configuration: Mapping[str, Scalar], device: Device) -> RuntimeVariant | None:
    """Return what is asked for, or None: eager, in fp32. Raises Unsupported for what it is not asked beside."""
    variant = variant_in(configuration)
    if (why := axis_conflict(configuration)) is not None:
        raise Unsupported(why)
    if variant is None:
        return None
    kind = torch.device(device.torch_device).type
    if variant.runtime == EAGER:
        if _is_torchs(variant, kind) and configuration.get("compile", "off") != "off":
            raise Unsupported(f"{variant}, compile={configuration['compile']}: not possible together on the CPU")
        return variant
    kinds = registry.load("runtimes", variant.runtime).devices
    kind = "rocm" if kind == "cuda" and torch.version.hip else kind
    if kind not in kinds:
        raise Unsupported(f"{variant}: computes on {', '.join(kinds)} only, not on {kind}")
    return variant


def _is_torchs(variant: RuntimeVariant, kind: str) -> bool:
    """Say whether torch itself has the format in eager mode: its kernels are for a CPU. The others are torchao's."""
    return variant.quantization == "int8-dynamic" and kind == "cpu"


class Exportable(torch.nn.Module):
    """A module with its inputs by name and its outputs as a flat tuple of tensors."""

    def __init__(self, module: Any, forward: Forward) -> None:
        super().__init__()
        self.module = module
        self._call = forward

    def forward(self, **tensors: Any) -> tuple[Any, ...]:
        """Return every tensor of the output."""
        return outputs_of(self._call(self.module, tensors))


def outputs_of(output: Any) -> tuple[Any, ...]:
    """Return every tensor of an output, in the order in which torch flattens it."""
    return tuple(leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor))


class Built(NamedTuple):
    """A model in a runtime: what answers in place of its forward, what was found, and the facts of it.

    `module`: of eager mode, the quantized one.
    """

    answer: Infer
    values: Mapping[str, float]
    facts: Facts
    module: Any


def build(
    variant: RuntimeVariant,
    module: Any,
    forward: Forward,
    batches: Sequence[Mapping[str, Any]],
    calibration: Iterable[Mapping[str, Any]] = (),
    device: str = "cpu",
    compiled: Callable[[Any], Any] = lambda module: module,
) -> Built:
    """Build the variant by its first batch, and ask it every batch. Raises Unsupported where it cannot be.

    `batches`: on the device, torch's name of it. `calibration`: batches of a static format. `compiled`: what answers in
    place of a module of eager mode.
    """
    batches = [_inputs(batch) for batch in batches]
    names = tuple(batches[0])
    with tempfile.TemporaryDirectory(prefix="torchstone-runtime-") as place, _quiet(), torch.no_grad():
        folder, begin_s, loaded = Path(place), time.perf_counter(), dict[str, float]()
        quantized = _quantized(variant, module, device) if variant.runtime == EAGER else None
        if quantized is not None:
            opener = _opener(variant, quantized, forward, folder, device, compiled)
        else:
            runtime = _exported(variant, module, forward, batches[0], calibration, folder)
            opener = functools.partial(runtime.open, folder, torch.get_num_threads(), device)
        exported_s = time.perf_counter()
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if variant.runtime != EAGER and device == "cpu":
            loaded = _loaded_peak(runtime, folder, batches[0])
        open_s = time.perf_counter()
        opened = opener()
        opened_s = time.perf_counter()
    with torch.inference_mode():
        asked_s = time.perf_counter()
        try:
            opened.answer(batches[0])
        except (AttributeError, NotImplementedError, TypeError) as error:
            raise Unsupported(f"{variant} cannot compute the model: {_reason(error)}") from error
        answered_s = time.perf_counter()
        pairs = ((opened.answer(batch), outputs_of(forward(module, batch))) for batch in batches)
        found = differences(str(variant), pairs)
    values = {
        "export_time_s": exported_s - begin_s,
        "build_time_s": opened_s - open_s,
        "first_query_time_s": answered_s - asked_s,
        "exported_bytes": float(size),
        **loaded,
        **found,
    }
    options = tuple(f"{name}={value}" for name, value in opened.options.items())
    how = SettingFact(variant.runtime, "library", {"library": opened.library, "options": options})
    facts = Facts(threads_in_effect=opened.threads, settings={"runtime": how})

    def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
        return opened.answer({name: tensors[name] for name in names})

    return Built(answer, values, facts, quantized)


_ALONE = """
import sys
sys.modules["openvino_telemetry"] = None  # it reports each import to its makers
import numpy
inputs = dict(numpy.load({inputs!r}).items())
if {torchs}:
    import torch
    inputs = {{name: torch.from_numpy(array) for name, array in inputs.items()}}
{lines}
print(open("/proc/self/status").read())
"""
_PEAK = re.compile(r"VmHWM:\s*(\d+) kB")  # unlike getrusage's, it knows nothing of the process that started it
_ALONE_S = 120.0


def _loaded_peak(runtime: Runtime, folder: Path, batch: Mapping[str, Any]) -> dict[str, float]:
    """Return the peak memory of a process that does what `usage` says and nothing else; nothing where that fails."""
    with tempfile.TemporaryDirectory(prefix="torchstone-inputs-") as place, suppress(Unsupported, OSError, TypeError):
        inputs = Path(place) / "inputs.npz"
        numpy.savez(inputs, **{name: tensor.numpy() for name, tensor in batch.items()})
        file = folder / f"{folder.name}{''.join(runtime.suffixes[:1])}"
        lines = "\n".join(runtime.usage(str(file), torch.get_num_threads(), "cpu"))
        code = _ALONE.format(inputs=str(inputs), torchs=runtime.takes == "torch tensors", lines=lines)
        with suppress(subprocess.SubprocessError):
            told = subprocess.check_output(
                [sys.executable, "-I", "-c", code], text=True, stderr=subprocess.DEVNULL, timeout=_ALONE_S
            )
            if (peak := _PEAK.search(told)) is not None:
                return {"loaded_peak_bytes": 1024.0 * int(peak[1])}
    return {}


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what exporters and quantizers say of versions to come and of libraries that the model does not use."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _quantized(variant: RuntimeVariant, module: Any, device: str) -> Any:
    """Return a copy with quantized linear (and recurrent) layers. Raises Unsupported where there are none."""
    ours = _is_torchs(variant, torch.device(device).type)
    change = torch.ao.quantization.quantize_dynamic if ours else _torchaos(variant)
    try:
        quantized = change(copy.deepcopy(module))
    except Exception as error:
        raise Unsupported(f"{variant}: {'torch' if ours else 'torchao'} cannot do it: {_reason(error)}") from error
    inside = (type(part).__module__ for part in (*quantized.modules(), *quantized.parameters()))
    if not any(".quantized.dynamic." in name or name.startswith("torchao.") for name in inside):
        raise Unsupported(
            f"{variant}: the model has no linear{' or recurrent' * ours} layer, the kind that is quantized"
        )
    if any(isinstance(part, torch.nn.TransformerEncoderLayer) for part in quantized.modules()):
        torch.backends.mha.set_fastpath_enabled(False)  # it takes weights that are tensors, and fails on others
    return quantized


def _torchaos(variant: RuntimeVariant) -> Callable[[Any], Any]:
    """Return what puts torchao's tensors in place of the weights of linear layers."""
    try:
        from torchao import quantization as torchao
    except ImportError as error:
        raise Unsupported(f"{variant} needs torchao: pip install 'torchstone[torchao]'") from error
    formats = {
        "int8-dynamic": torchao.Int8DynamicActivationInt8WeightConfig,
        "int8-weights": torchao.Int8WeightOnlyConfig,
        "fp8-dynamic": torchao.Float8DynamicActivationFloat8WeightConfig,
        "fp8-weights": torchao.Float8WeightOnlyConfig,
    }

    def change(module: Any) -> Any:
        torchao.quantize_(module, formats[variant.quantization]())
        return module

    return change


def _opener(
    variant: RuntimeVariant,
    quantized: Any,
    forward: Forward,
    folder: Path,
    device: str,
    compiled: Callable[[Any], Any],
) -> Callable[[], OpenRuntime]:
    """Write the weights of a quantized module; return what makes it answer."""
    torch.save(quantized.state_dict(), folder / "model.pt")
    asked = compiled(quantized)

    def answer(tensors: Mapping[str, Any]) -> Sequence[Any]:
        return outputs_of(forward(asked, tensors))

    if _is_torchs(variant, torch.device(device).type):
        options = {"quantized.engine": str(torch.backends.quantized.engine)}
    else:
        options = {"torchao": importlib.metadata.version("torchao")}
    if not torch.backends.mha.get_fastpath_enabled():
        options["mha.fastpath_enabled"] = "False"
    return lambda: OpenRuntime(answer, f"torch {torch.__version__}", torch.get_num_threads(), options)


def _exported(
    variant: RuntimeVariant,
    module: Any,
    forward: Forward,
    batch: Mapping[str, Any],
    calibration: Iterable[Mapping[str, Any]],
    folder: Path,
) -> Runtime:
    """Write the runtime's files, quantized where that is asked for, and return the runtime."""
    runtime: Runtime = registry.load("runtimes", variant.runtime)
    if (lacking := runtime.missing()) is not None:
        raise Unsupported(lacking)
    _export(variant.runtime, runtime, Exportable(module, forward), batch, folder)
    if variant.quantization != UNQUANTIZED:
        try:
            runtime.quantize(folder, variant.quantization, calibration)
        except Unsupported:
            raise
        except Exception as error:
            raise Unsupported(f"{variant}: its library cannot quantize the model: {_reason(error)}") from error
    return runtime


def save(
    variant: RuntimeVariant,
    module: Any,
    forward: Forward,
    batch: Mapping[str, Any],
    calibration: Iterable[Mapping[str, Any]],
    file: SavedFile,
    device: str,
    compiled: str,
) -> Sequence[str]:
    """Write the variant by the shapes of a batch; return what loads it and runs it. Raises Unsupported as `build`."""
    inputs = _inputs(batch)
    with _quiet(), torch.no_grad():
        if variant.runtime != EAGER:
            runtime = _exported(variant, module, forward, inputs, calibration, file.folder)
            lines = runtime.usage(f"{file.path}{runtime.suffixes[0]}", torch.get_num_threads(), device)
            return (_described(inputs, runtime.takes), *lines)
        quantized = _quantized(variant, module, device)
        if not _is_torchs(variant, torch.device(device).type):
            return save_eager(quantized, forward, inputs, compiled, file, "import torchao.quantization")
        traced = _Traced(Exportable(quantized, forward), tuple(inputs))
        try:  # torch.export has no way to save what torch.ao.quantization makes of a layer
            torch.jit.trace(traced, tuple(inputs.values())).save(_named(file.folder, TRACED))
        except Exception as error:
            raise Unsupported(f"{variant}: torch.jit.trace cannot follow the model: {_reason(error)}") from error
    given = ", ".join(f"inputs[{name!r}]" for name in inputs)
    return _in_torch(inputs, f"torch.jit.load({file.path + TRACED!r})", given)


def save_eager(
    module: Any, forward: Forward, batch: Mapping[str, Any], compiled: str, file: SavedFile, *needed: str
) -> Sequence[str]:
    """Write what torch.export makes of a module; return what loads it and runs it, compiled in that mode or "off".

    `needed`: imports without which the file cannot be read.
    """
    inputs = _inputs(batch)
    with _quiet(), torch.no_grad():
        torch.export.save(_program(EAGER, Exportable(module, forward), inputs), _named(file.folder, PROGRAM))
    load = f"torch.export.load({file.path + PROGRAM!r}).module()"
    if compiled != "off":
        load = f"torch.compile({load}, mode={None if compiled == 'default' else compiled!r})"
    return _in_torch(inputs, load, "**inputs", *needed)


class _Traced(torch.nn.Module):
    """A module with its inputs in order: torch.jit knows no other."""

    def __init__(self, module: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module, self._names = module, names

    def forward(self, *tensors: Any) -> Any:
        """Return what the module does."""
        return self.module(**dict(zip(self._names, tensors, strict=True)))


def _inputs(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch without what the model does not answer from."""
    return {name: tensor for name, tensor in batch.items() if name != "labels"}


def _named(folder: Path, suffix: str) -> str:
    return str(folder / f"{folder.name}{suffix}")


def _in_torch(inputs: Mapping[str, Any], load: str, given: str, *needed: str) -> Sequence[str]:
    return (
        _described(inputs, "torch tensors"),
        f"import torch; torch.set_num_threads({torch.get_num_threads()})",
        *needed,
        f"model = {load}",
        f"with torch.inference_mode(): outputs = model({given})",
    )


def _described(inputs: Mapping[str, Any], kind: str) -> str:
    """Return the comment that says what the inputs are."""
    where = next(iter(inputs.values())).device
    if kind == "torch tensors" and where.type != "cpu":
        kind = f"{kind} on {where}"
    each = (f"{name} {str(one.dtype).removeprefix('torch.')} {list(one.shape)}" for name, one in inputs.items())
    return f"# inputs: {kind} by name: {', '.join(each)}"


def _export(name: str, runtime: Runtime, module: Exportable, batch: Mapping[str, Any], folder: Path) -> None:
    program = _program(name, module, batch)
    try:
        runtime.export(program, folder)
    except Exception as error:
        where = _operator(program, _whole(error))
        raise Unsupported(f"runtime={name} cannot convert the model{where}: {_reason(error)}") from error


def _program(name: str, module: Exportable, batch: Mapping[str, Any]) -> Any:
    try:
        program = torch.export.export(module, (), dict(batch))
    except Exception as error:
        where = _place(traceback.extract_tb(error.__traceback__))
        raise Unsupported(f"runtime={name}: torch.export cannot follow the model{where}: {_reason(error)}") from error
    if not program.graph_signature.user_outputs:
        raise Unsupported(f"runtime={name}: the model's output has no tensor that torch's pytree finds")
    return program


def _reason(error: BaseException) -> str:
    """Return the name of an error and the first line of what it says; of the error behind it, where there is one."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:_MOST]}"


def _whole(error: BaseException) -> str:
    return str(error) if error.__cause__ is None else f"{error}\n{_whole(error.__cause__)}"


def _place(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return " at FILE:LINE in FUNCTION (its text)" for the innermost frame that is neither torch's nor ours."""
    own = [f for f in frames if Path(f.filename).is_file() and not f.filename.startswith(_LIBRARIES)]
    if not own:
        return ""
    last = own[-1]
    return f" at {Path(last.filename).name}:{last.lineno} in {last.name} ({last.line})"


_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)')


def _operator(program: Any, said: str) -> str:
    """Return ", OPERATOR" with its place in the model, for the first whose name is in what was said."""
    for node in program.graph.nodes:
        packet = str(getattr(node.target, "overloadpacket", ""))
        if packet and re.search(rf"\b{re.escape(packet)}\b", said):
            found = _FRAME.findall(node.meta.get("stack_trace") or "")
            where = _place(traceback.FrameSummary(file, int(line), name) for file, line, name in found)
            return f", {packet}{where}"
    return ""


def differences(variant: str, pairs: Iterable[tuple[Sequence[Any], Sequence[Any]]]) -> dict[str, float]:
    """Return how far a runtime's outputs are from eager mode's, over pairs of both for the same inputs.

    Top-1: of the first output, where its rows have several numbers. Raises RuntimeError where one is NaN or infinite
    in one of both.
    """
    largest = squares = norm = 0.0
    agreeing = rows = 0
    for theirs, ours in pairs:
        for one, other in zip(theirs, ours, strict=True):
            mine, yours = other.double(), one.double()
            gap = torch.where((mine == yours) | (mine.isnan() & yours.isnan()), 0.0, mine - yours)
            largest = max(largest, float(gap.abs().max())) if gap.numel() else largest
            squares += float(gap.square().sum())
            norm += float(mine[mine.isfinite()].square().sum())
        if ours and ours[0].is_floating_point() and ours[0].dim() > 1 and ours[0].shape[-1] > 1:
            same = ours[0].argmax(-1) == theirs[0].argmax(-1)
            agreeing, rows = agreeing + int(same.sum()), rows + same.numel()
    if not math.isfinite(squares):
        raise RuntimeError(f"{variant}: numbers of its output are NaN or infinite where eager mode's are not")
    found = {"output_error": largest, "relative_output_error": _relative(squares, norm)}
    return {**found, "top1_agreement": agreeing / rows} if rows else found


def _relative(squares: float, norm: float) -> float:
    return math.sqrt(squares / norm) if norm > 0.0 else float(squares > 0.0)


_MOST_ITEMS, _MOST_S = 10_000, 30.0  # without a difference, 381 items are enough for a margin of 1 %

_CALIBRATED = ("int8-static",)
_MOST_CALIBRATION = 256  # items: ranges of activations settle within a few hundred


def counted(
    answer: Infer,
    reference: Infer,
    samples: Samples,
    configuration: Mapping[str, Scalar],
    seed: int,
    *,
    causal: bool = False,
) -> AnswerCounts | None:
    """Ask both for the same items, drawn by the seed, in whole batches, until there are enough or time is over.

    The time is no ground for a bias: it does not hang on what they answer. `causal`: a language model, which is judged
    by the next token. None where the outputs have no classes, or predict a text no better than a guess does.
    """
    size, stack = int(configuration["batch_size"] or 1), collate_of(samples)
    drawn, _ = _shares(len(samples), configuration, seed)
    until_s, rows = time.perf_counter() + _MOST_S, list[Any]()
    for begin in range(0, len(drawn) - size + 1, size):
        batch = stack([samples[number] for number in drawn[begin : begin + size]])
        if batch.items != size:
            continue  # one could not be read, and a runtime takes whole batches only
        expected, found = reference(batch.tensors), answer(batch.tensors)
        if causal:
            row = _next_tokens(expected, found, batch.tensors)
        else:
            row = _class_counts(_classes(expected, size), _classes(found, size), batch.tensors.get("labels"))
        if row is None:
            return None
        rows.append(row)
        if time.perf_counter() > until_s:
            break
    if not rows:
        return None
    items = torch.cat(rows)
    if causal:
        return text_counts(items)
    labelled, same, *of_labels = items.sum(0).tolist()
    return AnswerCounts(len(items), same, *of_labels) if labelled == len(items) else AnswerCounts(len(items), same)


def _class_counts(expected: Any, found: Any, labels: Any) -> Any:
    """Return a row an item: has a label, both classes are the same, both are right, the first alone, the other."""
    if expected is None or found is None:
        return None
    labelled = isinstance(labels, torch.Tensor) and labels.shape == expected.shape and not labels.is_floating_point()
    known = labels if isinstance(labels, torch.Tensor) and labelled else expected
    was, now = expected == known, found == known
    return torch.stack([torch.full_like(was, labelled), expected == found, was & now, was & ~now, now & ~was], 1).long()


_NOT_READ = ("labels", "attention_mask")


def _next_tokens(expected: Sequence[Any], found: Sequence[Any], tensors: Mapping[str, Any]) -> Any:
    """Return a row a text; None where nothing is predicted.

    Its predicted tokens, their cross-entropy by both, in nats, whether the likeliest tokens are all the same, and the
    cross-entropy of a guess.
    """
    mask, labels = tensors.get("attention_mask"), tensors.get("labels")
    given = [tensor for name, tensor in tensors.items() if name not in _NOT_READ and isinstance(tensor, torch.Tensor)]
    integers = [tensor for tensor in given if tensor.dim() == 2 and not tensor.is_floating_point()]
    ids = tensors.get("input_ids", integers[0] if len(integers) == 1 else None)
    if ids is None:
        return None
    scores = [_logits(outputs, ids) for outputs in (expected, found)]
    if any(one is None for one in scores):
        return None
    kept = torch.ones_like(ids) if mask is None else mask
    if labels is not None and labels.shape == ids.shape:  # of what is only read, none
        kept = kept * (labels >= 0)
    kept = kept[:, 1:].double()
    target = ids[:, 1:].unsqueeze(2)
    losses = [-logits[:, :-1].float().log_softmax(2).gather(2, target).squeeze(2).double() for logits in scores]
    another = (scores[0][:, :-1].argmax(2) != scores[1][:, :-1].argmax(2)).double()
    sums = [kept, *(torch.where(kept > 0.0, loss, 0.0) for loss in losses), kept * another]
    tokens, mine, other, changed = (one.sum(1) for one in sums)
    return torch.stack([tokens, mine, other, (changed == 0.0).double(), tokens * math.log(scores[0].shape[2])], 1)


def _logits(outputs: Sequence[Any], ids: Any) -> Any:
    """Return the output that has scores of words for each token; None where there is none."""
    for output in outputs:
        if output.is_floating_point() and output.dim() == 3 and output.shape[:2] == ids.shape and output.shape[2] > 1:
            return output
    return None


def text_counts(rows: Any) -> AnswerCounts | None:
    """Return what the rows of `_next_tokens` come to.

    A mean over tokens is a ratio of two sums over texts, whose tokens hang together: its standard error is that of the
    texts' residuals (Cochran, Sampling Techniques, 3rd ed. 1977, section 6.4).
    """
    tokens, mine, other, same, guessed = rows.unbind(1)
    total, texts = float(tokens.sum()), len(rows)
    if not bool(rows.isfinite().all()) or total == 0.0 or float(mine.sum()) >= float(guessed.sum()):
        return None
    more = float((other - mine).sum()) / total
    residuals = other - mine - more * tokens
    error = math.sqrt(texts / max(1, texts - 1) * float(residuals.square().sum())) / total
    return AnswerCounts(texts, int(same.sum()), text=NextToken(int(total), float(mine.sum()) / total, more, error))


def _shares(items: int, configuration: Mapping[str, Scalar], seed: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the numbers of the items that are compared, and of those behind them, which calibrate a static format."""
    drawn = torch.randperm(items, generator=torch.Generator().manual_seed(seed)).tolist()
    if configuration.get("quantization") not in _CALIBRATED:
        return drawn[:_MOST_ITEMS], ()
    size = int(configuration["batch_size"] or 1)
    begin = items - max(size, min(_MOST_CALIBRATION, items // 4) // size * size)
    return drawn[: max(0, begin)][:_MOST_ITEMS], drawn[max(0, begin) :]


def calibration(samples: Samples, configuration: Mapping[str, Scalar], seed: int) -> Iterator[Mapping[str, Any]]:
    """Yield the batches that calibrate a static format; none where all items are too few for a batch of each kind."""
    size, stack = int(configuration["batch_size"] or 1), collate_of(samples)
    _, kept = _shares(len(samples), configuration, seed)
    for begin in range(0, len(kept) - size + 1, size):
        batch = stack([samples[number] for number in kept[begin : begin + size]])
        if batch.items == size:
            yield batch.tensors


def _classes(outputs: Sequence[Any], items: int) -> Any:
    """Return the class of each item by the first output; None where that does not hold scores of classes."""
    first = outputs[0] if outputs else None
    if first is None or not first.is_floating_point() or first.dim() != 2 or first.shape[1] < 2:
        return None
    return first.argmax(1) if first.shape[0] == items else None
