"""An accelerator beside the CPU at equal batches: how many times as fast, and what holds it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.curves import phases_s
from torchstone.analysis.advice.equal_settings import Pair, at_equal_settings
from torchstone.analysis.advice.setting import Setting
from torchstone.analysis.advice.speed import times_as_fast, times_words
from torchstone.analysis.advice.trainings import Span
from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.phase import TRANSFER

_CPU = "cpu"


class Beside(NamedTuple):
    """What is said of an accelerator, and the Case of its largest batch that the CPU ran, too."""

    case: CaseSummary
    advice: Advice


def beside_the_cpu(cases: Sequence[CaseSummary]) -> list[Beside]:
    """Return a reading of each accelerator among the Cases of one workload; none where the CPU was not measured.

    Each device stands there with its fastest settings; where they differ, a second reading says which, and how many
    times as fast it is at equal ones.
    """
    by_device: dict[str, list[CaseSummary]] = {}
    for case in cases:
        by_device.setdefault(str(case.placement), []).append(case)
    cpu = by_device.pop(_CPU, None)
    return [] if cpu is None else [one for device, own in by_device.items() for one in _beside(device, own, cpu)]


def _beside(device: str, own: Sequence[CaseSummary], cpu: Sequence[CaseSummary]) -> list[Beside]:
    ours, theirs = _fastest(own), _fastest(cpu)
    pairs: dict[int, Pair] = {}
    gains: dict[int, Span] = {}
    for size, case in theirs.items():
        if size in ours and (gain := times_as_fast(ours[size], case)) is not None:
            pairs[size], gains[size] = Pair(ours[size], case), gain
    if not gains:
        return [Beside(own[0], Advice(f"{device} and the CPU have no batch size in common that both measured"))]
    last = pairs[max(pairs)].own
    unequal = at_equal_settings(device, pairs, own, cpu)
    return [Beside(last, _reading(device, last, gains)), *([Beside(last, unequal)] if unequal is not None else [])]


def _fastest(cases: Sequence[CaseSummary]) -> Mapping[int, CaseSummary]:
    """Return the Case of each batch size; where it was measured with several other settings, the fastest."""
    found: dict[int, CaseSummary] = {}
    for case in cases:
        size, rate = case.configuration.get("batch_size"), case.estimates.get("throughput")
        if isinstance(size, int) and rate is not None and rate.value > 0.0:
            before = found.get(size)
            found[size] = case if before is None or rate.value > before.estimates["throughput"].value else before
    return found


def _reading(device: str, last: CaseSummary, gains: Mapping[int, Span]) -> Advice:
    told = ", ".join(f"{times_words(gain)} times as fast at batch_size {size}" for size, gain in gains.items())
    seen = f"{device} beside the CPU: {told}"
    known = [gain.value for gain in gains.values() if not units.is_wide(gain.value, gain.low, gain.high)]
    if not known or max(known) >= rules.LITTLE_GAIN.least:
        return Advice(seen)
    return _little(f"{seen}: little for an accelerator", last)


def _little(seen: str, case: CaseSummary) -> Advice:
    """Return the advice on an accelerator that gains little. Where its copying was measured, that decides."""
    share, setting = _copying(case), Setting(case.configuration, accelerator=True)
    causes, remedies = tuple(rules.LITTLE_GAIN.usual(setting)), rules.texts(rules.LITTLE_GAIN, setting)
    if share is not None:
        seen += f"; transfer is {100 * share:.0f} % of its step at batch_size {case.configuration['batch_size']}"
    if share is None or share >= rules.TRANSFER.least:
        causes = (*causes, "transfers that it waits for")
        remedies = (*rules.texts(rules.TRANSFER, setting), *remedies)
    return Advice(seen, causes, remedies)


def _copying(case: CaseSummary) -> float | None:
    """Return the share of a step that goes into copying batches to the device; None where it was not measured."""
    spent = phases_s(case)
    step_s = sum(spent.values())
    return spent[TRANSFER] / step_s if TRANSFER in spent and step_s > 0.0 else None
