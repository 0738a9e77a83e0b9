"""Costs: price × items ÷ rate, the interval turned over, and None where energy was not measured."""

from pathlib import Path

import msgspec
import pytest
from build import a_case, a_run, a_trial, facts_of
from priced import CARBON, ELECTRICITY, prices_of
from stored import a_stored_run, case, machine

from torchstone.analysis.cost import CostRequest, Of, costs, inverse, times
from torchstone.analysis.summary import summarize
from torchstone.config.prices import Prices
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import merged
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Series
from torchstone.storage.query import entry_of

PRICES = prices_of("EUR", {"Xeon": 0.36})


def told(run, prices=PRICES, **asked):
    return costs([summarize(entry_of(run, Path("r.jsonl")))], CostRequest(prices, **asked))


def with_energy(run, watts, **facts):
    """Let the device of every trial draw constant power."""
    trials = []
    for trial in run.trials:
        series = Series("device_power_w", "amd_smi", (0.0, 1e4), (watts, watts))
        trials.append(msgspec.structs.replace(trial, series=(series,), facts=merged(trial.facts, facts_of(facts))))
    return msgspec.structs.replace(run, trials=tuple(trials))


def test_money_is_price_times_items_over_rate_and_its_interval_is_turned_over():
    run = a_stored_run(0, [(case(), 100.0)], machine())
    rate = summarize(entry_of(run, Path())).cases[0].estimates["throughput"]
    assert rate.low is not None
    assert rate.high is not None
    (one,) = told(run).cases
    (million,) = one.amounts
    assert million.of == Of.MILLION
    assert million.money.value == pytest.approx(0.36 / 3600 * 1e6 / rate.value)
    assert million.money.low == pytest.approx(0.36 / 3600 * 1e6 / rate.high)
    assert million.money.high == pytest.approx(0.36 / 3600 * 1e6 / rate.low)
    assert million.money.low < million.money.value < million.money.high
    assert million.money.unit == "EUR"
    assert million.money.trials == rate.trials
    assert (million.energy_kwh, million.electricity, million.carbon_g) == (None, None, None), "not measured is not 0"


def test_energy_its_price_and_its_carbon():
    run = with_energy(a_stored_run(0, [(case(), 100.0)], machine(), noise=0.0), 200.0)
    prices = msgspec.structs.replace(PRICES, electricity=ELECTRICITY, carbon=CARBON)
    (one,) = told(run, prices).cases
    million = one.amounts[0]
    assert million.energy_kwh.value == pytest.approx(200.0 / 100.0 * 1e6 / 3.6e6)
    assert million.electricity.value == pytest.approx(0.30 * million.energy_kwh.value)
    assert million.electricity.unit == "EUR"
    assert million.carbon_g.value == pytest.approx(400.0 * million.energy_kwh.value)


def test_epochs_are_those_of_the_data_or_as_given():
    run = with_energy(a_stored_run(0, [(case(), 100.0)], machine(), noise=0.0), 200.0, dataset_items=5000)
    amounts = {a.of: a for a in told(run, epochs=90).cases[0].amounts}
    assert amounts[Of.EPOCH].items == 5000
    assert amounts[Of.EPOCH].time_h.value == pytest.approx(50.0 / 3600.0)
    assert amounts[Of.TRAINING].money.value == pytest.approx(90 * amounts[Of.EPOCH].money.value)
    amounts = {a.of: a for a in told(run, items=10_000).cases[0].amounts}
    assert amounts[Of.EPOCH].time_h.value == pytest.approx(100.0 / 3600.0)
    assert Of.TRAINING not in amounts


def test_several_devices_cost_several_times_as_much_and_each_provider_is_a_row():
    many = a_case({"batch_size": 16}, placement=Placement("cuda", count=2, nodes=2))
    run = a_run([a_trial(case_id=many.case_id)], cases=[many], machine=machine("cuda"))
    offers = [prices_of("EUR", {"H200": price}, name).offers for name, price in (("east", 0.36), ("w", 0.72))]
    prices = Prices("EUR", (*offers[0], *offers[1]))
    east, west = told(run, prices).cases
    assert east.amounts[0].money.value == pytest.approx(4 * 0.36 * east.amounts[0].time_h.value)
    assert west.amounts[0].money.value == pytest.approx(2 * east.amounts[0].money.value)
    assert [one.price.provider for one in told(run, prices, provider="w").cases] == ["w"]
    with pytest.raises(UsageError, match="no such provider; known: east, w"):
        told(run, prices, provider="moon")


@pytest.mark.parametrize(("count", "nodes", "paid"), [(1, 1, 1), (2, 1, 1), (2, 3, 3)])
def test_ranks_on_a_cpu_share_a_machine_and_its_price(count, nodes, paid):
    case = a_case({"batch_size": 16}, placement=Placement("cpu", count=count, nodes=nodes))
    (one,) = told(a_run([a_trial(case_id=case.case_id)], cases=[case], machine=machine()), PRICES).cases
    assert one.amounts[0].money.value == pytest.approx(paid * one.price.per_hour * one.amounts[0].time_h.value)
    assert Placement("cuda", count=count, nodes=nodes).paid == count * nodes


def test_text_is_counted_in_output_tokens():
    one = a_case({"batch_size": 4, "new_tokens": 8}, task=Task.GENERATE, item="sequence")
    facts = {"task": "generate", "new_tokens": 8}
    run = with_energy(a_run([a_trial([0.1] * 10, items=4, case_id=one.case_id, facts=facts)], cases=[one]), 100.0)
    million = told(run).cases[0].amounts[0]
    assert told(run).cases[0].item == "token"
    assert million.time_h.value == pytest.approx(1e6 / (4 * 8 / 0.1) / 3600)
    assert million.energy_kwh.value == pytest.approx(100.0 * million.time_h.value / 1000.0)


def test_a_device_without_a_price_and_a_case_without_a_rate():
    cases = [(case(), 100.0), (case(batch_size=32), 150.0)]
    run = a_stored_run(0, cases, machine(), failed=[cases[1][0].case_id])
    found = told(run, prices_of("EUR", {"H200": 4.0}))
    assert found.unpriced == ("Intel Xeon",)
    assert [one.amounts[0].money for one in found.cases] == [None]
    assert len(found.without) == 1


def test_a_training_costs_what_it_took():
    run = a_run([a_trial(duration_s=7200.0)], procedure=Procedure(fit=Fit()), machine=machine())
    measured = {a.of: a for a in told(run).cases[0].amounts}[Of.MEASURED]
    assert measured.time_h.value == pytest.approx(2.0)
    assert measured.money.value == pytest.approx(0.72)
    assert measured.money.low is None
    assert measured.money.note is not None


def test_ends_that_are_no_bound_turn_into_none():
    found = Estimate(2.0, -1.0, 5.0, 0.95, "x", "m", 3, 3)
    turned = inverse(found, 1.0, "y")
    assert (turned.value, turned.low, turned.high, turned.unit) == (0.5, None, None, "y")
    assert times(msgspec.structs.replace(found, low=None, high=None), 2.0, "y").low is None
