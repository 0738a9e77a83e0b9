"""What the losses of a run say, as printed and as JSON, from records made by hand."""

import json
import math
import re

import pytest
from learning import falling, of_losses, rising

from torchstone.analysis.advice.trainings import Span
from torchstone.analysis.summary import summarize
from torchstone.cli import main
from torchstone.core.schema.codec import encode
from torchstone.report.document import Document, Section, Table
from torchstone.report.documents.training import _percent, convergence_parts
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import find

SWEEP = [
    ({"optimizer": optimizer, "learning_rate": rate, "precision": precision}, falling(slope=slope))
    for optimizer, rate, slope in (("adamw", 1e-3, -0.02), ("adamw", 1e-4, -0.002), ("sgd", 1e-3, -0.001))
    for precision in ("fp32", "bf16")
]
LOST = [({"learning_rate": 1.0}, rising()), ({"learning_rate": 9.0}, [*falling(60), math.nan])]


def stored(outputs, trainings):
    run = of_losses(trainings)
    path = outputs / "records" / f"{run.head.run_id}.jsonl"
    path.parent.mkdir(parents=True)
    assert run.end is not None
    path.write_bytes(b"".join(encode(line) + b"\n" for line in (run.head, *run.trials, run.end)))
    return summarize(find(outputs, "latest"))


@pytest.fixture
def shown(outputs):
    def show(trainings, width=160):
        return terminal(Document("", tuple(convergence_parts(stored(outputs, trainings)))), width)

    return show


@pytest.mark.parametrize("width", [80, 160])
def test_a_table_and_a_line_for_each_question(shown, width):
    text = shown([*SWEEP, *LOST], width)
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    assert "convergence: net:cnn on cpu, data digits, batch_size 16" in flat
    assert "over the first 1,600 images" in flat
    assert "DIVERGED" in flat
    assert "NaN" in flat
    assert "learning rate with optimizer adamw, precision fp32: 0.001 is best, the lowest loss beyond the noise" in flat
    assert "with 1, 9 the loss rises or breaks down" in flat
    assert "optimizer with precision fp32" in flat
    assert (
        "precision bf16 against fp32 with learning_rate 0.001, optimizer adamw: 1.00 [1.00, 1.00] times the throughput"
        in flat
    )
    assert "loss the same within 1 %: +0 % [+0, +0], over 20 blocks of steps of one seed" in flat
    assert "note: every trial has the same seed" in flat


def test_words_for_what_is_not_so_clear(shown):
    text = " ".join(shown([({"learning_rate": rate}, falling(slope=0.0, seed=3)) for rate in (1e-6, 1e-5)]).split())
    assert "none of 1e-06, 1e-05 lowers the loss beyond its noise in 1,600 images; try 0.0001" in text
    assert "no fall seen" in text


def test_s3_43_what_cannot_be_told_is_said_so(shown):
    rates = (1e-3, 3e-3)
    few = [({"learning_rate": r}, falling(14, slope=-0.05, noise=0.1, seed=n)) for n, r in enumerate(rates)]
    text = " ".join(shown(few).split())
    assert re.search(r"learning rate: 0\.00[13] ended lowest; cannot tell whether 0\.00[13] would do as well: "
                     r"too few steps, try --iterations 56", text), text  # fmt: skip
    assert "as good as it" not in text


def test_ten_steps_ask_for_more_steps_and_for_no_other_learning_rate(shown):
    few = [0.75, 0.55, 0.521, 0.504, 0.4, 0.385, 0.349, 0.286, 0.244, 0.246]
    text = " ".join(shown([({"learning_rate": rate}, few) for rate in (1e-3, 5e-3)]).split())
    assert "too few steps to tell whether the loss falls with 0.001, 0.005: try --iterations 40" in text
    assert "no fall seen" not in text
    assert "try 0.05" not in text


def test_all_broken(shown):
    text = " ".join(shown(LOST).split())
    assert "no steady one; with 1, 9 the loss rises or breaks down: try 0.1" in text


def test_a_run_with_nothing_to_compare_says_nothing(shown):
    assert shown([({}, falling())]) == ""


