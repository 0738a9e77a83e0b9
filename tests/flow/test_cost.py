"""cost and compare --prices through the real CLI, on records that are made by hand."""

import json

import pytest
from stored import a_stored_run, case, machine, store

from torchstone.cli import main

TABLE = "currency: EUR\ndate: 2026-11-01\nsource: our bill\nprices:\n  Intel Xeon: 0.36\n  NVIDIA H200: 3.6\n"
POWER = "electricity: {price: 0.3, unit: EUR/kWh, date: 2026-11-01, source: contract}\n"


@pytest.fixture
def stored(outputs, tmp_path):
    """A run on a processor and one on a card, ten times as fast, and a price table."""
    kinds = (("cpu", 100.0), ("cuda", 1000.0))
    store(outputs, [a_stored_run(n, [(case(kind), rate)], machine(kind)) for n, (kind, rate) in enumerate(kinds)])
    (tmp_path / "prices.yaml").write_text(TABLE, encoding="utf-8")
    (tmp_path / "power.yaml").write_text(POWER, encoding="utf-8")
    return sorted(path.stem for path in (outputs / "records").glob("*.jsonl"))


def said(capfd, *words):
    capfd.readouterr()
    code = main(list(words))
    out, err = capfd.readouterr()
    return code, out, err


def test_s4_43_cost_of_stored_runs(stored, tmp_path, capfd):
    table, power = str(tmp_path / "prices.yaml"), str(tmp_path / "power.yaml")
    code, out, err = said(capfd, "cost", *stored, "--prices", table, "--electricity", power, "--full")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("a million images: 0.996 EUR [0.967, 1.03]; batch_size 8")
    assert "NVIDIA H200: 3.6 EUR/h (2026-11-01, our bill)" in text
    assert "energy: not measured" in text
    code, out, _ = said(capfd, "cost", stored[0], "--prices", table, "--epochs", "3", "--items", "1000", "--json")
    assert code == 0
    found = json.loads(out)["cases"][0]
    amounts = {one["of"]: one for one in found["amounts"]}
    assert amounts["training"]["money"]["value"] == pytest.approx(0.36 * 3000 / 100 / 3600, rel=0.02)
    assert amounts["training"]["energy_kwh"] is None
    assert found["price"]["source"] == "our bill"


def test_compare_takes_the_same_table(stored, tmp_path, capfd):
    code, out, err = said(capfd, "compare", *stored, "--prices", str(tmp_path / "prices.yaml"), "--full")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "COST" in text
    assert "price of B: 3.6 EUR/h (2026-11-01, our bill)" in text
    _, out, _ = said(capfd, "compare", *stored, "--prices", str(tmp_path / "prices.yaml"), "--json")
    document = json.loads(out)
    assert document["prices"]["A"]["price"]["date"] == "2026-11-01"
    (cost,) = [one for one in document["comparisons"] if one["metric"] == "cost_per_million_items"]
    assert cost["ratio"]["value"] == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "cost needs prices: --prices FILE"),
        (["--prices", "{}/undated.yaml"], "undated.yaml:2:10: the price of 'a' has no date: add date: YYYY-MM-DD"),
        (["--prices", "{}/none.yaml"], "no such file"),
        (["--electricity", "{}/prices.yaml"], "has neither electricity nor carbon"),
        (["--prices", "{}/prices.yaml", "--provider", "moon"], "no price of the table names one"),
        (["--prices", "{}/prices.yaml", "--epochs", "-1"], "--epochs -1 is not a number above 0"),
        (["nothing", "--prices", "{}/prices.yaml"], "nothing"),
    ],
)
def test_every_mistake_is_one_line(stored, tmp_path, capfd, words, told):
    (tmp_path / "undated.yaml").write_text("currency: EUR\nprices: {a: 1}\n", encoding="utf-8")
    code, out, err = said(capfd, "cost", *(word.format(tmp_path) for word in words))
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
