"""What a run costs: its rate and the user's prices, reckoned again by hand."""

import pytest

PRICES = "currency: EUR\ndate: 2026-11-20\nsource: offer 1187\nprices: {cpu: 1, %s: 0.36}\n"
POWER = "electricity: {price: 0.3, unit: EUR/kWh, date: 2026-11-01, source: the contract}\n"
RUN = "torchstone run --task infer --model builtin:mlp --device cpu --batch-sizes 4 --axis threads=1 --trials 2"


def test_s4_43_what_a_run_costs_follows_from_its_rate_and_the_users_prices(desk):
    run = desk.type(f"{RUN} --iterations 4 --warmup 1 --warmup-budget 100ms --no-phases --json").document
    (case,) = run["cases"]
    name = next(one["name"] for one in run["machine"]["devices"] if one["kind"] == "cpu")
    desk.write("prices.yaml", PRICES % f'"{name}"')
    desk.write("power.yaml", POWER)
    found = desk.claimed("S4-43").document
    (cost,) = found["cases"]
    (million,) = cost["amounts"]
    rate = case["estimates"]["throughput"]
    by_hand = [0.36 / 3600 * 1e6 / rate[end] for end in ("value", "high", "low")]
    assert [million["money"][end] for end in ("value", "low", "high")] == [pytest.approx(value) for value in by_hand]
    assert cost["price"] == {
        "device": name, "per_hour": 0.36, "date": "2026-11-20", "source": "offer 1187", "provider": "",
    }  # fmt: skip
    measured = "energy_per_item_j" in case["estimates"]
    assert (million["energy_kwh"] is not None) == measured, "what was not measured is null, not 0"
    assert (million["electricity"] is not None) == measured
    undated = PRICES.replace("date: 2026-11-20\n", "") % f'"{name}"'
    desk.write("prices.yaml", undated)
    assert "has no date: add date: YYYY-MM-DD" in desk.type("torchstone cost --prices prices.yaml", code=2).err
