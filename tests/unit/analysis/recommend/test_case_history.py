"""A case's figure over all stored runs: levels, what changed with them, what is left out, and what is asked for."""

import json
import math
import random

import pytest
from build import a_finding
from marks import kinds, rows
from stored import CARD, a_stored_run, case, machine, store

from torchstone.analysis.recommend.case_history import Histories, history, judgement, reference_lines, worse
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.estimate import Severity
from torchstone.report.charts.history import history_chart
from torchstone.report.documents.history import CHANGED, LEFT_OUT, sparkline


def runs(count=20, change_at=10, ratio=0.9, *, doubtful=(), outlier=None, first=0, **about):
    """Runs of one Case whose throughput changes by a ratio from one run on, with a new torch."""
    dice, one, found = random.Random(4), case(), []
    for number in range(count):
        rate = 100.0 * (ratio if number >= change_at else 1.0) * math.exp(dice.gauss(0.0, 0.01))
        rate *= 0.6 if number == outlier else 1.0
        on = machine(torch="2.13.0" if number >= change_at else "2.12.0", **about)
        findings = (
            [a_finding("neighbours", Severity.WARNING, "busy", "wait", one.case_id)] if number in doubtful else []
        )
        code = {"py:mine.py": "b" * 64 if number > change_at + 3 else "a" * 64}
        found.append(a_stored_run(first + number, [(one, rate)], on, findings=findings, code=code))
    return found


@pytest.fixture
def told(outputs):
    def call(stored, *asked, **settings) -> Histories:
        store(outputs, stored)
        return history(outputs, *asked, **settings)

    return call


def test_a_change_with_what_changed_with_it(told):
    (one,) = told(runs()).histories
    (change,) = one.changes
    assert change.at == 10
    assert (change.ratio.low or 0.0) < 0.9 < (change.ratio.high or 9.0) < 1.0
    assert change.verdict == Judgement.WORSE
    assert [(c.what, c.before, c.after, c.throughout) for c in change.changed] == [("torch", "2.12.0", "2.13.0", True)]
    first, last = one.segments
    assert (first.first, first.last, last.first, last.last) == (0, 9, 10, 19)
    assert last.low < 90 < last.high
    assert one.enough


def test_what_changed_there_and_elsewhere_too_comes_second(told):
    stored = runs()
    for place in (9, 10):
        stored[place] = a_stored_run(
            place,
            [(case(), 100.0 if place == 9 else 90.0)],
            machine(torch=f"2.1{2 + (place == 10)}.0", transformers=str(place)),
        )
    (one,) = told(stored).histories
    sure = [c.what for c in one.changes[0].changed if c.throughout]
    others = [c.what for c in one.changes[0].changed if not c.throughout]
    assert "torch" in sure
    assert others == ["transformers"]


def test_suspect_runs_are_left_out_and_told(told):
    stored = runs(doubtful=range(10, 20))
    (one,) = told(stored).histories
    assert one.changes == ()
    assert sum(not point.counted for point in one.points) == 10
    assert one.points[10].why == Statement("suspect_run", {"checks": ("neighbours",)})
    assert len(told(stored, suspect=True).histories[0].changes) == 1


def test_a_run_apart_from_all_others_is_left_out(told):
    (one,) = told(runs(change_at=99, outlier=7)).histories
    assert one.changes == ()
    assert [place for place, point in enumerate(one.points) if not point.counted] == [7]
    assert one.points[7].why == Statement("outlier_run")


def test_machines_are_kept_apart_and_a_change_comes_first(told):
    quiet, moved = runs(change_at=99, host="a"), runs(host="b", first=40)
    found = told([*quiet, *moved]).histories
    assert [(one.host, len(one.changes)) for one in found] == [("b", 1), ("a", 0)]


def test_few_runs_are_no_history_yet(told):
    (one,) = told(runs(1)).histories
    assert (one.enough, one.changes, len(one.segments), one.deviation) == (False, (), 1, None)
    (few,) = told(runs(5, 3)).histories
    assert (few.enough, few.changes) == (False, ())


def test_a_case_a_model_and_a_run_can_be_asked_for(told):
    stored = runs()
    one = stored[0].head.plan.cases[0]
    for word in (one.case_id[:6], "BERT", "latest", stored[3].head.run_id):
        assert [h.case_id for h in told(stored, word).histories] == [one.case_id]
    with pytest.raises(UsageError, match="It is no prefix of a case_id or part of a model's name either: hf:bert"):
        told(stored, "nothing-of-this-name")
    with pytest.raises(UsageError, match="Did you mean 'throughput'"):
        told(stored, None, "throughputs")
    assert told(stored, None, "energy_j").histories == ()


def test_lower_is_better_for_times_and_neither_for_clocks():
    assert judgement(0.8, 0.9, "throughput") == judgement(1.1, 1.2, "step_time_p50") == Judgement.WORSE
    assert judgement(1.1, 1.2, "throughput") == Judgement.BETTER
    assert judgement(0.9, 1.2, "throughput") == judgement(1.1, 1.2, "device_clock_hz") == Judgement.UNCLEAR


def test_worse_by_more_than_the_margin(told):
    found = told(runs()).histories
    assert worse(found, 0.0) == worse(found, 0.05) == list(found)
    assert worse(found, 0.2) == []
    assert worse(told(runs(ratio=1.1)).histories, 0.0) == []


def test_the_line_fits_marks_the_change_and_what_was_left_out(told):
    (one,) = told(runs(doubtful=(3,))).histories
    drawn = sparkline(one, 76)
    assert len(drawn) == 21
    assert drawn[10] == CHANGED
    assert drawn[3] == LEFT_OUT
    assert min(drawn[:3]) > max(drawn[11:])
    for width in (5, 12, 20):
        assert len(sparkline(one, width)) <= width
        assert CHANGED in sparkline(one, width)


def test_the_reference_is_the_newest_level(told):
    (text,) = reference_lines(told(runs()).histories)
    found = json.loads(text)
    assert found["throughput_low"] < 90 < found["throughput_high"]
    assert (found["runs"], found["batch_size"], found["unit"]) == (10, 8, "items/s")


def test_the_chart_draws_points_levels_and_changes(told):
    (one,) = history_chart(told(runs(doubtful=(3,))).histories).panels
    assert kinds(one) == ["interval", "dots", "level", "divider", "words"]
    assert len(one.values) == 20
    assert [point["counted"] for point in one.values].count("left out") == 1
    assert [value["value"] for value in rows(one, "level")] == pytest.approx([100, 90], rel=0.02)
    assert rows(one, "divider")[0]["word"].endswith("torch 2.12.0 → 2.13.0")


def test_a_card_tells_its_driver(told):
    def on(number):
        there = machine("cuda", host="box")
        return a_stored_run(number, [(case("cuda"), 100.0 if number < 8 else 120.0)], there)

    (one,) = told([on(number) for number in range(16)]).histories
    assert one.device == CARD.name
    assert one.changes[0].changed == ()
    assert one.changes[0].verdict == Judgement.BETTER
