"""Multiple comparisons: which differences are significant, and the matching level of their intervals.

p: the two-sided probability at which an interval of level 1 - p just touches "no difference".
"""

from __future__ import annotations

from collections.abc import Sequence


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
