"""A diagnosis in words, the same in a terminal and in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core import units
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import OUT_OF_MEMORY, Cause, Diagnosis, Tried
from torchstone.core.stats.disturbance import words_of

_VERDICTS = {
    Judgement.SAME: "no difference", Judgement.UNCLEAR: "not certain", Judgement.WORSE: "slower",
    Judgement.BETTER: "", Judgement.NOT_COMPARABLE: "",
}  # fmt: skip


_TOLD = 20.0  # times as fast: a bound beyond says no more than that there is next to nothing else


def answer_words(diagnosis: Diagnosis) -> str:
    """Return the cause with what it costs, and what was measured to help, in two sentences."""
    if diagnosis.disturbance is not None:
        return busy_words(diagnosis)
    if not diagnosis.causes:
        return "No cause was found: the step was not measured in its phases, or has none."
    first, applied = diagnosis.causes[0], diagnosis.applied
    text = f"{first.title[:1].upper()}{first.title[1:]}: {limit_words(first)}."
    if applied is None or applied.gain is None:
        return text
    return f"{text} {live_words(applied)}."


def busy_words(diagnosis: Diagnosis) -> str:
    """Return what kept the machine busy, and what a first look showed all the same."""
    if diagnosis.disturbance is None:
        return ""
    seen = words_of([diagnosis.disturbance])
    text = f"Each time the step was measured, {seen}: nothing can be diagnosed."
    first = next((cause for cause in diagnosis.causes if cause.id != "neighbours"), None)
    return text if first is None else f"{text} A first look beside them showed: {first.title}."


def live_words(tried: Tried) -> str:
    """Return what a remedy was measured to gain, as a clause; that it is not known where the interval is too wide."""
    if tried.gain is not None and tried.gain.is_wide:
        return f"What {tried.what_if.name} gains is not known: measured live, its interval is wider than ±50 %"
    return f"With {tried.what_if.name} it is {gain_words(tried)} times as fast, measured live"


def about_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what was diagnosed, how fast it is, and what fed it, a sentence each."""
    work, size = diagnosis.case.workload, diagnosis.case.configuration.get("batch_size")
    yield f"{work.task} {work.model}, batch_size {size}, on {diagnosis.case.placement}; run {diagnosis.run_id}."
    if diagnosis.throughput is not None:
        step = units.quantity(diagnosis.step_s, "s")
        yield f"{units.significant(diagnosis.throughput, 4)} {work.item}s/s, a step takes {step}."
    if diagnosis.fed is not None:
        yield f"The step was {diagnosis.fed}."
    if diagnosis.unmeasured is not None:
        yield f"Nothing was measured for this report: {diagnosis.unmeasured}."


def limit_words(cause: Cause) -> str:
    """Return how much of the step a cause explains, and what that allows."""
    if cause.id == OUT_OF_MEMORY:
        return "no step came to its end"
    share = f"{100 * cause.share:.0f} % of the step"
    if cause.sound:
        return share
    bound = cause.bound
    if bound.value >= _TOLD:
        return f"{share}, next to nothing else is left"
    if cause.own_code:
        most = f"about {_times(bound.value)} times as fast without it, at most {_times(bound.high or bound.value)}"
        return f"{share}, {most} (estimated from its share, not measured)"
    return f"{share}, up to {_times(bound.value)} times as fast without it"


def gain_words(tried: Tried) -> str:
    """Return the gain with its interval: "2.13 [2.02, 2.24]"; a dash where there is none."""
    gain = tried.gain
    if gain is None:
        return "–"
    text = units.MISSING if gain.is_wide else _times(gain.value)
    if gain.low is not None and gain.high is not None and not gain.is_wide:
        text += f" [{_times(gain.low)}, {_times(gain.high)}]"
    verdict = tried.verdict or Judgement.UNCLEAR
    if verdict == Judgement.BETTER and gain.low is not None and gain.low <= 1.0:
        verdict = Judgement.UNCLEAR  # faster in its comparison, by less than occasions differ
    return f"{text} {_VERDICTS.get(verdict, '')}".rstrip()


def memory_words(tried: Tried) -> str:
    """Return the peak memory and how it changes: "1.2 GiB (+12 %)"."""
    if tried.memory_bytes is None:
        return "–"
    text = units.quantity(tried.memory_bytes, "bytes")
    return text if tried.memory_ratio is None else f"{text} ({100 * (tried.memory_ratio - 1.0):+.0f} %)"


def open_remedies(cause: Cause, tried: Sequence[Tried]) -> list[str]:
    """Return the remedies in words that no what-if has measured."""
    measured = _axes([one for one in tried if one.gain is not None or one.first_look is not None])
    return [remedy.text for remedy in cause.remedies if remedy.axis not in measured]


def in_own_code(cause: Cause, tried: Sequence[Tried]) -> list[str]:
    """Return how to do in a program of one's own what was measured to help."""
    helped = _axes([one for one in tried if one.helps])
    return [remedy.how for remedy in cause.remedies if remedy.how is not None and remedy.axis in helped]


def _axes(tried: Sequence[Tried]) -> set[str]:
    heap = {"heap" for one in tried if one.what_if.heap is not None}
    return {axis for one in tried for axis in one.what_if.settings} | heap


def _times(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else units.significant(value, 3)