def test_show_prints_it_and_json_has_it(outputs, capfd):
    stored(outputs, SWEEP)
    assert main(["show"]) == 0
    assert "convergence: net:cnn" in capfd.readouterr().out
    assert main(["show", "--full"]) == 0
    full = capfd.readouterr().out
    assert "[PERFORMANCE SUMMARY]" in full
    assert "loss convergence, a step" in full
    assert "by learning rate: 0.001" in full
    assert main(["show", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["run_id"]
    assert found["convergence"][0]["learning_rates"][0]["best"] == 0.001
    assert found["convergence"][0]["precisions"][0]["verdict"] == "equivalent"
    assert found["performance_summary"][0]["loss_convergence"]["by_learning_rate"]["0.0001"] < 0.0
    assert found["advice"] == []


def test_more_than_three_groups_are_folded_and_all_of_them_shown_where_they_are_asked_for(outputs):
    sizes = (2, 4, 8, 16, 32)
    pairs = [({"batch_size": size, "learning_rate": rate}, falling()) for size in sizes for rate in (1e-3, 1e-2)]
    run = stored(outputs, pairs)
    *shown, rest = convergence_parts(run)
    assert len(shown) == 3
    assert isinstance(rest, Section)
    assert (rest.title, rest.folded, len(rest.parts)) == ("2 more groups of trainings", True, 2)
    assert rest.how == f"torchstone show {run.run_id} --full"
    titles = [part.title for part in convergence_parts(run, every=True)]
    assert [title.rpartition(" ")[2] for title in titles] == ["2", "4", "8", "16", "32"]


def test_of_very_many_groups_the_first_are_shown_and_the_others_below_one_title(outputs):
    pairs = [({"batch_size": 2 + n, "learning_rate": rate}, falling()) for n in range(14) for rate in (1e-3, 1e-2)]
    told, *shown, rest = convergence_parts(stored(outputs, pairs), every=True)
    assert told.title == "convergence: of all groups"
    assert "every trial has the same seed" in str(told.parts[-1]), "once, not 14 times"
    assert (len(shown), rest.title, rest.folded) == (12, "2 more groups of trainings", True)
    (together,) = rest.parts
    assert isinstance(together, Section)
    assert together.title == "convergence: net:cnn on cpu, data digits"
    of_each, lines = (part for part in together.parts if isinstance(part, Table))
    cells = {column.title: column.cells for column in of_each.columns}
    assert cells["batch size"] == ("14", "14", "15", "15")
    assert cells["learning rate"] == ("0.001", "0.01") * 2
    assert cells["first images"] == ("1,600",) * 4
    own = next(part for part in shown[0].parts if isinstance(part, Table))
    assert len(own.columns) + len(("batch size", "first images", "target loss")) == len(of_each.columns)
    assert lines.columns[0].cells == ("14", "15")
    assert all(line.startswith("learning rate: ") for line in lines.columns[-1].cells)


def test_of_very_many_groups_those_with_a_target_or_too_few_steps_have_them(outputs):
    pairs = [
        ({"batch_size": 2 + n, "learning_rate": rate}, falling(slope=-0.05)) for n in range(14) for rate in (1e-3, 1e-2)
    ]
    pairs += [({"batch_size": 99, "learning_rate": rate}, falling(3)) for rate in (1e-3, 1e-2)]
    *_, rest = convergence_parts(stored(outputs, pairs), every=True)
    together, short = rest.parts
    assert isinstance(together, Section)
    assert isinstance(short, Section)
    assert short.title.endswith("batch_size 99")
    table = next(part for part in together.parts if isinstance(part, Table))
    cells = {column.title: column.cells for column in table.columns}
    assert cells["target loss"][0] not in ("", "–")
    assert all(cell not in ("", "–") for cell in (*cells["images to target"], *cells["time to target"]))


def test_a_group_is_named_by_all_that_tells_it_from_the_others(outputs):
    pairs = [
        ({"num_workers": workers, "compile": mode, "learning_rate": rate}, falling())
        for workers in (0, 2) for mode in ("off", "default") for rate in (1e-3, 1e-2)
    ]  # fmt: skip
    titles = [part.title for part in convergence_parts(stored(outputs, pairs), every=True)]
    assert titles == [
        f"convergence: net:cnn on cpu, data digits, batch_size 16, num_workers {workers}, compile {mode}"
        for workers in (0, 2) for mode in ("off", "default")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "shown_"),
    [(-0.9, 0.4, False), (-7.0, 60.0, False), (-0.9, -0.4, True), (0.1, 0.4, True)],
)
def test_a_slope_that_may_be_a_fall_or_a_rise_is_not_shown(low, high, shown_):
    value, interval = _percent(Span(-0.5, low, high))
    assert (value != "–", interval != "") == (shown_, shown_)
