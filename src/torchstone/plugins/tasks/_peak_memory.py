"""The peak memory of a step, of any batch, on a device that need not be here: the engine's own step, without data.

The step that is measured is the step that is followed: the same `prepare` and `step`, under FakeTensorMode, after one
update of the optimizer, which has its state from then on. What is alive at the highest moment is told by kind.
Method after DNNMem (Gao et al., Estimating GPU memory consumption of deep learning models, ESEC/FSE 2020) with torch's
own shape functions in place of formulas; liveness by weak references.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any, NamedTuple, Protocol

import msgspec
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.metric import BACKWARD, DATA, FORWARD, OPTIMIZER, TRANSFER, PeakMemory
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.core.stats.peak_memory import GRANULE, reserved_bytes, workspace_bytes
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Prepared
from torchstone.plugins.tasks._flops import twin
from torchstone.plugins.tasks._settings import nhwc

# Runs torch on tensors without data, on request with an accelerator's code paths.
#
# Tensors say `cpu` all the same: autograd refuses a device that the build has no runtime for (2.13: "PyTorch is not
# linked with support for cuda devices"), and a card that is here must not be woken. Where CUDA allocates otherwise than
# a CPU does for the same call, the call is given CUDA's way for the length of the `with`, by kernels registered in
# Python:
#
# autocast  casts to fp32 what CUDA's lists say (torch.amp, "CUDA Ops that can autocast to float32"): a CPU's are
# shorter dropout   keeps a byte a number (native_dropout), where a CPU keeps a number attention takes the kernel that
# torch would choose there (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)

Instead = Mapping[Any, Callable[..., Any]]  # operator → what is called in its place

_HALF = (torch.float16, torch.bfloat16)
_WIDEST_FLASH = 256  # numbers in a head
# Of CUDA's list, what models and losses call; a CPU's own list has the other losses.
_IN_FP32 = (
    *("exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "pow.Tensor_Scalar", "pow.Tensor_Tensor"),
    *(
        "pow.Scalar",
        "softplus",
        "layer_norm",
        "group_norm",
        "cosine_similarity",
        "kl_div",
        "logsumexp",
        "renorm",
        "dist",
    ),
    *("binary_cross_entropy_with_logits", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss"),
)
_INTO_FP32 = ("softmax.int", "log_softmax.int", "cumsum", "cumprod", "sum", "sum.dim_IntList", "prod", "prod.dim_int")


@contextmanager
def pretending(kernel: Scalar, kernels: tuple[str, ...] | None) -> Iterator[Instead]:
    """Enter FakeTensorMode; yield what is to be called in place of operators where there is no autograd.

    kernel: of attention, as asked for (`auto` or a name). kernels: those that an accelerator has; None: it is the CPU.
    """
    # No fallback: an operator without a shape function would be computed on real zeros, unseen.
    mode = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    instead: dict[Any, Callable[..., Any]] = {}
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        movable: Any = torch.nn.Module  # it is where and as it shall be; torch cannot move what has no data in place
        stack.callback(setattr, movable, "to", movable.to)
        movable.to = lambda module, *_, **__: module
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        update: Any = sys.modules.get("torchao.optim.adam")
        if update is not None:
            stack.callback(setattr, update, "single_param_adam", update.single_param_adam)
            update.single_param_adam = _eight_bit_update
        torch.backends.mha.set_fastpath_enabled(False)  # the fast path of nn.TransformerEncoder has no shape function
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        if kernels is None:
            instead[torch.ops.aten.mkldnn_rnn_layer.default] = _refuse_lstm
        else:
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
            attend = _attending(str(kernel or "auto"), kernels)
            stack.enter_context(_as_on_cuda(attend))
            instead[torch.ops.aten.scaled_dot_product_attention.default] = attend
        stack.enter_context(mode)
        yield instead


def _eight_bit_update(weights: Any, *others: Any) -> None:
    """Allocate what torchao's compiled update does: moments that it writes in 8 bits in fp32, and their new scales."""
    moments = [one for one in others if hasattr(one, "codes")]
    _ = [(torch.empty_like(weights, dtype=torch.float32), torch.empty_like(one.scale)) for one in moments]


