"""The ratio of two figures, each from trials of its own run, and how well it is known. All values are logarithms.

Trials are the replicates, and those of one run that were taken near each other resemble each other, since the machine
drifts: on a shared machine Welch's t over 10 + 10 trials of equal code, one run after the other, calls 30 % of pairs
different (benchmarks/compare.py, on recorded noise). So the spread is taken from few batches of consecutive trials
(Schmeiser, Operations Research 30(3), 1982), which sees what drifts within a run, and widened for what does not show.
Many trials do not cure that: of 76 recorded pairs of runs of equal code, 22 to 215 processes each and minutes apart,
47 % differ by more than their processes alone allow (benchmarks/data/aa*.json).

Trials forked from one template (one interpreter, as `ab` does) share something of it. Templates are a random effect
whose variance is moderated by what is known of it beforehand (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004), or two of
them would stand for two replicates.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from torchstone.core.stats.moderated import Prior, Spread, as_student, of_pooled
from torchstone.core.stats.nested import ASSUMED_SPREAD, ASSUMED_WEIGHT
from torchstone.core.stats.student import from_log, t_quantile, tail, two_sided

# Cases of one run compared round by round, so that what slows a whole round down drops out of their ratio.
#
# In each round every case is measured once, within seconds or minutes of the others (Kalibera & Jones, Rigorous
# benchmarking in reasonable time, ISMM 2013: interleaved, paired). The logarithm of the ratio in each round is one
# value; their spread is moderated by that of all cases about the effects of case and round (core/stats/moderated.py).

_SWEEPS = 20  # of case and round means in turn: the residuals stand still long before
_LEAST_CHANGE = 1e-12

Rounds = Mapping[int, float]  # round → logarithm of a figure of one case


def by_rounds(
    one: Rounds,
    other: Rounds,
    prior: Prior | None = None,
    templates: Mapping[int, Hashable] | None = None,
    assumed: float = ASSUMED_SPREAD,
) -> Difference | None:
    """Return one case less another of its run, by rounds; None where they have fewer than two in common.

    `prior`: what the cases of the run say of the spread (`prior_of`): one for all its pairs. `templates`: of which
    template the trials of a round were forked, where that is known of all, and the spread `assumed` between templates.
    """
    common = sorted(one.keys() & other.keys())
    if len(common) < 2:
        return None
    known = [templates[number] for number in common if number in templates] if templates else []
    shared = Templates(known, assumed) if len(known) == len(common) else UNKNOWN
    return paired([other[number] for number in common], [one[number] for number in common], shared, prior)


def prior_of(among: Sequence[Rounds]) -> Prior | None:
    """Return what the residual spread of three and more cases says of the ratio of two; None where there is none."""
    several = [case for case in among if len(case) > 1]
    if len(several) < 3:
        return None
    left = residual(several)
    if left is None:
        return None
    return of_pooled(Spread(2.0 * left.variance, left.df))  # a ratio has the variance of both its cases


def residual(cases: Sequence[Rounds]) -> Spread | None:
    """Return the spread of one trial about the effects of its case and its round; None where none is left.

    Two-way layout without interaction, cells may be missing: case means and round means taken out in turn (Yates 1933)
    until nothing moves.
    """
    left = [dict(case) for case in cases]
    rounds = sorted({number for case in left for number in case})
    for _ in range(_SWEEPS):
        if max(_centre_cases(left), _centre_rounds(left, rounds)) < _LEAST_CHANGE:
            break
    cells = sum(len(case) for case in left)
    df = cells - len(left) - len(rounds) + 1
    if df <= 0:
        return None
    return Spread(math.fsum(value * value for case in left for value in case.values()) / df, df)


def _centre_cases(left: Sequence[dict[int, float]]) -> float:
    moved = 0.0
    for case in left:
        mean = math.fsum(case.values()) / len(case)
        moved = max(moved, abs(mean))
        for number in case:
            case[number] -= mean
    return moved


def _centre_rounds(left: Sequence[dict[int, float]], rounds: Sequence[int]) -> float:
    moved = 0.0
    for number in rounds:
        having = [case for case in left if number in case]
        mean = math.fsum(case[number] for case in having) / len(having)
        moved = max(moved, abs(mean))
        for case in having:
            case[number] -= mean
    return moved


# Multiple comparisons: which differences are significant, and the matching level of their intervals.
#
# p: the two-sided probability at which an interval of level 1 - p just touches "no difference".


def bonferroni(comparisons: float, alpha: float = 0.05) -> float:
    """Return the level of each of so many intervals that hold all together, with a probability of 1 - alpha."""
    return 1.0 - alpha / max(1.0, comparisons)


def holm(p_values: Sequence[float], alpha: float) -> tuple[list[bool], float]:
    """Return which differences stand, and the level of all intervals. Raises ValueError for alpha outside (0, 1).

    At most a share `alpha` of whole tables have a false one, however the figures hang together: Holm, Scandinavian
    Journal of Statistics 6(2), 1979. Of m differences k stand; an interval of level 1 - alpha/(m - k + 1) then leaves
    "no difference" out for exactly these: the k-th smallest p is below alpha/(m - k + 1), the next above alpha/(m - k).
    """
    count = len(p_values)
    _check(alpha)
    standing = 0
    for place, p in enumerate(sorted(p_values)):
        if p > alpha / (count - place):
            break
        standing = place + 1
    limit = alpha / max(1, min(count, count - standing + 1))
    return [p <= limit for p in p_values], 1.0 - limit


def benjamini_hochberg(p_values: Sequence[float], share: float) -> tuple[list[bool], float]:
    """Return which differences stand, and the level of all intervals. Raises ValueError for a share outside (0, 1).

    Of those that stand, a share of at most `share` is false on average, where figures are independent or rise and fall
    together: Benjamini & Hochberg, JRSS B 57(1), 1995. With R of m standing the intervals have the level 1 - R·share/m,
    at which they agree with the tests: Benjamini & Yekutieli, JASA 100(469), 2005.
    """
    count = len(p_values)
    _check(share)
    ordered = sorted(p_values)
    standing = max((place for place, p in enumerate(ordered, 1) if p <= share * place / count), default=0)
    limit = share * max(1, standing) / max(1, count)
    return [p <= limit for p in p_values], 1.0 - limit


def _check(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"{alpha!r} is not between 0 and 1")


class LogMean(NamedTuple):
    """The mean of the logarithms of a figure over trials, the standard deviation of one trial, and how many."""

    log: float
    deviation: float
    trials: int


def log_mean(value: float, low: float | None, high: float | None, trials: int, level: float = 0.95) -> LogMean | None:
    """Return what stood behind a t-interval on the log (stats.interval.over_trials); None without an interval.

    `value`, `low` and `high` in the figure's own unit, positive. Raises ValueError where level is outside (0, 1).
    """
    if low is None or high is None or trials < 2 or not 0.0 < low <= value <= high:
        return None
    half = math.log(high / low) / 2.0
    return LogMean(math.log(value), half / two_sided(level, trials - 1) * math.sqrt(trials), trials)


def ratio_interval(a: LogMean, b: LogMean) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a ÷ b (no unit): of the difference of two means of logarithms.

    Welch, Biometrika 34 (1947); degrees of freedom by Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    parts = [one.deviation**2 / one.trials for one in (a, b)]
    variance = sum(parts)
    if variance <= 0.0:
        return from_log(a.log - b.log), from_log(a.log - b.log)
    df = variance**2 / sum(part**2 / (one.trials - 1) for part, one in zip(parts, (a, b), strict=True))
    half = two_sided(0.95, df) * math.sqrt(variance)
    return from_log(a.log - b.log - half), from_log(a.log - b.log + half)


def pooled(means: Sequence[LogMean]) -> tuple[float, int]:
    """Return (standard deviation of one trial, degrees of freedom) over groups of equal spread.

    The error term of a one-way analysis of variance (Fisher 1925). Raises ValueError without a group of two trials.
    """
    df = sum(one.trials - 1 for one in means)
    if df <= 0:
        raise ValueError("no group of two trials: there is no spread to pool")
    return math.sqrt(sum((one.trials - 1) * one.deviation**2 for one in means) / df), df


BATCHES = 3  # of consecutive trials: fewer have no spread, more resemble their neighbours
_A_BATCH = 5  # trials: where there are many, a batch is as long as this, and there are more of them
_ALIKE = 0.08  # of the variance: what all trials of a run have in common (calibrated in benchmarks/compare.py)
_ALIKE_APART = 0.1  # more of it for each length of a run that lies between two runs of one machine
_MOST_APART = 3.0
ASSUMED = 0.22  # standard deviation between processes of equal code, where one trial tells nothing of it
_POWER = 0.8
_MOST_TRIALS = 1000
_SURE = 0.99  # that a slope is no chance
# The standard deviation between templates that is assumed before any were seen: of times and rates of one side (of a
# ratio measured in turn it is stats.nested's), and of what processes hold.
ASSUMED_OF_TIMES, ASSUMED_OF_MEMORY = 0.01, 0.001


class VariancePart(NamedTuple):
    """What is known of one side: mean log, variance of one trial, how many trials, degrees of freedom of the variance.

    `stays`: variance that more trials do not lower; `most_df`: what the degrees of freedom grow to with more trials.
    """

    log: float
    variance: float
    trials: int
    df: float
    stays: float = 0.0
    most_df: float = math.inf

    def error(self, more: int = 0) -> float:
        """Return the squared standard error of the mean with that many further trials."""
        return self.variance / (self.trials + more) + self.stays

    def freedom(self, more: int = 0) -> float:
        """Return the degrees of freedom with that many further trials."""
        return min(self.df + more, self.most_df) if more else self.df


class Difference(NamedTuple):
    """Candidate less baseline, of logs, and the two sides."""

    log: float
    baseline: VariancePart
    candidate: VariancePart

    def spread(self, more: int = 0) -> tuple[float, float]:
        """Return (standard error, degrees of freedom) with that many further trials of each side.

        Welch, Biometrika 34, 1947; degrees of freedom by Satterthwaite, Biometrics Bulletin 2, 1946.
        """
        parts = [(side.error(more), side.freedom(more)) for side in (self.baseline, self.candidate)]
        total = math.fsum(error for error, _ in parts)
        below = math.fsum(error * error / df for error, df in parts if error > 0.0)
        return math.sqrt(total), total * total / below if below > 0.0 else math.inf

    def interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the two-sided interval, as logs."""
        error, df = self.spread()
        half = two_sided(level, df) * error if error > 0.0 else 0.0
        return self.log - half, self.log + half

    def ratio(self, level: float) -> tuple[float, float, float]:
        """Return candidate ÷ baseline with the ends of its two-sided interval."""
        low, high = self.interval(level)
        return from_log(self.log), from_log(low), from_log(high)

    def p_value(self) -> float:
        """Return the level at which the interval just leaves 0 out, taken from 1."""
        error, df = self.spread()
        if error <= 0.0:
            return 0.0 if self.log else 1.0
        return 2.0 * tail(abs(self.log) / error, df)

    def to_settle(self, level: float, margin: float) -> int | None:
        """Return how many more trials of each side would settle it, with a power of 80 %; None: not in 1,000.

        It is settled where the interval leaves 1 out, or lies within the margin, if the ratio is what it now seems.
        """
        if not self._settled(_MOST_TRIALS, level, margin):
            return None
        low, high = 0, _MOST_TRIALS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._settled(middle, level, margin) else (middle, high)
        return high

    def _settled(self, more: int, level: float, margin: float) -> bool:
        error, df = self.spread(more)
        reach = (two_sided(level, df) + t_quantile(_POWER, df)) * error
        return abs(self.log) > reach or abs(self.log) + reach < math.log1p(margin)


