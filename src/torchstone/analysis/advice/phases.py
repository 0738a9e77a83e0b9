"""Which phase of a step takes the time, what usually causes it, and what to change.

The seeds' thresholds (data above 30 ms, GPU utilization below 70 %) are rules of thumb for one model on one card: the
decision here is by share of the step (rules.py), and the thresholds are told beside it (usual.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from torchstone.analysis.advice import rules, usual
from torchstone.analysis.advice.rules import Rule, texts
from torchstone.analysis.advice.setting import Setting
from torchstone.core import units
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.phase import BACKWARD, DATA, DECODE, FORWARD, OPTIMIZER, PREFILL, REST, TRANSFER

_COMPUTES = (PREFILL, DECODE, FORWARD, BACKWARD)


def advise(phases: Mapping[str, float], setting: Setting) -> list[Advice]:
    """Return what the phases of a step (name → seconds; they and `rest` sum to it) say, the largest share first."""
    step_s = sum(phases.values())
    setting = msgspec.structs.replace(setting, trains=BACKWARD in phases)
    if step_s <= 0.0:
        return [_idle(setting.idle, None, setting)] if setting.idle is not None else []
    return [advice for _, advice in sorted(_all(phases, step_s, setting), key=lambda one: -one[0])]


def _all(phases: Mapping[str, float], step_s: float, setting: Setting) -> Iterator[tuple[float, Advice]]:
    share = {name: value_s / step_s for name, value_s in phases.items()}
    said = lambda name: f"{name} is {100 * share[name]:.0f} % of the step ({units.quantity(phases[name], 's')})"
    data, idles = share.get(DATA, 0.0), setting.idle
    idle_share = 1.0 - (setting.utilization or 0.0)
    by_loader = data >= max(rules.LOADER.least, rules.NOT_FILLED.least * idle_share)
    if data >= rules.LOADER.least:
        yield data, _data(said(DATA), phases[DATA], setting, idles if by_loader else None)
    if idles is not None and not by_loader:
        yield idle_share, _idle(idles, data, setting)
    if share.get(TRANSFER, 0.0) >= rules.TRANSFER.least:
        seen = f"{said(TRANSFER)}: batches are copied while the device waits"
        yield share[TRANSFER], _advice(seen, rules.TRANSFER, setting)
    computing = sum(share.get(name, 0.0) for name in _COMPUTES)
    if computing >= rules.COMPUTING.least:
        seen = " and ".join(said(name) for name in _COMPUTES if name in phases)
        decodes = share.get(DECODE, 0.0) >= rules.COMPUTING.least
        yield computing, _compute(f"{seen}: computing is what limits", decodes, setting)
    if share.get(OPTIMIZER, 0.0) >= rules.OPTIMIZER.least:
        yield share[OPTIMIZER], _advice(f"{said(OPTIMIZER)}, usually a small share", rules.OPTIMIZER, setting)
    if share.get(REST, 0.0) >= rules.BETWEEN_PHASES.least:
        yield share[REST], _advice(f"{said(REST)}: time between the phases", rules.BETWEEN_PHASES, setting)


def _advice(seen: str, rule: Rule, setting: Setting) -> Advice:
    return Advice(seen, tuple(rule.usual(setting)), texts(rule, setting))


def _data(seen: str, data_s: float, setting: Setting, idle: str | None) -> Advice:
    told = [f"{seen}: the step waits for the loader"]
    if data_s > usual.DATA_S:
        told.append(f"more than the usual {units.quantity(usual.DATA_S, 's', 2)}")
    if idle is not None:
        told.append(idle)
    return _advice("; ".join(told), rules.LOADER, setting)


def _idle(idle: str, data: float | None, setting: Setting) -> Advice:
    """Say that a device is not filled. `data`: the share of the step, None where phases are unknown."""
    if data is None:
        found = _advice(f"{idle}: it is not filled", rules.NOT_FILLED, setting)
        workers = tuple(one.text for one in rules.more_workers(setting))
        return Advice(found.seen, ("a loader that is waited for", *found.causes), (*found.remedies, *workers))
    return _advice(f"{idle}, and data is {100 * data:.0f} % of the step: it is not filled", rules.NOT_FILLED, setting)


def _compute(seen: str, decodes: bool, setting: Setting) -> Advice:
    found = _advice(seen, rules.COMPUTING, setting)
    if not decodes:
        return found
    shared = "a larger batch: a token of every item shares one reading of the weights"
    return Advice(found.seen, found.causes, (shared, *found.remedies))
