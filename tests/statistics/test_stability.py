"""How often a divergence or a spike is seen that is none, and how often one that is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from torchstone.core.stats.convergence import Behaviour, behaviour, has_diverged, spikes

DRAWS = 300
Losses = list[float]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.7 + 0.07 * rng.normal(size=n)


def lognormal(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.7 * np.exp(0.5 * rng.normal(size=n))


def exponential(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(0.7, size=n)


def laplace(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.7 * np.exp(rng.laplace(scale=0.1, size=n))


def neighbours(rng: np.random.Generator, n: int) -> np.ndarray:
    walk = np.zeros(n)
    for i in range(1, n):
        walk[i] = 0.8 * walk[i - 1] + 0.6 * rng.normal()
    return 0.7 * np.exp(0.15 * walk)


def four_batches(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.tile([0.9, 0.3, 0.7, 0.5], n // 4 + 1)[:n] * np.exp(0.05 * rng.normal(size=n))


NOISES = (normal, lognormal, exponential, laplace, neighbours, four_batches)


@pytest.mark.parametrize("steps", [40, 200])
@pytest.mark.parametrize("noise", NOISES)
def test_random_labels_raise_no_alarm(noise: Callable[..., np.ndarray], steps: int) -> None:
    """Losses that go nowhere: a short throughput run on made-up data."""
    rng = np.random.default_rng(steps)
    taken = [noise(rng, steps).tolist() for _ in range(DRAWS)]
    diverged = sum(map(has_diverged, taken)) / DRAWS
    spiked = sum(bool(spikes(losses)) for losses in taken) / DRAWS
    moved = sum(behaviour(losses) not in (Behaviour.FLAT, Behaviour.DIVERGED) for losses in taken) / DRAWS
    print(f"{noise.__name__}, {steps} steps: diverged {diverged:.1%}, spiked {spiked:.1%}, moved {moved:.1%}")
    assert diverged <= 0.01
    assert spiked <= 0.01
    correlated = noise is neighbours and steps == 40  # worth four independent ones: no interval can know that
    assert moved <= (0.20 if correlated else 0.10), "5 % by its level"


@pytest.mark.parametrize("noise", NOISES)
def test_a_training_that_goes_well_raises_no_alarm(noise: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(7)
    fall = 0.1 + 0.9 * np.exp(-np.arange(400) / 100)
    taken = [(fall * noise(rng, 400)).tolist() for _ in range(DRAWS)]
    assert sum(map(has_diverged, taken)) <= 0.005 * DRAWS
    assert sum(bool(spikes(losses)) for losses in taken) <= 0.02 * DRAWS
    assert sum(behaviour(losses) == Behaviour.FALLING for losses in taken) >= 0.95 * DRAWS


def leaving(rng: np.random.Generator, n: int) -> np.ndarray:
    """It falls for half of the steps, then rises for good."""
    at = np.arange(n)
    return 2.3 * np.exp(-0.01 * at + 0.04 * np.maximum(0, at - n // 2) + 0.15 * rng.normal(size=n))


def leaping(rng: np.random.Generator, n: int) -> np.ndarray:
    """At once to another level, and stays there: the first steps were too long."""
    return np.where(np.arange(n) < 5, 2.3, 8.0) * np.exp(0.15 * rng.normal(size=n))


def bursting(rng: np.random.Generator, n: int) -> np.ndarray:
    """The first step throws it up by orders, and it never comes down to where it was."""
    burst = 1e4 * np.exp(-np.arange(n) / (n / 20)) + 12.0
    return np.where(np.arange(n) < 1, 2.3, burst) * np.exp(0.15 * rng.normal(size=n))


def losing(rng: np.random.Generator, n: int) -> np.ndarray:
    """What was learned is lost, back to where it began."""
    at = np.arange(n)
    return np.where(at < 0.7 * n, 2.3 * np.exp(-0.02 * at), 2.3) * np.exp(0.15 * rng.normal(size=n))


@pytest.mark.parametrize("steps", [60, 200, 1000])
@pytest.mark.parametrize("kind", [leaving, leaping, bursting, losing])
def test_a_divergence_is_seen(kind: Callable[..., np.ndarray], steps: int) -> None:
    rng = np.random.default_rng(steps)
    seen = sum(has_diverged(kind(rng, steps).tolist()) for _ in range(DRAWS)) / DRAWS
    print(f"{kind.__name__}, {steps} steps: {seen:.1%}")
    assert seen >= 0.9


@pytest.mark.parametrize("factor", [5.0, 10.0])
def test_a_spike_is_seen_where_it_is(factor: float) -> None:
    rng = np.random.default_rng(int(factor))
    seen = false = 0
    for _ in range(DRAWS):
        losses = 2.3 * np.exp(-0.005 * np.arange(200) + 0.1 * rng.normal(size=200))
        at = int(rng.integers(20, 195))
        losses[at] *= factor
        losses[at + 1] *= np.sqrt(factor)
        found = spikes(losses.tolist())
        seen += at in found
        false += any(abs(step - at) > 1 for step in found)
    assert seen >= 0.95 * DRAWS
    assert false <= 0.01 * DRAWS
