"""What a report claims of a run, as data: every figure, verdict, count and finding, and the record they follow from."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.answer import Answer
from torchstone.core.schema.estimate import Estimate, Finding, Verdict
from torchstone.core.schema.peaks import Peaks
from torchstone.core.schema.run import SCHEMA
from torchstone.report.translation.catalogue import ENGLISH
from torchstone.report.translation.spoken import spoken
from torchstone.storage.database import FIGURES_VERSION

_ROUNDING = 1e-9  # relative: sums of one formula on another processor
_OTHER_FORMULA = 0.01  # relative: what a corrected formula may move a figure by
_LIBRARIES = ("vl-convert-python", "typst", "python-pptx")  # what pictures, pages and slides are drawn with


class Claimed(msgspec.Struct, frozen=True, array_like=True):
    """One figure of a Case: its value and the ends of its confidence interval, over so many trials and samples."""

    value: float
    low: float | None
    high: float | None
    trials: int
    samples: int
    unit: str


class CaseClaims(msgspec.Struct, frozen=True):
    """What is claimed of a Case. `ends`: how many trials ended in which way, such as {"ok": 3}."""

    case_id: str
    name: str
    verdict: Verdict
    ends: Mapping[str, int]
    figures: Mapping[str, Claimed]


class Claims(msgspec.Struct, frozen=True, tag="claims", tag_field="record"):
    """What is claimed of a run. `record_sha256`: of the record as it is carried.

    `formulas`: the version of the formulas that the figures come from; `peaks`: those of the machine that the shares of
    a peak are of (they may have been measured after the run, so that its record lacks them); `libraries`: the versions
    of those that drew the report; `language`: of its texts.
    """

    schema: int
    run_id: str
    record_sha256: str
    torchstone: str
    formulas: int
    status: str
    seed: int
    cases: tuple[CaseClaims, ...]
    findings: tuple[Finding, ...]
    answer: Answer | None = None
    peaks: tuple[Peaks, ...] = ()
    libraries: Mapping[str, str] = {}
    language: str = ENGLISH


def claims_of(summary: RunSummary, record_sha256: str) -> Claims:
    """Return everything that a report of this run claims."""
    from importlib.metadata import version  # loads for longer than all else here

    findings = (*(finding for case in summary.cases for finding in case.findings), *summary.findings)
    return Claims(
        SCHEMA, summary.run_id, record_sha256, version("torchstone"), FIGURES_VERSION, summary.status,
        summary.procedure.seed, tuple(map(_case, summary.cases)), findings, summary.answer,
        summary.machine.peaks, libraries(), spoken(),
    )  # fmt: skip


def libraries() -> dict[str, str]:
    """Return the versions here of the libraries that reports are drawn with; of those that are not here none."""
    from importlib.metadata import PackageNotFoundError, version

    found = dict[str, str]()
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _case(case: CaseSummary) -> CaseClaims:
    ends = Counter(str(trial.outcome.status) for trial in case.trials)
    size = case.configuration.get("batch_size")
    batch = f", batch_size {size}" if size is not None else ""
    name = f"{case.workload.task} {case.workload.model}{batch} on {case.placement}"
    figures = {figure: _claimed(found) for figure, found in case.estimates.items()}
    return CaseClaims(case.case_id, name, case.verdict, dict(sorted(ends.items())), figures)


def _claimed(found: Estimate) -> Claimed:
    return Claimed(found.value, found.low, found.high, found.trials, found.samples, found.unit)


def differences(claimed: Claims, found: Claims) -> Iterator[str]:
    """Yield in a line each what is claimed and does not follow. `found`: claimed anew from the record.

    Numbers may differ by rounding; where a formula has another version here, by 1 %.
    """
    share = _ROUNDING if claimed.formulas == found.formulas else _OTHER_FORMULA
    if claimed.record_sha256 != found.record_sha256:
        yield "the claims were computed from another record: its SHA-256 is not the one they name"
    for what in ("schema", "status", "seed"):
        if getattr(claimed, what) != getattr(found, what):
            yield f"{what}: claimed {getattr(claimed, what)}, the record gives {getattr(found, what)}"
    there = {case.case_id: case for case in found.cases}
    for case in claimed.cases:
        if case.case_id not in there:
            yield f"{case.name}: claimed, and the record has no such case ({case.case_id})"
        else:
            yield from _of_case(case, there.pop(case.case_id), share)
    for case in there.values():
        yield f"{case.name}: in the record, and nothing is claimed of it"
    yield from _of_findings(claimed.findings, found.findings)
    if not _equal(msgspec.to_builtins(claimed.answer), msgspec.to_builtins(found.answer), share):
        yield "the answer that is claimed is not the one in the record"


def _of_case(claimed: CaseClaims, found: CaseClaims, share: float) -> Iterator[str]:
    name = found.name
    if claimed.name != name:
        yield f"{claimed.name}: the record has {name} under this id"
        return  # every figure is then another's
    if claimed.verdict != found.verdict:
        yield f"{name}: verdict: claimed {claimed.verdict}, the record gives {found.verdict}"
    if dict(claimed.ends) != dict(found.ends):
        yield f"{name}: trials: claimed {_counts(claimed.ends)}, the record has {_counts(found.ends)}"
    for figure in dict.fromkeys((*claimed.figures, *found.figures)):
        mine, theirs = claimed.figures.get(figure), found.figures.get(figure)
        if mine is None or theirs is None:
            where = "the record gives one" if mine is None else "the record gives none"
            yield f"{name}: {figure}: {'nothing' if mine is None else 'a value'} is claimed, {where}"
        elif not _equal(msgspec.to_builtins(mine), msgspec.to_builtins(theirs), share):
            yield f"{name}: {figure}: claimed {_words(mine, theirs)}, the record gives {_words(theirs, mine)}"


def _of_findings(claimed: Sequence[Finding], found: Sequence[Finding]) -> Iterator[str]:
    here, there = set(claimed), set(found)
    for finding in claimed:
        if finding not in there:
            yield f"finding {finding.check} ({finding.message}): claimed, and not in the record"
    for finding in found:
        if finding not in here:
            yield f"finding {finding.check} ({finding.message}): in the record, and not claimed"


def _counts(ends: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items())) or "none"


def _words(one: Claimed, other: Claimed) -> str:
    """Return a figure in words, with as many digits as it takes to see that the other one is another."""
    value = units.quantity(one.value, one.unit, 4)
    if value == units.quantity(other.value, other.unit, 4) and one.value != other.value:
        value = f"{one.value!r} {one.unit}"
    ends = ""
    if (one.low, one.high) != (other.low, other.high):
        ends = f" [{one.low!r}, {one.high!r}]" if one.low is not None else " without an interval"
    counts = "" if (one.trials, one.samples) == (other.trials, other.samples) else _behind(one)
    return f"{value}{ends}{counts}"


def _behind(one: Claimed) -> str:
    return f" of {one.trials} trials, {one.samples} samples"


def _equal(one: object, other: object, share: float) -> bool:
    """Say whether two plain values are equal, their floats within a relative difference."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=share, abs_tol=0.0) if isinstance(one, float) else one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key], share) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_equal(a, b, share) for a, b in zip(one, other, strict=True))
    return one == other
