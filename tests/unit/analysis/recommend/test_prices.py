"""A price table: its forms, which device a line is of, and every mistake in it."""

import pytest

from torchstone.analysis.recommend.prices import Prices, read_prices
from torchstone.core.errors import UsageError

YAML = "currency: EUR\nprices:\n  H200: 3.5\n  Intel Xeon: 0.2\n"
CSV = "device,price_per_hour,currency\nH200,3.5,EUR\nIntel Xeon,0.2,EUR\n"
JSON = '{"currency": "EUR", "prices": {"H200": 3.5, "Intel Xeon": 0.2}}'


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
    assert prices.of("NVIDIA H200") == 3.5
    assert prices.of("intel xeon gold") == 0.2
    assert prices.of("AMD MI300X") is None


def test_the_longest_part_of_a_name_counts_and_the_whole_name_before_it():
    prices = Prices("USD", {"A100": 1.0, "A100-SXM4-80GB": 2.0, "NVIDIA A100-SXM4-80GB": 3.0})
    assert prices.of("NVIDIA A100-SXM4-80GB") == 3.0
    assert prices.of("Old A100-SXM4-80GB") == 2.0
    assert prices.of("A100 PCIe") == 1.0


def test_a_part_of_a_name_is_of_whole_words_and_marks_count_as_nothing():
    prices = Prices("USD", {"A10": 1.0, "RTX 4070": 0.3, "Intel Xeon": 0.2})
    assert prices.of("NVIDIA A100-SXM4-80GB") is None, "another card, of another price"
    assert prices.of("NVIDIA A10") == 1.0
    assert prices.of("NVIDIA GeForce RTX 4070 Ti") == 0.3
    assert prices.of("Intel(R) Xeon(R) Platinum 8480+") == 0.2


@pytest.mark.parametrize(
    ("text", "suffix", "said"),
    [
        ("currency: euro\nprices: {a: 1}\n", ".yaml", "prices.yaml:1:1: currency is 'euro'"),
        ("prices: {a: 1}\n", ".yaml", "currency is None"),
        ("currency: EUR\nprices: {}\n", ".yaml", "must be a mapping of device names"),
        ("currency: EUR\nprices: {a: -1}\n", ".yaml", "prices.yaml:2:10: the price of 'a' is -1"),
        ("currency: EUR\nprices: {a: cheap}\n", ".yaml", "not a number above 0"),
        ("currency: EUR\nprices: {a: true}\n", ".yaml", "not a number above 0"),
        ("currency: EUR\nprices: {a: .inf}\n", ".yaml", "not a number above 0"),
        ("currency: EUR\nprices: {a: 1}\ntax: 3\n", ".yaml", "unknown key"),
        ("device,price_per_hour\nH200,3\n", ".csv", "column 'currency' is missing"),
        ("device,price_per_hour,currency\nH200,3,EUR\nH200,4,EUR\n", ".csv", "prices.csv:3: duplicate device 'H200'"),
        ("device,price_per_hour,currency\nH200,3,EUR\nH100,4,USD\n", ".csv", "use one currency per table"),
        ("device,price_per_hour,currency\nH200,,EUR\n", ".csv", "not a number above 0"),
        ("device,price_per_hour,currency\n,3,EUR\n", ".csv", "without a device's name"),
        ("device,price_per_hour,currency\n", ".csv", "no prices"),
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
