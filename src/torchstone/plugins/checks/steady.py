"""Are the steps steady: settled, without warm-up among them, without drift, of one mode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from torchstone.core.figures import LATENCY
from torchstone.core.messages import Values
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run, is_imported
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.correlated import relative_half_width
from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.steady import Split, rising, sen_slope, two_kinds
from torchstone.core.stats.steady import relative_drift as drift_of
from torchstone.plugins.checks._cases import alone, busy, longer, of_their_work, option, own_loop, sound, windows
from torchstone.plugins.protocols import check

# ── not settled ─────────────────────────────────────────────────────────────────────────────────────────────

_DOUBTFUL_STEPS = 50
_UNSETTLED = 0.03


@check("steady steps that began before warm-up had ended")
def not_settled(run: Run) -> Iterator[Finding]:
    """Fire where warm-up ended on its budget and the steady steps still got faster."""
    for case_id, _, trials in sound(run):
        restless = [t for t in trials if _still_warming(t)]
        if len(restless) > len(trials) / 2:
            values: Values = {
                "trials": len(restless),
                "of": len(trials),
                "setting": option(run.head.procedure, "warmup", _more_warmup(run, restless)),
            }
            yield Finding("not_settled", Severity.WARNING, case_id, values, remedies=("again",))


def _still_warming(trial: Trial) -> bool:
    """Tell whether the budget ended warm-up, and the steady steps bear it out: their first third slower than the last.

    With few or noisy steps, warm-up often ends unsettled by chance alone; what was measured then decides. Beside others
    it hardly ever settles, whatever the program does.
    """
    beside_others = trial.disturbance is not None and trial.disturbance.share > 0.0
    if trial.facts.warmup_settled is not False or beside_others:
        return False
    for _, steps in windows(trial):
        third = max(1, len(steps) // 3)
        if len(steps) > 1 and median(steps[:third]) > (1.0 + _UNSETTLED) * median(steps[-third:]):
            return True
    return False


def _more_warmup(run: Run, trials: list[Trial]) -> int:
    """Return twice the warm-up steps that were asked for or done."""
    done = [t.facts.warmup_steps for t in trials]
    counts = [n for n in (*done, run.head.procedure.warmup) if isinstance(n, int) and n > 0]
    return 2 * max(counts) if counts else _DOUBTFUL_STEPS


# ── warm-up left in ─────────────────────────────────────────────────────────────────────────────────────────

_FEWEST = 5
_ABOVE = 3.0  # times the typical step, and twice the next slowest
_NEXT = 2.0
_SEVERAL, _MANY = 3, 20


@check("warm-up steps among the steady ones")
def warmup_left_in(run: Run) -> Iterator[Finding]:
    """Fire where the first step of a window is its slowest by far in most trials, or a mean is above its own p95.

    One trial in which chance made the first step the slowest is no sign: most must agree, and of ours two at least.
    """
    procedure = run.head.procedure
    if procedure.fit is not None:
        return  # every epoch begins anew: with a loader's processes, and after it was judged
    for case_id, _, every in sound(run):
        trials = alone(every)
        seen = [first for trial in trials if (first := _first_steps(trial)) is not None]
        enough = len(seen) > len(trials) / 2 and (len(trials) > 1 or is_imported(run))
        found = seen[0] if enough else next(filter(None, map(_heavy_mean, trials)), None)
        if found is not None:
            reason, values = found
            more = {"setting": option(procedure, "warmup", 2 * procedure.warmup if procedure.warmup else 20)}
            remedies = ("exclude_first" if is_imported(run) else "again",)
            yield Finding("warmup_left_in", Severity.WARNING, case_id, {**values, **more}, reason, remedies)


def _first_steps(trial: Trial) -> tuple[str, dict[str, str | float]] | None:
    for name, times in busy(trial):
        if len(times) < _FEWEST:
            continue
        rest = times[1:]
        if times[0] > _ABOVE * median(rest) and times[0] > _NEXT * max(rest):
            return "first_step", {"window": name, "first": times[0], "typical": median(rest)}
        if len(times) >= _MANY and (slow := _leading(times)) >= _SEVERAL:
            first, typical = median(times[:slow]), median(times[slow:])
            return "first_steps", {"window": name, "steps": slow, "first": first, "typical": typical}
    return None


def _leading(times: Sequence[float]) -> int:
    """Return how many steps at the beginning take twice as long as any of the others; 0 unless few do."""
    half = len(times) // 2
    border = _NEXT * max(times[half:])
    slow = next((place for place, t in enumerate(times) if t <= border), len(times))
    return slow if slow <= half and max(times[slow:]) <= border else 0


def _heavy_mean(trial: Trial) -> tuple[str, dict[str, str | float]] | None:
    claimed = trial.facts.claimed
    mean, p95 = claimed.get(f"{LATENCY}_mean_s"), claimed.get(f"{LATENCY}_p95_s")
    if mean is None or p95 is None or not mean > p95 > 0.0:
        return None
    return "mean", {"figure": LATENCY, "mean": mean, "p95": p95}


# ── drift ───────────────────────────────────────────────────────────────────────────────────────────────────

TOLERANCE = 0.05
_BETWEEN_TRIALS = 0.1  # trials of a quiet machine differ by up to 5 % without a trend
_FEWEST_TRIALS = 6  # of fewer, not even a strict order is seldom enough: 5 have it by chance once in 60
_STRICT = 2.576  # standard deviations: by chance in one case of 100


@check("step times that drift over the steady window, or from trial to trial")
def drift(run: Run) -> Iterator[Finding]:
    """Fire where steps become slower or faster: within the windows, or from trial to trial.

    Within: where the median drift of a window is above 5 %, above what noise makes, and alike in the trials (the 95 %
    interval of its mean over three or more leaves 0 out). From trial to trial: where the mean steps of at least 6 rise
    or fall (Mann & Kendall, at 99 %) by more than 10 % in all (Sen's slope). Two sides measured in turn drift together,
    and are not looked at.
    """
    procedure = run.head.procedure
    warmup = option(procedure, "warmup", 2 * procedure.warmup if procedure.warmup else 50)
    for case_id, _, trials in sound(run):
        for name, change in _drifting(trials):
            values: Values = {"window": name, "change": abs(change), "setting": warmup, "longer": longer(procedure)}
            reason, remedies = "slower" if change > 0 else "faster", _against_drift(run, change)
            yield Finding("drift", Severity.WARNING, case_id, values, reason, remedies)
        trend = None if run.head.ab is not None else _between(trials)
        if trend is not None:
            reason = "trials_slower" if trend > 0 else "trials_faster"
            yield Finding("drift", Severity.WARNING, case_id, {"change": abs(trend)}, reason)


def _against_drift(run: Run, change: float) -> tuple[str, ...]:
    if is_imported(run):
        return ("longer_warmup_there" if change < 0 else "check_machine_there",)
    if change < 0:  # a training has no warm-up that could be longer
        return ("later_epochs" if run.head.procedure.fit is not None else "still_warming",)
    return ("slows_down", *own_loop(run.head.procedure))


def _between(trials: tuple[Trial, ...]) -> float | None:
    """Return the relative change of the mean step over the trials, in the order they were taken; None without one."""
    means = [fmean(times) for trial in trials for name, times in windows(trial) if name != "latency" and times]
    if len(means) < _FEWEST_TRIALS or len(means) != len(trials) or abs(rising(means)) <= _STRICT:
        return None
    slope = sen_slope(range(len(means)), means) or 0.0
    change = slope * (len(means) - 1) / (median(means) - slope * (len(means) - 1) / 2.0)  # of the fitted line's start
    return change if abs(change) > _BETWEEN_TRIALS else None


def _drifting(trials: tuple[Trial, ...]) -> Iterator[tuple[str, float]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        for name, times in windows(trial):
            change = drift_of(times)
            if change is not None:
                found.setdefault(name, []).append((change, _by_chance(times, change)))
    for name, pairs in found.items():
        changes = [change for change, _ in pairs]
        limit = max(TOLERANCE, median(chance for _, chance in pairs))
        if _is_of_all(changes) and abs(median(changes)) > limit:
            yield name, median(changes)


def _is_of_all(changes: Sequence[float]) -> bool:
    """Say whether trials drift alike: what the machine does to each by chance has one sign in three of them often."""
    if len(changes) < 3:
        return all(c > 0.0 for c in changes) or all(c < 0.0 for c in changes)
    _, low, high, _ = over_trials(changes, 0.95, logs=False)
    return low is not None and high is not None and (low > 0.0 or high < 0.0)


def _by_chance(times: tuple[float, ...], change: float) -> float:
    """Return the relative change that noise alone makes of as many steps, in 99 windows of 100."""
    # A straight line fitted to n steps of pure noise changes, end to end, by √12 times the error of their mean.
    # Without this, 13 % of noise that resembles its neighbours drifts by 10 % in windows that have no drift.
    rise, last = change * median(times), len(times) - 1
    level = [time - rise * (i / last - 0.5) for i, time in enumerate(times)]  # the drift itself is no noise
    return math.sqrt(12.0) * (relative_half_width(level, 0.99) or 0.0)


# ── several modes ───────────────────────────────────────────────────────────────────────────────────────────

_SEPARATION = 5.0  # one kind has 2.6, an even spread 3.5; noise that resembles its neighbours wanders up to 4.5
_LEAST_SHARE = 0.15  # fewer are spikes
_APART = 1.08
_STEPS = 40
_SWITCHES = 4  # steps that change level once or twice are drift
_CYCLE = 4  # a resident feed repeats 4 batches


@check("bimodal step times: the median may jump between the modes")
def several_modes(run: Run) -> Iterator[Finding]:
    """Fire where most trials have a window whose steps alternate between two levels that are cleanly apart.

    Steps whose items or tokens differ are two kinds by right, and say nothing. It is information where they follow the
    batches.
    """
    for case_id, _, every in sound(run):
        trials = alone(every)
        found = [modes for trial in trials for modes in _modes(trial)][: len(trials)]
        if len(found) > len(trials) / 2:
            seen, cyclic = found[0]
            severity = Severity.INFO if cyclic else Severity.WARNING
            values: Values = {
                "low_share": 1.0 - seen.share,
                "low": seen.low,
                "high_share": seen.share,
                "high": seen.high,
            }
            remedy = "mean" if is_imported(run) else "follow_batches" if cyclic else "two_modes"
            yield Finding("several_modes", severity, case_id, values, remedies=(remedy,))


def _modes(trial: Trial) -> Iterator[tuple[Split, bool]]:
    """Yield the first window of two kinds, and whether the kind of a step follows its place among 4."""
    for name, times in busy(trial):
        if len(times) < _STEPS or not all(t > 0.0 for t in times) or (found := two_kinds(times)) is None:
            continue
        upper = [t > found.border for t in times]
        switches = sum(a != b for a, b in pairwise(upper))
        clean = found.separation > _SEPARATION and found.high > _APART * found.low
        if not clean or not _LEAST_SHARE <= found.share <= 1.0 - _LEAST_SHARE or switches < _SWITCHES:
            continue
        if not of_their_work(trial, name, upper):
            yield found, all(_agree(upper[place::_CYCLE]) for place in range(_CYCLE))
            return


def _agree(kinds: list[bool]) -> bool:
    return sum(kinds) in range(len(kinds) // 10 + 1) or len(kinds) - sum(kinds) in range(len(kinds) // 10 + 1)
