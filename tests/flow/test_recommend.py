"""recommend and history through the real CLI, on records that are made by hand."""

import json
import math
import random
import subprocess
import sys
import time

import msgspec
import pytest
from build import a_finding
from stored import a_stored_run, case, machine, store

from torchstone.cli import main
from torchstone.core.charts.drawing import draw
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity

SIZES = (8, 16, 32)


def runs(change_at=8, ratio=0.9):
    """Fourteen runs of three batch sizes on one machine, slower from one run on, and one on a card."""
    dice, found = random.Random(2), []
    for number in range(14):
        slower = ratio if number >= change_at else 1.0
        rates = [100 * (1 + 0.3 * place) * slower * math.exp(dice.gauss(0.0, 0.01)) for place in range(3)]
        cases = [(case(batch_size=size), rate) for size, rate in zip(SIZES, rates, strict=True)]
        found.append(a_stored_run(number, cases, machine(torch="2.13.0" if number >= change_at else "2.12.0")))
    card = [(case("cuda", batch_size=size), 1000.0 + size) for size in SIZES]
    return [*found, a_stored_run(30, card, machine("cuda", host="gpubox", torch="2.13.0"))]


@pytest.fixture
def stored(outputs):
    store(outputs, runs())
    return outputs


@pytest.fixture
def said(capfd):
    """Run a command; return its exit code and what it printed."""

    def call(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        assert err == "", err
        return code, out

    return call


@pytest.mark.parametrize("width", [80, 160])
def test_recommend_fits_the_terminal_and_says_how_sure_it_is(stored, said, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, text = said("recommend")
    assert code == 0
    typed = [line for line in text.splitlines() if line.startswith("  torchstone run")]
    assert typed, "what is to be typed stays whole"
    assert max(len(line) for line in text.splitlines() if line not in typed) <= width
    flat = " ".join(text.split())
    assert flat.startswith("Recommended hardware by speed for embedding, training: NVIDIA H200, ")
    assert "] times the next (" in flat
    assert "settings by speed for train hf:bert on Intel Xeon, data synthetic" in flat
    assert ": batch_size 32, precision fp32" in flat
    assert "based on 18 trials in 6 runs" in " ".join(said("recommend", "--full")[1].split()), "of the newest torch"


def test_recommend_as_json_and_saved(stored, said):
    code, text = said("recommend", "--save", "--json", "--task", "train")
    found = json.loads(text)
    assert code == 0
    assert found["hardware"][0]["recommended"] == "NVIDIA H200"
    assert found["settings"][0]["recommended"]["point"]["batch_size"] == 32
    assert json.loads((stored / "analysis" / "recommendation.json").read_bytes())["value"] == found
    assert "training: NVIDIA H200" in (stored / "analysis" / "recommendation.md").read_text(encoding="utf-8")


def test_s3_46_by_price(stored, said, tmp_path):
    table = tmp_path / "prices.csv"
    lines = (
        "device,price_per_hour,currency,date,source",
        "NVIDIA H200,4,EUR,2026-11-01,us",
        "Intel Xeon,0.1,EUR,2026-11-01,us",
    )
    table.write_text("\n".join(lines), encoding="utf-8")
    code, text = said("recommend", "--by", "price", "--prices", str(table))
    assert code == 0
    assert "by price for embedding, training: Intel Xeon" in " ".join(text.split())
    assert "images/EUR" in text
    assert "price of NVIDIA H200: 4 EUR/h (2026-11-01, us)" in " ".join(text.split())


@pytest.mark.parametrize("width", [80, 160])
def test_history_fits_the_terminal_and_names_what_changed(stored, said, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, text = said("history")
    assert code == 0
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    assert flat.startswith("throughput: worse in 3 of 6 cases, since 2026-01-09 (run 20260109-000008-abcd)")
    assert "; the largest change: 0.8" in flat
    assert "no change seen" in flat
    assert "a change is looked for in cases with 6 runs or more on one machine" in flat
    _, full = said("history", "bert", "--full")
    assert "began (UTC)" in full
    assert "WORSE: 0.9" in full


def test_history_as_a_gate(stored, said):
    assert said("history", "--fail-on", "worse")[0] == 1
    code, text = said("history", "--fail-on", "worse:5%")
    assert code == 1
    assert "3 of 6 cases: the newest level is worse by more than 5 %" in text
    assert said("history", "--fail-on", "worse:20%")[0] == 0
    assert json.loads(said("history", "--fail-on", "worse", "--json")[1])["histories"][0]["changes"][0]["at"] == 8


def test_s4_27_and_29_reference_and_artefacts(stored, said):
    code, text = said("history", "--reference", "--svg")
    assert code == 0
    assert " ".join(text.split()).count(" written ") == 2
    lines = (stored / "absolute_results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 6
    assert all(json.loads(one)["throughput"] > 0 for one in lines)
    assert (stored / "analysis" / "history.svg").read_text(encoding="utf-8").startswith("<svg")


def doubted(run):
    """The same run, its first case in doubt."""
    case = run.head.plan.cases[0].case_id
    finding = a_finding("steal", Severity.WARNING, "the hypervisor gave time away", "measure again", case)
    return msgspec.structs.replace(run, findings=(finding,))


def test_s4_27_what_is_not_in_the_reference_is_told_and_an_empty_one_is_not_written(outputs, said, refused, tmp_path):
    first = runs()[0]
    store(outputs, [doubted(first)])
    code, text = said("history", "--reference")
    assert code == 0
    assert len((outputs / "absolute_results.jsonl").read_bytes().splitlines()) == 2
    assert "not in the reference: 1 of 3 cases, SUSPECT: steal (--suspect counts them)" in " ".join(text.split())
    said("history", "--suspect", "--reference", str(tmp_path / "all.jsonl"))
    assert len((tmp_path / "all.jsonl").read_bytes().splitlines()) == 3
    (outputs / "absolute_results.jsonl").unlink()
    word = first.head.plan.cases[0].case_id[:8]
    assert "--reference: no case has a run that counts: SUSPECT: steal (--suspect counts them)" in refused(
        "history", word, "--reference"
    )


def test_without_the_chart_library_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingError, match=r"torchstone\[charts\]"):
        draw(Picture("", ()), tmp_path / "x.svg")


@pytest.mark.parametrize(
    ("words", "said_so"),
    [
        (["recommend", "--family", "visoin"], "unknown family 'visoin'"),
        (["recommend", "--by", "price"], "--prices FILE"),
        (["recommend", "--by", "chance"], "invalid choice: 'chance'"),
        (["recommend", "--prices", "nothing.yaml"], "nothing.yaml: no such file"),
        (["history", "nothing-like-it"], "It is no prefix of a case_id"),
        (["history", "--metric", "troughput"], "Did you mean 'throughput'"),
        (["history", "--fail-on", "better"], "write worse, or worse:2%"),
        (["history", "--fail-on", "worse:2"], "is not between 0 and 1"),
        (["history", "--metric", "energy_j", "--reference"], "nothing to write"),
        (["history", "--svg", "no/such/folder/x.svg"], "there is no folder no/such/folder"),
    ],
)
def test_mistakes_are_one_line(stored, refused, words, said_so):
    main(["runs"])  # so that the index is there
    assert said_so in refused(*words)


def test_an_empty_store(said, outputs):
    assert said("recommend")[1] == "not enough stored: nothing is stored. Measure:\n  torchstone run demo\n"
    assert said("history")[1] == "nothing is stored. Make a first run:\n  torchstone run demo\n"
    assert json.loads(said("recommend", "--json")[1])["settings"] == []
    assert not outputs.exists()


def test_records_that_cannot_be_read_cost_the_others_nothing(stored, said):
    (stored / "records" / "junk.jsonl").write_text("junk\n")
    for command in ("recommend", "history"):
        code, text = said(command)
        assert code == 0
        assert "unreadable: junk.jsonl" in text


def test_neither_needs_torch_nor_a_second(stored):
    main(["runs"])
    code = "import sys; from torchstone.cli import main; main([sys.argv[1]]); sys.exit('torch' in sys.modules)"
    for command in ("recommend", "history"):
        began_s = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert time.perf_counter() - began_s < 5.0, "a fifth of that on a quiet machine"
