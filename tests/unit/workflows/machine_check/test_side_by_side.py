"""Which of several devices is slow, and what they take from each other: eight that are simulated."""

import random

import pytest

from torchstone.report.documents.machine import machine_all_document
from torchstone.report.renderers.terminal import terminal
from torchstone.workflows.machine_check.examination import ALONE, TOGETHER, judged_devices, rounds_of


class Cards:
    """Devices of some speeds, with noise; all at once they share: each keeps `shared` of its rate."""

    def __init__(self, speeds, *, shared=1.0, noise=0.003, seed=1, throttled=None):
        self.speeds, self.shared, self.noise, self.throttled = speeds, shared, noise, throttled or {}
        self.dice, self.asked = random.Random(seed), []

    def burst(self, places):
        self.asked.append(tuple(places))
        beside = len(places) > 1
        return [{"products": 1e15 * self._rate(place, beside), "memory": 4e12 * self._noise()} for place in places]

    def _rate(self, place, beside):
        kept = self.shared * self.throttled.get(place, 1.0) if beside else 1.0
        return self.speeds[place] * kept * self._noise()

    def _noise(self):
        return 1.0 + self.dice.gauss(0.0, self.noise)


def found(cards, rounds=5, bound=0.05):
    devices = [(f"cuda:{place}", "NVIDIA H200") for place in range(len(cards.speeds))]
    return judged_devices("devices", devices, rounds_of(cards, len(devices), rounds, lambda _: None), bound)


def test_of_eight_the_slow_one_is_named():
    told = found(Cards([1.0, 1.01, 0.99, 1.0, 1.0, 0.85, 1.005, 0.995]))
    assert {(row.device, row.work) for row in told.slow} == {("cuda:5", "products")}
    assert told.slow[0].slow == (ALONE, TOGETHER)
    assert told.slow[0].of_median_alone.value == pytest.approx(0.85, rel=0.01)
    text = " ".join(terminal(machine_all_document(told), 120).split())
    assert text.startswith("Of the devices (8) slow: cuda:5;")


def test_one_that_is_slow_only_beside_the_others():
    told = found(Cards([1.0] * 8, throttled={3: 0.8}))
    assert [(row.device, row.slow) for row in told.slow] == [("cuda:3", (TOGETHER,))]


def test_what_all_lose_at_once_is_told_and_no_device_is_slow_for_it():
    told = found(Cards([1.0] * 4, shared=0.7))
    assert told.slow == ()
    kept = [row.kept for row in told.rows if row.work == "products"]
    assert all(one.low is not None and one.low < 0.7 < (one.high or 0.0) for one in kept)


@pytest.mark.parametrize(("count", "slow"), [(2, {"cuda:1"}), (3, {"cuda:1"})])
def test_of_two_or_three_the_bound_alone_decides(count, slow):
    speeds = [1.0, 0.9, 1.0][:count]
    assert {row.device for row in found(Cards(speeds)).slow} == slow
    assert found(Cards(speeds), bound=0.2).slow == ()


def test_noise_makes_no_device_slow():
    """Equal devices: of 50 checks of eight, with 1 % of noise, none names one."""
    assert [seed for seed in range(50) if found(Cards([1.0] * 8, noise=0.01, seed=seed)).slow] == []


def test_one_device_has_nothing_beside_it():
    told = found(Cards([1.0]))
    assert told.slow == ()
    assert machine_all_document(told).headline == (
        "There is only one device here, cuda:0: nothing beside it to compare with."
    )


def test_a_round_is_each_alone_and_all_at_once_in_random_order():
    cards = Cards([1.0] * 3)
    rounds_of(cards, 3, 4, lambda _: None)
    orders = [tuple(cards.asked[begin : begin + 4]) for begin in range(0, 16, 4)]
    assert all(sorted(order) == [(0,), (0, 1, 2), (1,), (2,)] for order in orders)
    assert len(set(orders)) > 1
