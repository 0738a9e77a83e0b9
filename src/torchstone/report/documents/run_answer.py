"""The answer of a run: what is fastest, or how fast it is, with its confidence interval, in two sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone.analysis.advice.causes import phase_causes
from torchstone.analysis.advice.choices import Chosen, choice_of, choose
from torchstone.analysis.advice.curves import advise, curve_of, ran_out
from torchstone.analysis.advice.grouping import absent, groups, on_devices_here, varying_axes
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.rules import recorded_step
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.messages import too_wide
from torchstone.core.quality import is_as_good
from torchstone.core.schema.axis import Scalar, scalar_word, variant_name
from torchstone.core.schema.case import Task, model_name, portable
from torchstone.core.schema.estimate import Estimate, Severity, Verdict
from torchstone.core.schema.quality import QualityLoss, QualityVerdict
from torchstone.core.schema.trial import Purpose, Status, ended_well, estimation_trials, replicates
from torchstone.report import diagnosis_messages
from torchstone.report.document import Part, Role, Section, Text, paragraphs
from torchstone.report.documents.load_results import load_lines

_MOST = 6  # workloads that are answered at once
PURPOSES = {"train": "training", "infer": "inference", "generate": "generation", "load": "loading"}  # by task
_NAMED = 3  # Cases that are named as tied, or as left out


def answer_parts(run: RunSummary) -> Iterator[Part]:
    """Yield what a run answers of each workload and device, and which devices are not there."""
    lines = list(answer_lines(run)) or [_no_case(run)]
    yield from paragraphs(lines[:_MOST], Role.HEADLINE)
    for one in absent(run):
        cases = f"{one.cases} case{'s' * (one.cases > 1)} unsupported"
        yield Text(f"{one.device}: {cases}, {one.why}", Role.DETAIL)
    if rest := lines[_MOST:]:
        how = f"torchstone show {run.run_id} --full"
        yield Section(f"{len(rest)} more workloads", paragraphs(rest), folded=True, how=how)


def _no_case(run: RunSummary) -> str:
    why = "none of the devices is here" if run.cases else "no case was planned"
    return f"Nothing was measured: {why}."


def answer_lines(run: RunSummary) -> Iterator[str]:
    """Yield one or two sentences a workload and device that is here, what was measured first."""
    found = groups(on_devices_here(run))
    for group in found:
        first = group[0]
        name = f"{first.workload.task} {model_name(first.workload.model)}"
        several = len({str(cases[0].placement) for cases in found}) > 1
        place = f" on {first.placement}" if several else ""
        yield (f"{name}{place}: " if len(found) > 1 else "") + _of_group(run, group, brief=group is not found[0])


def _of_group(run: RunSummary, cases: Sequence[CaseSummary], *, brief: bool) -> str:
    """Return the answer of a workload. `brief`: one before it has said which interval it is."""
    if cases[0].workload.task == Task.LOADGEN:
        return load_lines(cases) + doubt(cases)
    having = [case for case in cases if rate_of(case) is not None]
    if not having:
        return _nothing(cases)
    if len(cases) == 1:
        return _alone(cases[0], brief=brief) + _holding_back(run, cases[0]) + doubt(cases) + _disturbed(cases)
    # What is SUSPECT may be the fastest, or not: nothing is chosen from it.
    several = len({variant_name(case.configuration) for case in having}) > 1
    lesser = [case for case in having if several and not is_as_good(case.quality)]
    having = [case for case in having if case not in lesser]
    valid = [case for case in having if case.verdict == Verdict.VALID]
    axes = varying_axes(cases)
    rounds = InRounds(valid)
    chosen = choose([choice_of(case, run.machine, axes) for case in valid], rounds)
    if chosen is not None:
        text = _fastest(chosen, valid, rounds, len(having), brief=brief) + _larger(chosen, run, cases, valid)
    elif len(valid) == 1 and lesser:
        only = valid[0]
        text = (
            f"Fastest: {point_words({axis: only.configuration.get(axis) for axis in axes})}, {rate_and_quality(only)}."
        )
    elif not valid and all(case.verdict != Verdict.VALID for case in lesser):
        return undecided(valid, [*having, *lesser], axes)
    else:
        return undecided(valid, having, axes) + not_as_good(lesser, axes)
    return text + not_as_good(lesser, axes) + left_out(having, axes) + _disturbed(valid)


def not_as_good(cases: Sequence[CaseSummary], axes: Sequence[str]) -> str:
    """Return the Cases that are not shown to be as good as eager mode in fp32, the fastest first."""
    rated = [(rate.value, case) for case in cases if (rate := rate_of(case)) is not None]
    told = [
        f"{point_words({axis: case.configuration.get(axis) for axis in axes})}, {rate_and_quality(case)}"
        for _, case in sorted(rated, key=lambda one: -one[0])
    ]
    more = f"; and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return f" Not shown to be as good: {'; '.join(told[:_NAMED])}{more}." if told else ""


def rate_and_quality(case: CaseSummary, *, brief: bool = False) -> str:
    """Return its rate, and behind it how good it is, where it computes something else than eager mode in fp32."""
    told = quality_words(case.quality)
    return ", ".join(filter(None, (rate_words(case, brief=brief), told)))


_QUALITY = {
    QualityVerdict.AS_GOOD: "as good",
    QualityVerdict.WORSE: "worse",
    QualityVerdict.UNDECIDED: "undecided",
}


def quality_words(quality: QualityLoss | None) -> str:
    """Return "worse: 2.3 [1.1, 3.5] points less accurate, of 872 items"; "" for what computes the same."""
    if quality is None:
        return ""
    verdict, loss = _QUALITY[quality.verdict], loss_words(quality)
    if loss is None and quality.items_needed is not None:
        return f"{verdict}: {quality.items:,} items are too few, {quality.items_needed:,} may decide"
    if loss is None:
        return f"{verdict}: compared on no real items with classes or text (--data)"
    told = f"{verdict}: {loss}, of {quality.items:,} items"
    return f"{told}; {quality.items_needed:,} items would decide" if quality.items_needed is not None else told


def loss_words(quality: QualityLoss) -> str | None:
    """Return "2.3 [1.1, 3.5] points less accurate", or what else was compared; None: nothing."""
    if quality.loss is None or quality.low is None or quality.high is None:
        return None
    ends = (round(100.0 * share, 1) + 0.0 for share in (quality.loss, quality.low, quality.high))  # no -0.0
    loss, low, high = (f"{percent:.1f}" for percent in ends)
    found = f"{loss} [{low}, {high}]"
    if quality.perplexity is not None:
        return f"perplexity {found} % higher"
    return f"{found} points less accurate" if quality.labelled else f"another class for {found} % of items"


def rate_of(case: CaseSummary) -> Estimate | None:
    """Return the rate that answers how fast a Case is: of generation the tokens given out, else the items."""
    if case.workload.task == Task.GENERATE and (tokens := case.estimates.get("output_token_throughput")) is not None:
        return tokens
    return case.estimates.get("throughput")


def rate_words(case: CaseSummary, *, brief: bool = False) -> str:
    """Return "13.6 images/s (95 % confidence interval 12.9 to 14.3)", or in place of the interval why there is none.

    `brief`: "13.6 [12.9, 14.3] images/s".
    """
    rate = rate_of(case)
    if rate is None:
        return "not measured"
    text = f"{units.significant(rate.value, 3)} {_unit(case, rate)}"
    if rate.low is None or rate.high is None:
        return f"{text} ({_without(case, rate)})"
    if rate.is_wide:
        return f"about {text} (the trials: {_range(rate)}), but {too_wide(rate.trials)}"
    low, high = (units.significant(end, 3) for end in (rate.low, rate.high))
    if brief:
        return f"{units.significant(rate.value, 3)} [{low}, {high}] {_unit(case, rate)}"
    return f"{text} ({100 * rate.level:g} % confidence interval {low} to {high})"


def _range(rate: Estimate) -> str:
    """Return "4.2 to 15.5": the lowest and the highest trial."""
    return " to ".join(units.significant(end, 3) for end in (rate.lowest, rate.highest) if end is not None)


def _unit(case: CaseSummary, rate: Estimate) -> str:
    return f"{case.workload.item}s/s" if rate is case.estimates.get("throughput") else rate.unit


def _without(case: CaseSummary, rate: Estimate) -> str:
    probes = all(trial.purpose == Purpose.PROBE for trial in case.trials)
    return "a probe: no interval" if probes else "one trial: no interval" if rate.trials == 1 else "no interval"


def _alone(case: CaseSummary, *, brief: bool) -> str:
    # The mean, as the rate is all items over all time: a median may be far from what the two say together.
    names = ("step_time_mean", "step_time_p50", "latency_per_batch_p50_s")
    step = next((case.estimates[name] for name in names if name in case.estimates), None)
    held = case.peak_memory_bytes
    rate = rate_of(case)
    wide = rate is not None and rate.is_wide
    told = [
        f"About {units.significant(rate.value, 3)} {_unit(case, rate)}"
        if rate and wide
        else rate_words(case, brief=brief)
    ]
    told += [_step(case, units.quantity(step.value, "s"))] if step is not None else []
    told += [units.quantity(held, "bytes")] if held is not None else []
    why = ""
    if rate and wide:  # more trials are no remedy where something else is in doubt
        more = f", as {too_wide(rate.trials)}" if case.verdict == Verdict.VALID else ""
        why = f"; from {_range(rate)}{more}"
    told += [words] if (words := quality_words(case.quality)) else []
    return f"{', '.join(told)}{why}."


def _holding_back(run: RunSummary, case: CaseSummary) -> str:
    """Return what takes most of the step of a program, with the command that finds out why."""
    causes = phase_causes(recorded_step(run, case)) if case.workload.is_program else []
    if case.verdict != Verdict.VALID or not causes:
        return ""
    first = causes[0]
    alike = [one for one in first.evidence if one.id == first.evidence[0].id]  # the largest of several phases
    largest = sorted(alike, key=lambda one: -float(str(one.values.get("share", 0.0))))[:1]
    told = ": ".join(map(diagnosis_messages.text, (first.title, *largest)))
    how = "" if first.sound else f" Why, and what helps: torchstone diagnose -- {portable(case.workload.model)}."
    return f" {told[:1].upper()}{told[1:]}.{how}"


def _step(case: CaseSummary, time: str) -> str:
    """Return the time of a step with how many items it takes, so that it can be held against the rate."""
    size = case.configuration.get("batch_size")
    if not isinstance(size, int):
        return f"{time} a step"
    return (
        f"{time} a step of {size:,} {case.workload.item}s"
        if size != 1
        else f"{time} a step of one {case.workload.item}"
    )


def _fastest(chosen: Chosen, cases: Sequence[CaseSummary], rounds: InRounds, having: int, *, brief: bool) -> str:
    """Return the answer of those that may be chosen. `having`: of how many that have a rate."""
    top, best = chosen.highest_throughput, chosen.recommended
    named = {case.case_id: case for case in cases}
    text = f"Fastest: {point_words(top.point)}, {rate_and_quality(named[top.case_id], brief=brief)}"
    if not chosen.same and len(cases) == having:  # one that is in doubt may be the next
        text += _lead(named[top.case_id], cases, rounds, list(top.point))
    if chosen.same:
        text += (
            f"; not significantly different: {_listed(own_values([one.point for one, _ in chosen.same], top.point))}"
        )
    text += "."
    if best.case_id != top.case_id:
        held = f", {units.quantity(best.memory_bytes, 'bytes')}" if best.memory_bytes is not None else ""
        told = quality_words(named[best.case_id].quality)
        text += f" Recommended: {point_words(best.point)}{held}{f', {told}' if told else ''}."
    if chosen.wide:
        fewest = min(one.trials for one in chosen.wide)
        text += f" Not compared: {_listed([one.point for one in chosen.wide])}, {too_wide(fewest)}."
    return text


def _larger(chosen: Chosen, run: RunSummary, cases: Sequence[CaseSummary], valid: Sequence[CaseSummary]) -> str:
    """Return that a batch size beyond those tried may be faster; "" where it is not, or memory has no room."""
    if chosen.recommended.case_id != chosen.highest_throughput.case_id:
        return ""
    best = next(case for case in valid if case.case_id == chosen.recommended.case_id)
    if (curve := curve_of(best, valid, run.machine)) is None or not curve.rising:
        return ""
    remedies = advise(curve, best.configuration, ran_out(best, cases))[-1].remedies
    sizes = [one.values["batch_size"] for one in remedies if one.axis == "batch_size"]
    return f" Throughput still rises at the largest batch_size: {sizes[0]} may be faster." if sizes else ""


def _lead(top: CaseSummary, cases: Sequence[CaseSummary], rounds: InRounds, axes: Sequence[str]) -> str:
    """Return how many times as fast the fastest is as the next, where that is known."""
    rates = [(case.estimates["throughput"], case) for case in cases if case is not top]
    others = [(rate.value, case) for rate, case in rates if not rate.is_wide]
    if not others:
        return ""
    following = max(others, key=lambda one: one[0])[1]
    times = rounds.ratio(top.case_id, following.case_id)
    if times is None:
        return ""
    point = {axis: following.configuration.get(axis) for axis in axes}
    return f"; {units.ratio(*times)} times as fast as the next, {point_words(point)}"


def _listed(points: Sequence[Mapping[str, Scalar]]) -> str:
    """Return "batch_size 1, batch_size 2 and 3 more"; with several settings of one "; " stands between them."""
    named = [point_words(point) for point in points[:_NAMED]]
    joint, last = ("; ", "; and ") if any(len(point) > 1 for point in points) else (", ", " and ")
    if len(points) > _NAMED:
        named.append(f"{len(points) - _NAMED} more")
    return last.join(filter(None, (joint.join(named[:-1]), named[-1])))


def undecided(valid: Sequence[CaseSummary], cases: Sequence[CaseSummary], axes: Sequence[str]) -> str:
    """Return why no Case is the fastest, of those that have a rate."""
    wide = [case for case in valid if (rate := rate_of(case)) is not None and rate.is_wide]
    if wide:
        fewest = min(rate.trials for case in wide if (rate := rate_of(case)) is not None)
        return f"Which is fastest is not known: {too_wide(fewest)}.{doubt(cases)}"
    if not valid:
        return f"Which is fastest is not known{machine_doubt(cases)}.{doubt(cases)}"
    (one,) = valid[:1]
    point = {axis: one.configuration.get(axis) for axis in axes}
    if len(cases) > 1:
        return f"Only {point_words(point)} is valid: {rate_words(one)}.{left_out(cases, axes)}"
    return f"Only {point_words(point)} was measured: {rate_words(one)}."


# What a finding of a check says of the machine (plugins/checks); the findings below say how much, and what to do.
_MACHINE = {
    "neighbours": "other programs used the cores",
    "steal": "the hypervisor took the cores away",
    "other_processes": "other programs used the device",
    "throttled": "the clock was throttled",
    "shared_cores": "threads shared cores",
}


def machine_doubt(cases: Sequence[CaseSummary]) -> str:
    """Return ": " and what made the machine unfit in all cases; "" where nothing did."""
    raised = [{one.check for one in case.findings if one.severity != Severity.INFO} for case in cases]
    why = [words for check, words in _MACHINE.items() if raised and all(check in own for own in raised)]
    return f": {why[0]}" if why else ""


def left_out(cases: Sequence[CaseSummary], axes: Sequence[str]) -> str:
    """Return which Cases nothing was chosen from, since they are in doubt."""
    doubtful = [case for case in cases if case.verdict != Verdict.VALID]
    if not doubtful:
        return ""
    named = _listed([{axis: case.configuration.get(axis) for axis in axes} for case in doubtful])
    return f" Not compared, as {' or '.join(sorted({str(case.verdict) for case in doubtful}))}: {named}."


def _disturbed(cases: Sequence[CaseSummary]) -> str:
    """Return how many trials are left out of the figures, since other programs disturbed them, and by what."""
    if len(cases) == 1:
        seen = (f.message for f in cases[0].findings if f.check == "neighbours" and f.severity == Severity.INFO)
        return "".join(f" {message}." for message in seen)
    good = [replicates(ended_well(case.trials)) for case in cases]
    left_out, taken = sum(len(own) - len(estimation_trials(own)) for own in good), sum(map(len, good))
    return f" {left_out} of {taken} trials left out: other programs disturbed them." if left_out else ""


def _nothing(cases: Sequence[CaseSummary]) -> str:
    bad = [t.outcome for case in cases for t in case.trials if t.outcome.status not in (Status.OK, Status.SKIPPED)]
    if not bad:
        return "Nothing was measured: no trial was taken."
    why = f": {bad[0].message}" if bad[0].message else ""
    return f"Nothing was measured: {bad[0].status}{why}"


def doubt(cases: Sequence[CaseSummary]) -> str:
    """Return the worst verdict of the Cases that is not VALID: the findings below say why, and what to do."""
    for judged in (Verdict.INVALID, Verdict.SUSPECT):
        if having := sum(case.verdict == judged for case in cases):
            if having == len(cases):
                return f" All {having} cases are {judged}." if having > 1 else f" The figure is {judged}."
            return (
                f" {having} of {len(cases)} cases are {judged}."
                if having > 1
                else f" 1 of {len(cases)} cases is {judged}."
            )
    return ""


# ── settings in words ───────────────────────────────────────────────────────────────────────────────────────


__all__ = ["own_values", "percent_range", "point_words", "scalar_word"]


def point_words(point: Mapping[str, Scalar]) -> str:
    """Return settings as "batch_size 16, precision bf16"."""
    return ", ".join(f"{axis} {scalar_word(value)}" for axis, value in point.items())


def own_values(points: Sequence[Mapping[str, Scalar]], other: Mapping[str, Scalar]) -> Sequence[Mapping[str, Scalar]]:
    """Return the settings of each point that another one has not.

    Where that would not tell points apart, each has what any of them has: "world_size 1" beside "world_size 1, strategy
    none" leaves open what the strategy of the first is.
    """
    found = [{axis: value for axis, value in point.items() if other.get(axis) != value} for point in points]
    if not any(a.items() < b.items() for a in found for b in found):
        return found
    axes = {axis for each in found for axis in each}
    return [{axis: value for axis, value in point.items() if axis in axes} for point in points]


def percent_range(limits: tuple[float, float]) -> str:
    """Return "60 to 80 %"."""
    low, high = limits
    return f"{100 * low:.0f} to {100 * high:.0f} %"
