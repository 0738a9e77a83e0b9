"""A price table: its forms, which device a line is of, and every mistake in it."""

import pytest
from priced import prices_of

from torchstone.config.prices import PerKilowattHour, Prices, read_prices, with_electricity
from torchstone.core.errors import UsageError

DATED = "currency: EUR\ndate: 2026-11-01\nsource: our bill\n"
YAML = f"{DATED}prices:\n  H200: 3.5\n  Intel Xeon: {{price_per_hour: 0.2, date: 2026-10-01, source: rack}}\n"
CSV = (
    "device,price_per_hour,currency,date,source\nH200,3.5,EUR,2026-11-01,our bill\nIntel Xeon,0.2,EUR,2026-10-01,rack\n"
)
JSON = (
    '{"currency": "EUR", "prices": [{"device": "H200", "price_per_hour": 3.5, "date": "2026-11-01", "source": '
    '"our bill"}, {"device": "Intel Xeon", "price_per_hour": 0.2, "date": "2026-10-01", "source": "rack"}]}'
)
POWER = "electricity: {price: 310, unit: EUR/MWh, date: 2026-11-01, source: contract}\n"
ROW = "{device: a, price_per_hour: 1}"
LINE = "H200,3,EUR,2026-11-01,us\n"
CARBON = "carbon: {intensity: 0.4, unit: kg/kWh, date: 2025-12-31, source: the grid}\n"
HEAD = "device,price_per_hour,currency,date,source\n"


@pytest.fixture
def read(tmp_path):
    def call(text: str, suffix: str = ".yaml") -> Prices:
        path = tmp_path / f"prices{suffix}"
        path.write_text(text, encoding="utf-8")
        return read_prices(path)

    return call


@pytest.mark.parametrize(("text", "suffix"), [(YAML, ".yaml"), (CSV, ".csv"), (JSON, ".json")])
def test_three_forms_of_one_table(read, text, suffix):
    prices = read(text, suffix)
    assert prices.currency == "EUR"
    card, processor = prices.of("NVIDIA H200"), prices.of("intel xeon gold")
    assert card is not None
    assert processor is not None
    assert (card.per_hour, card.date, card.source) == (3.5, "2026-11-01", "our bill")
    assert (processor.per_hour, processor.date, processor.source) == (0.2, "2026-10-01", "rack")
    assert prices.of("AMD MI300X") is None


def test_electricity_and_carbon_in_their_units(read):
    prices = read(POWER + CARBON)
    assert prices.currency is None
    assert prices.offers == ()
    assert prices.electricity == PerKilowattHour(0.31, "EUR", "2026-11-01", "contract")
    assert prices.carbon == PerKilowattHour(400.0, "g", "2025-12-31", "the grid")
    both = with_electricity(read(YAML), prices)
    assert (both.currency, both.electricity, both.carbon) == ("EUR", prices.electricity, prices.carbon)
    assert with_electricity(None, prices) == prices


def test_several_providers_of_one_device_and_the_lowest_of_them(read):
    prices = read(
        f"{DATED}prices:\n"
        "  - {device: H200, provider: east, price_per_hour: 3.5}\n"
        "  - {device: H200, provider: west, price_per_hour: 2.9}\n"
    )
    assert [one.provider for one in prices.all_of("NVIDIA H200")] == ["east", "west"]
    lowest = prices.of("NVIDIA H200")
    assert lowest is not None
    assert lowest.provider == "west"


def per_hour(prices, device):
    found = prices.of(device)
    return found.per_hour if found is not None else None


def test_the_longest_part_of_a_name_counts_and_the_whole_name_before_it():
    prices = prices_of("USD", {"A100": 1.0, "A100-SXM4-80GB": 2.0, "NVIDIA A100-SXM4-80GB": 3.0})
    assert per_hour(prices, "NVIDIA A100-SXM4-80GB") == 3.0
    assert per_hour(prices, "Old A100-SXM4-80GB") == 2.0
    assert per_hour(prices, "A100 PCIe") == 1.0


def test_a_part_of_a_name_is_of_whole_words_and_marks_count_as_nothing():
    prices = prices_of("USD", {"A10": 1.0, "RTX 4070": 0.3, "Intel Xeon": 0.2})
    assert per_hour(prices, "NVIDIA A100-SXM4-80GB") is None, "another card, of another price"
    assert per_hour(prices, "NVIDIA A10") == 1.0
    assert per_hour(prices, "NVIDIA GeForce RTX 4070 Ti") == 0.3
    assert per_hour(prices, "Intel(R) Xeon(R) Platinum 8480+") == 0.2


