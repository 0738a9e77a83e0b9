"""What a training step is made with: the optimizer, adapters, and how ranks share it (DDP, or FSDP2)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import EIGHT_BIT, Scalar
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.ranks import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, STRATEGY, Collective, is_distributed
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Replicas

# Under two names each: torch 2.12 has new ones.
_GATHERS = ("all_gather_into_tensor", "all_gather_single")
_SCATTERS = ("reduce_scatter_tensor", "reduce_scatter_single")
_Call = Callable[..., Any]


class _Done:
    """The handle of a collective that has ended."""

    def wait(self) -> bool:
        """Return at once."""
        return True


def _ends(given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the output and the input of a collective that is called by either of its names."""
    words = ("output", "input")[len(given) :]
    both = [*given[:2], *(named[name] if name in named else named[f"{name}_tensor"] for name in words)]
    return both[0], both[1]


def _gather_copy(*given: Any, **named: Any) -> _Done | None:
    output, own = _ends(given, named)
    for part in output.view(-1, own.numel()):
        if part.data_ptr() != own.data_ptr():  # a rank gathers into a buffer that has its own part already
            part.copy_(own.view(-1))
    return _Done() if named.get("async_op") else None


def _scatter_copy(*given: Any, **named: Any) -> _Done | None:
    output, whole = _ends(given, named)
    output.view(-1).copy_(whole.reshape(-1)[: output.numel()])
    return _Done() if named.get("async_op") else None


def has_mean(place: torch.device) -> bool:
    """Ask the ranks' backend whether the mean that it scatters is one: all ranks ask, or none.

    fully_shard asks for a mean. gloo of torch 2.8 returns the sum, and says nothing (pytorch/pytorch#162338): gradients
    are then as many times too large as there are ranks. oneCCL refuses it on some devices (intel/torch-xpu-ops#2361).
    """
    size = dist.get_world_size()
    if size == 1:  # its mean is its own
        return True
    mean = torch.zeros(1, device=place)
    scatter: _Call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # before torch 2.12
    try:
        scatter(mean, torch.ones(size, device=place), op=dist.ReduceOp.AVG)
    except RuntimeError:
        return False
    return abs(float(mean) - 1.0) < 0.01


@contextlib.contextmanager
def _in_place_of(calls: Mapping[str, _Call]) -> Iterator[None]:
    before = {name: getattr(dist, name) for name in calls if hasattr(dist, name)}
    try:
        for name in before:
            setattr(dist, name, calls[name])
        yield
    finally:
        for name, call in before.items():
            setattr(dist, name, call)


@contextlib.contextmanager
def replaced_by_copies() -> Iterator[None]:
    """Have gathers and scatters within copy this rank's own part, which costs what any copy of the result does."""
    with _in_place_of({**dict.fromkeys(_GATHERS, _gather_copy), **dict.fromkeys(_SCATTERS, _scatter_copy)}):
        yield


@contextlib.contextmanager
def recorded() -> Iterator[list[Collective]]:
    """Return a list to which the gathers and scatters within are added."""
    found: list[Collective] = []

    def noting(kind: str, name: str) -> _Call:
        real: _Call = getattr(dist, name, _absent)

        def call(*given: Any, **named: Any) -> Any:
            output, source = _ends(given, named)
            whole = output if kind == ALL_GATHER else source
            word, size = str(whole.dtype).removeprefix("torch."), whole.numel() * whole.element_size()
            found.append(Collective(kind, whole.numel(), word, size))
            return real(*given, **named)

        return call

    calls = {name: noting(ALL_GATHER, name) for name in _GATHERS}
    calls |= {name: noting(REDUCE_SCATTER, name) for name in _SCATTERS}
    with _in_place_of(calls):
        yield found


def _absent(*_others: Any, **_named: Any) -> Any:
    raise AttributeError("torch.distributed has no such collective")


_CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
# How often an update passes over as many numbers as there are weights: weights, gradients and moments read, weights and
# moments written. One that is not known reads weights and gradients, and writes weights.
PASSES = {"sgd": 5, "adam": 7, "adamw": 7, **dict.fromkeys(EIGHT_BIT, 4)}  # a moment in 8 bits is a quarter
LEAST_PASSES = 3


