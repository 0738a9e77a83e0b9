"""The adaptive search on surfaces of 336 settings: as good as asked, on seeds that nobody looked at while it was made."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from search import Found, doubling, of_surface, searched
from surfaces.kinds import modelled
from surfaces.model import Modelled
from surfaces.recorded import SETTINGS, recorded, smooth
from surfaces.surface import POINTS, Spot

SEEDS = (1001, 1002)


@pytest.fixture(scope="module")
def found() -> dict[int, list[Found]]:
    return {
        seed: [of_surface(surface, seed, ["adaptive"])["adaptive"] for surface in modelled(seed)] for seed in SEEDS
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_finds_the_best_at_a_twentieth_of_the_cost(found: dict[int, list[Found]], seed: int) -> None:
    assert statistics.mean(f.share_of_best for f in found[seed]) >= 0.99
    assert statistics.mean(f.share_of_cost for f in found[seed]) <= 0.05
    assert min(f.share_of_best for f in found[seed]) >= 0.95
    assert max(f.share_of_cost for f in found[seed]) <= 0.10


def test_hardly_ever_runs_out_of_memory(found: dict[int, list[Found]]) -> None:
    ooms = [f.ooms for of_seed in found.values() for f in of_seed]
    assert statistics.mean(count == 0 for count in ooms) >= 0.9
    assert max(ooms) <= 1


@pytest.mark.parametrize("surface", modelled(3), ids=lambda surface: surface.name)
def test_a_modelled_surface_is_a_fair_task(surface: Modelled) -> None:
    """It is the same for equal seeds, few settings are near the best, and a reading is right but for its noise."""
    same = next(s for s in modelled(3) if s.name == surface.name)
    values = [value for p in POINTS if (value := surface.truth(p)) is not None]
    assert values == [value for p in POINTS if (value := same.truth(p)) is not None]
    assert len(values) >= 48
    assert sum(value >= 0.97 * surface.best for value in values) <= 0.4 * len(values)
    assert max(values) >= 3.0 * statistics.median(values) / 2.0
    assert surface.everything_s > 60.0


def test_doubling_takes_the_last_that_worked() -> None:
    surface = next(s for s in modelled(3) if s.name == "memory-bound")
    end = searched(surface, doubling(surface.brief(0)), 0)
    assert end.ooms == 1
    assert 0.0 < end.share_of_best < 1.0


@pytest.mark.parametrize("surface", recorded(), ids=lambda surface: surface.name)
def test_smoothing_predicts_a_half_it_has_not_seen(surface) -> None:
    """Why a recording's truth is smoothed: half of the readings, smoothed, tell the other half better than raw."""
    readings = np.array(
        [[math.log(surface.reading(Spot(*setting, pin))) for pin in (False, True)] for setting in SETTINGS]
    )
    for seen, unseen in ((0, 1), (1, 0)):
        half = np.column_stack([readings[:, seen], readings[:, seen]])
        smoothed, _ = smooth(half, noise_of=readings)
        raw = np.mean((readings[:, seen] - readings[:, unseen]) ** 2)
        assert np.mean((smoothed - readings[:, unseen]) ** 2) < 0.8 * raw