class Templates(NamedTuple):
    """Which template each trial was forked from, and the deviation between templates assumed before any were seen."""

    of_each: Sequence[Hashable] = ()
    assumed: float = ASSUMED_OF_TIMES


UNKNOWN = Templates()  # what trials of a template share is not known, or each has its own


def of_independent(logs: Sequence[float]) -> VariancePart:
    """Return what two or more values say that do not depend on their neighbours. Raises ValueError for fewer."""
    if len(logs) < 2:
        raise ValueError("one value has no spread")
    return VariancePart(fmean(logs), _spread(logs, len(logs)), len(logs), len(logs) - 1.0)


def run_mean(
    logs: Sequence[float], lengths_apart: float | None = None, drift: float = 0.0, templates: Templates = UNKNOWN
) -> VariancePart:
    """Return what two or more trials of one run say of it, in the order taken. Raises ValueError for fewer.

    `lengths_apart`: the time between this run and the other in lengths of the longer; None: on two machines, or of a
    figure that the machine's pace does not move. `drift`: by how much the figure was seen to move over the run, as a
    log: so little is known of where it went from there.
    """
    if len(logs) < 2:
        raise ValueError("one trial has no spread")
    batches = min(max(BATCHES, len(logs) // _A_BATCH), len(logs))
    far = min(_MOST_APART, max(0.0, lengths_apart or 0.0))
    spread, alike = _spread(logs, batches), _ALIKE + _ALIKE_APART * far
    stays = alike * spread + (drift * (1.0 + far)) ** 2
    part = VariancePart(fmean(logs), spread, len(logs), batches - 1.0, stays, max(BATCHES, batches) - 1.0)
    return _with_templates(part, logs, templates)


def _with_templates(part: VariancePart, logs: Sequence[float], templates: Templates) -> VariancePart:
    """Return a part with what the templates of its trials add to its error.

    Degrees of freedom by Satterthwaite (Biometrics Bulletin 2, 1946).
    """
    groups: dict[Hashable, list[float]] = {}
    for template, log in zip(templates.of_each, logs, strict=len(templates.of_each) > 0):
        groups.setdefault(template, []).append(log)
    if len(groups) in (0, len(logs)) or max(logs) <= min(logs):
        return part
    share = math.fsum(len(group) ** 2 for group in groups.values()) / len(logs) ** 2 - 1.0 / len(logs)
    added = share * _between(list(groups.values()), templates.assumed)
    known, added_df = part.error(), ASSUMED_WEIGHT + len(groups) - 1.0
    df = (known + added) ** 2 / (known**2 / part.df + added**2 / added_df)
    return part._replace(stays=part.stays + added, df=df, most_df=max(part.most_df, df))


def _between(groups: Sequence[Sequence[float]], assumed: float) -> float:
    """Return the variance between templates: what was seen of it, drawn towards what is assumed.

    Seen by one-way analysis of variance (Searle, Casella & McCulloch, Variance Components, 1992, §3.6).
    """
    df = sum(len(group) - 1 for group in groups)
    within = math.fsum((len(group) - 1) * _variance(group) for group in groups if len(group) > 1) / df
    seen_df = len(groups) - 1
    seen = _variance(list(map(fmean, groups))) if seen_df else 0.0
    explained = within * fmean(1.0 / len(group) for group in groups)
    return (ASSUMED_WEIGHT * assumed**2 + seen_df * max(0.0, seen - explained)) / (ASSUMED_WEIGHT + seen_df)


def _spread(logs: Sequence[float], batches: int) -> float:
    """Return the variance of one value that the means of batches of consecutive ones show."""
    if max(logs) <= min(logs):  # equal figures (bytes of memory) must not differ by the rounding of their logarithms
        return 0.0
    centre, alone = fmean(logs), _variance(logs)
    if batches == len(logs):
        return alone
    edges = [round(i * len(logs) / batches) for i in range(batches + 1)]
    parts = [logs[begin:end] for begin, end in pairwise(edges)]
    between = math.fsum(len(part) * (fmean(part) - centre) ** 2 for part in parts) / (batches - 1)
    # Three means may agree by chance; trials do not repel each other, so much less than their spread is no knowledge.
    return max(between, alone / 10.0)


def _variance(values: Sequence[float]) -> float:
    """Return the variance of two or more values; that of the standard library takes ten times as long."""
    centre = fmean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def of_one(log: float, steps_error: float = 0.0) -> VariancePart:
    """Return what one trial says: its steps, and an assumed spread of processes, since its own is not seen."""
    return VariancePart(log, ASSUMED**2 + steps_error**2, 1, math.inf, most_df=BATCHES - 1.0)


def difference(baseline: VariancePart, candidate: VariancePart) -> Difference:
    """Return candidate less baseline."""
    return Difference(candidate.log - baseline.log, baseline, candidate)


def paired(
    baseline: Sequence[float], candidate: Sequence[float], templates: Templates = UNKNOWN, prior: Prior | None = None
) -> Difference:
    """Return candidate less baseline of trials taken in turn, one pair a round: drift hits both, and leaves the ratio.

    Student's t on the log ratios of the rounds (Kalibera & Jones, ISMM 2013). `templates`: of each round; `prior`: what
    the cases of the run say of the spread of ratios (core/stats/comparing.py). Raises ValueError under two rounds.
    """
    logs = [b - a for a, b in zip(baseline, candidate, strict=True)]
    alone = of_independent(logs)
    spread = as_student(Spread(alone.variance, alone.df), len(logs), prior)
    part = _with_templates(alone._replace(variance=spread.variance, df=spread.df), logs, templates)
    return Difference(part.log, VariancePart(0.0, 0.0, part.trials, part.df), part)


def drift_seen(cases: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return by how much figures moved over a run, as a log; 0 where that is not significant.

    `cases`: places in the run's order and logs, a value a trial, of each of its Cases: they share one slope, since
    their trials were taken in turn.
    """
    centred = [
        (place - fmean(places), log - fmean(logs))
        for places, logs in cases
        for place, log in zip(places, logs, strict=True)
    ]
    df, width = len(centred) - len(cases) - 1, math.fsum(x * x for x, _ in centred)
    if df < 2 or width <= 0.0:
        return 0.0
    slope = math.fsum(x * y for x, y in centred) / width
    error = math.sqrt(math.fsum((y - slope * x) ** 2 for x, y in centred) / df / width)
    if abs(slope) <= two_sided(_SURE, df) * error:
        return 0.0
    span = max(max(places) for places, _ in cases) - min(min(places) for places, _ in cases)
    return slope * span * len(centred) / (len(centred) - 1)
