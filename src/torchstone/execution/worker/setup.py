"""Opens device, model and data of a trial. A data set is cut to its split and its limit here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from torchstone.core.cores import NEAR_DEVICE
from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import DATALOADER_AXES, Scalar
from torchstone.core.schema.batch import Unreadable, View
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import SettingFact
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.own_data import OwnData
from torchstone.core.schema.procedure import DEVICE_SETTINGS
from torchstone.core.schema.ranks import STRATEGY
from torchstone.core.schema.request import IN_HOST_MEMORY, PIN
from torchstone.execution.inspection import keep_to, located
from torchstone.execution.worker.collector import Collector
from torchstone.plugins import registry
from torchstone.plugins.data_choice import has_end
from torchstone.plugins.machine_protocols import Device, Vendor
from torchstone.plugins.protocols import DataSource, Engine, Samples

_BATCH = 32  # of a training on a Dataset, where nobody says; the most that Masters & Luschi advise (arXiv:1804.07612)
# The word that leaves an axis to the device, and what leaves it as torch has it.
_LEFT: Mapping[str, Scalar] = {"threads": 0, "channels_last": "auto", "fused": "auto", "sdpa": "auto"}
_TORCHS: Mapping[str, Scalar] = {"threads": 0, "channels_last": False, "fused": "off", "sdpa": "auto"}

Chosen = tuple[Scalar, SettingFact]  # the value for the engine, and for the record: its word, and why


def settle(case: Case, model: LoadedModel, device: Device, policy: str | None) -> tuple[Case, dict[str, SettingFact]]:
    """Return the Case in values, and how each axis was set that could have been left to the device.

    `policy` is the Procedure's `settings`: device; else as torch has it. What the user gave stands under any.
    """
    values, how = dict(case.configuration), dict[str, SettingFact]()
    for axis in (axis for axis in _CHOOSE if axis in values):
        if values[axis] != _LEFT[axis]:
            found: Chosen = values[axis], SettingFact(_word(values[axis]), "requested")
        elif policy == DEVICE_SETTINGS:
            found = _CHOOSE[axis](model, device, values)
        else:
            now = _threads_now() if axis == "threads" else _word(_TORCHS[axis])
            found = _TORCHS[axis], SettingFact(str(now), "default")
        values[axis], how[axis] = found
    if "channels_last" in values:  # to models and engines it is a truth
        values["channels_last"] = values["channels_last"] in (True, "on")
    return msgspec.structs.replace(case, configuration=values), how


def brought(model: LoadedModel, case: Case) -> OwnData:
    """Return what a user's own code gave to work on, where it is that of the Case."""
    samples = model.samples
    if case.workload.data != "example":
        return OwnData()
    if samples is None:
        example = model.example
        return OwnData(settings={"batch_size": len(next(iter(example.values())))}) if example else OwnData()
    # What is the loader's own is among the facts of its model, as plugins/models/py/own_data.py finds it.
    own = {axis: model.facts.own(axis) for axis in DATALOADER_AXES}
    if own["batch_size"] is None and hasattr(samples, "__getitem__") and case.workload.task == Task.TRAIN:
        own["batch_size"] = min(_BATCH, max(1, len(samples) // 4))  # a Dataset has none, and few train on single items
    fixed: Mapping[str, Scalar] = getattr(samples, "fixed", None) or {}
    settings = {axis: value for axis, value in {**own, **fixed}.items() if value is not None}
    if case.placement.device in IN_HOST_MEMORY and PIN in settings:
        settings[PIN] = False
    return OwnData(True, settings, fixed, getattr(samples, "why", None) if fixed else None)


def _threads(_model: LoadedModel, device: Device, values: Mapping[str, Scalar]) -> Chosen:
    """Take fewer threads than torch, never more: it may know of a limit that is not seen here.

    Where both say the same, nothing is set: torch.set_num_threads also ends MKL's own choice for small products.
    """
    now, wished = _threads_now(), device.preference("threads", values)
    if wished is None:
        return 0, SettingFact(str(now), "default")
    number, why = int(wished[0] or 0), wished[1]
    if number < now:
        return number, SettingFact(str(number), "fewer", {"why": why, "default": now})
    return 0, SettingFact(str(now), "same", {"why": why}) if number == now else SettingFact(str(now), "default")


def _layout(model: LoadedModel, device: Device, values: Mapping[str, Scalar]) -> Chosen:
    convolutions = sum(parameter.dim() == 4 for parameter in model.module.parameters())
    if convolutions < 2:  # a vision transformer has one, that cuts the image into patches
        return False, SettingFact("off", "no_convolutions")
    if values.get(STRATEGY) == "fsdp2":
        return False, SettingFact("off", "contiguous")
    if model.objection is not None and (reason := model.objection("channels_last", True)):
        return False, SettingFact("off", "refused", {"why": reason})
    wished = device.preference("channels_last", values)
    if wished is None:
        return False, SettingFact("off", "default")
    return wished[0], SettingFact(_word(wished[0]), "device", {"why": wished[1]})


def _fused(model: LoadedModel, device: Device, _values: Mapping[str, Scalar]) -> Chosen:
    if model.optimizer is not None:
        return "off", SettingFact("off", "own_optimizer")
    if (reason := device.objection("fused", "on")) is not None:
        return "off", SettingFact("off", "refused", {"why": reason})
    # The engine falls back where torch refuses a parameter; its fact `fused_optimizer` says how it went.
    return "auto", SettingFact("on", "fused_kernels")


def _attention(_model: LoadedModel, device: Device, _values: Mapping[str, Scalar]) -> Chosen:
    """Leave the order to torch, which has one for each device and looks at the shapes; tell what it chooses from."""
    import torch

    cuda: Any = torch.backends.cuda  # torch's switches are called so, and hold for every device
    enabled = {
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
    }
    kernels = [name for name, on in enabled.items() if on and device.objection("sdpa", name) is None]
    return "auto", SettingFact("auto", "order", {"kernels": tuple(kernels)})


def _threads_now() -> int:
    import torch

    return torch.get_num_threads()


def _word(value: Scalar) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


_CHOOSE: Mapping[str, Callable[[LoadedModel, Device, Mapping[str, Scalar]], Chosen]] = {
    "threads": _threads,
    "channels_last": _layout,
    "fused": _fused,
    "sdpa": _attention,
}


class Setup(NamedTuple):
    """A model on an open device, ready to step, and what is measured of it so far. `prepared`: of the engine."""

    case: Case
    engine: Engine
    model: LoadedModel
    prepared: Any
    device: Device
    tally: Collector


class SetupPart:
    """Some items of a data set, in an order of their own."""

    def __init__(self, samples: Samples, numbers: list[int]) -> None:
        self._samples = samples
        self.numbers = numbers
        self.tokenizer = getattr(samples, "tokenizer", None)
        self.augments = getattr(samples, "augments", False)
        self.collate = getattr(samples, "collate", None)  # a user's own way to make a batch of items

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Mapping[str, Any] | Unreadable:
        return self._samples[self.numbers[index]]

    def label(self, index: int) -> int | None:
        """Return the class of an item, where the data set tells it."""
        label_of = getattr(self._samples, "label", None)
        return label_of(self.numbers[index]) if label_of is not None else None


def open_device(case: Case) -> Device:
    """Open the device of a case. Raises RuntimeError if it was there when the run began, and is no more."""
    try:
        device: Device = registry.load("devices", case.placement.device).open(case.placement.index)
    except Unsupported as gone:  # only devices that were there when the run began are in its plan
        raise RuntimeError(f"device lost: {gone}") from gone
    return device


def kept_to(word: str, placement: Placement) -> str:
    """Keep this trial to the cores that its Procedure asks for; return them as text. Raises UsageError if it cannot."""
    vendor: Vendor = registry.load("devices", placement.device)
    info = None
    if word == NEAR_DEVICE:
        info = next((located(device) for device in vendor.probe() if device.index == placement.index), None)
    return keep_to(word, info)


def load_model(case: Case) -> LoadedModel:
    """Load the model of a case, on the CPU."""
    scheme, _, name = case.workload.model.partition(":")
    model: LoadedModel = registry.load("models", scheme).load(name, case.workload, case.configuration)
    return model


def open_samples(case: Case, model: LoadedModel, seed: int) -> Samples | None:
    """Open the data of a case as it is measured: the model's own, if it brings some; None for its example."""
    if case.workload.data.partition(":")[0] == "example":
        if model.tokenizer is not None and model.samples is None:  # what to read was not said: any text will do
            made: DataSource = registry.load("data", "synthetic")
            return made.samples("", view_of(case, model, seed, None))
        own: Samples | None = model.samples
        return own
    split = case.workload.data_options.get("split")
    return limited(open_view(case, view_of(case, model, seed, str(split) if split else None)), case, seed)


def view_of(case: Case, model: LoadedModel, seed: int, split: str | None, **others: Any) -> View:
    """Return the View of a split for a model; `others`: further fields of it."""
    own = {name: value for name, value in case.workload.data_options.items() if name not in ("split", "limit")}
    view = View(model.input, case.configuration, model.tokenizer, seed, own, split)
    return msgspec.structs.replace(view, **others)


def open_view(case: Case, view: View) -> Samples:
    """Open the data of a case as that View sees it."""
    scheme, _, path = case.workload.data.partition(":")
    source: DataSource = registry.load("data", scheme)
    return source.samples(path, view)


def limited(samples: Samples, case: Case, seed: int) -> Samples:
    """Return at most `limit` items: drawn by the seed, in their own order, so that no class is favoured."""
    limit = case.workload.data_options.get("limit")
    if limit is None or int(limit) >= len(samples):
        return samples
    import torch

    drawn = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    return SetupPart(samples, sorted(drawn[: int(limit)]))


def dataset_items(case: Case, samples: Samples | None, *, own: bool) -> int | None:
    """Return how many items an epoch has; None for what is made to measure, or comes in batches without a length.

    `own`: the model brought the samples.
    """
    counted = samples is not None and hasattr(samples, "__len__") and (own or has_end(case.workload.data))
    return len(samples) if samples is not None and counted else None