def _refuse_lstm(*_args: Any, **_kwargs: Any) -> Any:
    # Its workspace is most of what a training holds, of another size in each version of oneDNN, and no shape tells it.
    raise Unsupported("oneDNN's LSTM on a CPU allocates inside of itself what no operator shows")


@contextmanager
def _as_on_cuda(attend: Callable[..., Any]) -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("scaled_dot_product_attention", attend, "AutogradCPU")
        library.impl("dropout", _drop, "AutogradCPU")
        for name in _IN_FP32:
            library.impl(name, _in_fp32(_operator(name)), "AutocastCPU")
        for name in _INTO_FP32:
            library.impl(name, _into_fp32(_operator(name)), "AutocastCPU")
        yield
    finally:
        library._destroy()


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _in_fp32(operator: Any) -> Callable[..., Any]:
    """Return the operator with half precision cast to fp32 before it."""

    def cast(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in _HALF else value

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return operator(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})

    return run


def _into_fp32(operator: Any) -> Callable[..., Any]:
    """Return the operator with fp32 as the format of its result, unless another was asked for."""

    def run(*args: Any, **kwargs: Any) -> Any:
        first = args[0]
        names = [argument.name for argument in operator._schema.arguments]
        given = dict(zip(names, args, strict=False))
        if first.dtype in _HALF and given.get("dtype") is None and kwargs.get("dtype") is None:
            args = args[: names.index("dtype")] if "dtype" in given else args
            kwargs["dtype"] = torch.float32
        with torch.autocast("cpu", enabled=False):
            return operator(*args, **kwargs)

    return run


def _drop(values: Any, p: float, train: bool) -> Any:
    if not train or p == 0.0:
        return values
    return torch.ops.aten.native_dropout(values, p, train)[0]


def _attending(kernel: str, kernels: tuple[str, ...]) -> Callable[..., Any]:
    """Return scaled_dot_product_attention by the kernel that torch would take, in its own order."""
    aten = torch.ops.aten

    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        taken = _kernel_of(kernel, kernels, query, value, attn_mask)
        if taken == "flash":
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if enable_gqa and key.size(1) != query.size(1):  # only flash reads a head several times
            repeats = query.size(1) // key.size(1)
            key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        if taken == "efficient":
            differentiates = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, _bias(attn_mask, query, key), differentiates, dropout_p, is_causal, scale=scale
            )[0]
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale
        )[0]

    return attend


