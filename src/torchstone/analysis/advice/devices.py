"""An accelerator beside the CPU at equal batches: how many times as fast, and what holds it back.

Each device stands there with its fastest settings; which of these differ is told, with the ratio at equal ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.curves import phases_s
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.rules import Setting
from torchstone.analysis.advice.trainings import Span, Trainings, TrainingSummary, alike_but_for
from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.schema.advice import Advice, Remedy, Statement, Value
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.metric import TRANSFER
from torchstone.core.stats.convergence import MARGIN, Sameness, of_losses


def throughput_ratio(case: CaseSummary, reference: CaseSummary) -> Span | None:
    """Return the throughput of one Case ÷ that of another, with its 95 % interval; None where one is not VALID.

    Compared round by round, as `compare --over` does. The interval is None where one trial alone stands behind a Case.
    """
    if not case.verdict == reference.verdict == Verdict.VALID:
        return None
    paired = InRounds([case, reference]).ratio(case.case_id, reference.case_id)
    if paired is not None:
        return Span(*paired)
    one, other = case.estimates.get("throughput"), reference.estimates.get("throughput")
    return Span(one.value / other.value, None, None) if one and other and other.value > 0.0 else None


AXIS = "precision"
_FINEST_FIRST = ("fp32", "tf32", "bf16", "fp16")


class PrecisionEffect(msgspec.Struct, frozen=True):
    """One precision against the finest that was measured, all else equal: seed and order of data too.

    `difference`: of the mean loss over the second half of the steps, as a share of the reference's loss (0.01: 1 %
    higher), with its 90 % interval, which two one-sided tests compare with ±`margin`. `unit`: what was averaged. Ratios
    are times the reference; None where nothing was measured.
    """

    precision: str
    against: str
    where: Mapping[str, Scalar]
    case_id: str
    reference_id: str
    speed_ratio: Span | None
    memory_ratio: float | None
    verdict: Sameness
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float = MARGIN
    unit: str = "blocks of steps of one seed"
    units: int = 0


def precisions(trainings: Trainings, cases: Mapping[str, CaseSummary]) -> tuple[PrecisionEffect, ...]:
    """Return the effect of each precision on each group of trainings that differ in precision alone."""
    groups = alike_but_for((AXIS,), trainings.each)
    return tuple(effect for alike in groups for effect in _effects(alike, trainings.losses, cases))


def _effects(
    alike: Sequence[TrainingSummary], losses: Mapping[str, Sequence[float]], cases: Mapping[str, CaseSummary]
) -> list[PrecisionEffect]:
    ordered = sorted((one for one in alike if one.point[AXIS] in _FINEST_FIRST), key=_coarseness)
    return [_effect(other, ordered[0], losses, cases) for other in ordered[1:]]


def _coarseness(training: TrainingSummary) -> int:
    return _FINEST_FIRST.index(str(training.point[AXIS]))


def _effect(
    one: TrainingSummary,
    reference: TrainingSummary,
    losses: Mapping[str, Sequence[float]],
    cases: Mapping[str, CaseSummary],
) -> PrecisionEffect:
    case, other = cases[one.case_id], cases[reference.case_id]
    found = of_losses(losses[one.case_id], losses[reference.case_id]) if one.loss_end and reference.loss_end else None
    memory = [c.peak_memory_bytes for c in (case, other)]
    effect = PrecisionEffect(
        precision=str(one.point[AXIS]),
        against=str(reference.point[AXIS]),
        where={axis: value for axis, value in one.point.items() if axis != AXIS},
        case_id=one.case_id,
        reference_id=reference.case_id,
        speed_ratio=throughput_ratio(case, other),
        memory_ratio=memory[0] / memory[1] if memory[0] and memory[1] else None,
        verdict=Sameness.UNCLEAR,
    )
    if found is not None:
        level = found.margin / MARGIN if found.margin > 0.0 else 1.0  # the reference's mean loss
        return msgspec.structs.replace(
            effect,
            verdict=found.verdict,
            difference=found.difference / level,
            low=found.low / level,
            high=found.high / level,
            units=found.units,
        )
    broke = one.broke and not reference.broke  # it became NaN where the finer one did not
    return msgspec.structs.replace(effect, verdict=Sameness.DIFFERENT) if broke else effect


_CPU = "cpu"
_NOT_THE_CPUS = ("pin_memory",)  # there is nothing to transfer to: it differs, and compares nothing


class DevicePair(NamedTuple):
    """The fastest Case of an accelerator and that of the CPU, at one batch size."""

    own: CaseSummary
    cpu: CaseSummary


class CpuContrast(NamedTuple):
    """What is said of an accelerator, and the Case of its largest batch that the CPU ran, too."""

    case: CaseSummary
    advice: Advice


def contrasts_with_cpu(cases: Sequence[CaseSummary]) -> list[CpuContrast]:
    """Return a reading of each accelerator among the Cases of one workload; none where the CPU was not measured.

    Each device stands there with its fastest settings; where they differ, a second reading says which, and how many
    times as fast it is at equal ones.
    """
    by_device: dict[str, list[CaseSummary]] = {}
    for case in cases:
        by_device.setdefault(str(case.placement), []).append(case)
    cpu = by_device.pop(_CPU, None)
    return [] if cpu is None else [one for device, own in by_device.items() for one in _contrasts(device, own, cpu)]


def _contrasts(device: str, own: Sequence[CaseSummary], cpu: Sequence[CaseSummary]) -> list[CpuContrast]:
    ours, theirs = _fastest(own), _fastest(cpu)
    pairs: dict[int, DevicePair] = {}
    gains: dict[int, Span] = {}
    for size, case in theirs.items():
        if size in ours and (gain := throughput_ratio(ours[size], case)) is not None:
            pairs[size], gains[size] = DevicePair(ours[size], case), gain
    if not gains:
        return [CpuContrast(own[0], Advice((Statement("no_size_in_common", {"device": device}),)))]
    last = pairs[max(pairs)].own
    unequal = _at_equal_settings(device, pairs, own, cpu)
    return [
        CpuContrast(last, _reading(device, last, gains)),
        *([CpuContrast(last, unequal)] if unequal is not None else []),
    ]


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
    told = tuple(_times(gain, size) for size, gain in gains.items())
    seen = Statement("beside_the_cpu", {"device": device, "gains": told})
    known = [gain.value for gain in gains.values() if not units.is_wide(gain.value, gain.low, gain.high)]
    if not known or max(known) >= rules.LITTLE_GAIN.least:
        return Advice((seen,))
    return _little((seen, Statement("little_gain")), last)


def _times(gain: Span, size: int, settings: str = "") -> Statement:
    values: dict[str, Value] = {"gain": (gain.value, gain.low, gain.high), "batch_size": size}
    if settings:
        return Statement("times_as_fast_with", {**values, "settings": settings})
    return Statement("times_as_fast", values)


def _little(seen: tuple[Statement, ...], case: CaseSummary) -> Advice:
    """Return the advice on an accelerator that gains little. Where its copying was measured, that decides."""
    share, setting = _copying(case), Setting(case.configuration, accelerator=True)
    causes, remedies = rules.LITTLE_GAIN.causes(setting), rules.LITTLE_GAIN.remedies(setting)
    if share is not None:
        size = case.configuration["batch_size"]
        seen = (*seen, Statement("transfer_of_its_step", {"share": share, "batch_size": size}))
    if share is None or share >= rules.TRANSFER.least:
        causes = (*causes, Statement("transfers_waited_for"))
        remedies = (*rules.TRANSFER.remedies(setting), *remedies)
    return Advice(seen, causes, remedies)


def _copying(case: CaseSummary) -> float | None:
    """Return the share of a step that goes into copying batches to the device; None where it was not measured."""
    spent = phases_s(case)
    step_s = sum(spent.values())
    return spent[TRANSFER] / step_s if TRANSFER in spent and step_s > 0.0 else None


# ── at equal settings ───────────────────────────────────────────────────────────────────────────────────────


def _at_equal_settings(
    device: str, pairs: Mapping[int, DevicePair], own: Sequence[CaseSummary], cpu: Sequence[CaseSummary]
) -> Advice | None:
    """Return which settings differ, by batch size, and how many times as fast the accelerator is where both ran equal.

    `own`, `cpu`: all Cases of one workload on either. Equal settings are those of the accelerator's fastest Case and
    those of the CPU's; failing these, the accelerator's fastest of what both ran. None where no pair differs.
    """
    unlike = {size: axes for size, pair in pairs.items() if (axes := _differing(pair))}
    if not unlike:
        return None
    told: dict[str, list[int]] = {}
    for size, axes in unlike.items():
        told.setdefault(_against(pairs[size], axes), []).append(size)
    differ = tuple(Statement("differ_at", {"settings": words, "sizes": tuple(sizes)}) for words, sizes in told.items())
    seen = Statement("settings_differ", {"device": device, "differ": differ})
    equal = {size: _equal_pairs(pairs[size], _measured(size, own), _measured(size, cpu)) for size in unlike}
    ratios = tuple(
        _times(gain, size, _named(pair.own.configuration, unlike[size]))
        for size, found in equal.items()
        for pair in found
        if (gain := throughput_ratio(*pair)) is not None
    )
    both = Statement("at_equal_settings", {"gains": ratios}) if ratios else Statement("no_equal_settings")
    lacking = [size for size, found in equal.items() if not found]
    return Advice((seen, both), (), tuple(_to_measure(pairs[size], unlike[size]) for size in lacking[-1:]))


def _differing(pair: DevicePair) -> list[str]:
    own, cpu = pair.own.configuration, pair.cpu.configuration
    axes = (axis for axis in dict.fromkeys((*own, *cpu)) if axis not in _NOT_THE_CPUS)
    return [axis for axis in axes if own.get(axis) != cpu.get(axis)]


def _equal_pairs(pair: DevicePair, own: Sequence[CaseSummary], cpu: Sequence[CaseSummary]) -> list[DevicePair]:
    ours, theirs = ({_settings(case): case for case in cases} for cases in (own, cpu))  # of equal ones the fastest
    both = [key for key in ours if key in theirs]
    chosen = [key for key in map(_settings, pair) if key in both]
    if both and not chosen:
        chosen = [max(both, key=lambda key: ours[key].estimates["throughput"].value)]
    return [DevicePair(ours[key], theirs[key]) for key in chosen]


def _measured(size: int, cases: Sequence[CaseSummary]) -> list[CaseSummary]:
    """Return those with a figure, the slowest first."""
    found = [case for case in cases if case.configuration.get("batch_size") == size and "throughput" in case.estimates]
    return sorted(found, key=lambda case: case.estimates["throughput"].value)


def _settings(case: CaseSummary) -> tuple[tuple[str, Scalar], ...]:
    items = (item for item in case.configuration.items() if item[0] not in _NOT_THE_CPUS)
    return tuple(sorted(items, key=lambda item: item[0]))


def _against(pair: DevicePair, axes: Sequence[str]) -> str:
    own, cpu = pair.own.configuration, pair.cpu.configuration
    return ", ".join(f"{axis} {scalar_word(own.get(axis))}, on the CPU {scalar_word(cpu.get(axis))}" for axis in axes)


def _named(configuration: Mapping[str, Scalar], axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} {scalar_word(configuration.get(axis))}" for axis in axes)


def _to_measure(pair: DevicePair, axes: Sequence[str]) -> Remedy:
    """Return what makes the next run hold both settings on both devices."""
    both = {axis: dict.fromkeys(scalar_word(case.configuration.get(axis)) for case in pair) for axis in axes}
    flags = " ".join(f"--axis {axis}={','.join(values)}" for axis, values in both.items())
    return Remedy("both_devices", {"flags": flags})
