"""What a change does to benchmarks, in words: the title, the answer in a sentence, and the cells of tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from torchstone.analysis.ci import Assessment, BenchmarkChange, ChangeVerdict, Conclusion, why_text
from torchstone.core import units

_LONGEST_NAME, _LONGEST_WHY = 80, 200
_MOST_OTHERS = 3
_ENDINGS = {
    Conclusion.PASSED: "no action needed", Conclusion.ACCEPTED: "accepted", Conclusion.SLOWER: "action needed",
    Conclusion.FAILED: "not all were measured: action needed", Conclusion.NO_BASELINE: "not all were compared",
    Conclusion.UNDECIDED: "more measurements needed",
}  # fmt: skip


def title(found: Assessment) -> str:
    """Return the counts and what follows: "1 slower, 0 faster, 37 unchanged, 2 undecided — action needed"."""
    always = (ChangeVerdict.SLOWER, ChangeVerdict.FASTER, ChangeVerdict.UNCHANGED, ChangeVerdict.UNDECIDED)
    told = [f"{found.counts[verdict]} {verdict}" for verdict in always]
    if found.counts[ChangeVerdict.NO_BASELINE]:
        told.append(f"{found.counts[ChangeVerdict.NO_BASELINE]} without a baseline")
    if found.counts[ChangeVerdict.FAILED]:
        told.append(f"{found.counts[ChangeVerdict.FAILED]} failed")
    ending = _ENDINGS[found.conclusion] if found.is_reliable else "not reliable"
    return f"torchstone: {', '.join(told)} — {ending}"


def headline(found: Assessment) -> str:
    """Return the answer in one sentence or two."""
    if not found.is_reliable and found.control is not None:
        differs = f"the base differs from itself in this job: {_in_time(found.control)}"
        return f"Not reliable: {differs}. Run it again."
    if found.conclusion in (Conclusion.SLOWER, Conclusion.ACCEPTED):
        return _slower(found)
    if failed := found.of(ChangeVerdict.FAILED):
        return f"{short(failed[0].name)} was not measured: {reason(why_text(failed[0]))}"
    if without := found.of(ChangeVerdict.NO_BASELINE):
        return f"No baseline for {len(without)} of {len(found.changes)}: {reason(why_text(without[0]))}"
    if not found.changes:
        return "No baseline: there is no benchmark."
    return _quiet(found)


def remark(found: Assessment) -> str:
    """Return what the headline does not say of the label of an acceptance: that it has no reason, or that it counts."""
    given = found.acceptance
    if given is None or not found.is_reliable or worst(found) is None or found.conclusion is Conclusion.ACCEPTED:
        return ""
    if given.reason:
        return f"What is slower was accepted: {reason(given.reason)}"
    return f"The label {short(given.label)} has no reason: write one into the description, as a line: Slower because: …"


def other_results(found: Assessment) -> str:
    """Return which benchmarks compute something else than the base: their times are of other work; or nothing."""
    those = found.with_other_results
    first = those[0].other if those else None
    if first is None:
        return ""
    names = ", ".join(short(one.name) for one in those[:_MOST_OTHERS])
    more = f" and {len(those) - _MOST_OTHERS} more" if len(those) > _MOST_OTHERS else ""
    head, base = units.significant(first.head, 6), units.significant(first.base, 6)
    told = f"{first.what} {head}, of the base {base}"
    return f"Not the same computation: {names}{more}. First that differs: {told}. See that quality holds."


def command(found: Assessment) -> str:
    """Return what is worth typing: it shows the slowest again, or decides the one that is undecided; or nothing."""
    slowest = worst(found)
    if slowest is not None:
        return shlex.join(slowest.command)
    undecided = found.of(ChangeVerdict.UNDECIDED)
    price = undecided[0].price if len(undecided) == 1 else None
    return shlex.join(price.words) if price is not None else ""


def worst(found: Assessment) -> BenchmarkChange | None:
    """Return the benchmark that is slower by most, of those beyond the limit."""
    return next((one for one in found.of(ChangeVerdict.SLOWER) if one.beyond), None)


def _slower(found: Assessment) -> str:
    beyond = [one for one in found.of(ChangeVerdict.SLOWER) if one.beyond]
    told = f"{_counted(beyond)} slower by more than {percent(found.limit)}: {_most(beyond, beyond[0])}."
    if found.conclusion is Conclusion.ACCEPTED and found.acceptance is not None:
        return f"{told} Accepted: {reason(found.acceptance.reason)}"
    return told


def _quiet(found: Assessment) -> str:
    """Return what is said where nothing is slower beyond the limit: "No change above 2 %; largest still possible …"."""
    faster = found.of(ChangeVerdict.FASTER)
    before = f"{_counted(faster)} faster: {_most(faster, faster[-1])}. " if faster else ""
    what = "change" if found.counts[ChangeVerdict.UNCHANGED] == len(found.changes) else "slowdown"
    proven = " is proven" if found.conclusion is Conclusion.UNDECIDED else ""
    told = f"{before}No {what} above {percent(found.limit)}{proven}"
    ends = [one.ratio.high for one in found.changes if one.ratio is not None and one.ratio.high is not None]
    unknown = len(found.changes) - len(ends)
    if unknown:
        return f"{told}; nothing is known yet of {unknown} of {len(found.changes)}."
    return f"{told}; largest still possible {units.change(max(ends))} time." if max(ends) > 1.0 else f"{told}."


def _counted(those: Sequence[BenchmarkChange]) -> str:
    return "1 benchmark is" if len(those) == 1 else f"{len(those)} benchmarks are"


def _most(those: Sequence[BenchmarkChange], one: BenchmarkChange) -> str:
    return f"{'most of all ' if len(those) > 1 else ''}{short(one.name)}, {_in_time(one)}"


# ── words of a cell ─────────────────────────────────────────────────────────────────────────────────────────


def change(one: BenchmarkChange, of: str = "") -> str:
    """Return "+4.1 % [+3.2 %, +5.0 %]"; of an interval wider than ±50 % its known end, or a dash."""
    ratio = one.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return units.MISSING
    if not ratio.is_wide:
        return f"{units.change(ratio.value)}{of} [{units.change(ratio.low)}, {units.change(ratio.high)}]"
    known = units.ratio(ratio.value, ratio.low, ratio.high)
    return known if known == units.MISSING else f"{known}×{of}"


def _in_time(one: BenchmarkChange) -> str:
    """Return the same within a sentence: "+4.1 % time [+3.2 %, +5.0 %]"."""
    return change(one, " time")


def percent(value: float) -> str:
    """Return a limit or margin: "2 %", "2.5 %"."""
    return f"{100.0 * value:.3g} %"


def short(text: str, most: int = _LONGEST_NAME) -> str:
    """Return text on one line, without its middle where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2]}…{line[-(most // 2 - 1) :]}"


def reason(why: str | None) -> str:
    """Return why something failed or was accepted, on one line."""
    return short(why or "no reason given", _LONGEST_WHY)
