"""Resolves `auto` settings for the device of a trial: every `auto` becomes a value, with its reason.

An engine is given values only. `precision: auto` is none of these: it changes what is computed, and so the plan has
decided it before there is a Case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from torchstone.core.schema.axis import DATALOADER_AXES, EAGER, Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.facts import SettingFact
from torchstone.core.schema.model import LoadedModel, OwnData
from torchstone.core.schema.procedure import DEVICE_SETTINGS
from torchstone.core.schema.ranks import STRATEGY
from torchstone.core.schema.request import IN_HOST_MEMORY, PIN
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import fixed_axes

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
    fixed = fixed_axes(samples)
    settings = {axis: value for axis, value in {**own, **fixed}.items() if value is not None}
    if case.placement.device in IN_HOST_MEMORY and PIN in settings:
        settings[PIN] = False
    return OwnData(True, settings, fixed, samples.why if fixed else None)


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
    if values.get("runtime", EAGER) != EAGER:
        return False, SettingFact("off", "own_layout")
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