@pytest.mark.parametrize(
    ("text", "suffix", "said"),
    [
        ("currency: euro\nprices: {a: 1}\n", ".yaml", "prices.yaml:1:1: currency: is 'euro'"),
        ("prices: {a: 1}\n", ".yaml", "prices.yaml:1:1: the prices have no currency; add"),
        ("currency: EUR\nprices: {}\n", ".yaml", "must be a mapping of device names"),
        ("currency: EUR\nprices: [3]\n", ".yaml", "must be {device, price_per_hour"),
        ("currency: EUR\nprices: {a: -1}\n", ".yaml", "prices.yaml:2:10: the price of 'a' is -1"),
        ("currency: EUR\nprices: {a: cheap}\n", ".yaml", "not a number above 0"),
        ("currency: EUR\nprices: {a: true}\n", ".yaml", "not a number above 0"),
        ("currency: EUR\nprices: {a: .inf}\n", ".yaml", "not a number above 0"),
        ("currency: EUR\nprices: {a: 1}\ntax: 3\n", ".yaml", "unknown key"),
        ("currency: EUR\nprices: {a: {cost: 1}}\n", ".yaml", "unknown key"),
        ("currency: EUR\nprices: {a: 1}\n", ".yaml", "prices.yaml:2:10: the price of 'a' has no date: add date: YYYY"),
        ("currency: EUR\ndate: yesterday\nprices: {a: 1}\n", ".yaml", "the date 'yesterday'; write YYYY-MM-DD"),
        ("currency: EUR\ndate: 2026-11-01\nprices: {a: 1}\n", ".yaml", "the price of 'a' has no source: add source:"),
        (f"{DATED}prices: [{ROW}, {ROW}]\n", ".yaml", "duplicate device 'a': name each one's provider"),
        (f"{DATED}prices: {{a: 1}}\nprovider: {'x' * 301}\n", ".yaml", "more than 300 characters"),
        ("electricity: 0.3\n", ".yaml", "electricity: must be {price, unit, date, source}"),
        (POWER.replace("310", "free"), ".yaml", "electricity.price: is 'free', not a number above 0"),
        (POWER.replace("date: 2026-11-01, ", ""), ".yaml", "prices.yaml:1:1: electricity has no date"),
        (POWER.replace("EUR/MWh", "euros"), ".yaml", "electricity.unit: is 'euros'; write EUR/kWh"),
        (CARBON.replace("kg/kWh", "lb"), ".yaml", "carbon.unit: is 'lb'; write g/kWh or kg/MWh"),
        (CARBON.replace("source: the grid", "by: us"), ".yaml", "unknown key"),
        ("{}\n", ".yaml", "nothing to reckon with"),
        ("device,price_per_hour\nH200,3\n", ".csv", "column 'currency' is missing"),
        ("device,price_per_hour,currency\nH200,3,EUR\n", ".csv", "column 'date' is missing"),
        (f"{HEAD}H200,3,EUR,,us\n", ".csv", "prices.csv:2: the price of 'H200' has no date"),
        (f"{HEAD}H200,3,E,2026-11-01,us\n", ".csv", "currency is 'E'"),
        (f"{HEAD}{2 * LINE}", ".csv", "prices.csv:3: duplicate device 'H200'"),
        (f"{HEAD}H200,3,EUR,2026-11-01,us\nH100,4,USD,2026-11-01,us\n", ".csv", "use one currency per table"),
        (f"{HEAD}H200,,EUR,2026-11-01,us\n", ".csv", "not a number above 0"),
        (f"{HEAD},3,EUR,2026-11-01,us\n", ".csv", "without a device's name"),
        (HEAD, ".csv", "no prices"),
        ("x", ".txt", "unknown kind of file"),
    ],
)
def test_every_mistake_is_one_line(read, text, suffix, said):
    with pytest.raises(UsageError) as caught:
        read(text, suffix)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_not_there(tmp_path):
    for name in ("prices.csv", "prices.yaml"):
        with pytest.raises(UsageError, match=name):
            read_prices(tmp_path / name)