def scaler(configuration: Mapping[str, Scalar], device: Device, *, fused: bool) -> Any:
    """Return the loss scaler of fp16; None for other formats. `fused`: the update undoes the scale itself.

    Raises Unsupported where torch would undo it in fp64 and the device has none, as Intel's Arc (unscale_ of
    torch/amp/grad_scaler.py makes an exception of MPS alone).
    """
    if configuration.get("precision") != "fp16":
        return None
    place = torch.device(device.torch_device)
    unscales = not fused or float(configuration.get("grad_clip") or 0.0) > 0.0
    if place.type == "xpu" and unscales and not getattr(torch.xpu.get_device_properties(place), "has_fp64", True):
        raise Unsupported(
            "precision=fp16: torch's loss scaler computes in fp64, which this device lacks; "
            "use precision=bf16, or a fused optimizer without grad_clip"
        )
    return torch.amp.GradScaler(device=place.type)


_HEADS = ("classifier", "score", "qa_outputs")  # of transformers' models, by peft's names of them


def with_adapters(module: torch.nn.Module, configuration: Mapping[str, Scalar]) -> torch.nn.Module:
    """Return the module with low-rank adapters (LoRA, arXiv:2106.09685), all else frozen.

    Which layers have one is peft's choice for an architecture of transformers that it knows; else each linear layer
    has. The head of a model of transformers is new for its task, and trained itself.
    """
    rank = int(configuration.get("lora") or 0)
    if not rank:
        return module
    try:
        import peft
        from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN
    except ImportError as error:
        raise Unsupported(f"lora={rank} needs peft: pip install 'torchstone[lora]'") from error
    kind, layers = getattr(getattr(module, "config", None), "model_type", None), None
    heads = [name for name, _ in module.named_children() if kind is not None and name.endswith(_HEADS)]
    if kind not in KNOWN:
        words = getattr(module, "get_output_embeddings", lambda: None)()
        # The exact type: nn.MultiheadAttention reads the weights of its own kind of it, past any adapter.
        linear = [name for name, part in module.named_modules() if type(part) is torch.nn.Linear and part is not words]
        layers = [name for name in linear if name.partition(".")[0] not in heads]
        if not layers:
            raise Unsupported(f"lora={rank}: the model has no linear layer")
    torch.backends.mha.set_fastpath_enabled(False)  # nn.TransformerEncoder's: it reads weights past adapters, too
    adapters = peft.LoraConfig(r=rank, target_modules=layers, modules_to_save=heads or None)
    adapted: torch.nn.Module = peft.inject_adapter_in_model(adapters, module)
    return adapted


def build(trainable: Sequence[Any], configuration: Mapping[str, Scalar]) -> tuple[torch.optim.Optimizer, bool | None]:
    """Return the optimizer and whether its kernels are fused; None: it has no such kernels.

    SGD goes with momentum 0.9, as it is used.
    """
    if not trainable:
        raise Unsupported("the model has no trainable parameter")
    name = str(configuration["optimizer"])
    settings: dict[str, Any] = {"lr": float(configuration["learning_rate"] or 0.0)}
    wish = configuration.get("fused", "auto")
    if name in EIGHT_BIT:
        if wish == "on":
            raise Unsupported(f"fused=on: {name} has no such kernels")
        return in_eight_bits(name)(trainable, **settings), None
    if name == "sgd":
        settings["momentum"] = 0.9
    if wish != "off":
        try:
            return _CLASSES[name](trainable, fused=True, **settings), True
        except RuntimeError as error:  # torch raises it for devices without fused kernels
            if wish == "on":
                raise Unsupported(f"fused=on: {str(error).splitlines()[0]}") from error
    return _CLASSES[name](trainable, **settings), False


def in_eight_bits(name: str) -> Any:
    """Return torchao's optimizer of that name."""
    try:
        from torchao import optim
    except ImportError as error:
        raise Unsupported(f"optimizer={name} needs torchao: pip install 'torchstone[torchao]'") from error
    return {"adam8bit": optim.Adam8bit, "adamw8bit": optim.AdamW8bit}[name]


