"""Costs as a Document: the lowest first with its interval, a table for each amount, and where prices are from."""

from pathlib import Path

import msgspec
from priced import CARBON, ELECTRICITY, prices_of
from stored import a_stored_run, case, machine

from torchstone.analysis.cost import CostRequest, costs
from torchstone.analysis.summary import summarize
from torchstone.config.prices import Prices
from torchstone.report.document import Fields, Section
from torchstone.report.documents.cost import cost_document
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of

PRICES = prices_of("EUR", {"Xeon": 0.36})


def document(prices=PRICES, sizes=(8, 32), **asked):
    run = a_stored_run(0, [(case(batch_size=size), 100.0 + size) for size in sizes], machine())
    return cost_document(costs([summarize(entry_of(run, Path("r.jsonl")))], CostRequest(prices, **asked)))


def test_the_lowest_cost_comes_first_and_every_price_has_its_date_and_source():
    told = document()
    assert told.headline is not None
    assert told.headline.startswith("a million images: 0.7")
    assert "EUR [0.7" in told.headline
    assert "; batch_size 32" in told.headline
    assert told.headline.endswith("the lowest of 2 costs.")
    *_, rest = told.parts
    assert isinstance(rest, Section)
    (facts,) = [part for part in rest.parts if isinstance(part, Fields)]
    assert facts.rows == (("price", "Intel Xeon: 0.36 EUR/h (2026-11-01, our own bill)"),)


def test_a_time_below_an_hour_is_in_minutes_or_seconds():
    text = terminal(document(items=500), 120, every=True)
    assert " 4.62 s " in text.split("[an epoch of 500 images]")[1], "0.00128 h: 500 images, 108 a second"
    assert " 2.57 h " in text


def test_energy_that_was_not_measured_is_said_and_not_zero():
    prices = msgspec.structs.replace(PRICES, electricity=ELECTRICITY, carbon=CARBON)
    text = terminal(document(prices), 120, every=True)
    assert "energy: not measured" in text
    assert "carbon intensity" in text
    assert "400 g CO₂e/kWh (2025-12-31, the grid's mean of 2025)" in text
    assert " 0 kWh" not in text


def test_only_electricity_and_no_energy():
    assert "energy was not measured" in (document(Prices(None, (), ELECTRICITY)).headline or "")


def test_no_price_for_this_device():
    told = document(prices_of("EUR", {"H200": 4.0}))
    assert told.headline == "no cost: no price for Intel Xeon, and energy was not measured."


def test_a_training_needs_the_items_of_an_epoch():
    assert "no cost of a training: the items of an epoch are not known; --items N" in terminal(
        document(epochs=3), 100, every=True
    )
    told = document(epochs=3, items=1000)
    first, rest = [one for one in told.parts if isinstance(one, Section)]
    assert [part.title for part in first.parts if isinstance(part, Section)] == ["a training of 3,000 images"]
    (others,) = [one for one in rest.parts if isinstance(one, Section)]
    assert [part.title for part in others.parts if isinstance(part, Section)] == [
        "a million images", "an epoch of 1,000 images",
    ]  # fmt: skip
    whole = terminal(told, 100, every=True)
    assert "validation, checkpoints and starting come on top" in " ".join(whole.split())
