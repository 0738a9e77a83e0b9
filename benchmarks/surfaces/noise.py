"""How far readings of the same setting differ, as measured on real trials.

From benchmarks/data/spread.json: 20 rounds, 42 s apart, of torchstone's own trials, forked from a template (three
kinds); ln of the mean step. What the trials of a round have in common is drift, the rest is each trial's own:

    CNN training         own sd 3.5 %, drift sd 3.4 %; drift correlates after 42, 84, 126, 210 s by 1.0, 0.9, 0.7, 0.2
    DistilBERT, batch 1  own sd 2.3 %, drift sd 1.9 %; after 42 and 84 s by 0.4 and -0.1

These trials had windows of 1 and 2 s, so "own" holds what the steps of a window do. Steps of one process differ by 6 to
13 %, and say as much as 10 and 36 % as many independent ones: one each 0.13 s and 0.31 s (42 processes each on the
same kind of machine). With 6 and 4 % within, 2.2 and 1.6 % of "own" come from the window, and 2.7 and 1.6 % remain for
the trial. No GPU was at hand: GPUs are quieter, so the large net's noise errs on the hard side for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import msgspec


class Noise(msgspec.Struct, frozen=True):
    """Of ln(step): sd of a trial; of drift, and its time constant; within a trial, of what is new each `renewal_s`."""

    trial_sd: float
    drift_sd: float
    drift_s: float
    within_sd: float
    renewal_s: float

    def scaled(self, by: float) -> Noise:
        """Return the noise of a machine that is quieter or noisier by a factor."""
        return Noise(self.trial_sd * by, self.drift_sd * by, self.drift_s, self.within_sd * by, self.renewal_s)

    def errors(self, seed: str) -> Callable[[float, float], float]:
        """Return a function of a trial's window and cost in seconds: the factor by which it reads too long."""
        rng = Random(seed)
        drift = rng.gauss(0.0, 1.0)

        def error(window_s: float, cost_s: float) -> float:
            nonlocal drift
            kept = math.exp(-cost_s / self.drift_s)
            drift = kept * drift + math.sqrt(1.0 - kept * kept) * rng.gauss(0.0, 1.0)
            within = self.within_sd / math.sqrt(max(1.0, window_s / self.renewal_s))
            return math.exp(self.drift_sd * drift + math.hypot(self.trial_sd, within) * rng.gauss(0.0, 1.0))

        return error


SMALL_NET = Noise(0.027, 0.034, 240.0, 0.06, 0.13)
LARGE_NET = Noise(0.016, 0.019, 40.0, 0.04, 0.31)