class _Ddp(DistributedDataParallel):
    """DDP through which the module's own attributes are seen: a loss may read the model's configuration."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


class Ddp:
    """Every rank has the whole model; gradients are averaged in buckets while the backward pass goes on."""

    def __init__(self, module: torch.nn.Module, device: Device) -> None:
        place = torch.device(device.torch_device)
        self.module = module
        self.call: Any = _Ddp(module, device_ids=None if place.type == "cpu" else [place])
        self._silent = False

    def synchronize(self, *, last: bool) -> None:
        """Say whether the next backward pass averages gradients: that of the last batch before an update."""
        self.call.require_backward_grad_sync = last and not self._silent  # what no_sync() sets

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Have the steps within communicate nothing."""
        self._silent = True
        self.synchronize(last=False)
        try:
            yield
        finally:
            self._silent = False
            self.synchronize(last=True)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Sequence[Collective]]:
        """Return the collectives of a step: DDP has its buckets, after its first steps have ordered them anew."""
        found: list[Collective] = []
        yield found
        told = self.call._get_ddp_logging_data()
        sizes = told.get("rebuilt_bucket_sizes") or told.get("bucket_sizes") or ""
        kind = next(p.dtype for p in self.module.parameters() if p.requires_grad)
        each = [int(size) for size in str(sizes).split(",") if size.strip()]
        word = str(kind).removeprefix("torch.")
        found += [Collective(ALL_REDUCE, size // kind.itemsize, word, size) for size in each]

    def facts(self) -> Facts:
        """Return what was settled."""
        return Facts()


class Fsdp2:
    """Every rank has a part of each weight; a unit's weights are gathered before they are used."""

    def __init__(self, module: torch.nn.Module, device: Device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        if any(not parameter.is_contiguous() for parameter in module.parameters()):
            raise Unsupported("strategy=fsdp2: fully_shard takes contiguous weights only; channels_last=off")
        mesh = init_device_mesh(torch.device(device.torch_device).type, (dist.get_world_size(),))
        self._units = units(module)
        self._sums = not has_mean(torch.device(device.torch_device))
        for unit in (*self._units, module):
            fully_shard(unit, mesh=mesh)
            if self._sums:
                _divide_sums(unit)
        self.call: Any = module
        self.module = module

    def synchronize(self, *, last: bool) -> None:
        """Say whether the next backward pass reduces gradients: that of the last batch before an update."""
        self.call.set_requires_gradient_sync(last)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Have the steps within communicate nothing: each rank copies its own part wherever another's would come."""
        with replaced_by_copies():
            yield

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Sequence[Collective]]:
        """Return the collectives of the step within."""
        with recorded() as found:
            yield found

    def facts(self) -> Facts:
        """Return the units that are sharded by themselves, and which give their weights back after the forward pass.

        Where nobody says, torch decides, and keeps the root's (pytorch/pytorch#155319).
        """
        units = [_resharding(unit) for unit in self._units]
        return Facts(
            fsdp_units=len(units),
            reshard_after_forward=(_resharding(self.module), *sorted(set(units))),
            fsdp_gradients="summed" if self._sums else None,
        )


def units(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the blocks of a model that are sharded one by one: those of its lists of equal modules.

    So do PyTorch's tutorial of FSDP2 and torchtitan: each transformer block, then the whole.
    """
    found: list[torch.nn.Module] = []
    for part in module.modules():
        if isinstance(part, torch.nn.ModuleList | torch.nn.Sequential) and part is not module:
            blocks = list(part)
            alike = len(blocks) > 1 and len({type(block) for block in blocks}) == 1
            if alike and all(any(True for _ in block.parameters()) for block in blocks):
                found += [block for block in blocks if not any(block in list(own.modules()) for own in found)]
    return found


def _divide_sums(unit: Any) -> None:
    """Have a unit that is sharded ask for sums of its gradients, and divide them itself."""
    ask = getattr(unit, "set_force_sum_reduction_for_comms", None)
    if ask is None:
        raise Unsupported("strategy=fsdp2: the backend of this torch has no mean of gradients; strategy=ddp")
    ask(True)


def _resharding(unit: Any) -> str:
    """Say whether a unit gives its weights back after the forward pass, as torch has resolved it."""
    group = getattr(unit._get_fsdp_state(), "_fsdp_param_group", None)
    if group is None:
        return "no weights of its own"
    return "yes" if getattr(group, "_reshard_after_forward", None) else "no"


def replicas_of(module: torch.nn.Module, configuration: Mapping[str, Scalar], device: Device) -> Replicas | None:
    """Share a module that is on its device among the ranks, as the Configuration says; None for one process."""
    if not is_distributed(configuration):
        return None
    if not dist.is_initialized():
        raise Unsupported(f"strategy={configuration[STRATEGY]}: no process group is here; `torchstone run` has one")
    return Ddp(module, device) if configuration[STRATEGY] == "ddp" else Fsdp2(module, device)