def _kernel_of(kernel: str, kernels: tuple[str, ...], query: Any, value: Any, mask: Any) -> str:
    """Return flash, efficient or math. cuDNN's kernel keeps what flash keeps."""
    half = query.dtype in _HALF and mask is None and query.dim() == 4 and query.size(-1) <= _WIDEST_FLASH
    fused = query.dim() == 4 and query.size(-1) == value.size(-1) and not (mask is not None and mask.requires_grad)
    can = {"flash": half, "cudnn": half, "efficient": fused}
    wanted = ("flash", "efficient") if kernel == "auto" else (kernel,)
    found = next((name for name in wanted if name in kernels and can.get(name, False)), "math")
    return "flash" if found == "cudnn" else found


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """Return a mask as the efficient kernel takes it: in the query's format, seen as items × heads × both lengths."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype)
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))


# Tracks every storage of a device from allocation to release, without data: live bytes over time.
#
# A TorchDispatchMode above FakeTensorMode sees each operator that reaches a kernel with what it returns; a weak
# reference on each new storage tells its end. Python frees at once what nothing refers to, and autograd what its nodes
# let go, so that the order of births and deaths is that of a real step. What a kernel allocates and frees inside of
# itself is not seen (workspace of convolutions, buffers of threads): docs/memory.md has what that costs.
#
# torch.distributed._tools.mem_tracker.MemTracker does the same with hooks on every module. It is not used here: its
# package is private and imports torch.distributed, which not every build has; it takes one iteration of a module and no
# second (the peak of a training is in its second step, when the optimizer has its state); it books inputs as "other"
# and the temporaries of an optimizer as its state; and it knows no course over time, from which a caching allocator's
# reserve follows. The idea of kinds by origin is also that of DNNMem (Gao et al., ESEC/FSE 2020), which walks a graph
# with a formula for each operator; here each operator's own shape function is asked.

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_VALUE = torch.ops.aten._local_scalar_dense.default
# What a step would read from a tensor that has none: a mask has a hole, a count is 1, nothing is infinite.
_STAND_INS = {torch.bool: False}


class Birth(NamedTuple):
    """An allocation: its bytes, the phase in which it was made, and whether gradients were on while it was."""

    size: int
    phase: str
    recorded: bool


class LiveStorages(TorchDispatchMode):
    """Use as a context manager, inside of FakeTensorMode.

    granule: bytes that a size is rounded up to. instead: what is called in place of an operator.
    births: by number. course: (number, bytes) in order, negative where a storage dies. phase: set from outside.
    """

    def __init__(self, granule: int = 1, instead: Instead | None = None) -> None:
        super().__init__()
        self._granule, self._instead = granule, instead or {}
        self._numbers: dict[int, int] = {}
        self._watched: dict[int, Any] = {}
        self.phase = "build"
        self.births: list[Birth] = []
        self.course: list[tuple[int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and take note of what it allocated."""
        kwargs = kwargs or {}
        if func is _VALUE:
            return _value(args[0])
        if func in self._instead:
            with self:
                return self._instead[func](*args, **kwargs)
        if torch.is_inference_mode_enabled() and _has_parts(func):
            # Inference tensors have no autograd key, under which composite operators fall into their parts. Not
            # `decompose`: of some it takes a Python version, which lets go of its tensors earlier.
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        if func.overloadpacket.__name__.startswith("_fused_") and not func._schema.returns:
            return None  # an update in place: it allocates nothing, and not all have a shape function
        result = func(*args, **kwargs)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        return result

    def see(self, tensor: torch.Tensor) -> None:
        """Take note of a tensor's storage, where it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._numbers:
            return
        size = -(-storage.nbytes() // self._granule) * self._granule
        if size == 0:
            return
        number = len(self.births)
        self._numbers[key] = number
        self.births.append(Birth(size, self.phase, torch.is_grad_enabled()))
        self.course.append((number, size))
        self._watched[number] = weakref.ref(storage, lambda _: self._died(number, key))

    def _died(self, number: int, key: int) -> None:
        del self._numbers[key]
        del self._watched[number]
        self.course.append((number, -self.births[number].size))

    def numbers_of(self, tensors: Iterable[Any]) -> set[int]:
        """Return the numbers of the storages of tensors; None and what is elsewhere have none."""
        found = {self._numbers.get(tensor.untyped_storage()._cdata) for tensor in tensors if tensor is not None}
        return {number for number in found if number is not None}

    @property
    def alive(self) -> set[int]:
        """The numbers of what lives now."""
        return set(self._numbers.values())

    def since(self, begin: int) -> Iterator[tuple[int, int]]:
        """Yield (place in the course, bytes alive after it) from a place on."""
        alive = 0
        for place, (_, size) in enumerate(self.course):
            alive += size
            if place >= begin:
                yield place, alive

    def alive_at(self, place: int) -> set[int]:
        """Return the numbers of what lived after that place of the course."""
        living: set[int] = set()
        for number, size in self.course[: place + 1]:
            if size > 0:
                living.add(number)
            else:
                living.discard(number)
        return living


def _has_parts(func: Any) -> bool:
    if func.namespace != "aten":  # prim's are not in the dispatcher
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE.name))


def _value(tensor: Any) -> bool | int | float:
    """Return what `.item()` tells: the value where it is known, else one that leads on."""
    known = getattr(tensor, "constant", None)
    if known is not None:
        found: bool | int | float = known.item()
        return found
    if tensor.dtype in _STAND_INS:
        return _STAND_INS[tensor.dtype]
    return 1.0 if tensor.dtype.is_floating_point else 1


_RESIDENT = 4  # batches that a resident feed keeps on the device
_KERNELS = ("flash", "efficient", "cudnn", "math")


class Prepares(Protocol):
    """What an engine has."""

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        """Set the model up."""


def step_peak_memory(
    engine: Prepares, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device
) -> PeakMemory:
    """Return the peak of the engine's step. `drawn`: a few items as one batch, of whatever size; its rows are scaled.

    Raises Unsupported, with the reason, where the model cannot be followed without data.
    """
    card = case.placement.device != "cpu"
    size = int(case.configuration["batch_size"] or 1)
    if case.configuration.get("compile", "off") != "off":  # followed as it is written: what is compiled holds less
        case = msgspec.structs.replace(case, configuration={**case.configuration, "compile": "off"})
    kernels = tuple(name for name in _KERNELS if device.objection("sdpa", name) is None) if card else None
    try:
        with (
            pretending(case.configuration.get("sdpa"), kernels) as instead,
            LiveStorages(GRANULE if card else 1, instead) as live,
        ):
            account = _Account(live)
            begin = _followed(engine, case, model, drawn, device, account, size)
        return account.prediction(size, begin, workspaces=_workspaces(device, case), reserve=card)
    except (NotImplementedError, UnsupportedOperatorException) as error:
        raise Unsupported(f"torch has no shape function for an operator of this model ({_line(error)})") from error
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        raise Unsupported(f"data-dependent control flow or shapes in this model ({_line(error)})") from error
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise Unsupported(f"cannot be traced without data ({type(error).__name__}: {_line(error)})") from error


def _followed(
    engine: Prepares,
    case: Case,
    model: LoadedModel,
    drawn: Mapping[str, Any],
    device: Device,
    account: _Account,
    size: int,
) -> int:
    """Update once for the state of the optimizer, and take a step; return where in the course that begins."""
    last = nhwc(case.configuration)
    module = twin(model.module, lambda tensor: _empty(tensor, last=last))
    prepared: Any = engine.prepare(case, msgspec.structs.replace(model, module=module), device)
    optimizer = prepared.optimizer
    if optimizer is not None and case.placement.device != "cpu":
        _loop_as_torch_would(optimizer)
    resident = case.configuration.get("feed") == "resident"
    account.takes(module, optimizer, resident=resident)
    live = account.live
    live.phase = "inputs"
    batches = [_batch(drawn, size, last=last and resident) for _ in range(_RESIDENT if resident else 1)]
    account.resident([tensor for batch in batches for tensor in batch.tensors.values()])
    begin = len(live.course)
    following = cycle(batches)
    if optimizer is not None:
        account.updates()
    prepared.step(lambda: account.pulled(next(following)), account.mark)
    account.stepped()
    return begin


class _Account:
    """What each storage turned out to be. `live`: who follows them."""

    def __init__(self, live: LiveStorages) -> None:
        self.live = live
        self._parameters: Sequence[Any] = ()
        self._optimizer: Any = None
        self._resident = False
        self._begun = 0
        self._of: dict[str, set[int]] = {
            kind: set() for kind in ("weights", "gradients", "optimizer", "activations", "inputs")
        }

    def takes(self, module: torch.nn.Module, optimizer: Any, *, resident: bool) -> None:
        """Take note of what is there before the first step."""
        self._parameters, self._optimizer, self._resident = list(module.parameters()), optimizer, resident
        self._of["weights"] = self.live.numbers_of([*self._parameters, *module.buffers()])

    def resident(self, tensors: Sequence[Any]) -> None:
        """Take note of batches that stay."""
        self._of["inputs"] |= self.live.numbers_of(tensors)

    def pulled(self, batch: Batch) -> Batch:
        """A forward pass begins with a batch."""
        self.live.phase, self._begun = "inputs", len(self.live.births)
        return batch

    def mark(self, phase: str) -> None:
        """A phase has ended; the next begins."""
        live = self.live
        if phase == TRANSFER or (phase == DATA and self._resident):
            live.phase = FORWARD
        elif phase == FORWARD:
            self._of["activations"] |= {number for number in live.alive if number >= self._begun}
            live.phase = BACKWARD
        elif phase == BACKWARD:
            self._of["gradients"] |= live.numbers_of(p.grad for p in self._parameters)
            live.phase = OPTIMIZER

    def updates(self) -> None:
        """Update once, with gradients that are as large as any: what the first step of all does in its last phase."""
        self.live.phase = OPTIMIZER
        for parameter in self._parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        self._of["gradients"] |= self.live.numbers_of(p.grad for p in self._parameters)
        self._optimizer.step()
        self.stepped()
        self._optimizer.zero_grad(set_to_none=True)

    def stepped(self) -> None:
        """A step has ended."""
        if self._optimizer is not None:
            states = [value for state in self._optimizer.state.values() for value in state.values()]
            parts = (part for v in states if isinstance(v, torch.Tensor) for part in _parts(v))
            self._of["optimizer"] |= self.live.numbers_of(parts)

    def prediction(self, size: int, begin: int, *, workspaces: Sequence[int], reserve: bool) -> PeakMemory:
        """Return the peak from `begin` on."""
        live = self.live
        place, _ = max(live.since(begin - 1), key=lambda found: found[1])
        kinds: dict[str, int] = {}
        for number in live.alive_at(place):
            kind = self._kind(number)
            kinds[kind] = kinds.get(kind, 0) + live.births[number].size
        if workspaces:
            kinds["workspace"] = sum(workspaces)
        newest = live.births[live.course[place][0]].phase
        course = [*((-1 - thread, size) for thread, size in enumerate(workspaces)), *live.course]
        return PeakMemory(
            size,
            sum(kinds.values()),
            kinds,
            newest if newest in (FORWARD, BACKWARD, OPTIMIZER) else FORWARD,
            reserved_bytes(course) if reserve else None,
        )

    def _kind(self, number: int) -> str:
        for kind in ("weights", "gradients", "optimizer", "inputs"):
            if number in self._of[kind]:
                return kind
        birth = self.live.births[number]
        if birth.phase == "inputs":
            return "inputs"
        trains = self._optimizer is not None
        again = birth.phase == BACKWARD and birth.recorded  # checkpointing computes a forward pass again
        kept = number in self._of["activations"] or again or (not trains and birth.phase == FORWARD)
        return "activations" if kept else "temporaries"


def _empty(tensor: Any, *, last: bool) -> Any:
    if last and tensor.dim() == 4:
        return torch.empty(tensor.shape, dtype=tensor.dtype, memory_format=torch.channels_last, device="cpu")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")


def _batch(drawn: Mapping[str, Any], size: int, *, last: bool) -> Batch:
    for part in drawn.values():
        if not isinstance(part, torch.Tensor):
            raise Unsupported(
                f"the memory of a {type(part).__name__} is not known before it is there: measure it instead"
            )
    rows = next((tensor.size(0) for tensor in drawn.values() if tensor.dim()), 1)
    tensors = {}
    for name, tensor in drawn.items():
        shape = (size, *tensor.shape[1:]) if tensor.dim() and tensor.size(0) == rows else tuple(tensor.shape)
        layout = torch.channels_last if last and len(shape) == 4 else torch.contiguous_format
        tensors[name] = torch.empty(shape, dtype=tensor.dtype, memory_format=layout)
    return Batch(tensors, size)


def _loop_as_torch_would(optimizer: Any) -> None:
    """Choose foreach where nothing else was asked for: torch looks at the type of tensors, and these have another."""
    for group in optimizer.param_groups:
        if group.get("foreach", False) is None and not group.get("fused") and not group.get("differentiable"):
            group["foreach"] = True


def _parts(tensor: Any) -> Sequence[torch.Tensor]:
    """Return what a tensor is made of: of one in 8 bits, codes, scales and their table."""
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]


def _workspaces(device: Device, case: Case) -> tuple[int, ...]:
    """Return the bytes of each thread that multiplies: the one of backward passes beside the main one."""
    each = workspace_bytes(case.placement.device, getattr(device, "capability", None))
    return (each,) * (2 if case.workload.task == "train" else 1) if each else ()


def _line(error: BaseException) -> str:
    told: Scalar = str(error).strip().split("\n", 1)[0]
    return str(told)[:120] or type(error).__name__
