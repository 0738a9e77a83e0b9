"""Which phase of a step takes the time, what usually causes it, and what to change.

The seeds' thresholds (data above 30 ms, GPU utilization below 70 %) are rules of thumb for one model on one card: the
decision here is by share of the step, and the thresholds are told beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from torchstone.analysis.advice import usual
from torchstone.analysis.advice.advice import Advice
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.phase import BACKWARD, DATA, DECODE, FORWARD, OPTIMIZER, PREFILL, REST, TRANSFER

_COMPUTES = (PREFILL, DECODE, FORWARD, BACKWARD)
_WAITING = 0.10  # of a step spent on waiting, copying or between phases: worth a remedy
_UPDATING = 0.20  # of a step spent in the optimizer: usually it is a small share
_COMPUTING = 0.50  # of a step spent in the passes of the model: the device's arithmetic is what limits
_EXPLAINS = 0.50  # of a device's idle time: waiting for data of that much is why it idles
_WORKERS = (2, 4, 8, 12, 16)


class Setting(msgspec.Struct, frozen=True):
    """What is known beside the phases. `cores`: logical ones of the host; `utilization`: of the device, 0 to 1."""

    configuration: Mapping[str, Scalar]
    cores: int | None = None
    accelerator: bool = False
    utilization: float | None = None


def advise(phases: Mapping[str, float], setting: Setting) -> list[Advice]:
    """Return what the phases of a step (name → seconds; they and `rest` sum to it) say, the largest share first."""
    step_s = sum(phases.values())
    if step_s <= 0.0:
        idle = usual.idle_words(setting.utilization)
        return [_idle(idle, None, setting)] if idle is not None else []
    return [advice for _, advice in sorted(_all(phases, step_s, setting), key=lambda one: -one[0])]


def _all(phases: Mapping[str, float], step_s: float, setting: Setting) -> Iterator[tuple[float, Advice]]:
    share = {name: value_s / step_s for name, value_s in phases.items()}
    said = lambda name: f"{name} is {100 * share[name]:.0f} % of the step ({units.quantity(phases[name], 's')})"
    data, idles = share.get(DATA, 0.0), usual.idle_words(setting.utilization)
    idle_share = 1.0 - (setting.utilization or 0.0)
    by_loader = data >= max(_WAITING, _EXPLAINS * idle_share)
    if data >= _WAITING:
        yield data, _data(said(DATA), phases[DATA], setting, idles if by_loader else None)
    if idles is not None and not by_loader:
        yield idle_share, _idle(idles, data, setting)
    if share.get(TRANSFER, 0.0) >= _WAITING:
        yield share[TRANSFER], _transfer(said(TRANSFER), setting)
    computing = sum(share.get(name, 0.0) for name in _COMPUTES)
    if computing >= _COMPUTING:
        seen = " and ".join(said(name) for name in _COMPUTES if name in phases)
        decodes = share.get(DECODE, 0.0) >= _COMPUTING
        yield computing, _compute(seen, BACKWARD in phases, decodes, setting)
    if share.get(OPTIMIZER, 0.0) >= _UPDATING:
        yield share[OPTIMIZER], _optimizer(said(OPTIMIZER), setting)
    if share.get(REST, 0.0) >= _WAITING:
        yield share[REST], _rest(said(REST), setting)


def _data(seen: str, data_s: float, setting: Setting, idle: str | None) -> Advice:
    """S2-27, S2-32, S2-45: the loader."""
    told = [f"{seen}: the loader holds the step up"]
    if data_s > usual.DATA_S:
        told.append(f"more than the usual {units.quantity(usual.DATA_S, 's', 2)}")
    if idle is not None:
        told.append(idle)
    remedies = [*_more_workers(setting), *_pinned(setting), "a faster disk", "less preprocessing for each item"]
    return Advice("; ".join(told), ("slow disk", "too few workers", "costly preprocessing"), tuple(remedies))


def _more_workers(setting: Setting) -> Iterator[str]:
    workers = setting.configuration.get("num_workers")
    if not isinstance(workers, int):
        return
    cores = setting.cores
    more = [n for n in _WORKERS if n > workers and (cores is None or n <= cores)]
    if more:
        yield f"num_workers={','.join(map(str, more[:3]))}"
    elif cores is not None and workers >= cores:
        yield f"a faster CPU: {workers} workers on {cores} cores will not get faster by more workers"


def _pinned(setting: Setting) -> Iterator[str]:
    if setting.accelerator and setting.configuration.get("pin_memory") is False:
        yield "pin_memory=true"


def _idle(idle: str, data: float | None, setting: Setting) -> Advice:
    """S2-34: a device that is not filled. `data`: the share of the step, None where phases are unknown."""
    causes = ["batch too small", "launches and synchronisation between its kernels"]
    remedies = ["a larger batch", *(["compile=default"] if setting.configuration.get("compile") == "off" else [])]
    if data is None:
        causes.insert(0, "a loader that is waited for")
        remedies += _more_workers(setting)
        return Advice(f"{idle}: it is not filled", tuple(causes), tuple(remedies))
    seen = f"{idle}, and data is {100 * data:.0f} % of the step: it is not filled"
    return Advice(seen, tuple(causes), tuple(remedies))


def _transfer(seen: str, setting: Setting) -> Advice:
    """S2-27, S4-61: the copy to the device."""
    remedies = (*_pinned(setting), "smaller numbers in a batch (uint8 images, normalised on the device)")
    return Advice(f"{seen}: batches are copied while the device waits", ("pageable memory", "large batches"), remedies)


def _compute(seen: str, trains: bool, decodes: bool, setting: Setting) -> Advice:
    """S2-28, S2-29, S2-33: the device's arithmetic."""
    configuration = setting.configuration
    remedies = list(_mixed(configuration))
    if decodes:
        remedies.append("a larger batch: a token of every item shares one reading of the weights")
    if configuration.get("compile") == "off":
        remedies.append("compile=default")
    if trains and configuration.get("gradient_checkpointing") is False:
        remedies.append("gradient_checkpointing=true where memory is short (backward itself gets longer)")
    remedies.append("a lighter model")
    filled = usual.idle_words(setting.utilization) is None
    causes = ["complex model", *(["large batch"] if filled else []), "inefficient operations"]
    if trains:
        causes.append("complex graph of the backward pass")
    return Advice(f"{seen}: computing is what limits", tuple(causes), tuple(remedies))


def _mixed(configuration: Mapping[str, Scalar]) -> Iterator[str]:
    if configuration.get("precision") in ("fp32", "tf32"):
        yield "precision=bf16"


def _optimizer(seen: str, setting: Setting) -> Advice:
    """S2-30: the update, usually a small share."""
    configuration = setting.configuration
    remedies = ["a larger batch or grad_accumulation: fewer updates for each item"]
    if configuration.get("fused") == "off":
        remedies.append("fused=on")
    if configuration.get("optimizer") in ("adam", "adamw"):
        remedies.append("sgd, which keeps less for each weight, if it trains as well")
    return Advice(f"{seen}, usually a small share", ("large model", "small batch", "AdamW"), tuple(remedies))


def _rest(seen: str, setting: Setting) -> Advice:
    remedies = ["a larger batch"] + (["compile=default"] if setting.configuration.get("compile") == "off" else [])
    return Advice(f"{seen}: time between the phases", ("Python between the calls", "synchronisation"), tuple(remedies))
