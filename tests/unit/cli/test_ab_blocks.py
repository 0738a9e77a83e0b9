"""What `ab` prints: B against A by an item's time, and a word where the sides compute something else."""

import math
import re
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from build import a_case, a_trial

from torchstone.cli._ab_answer import headline, settling
from torchstone.cli._ab_blocks import print_ab
from torchstone.cli._ab_course import Course, course_recorded
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.comparison import Comparison, Judgement, OtherThreads, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.workflows.ab.experiment import Contested


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


RATIO = Estimate(0.6, 0.55, 0.65, 0.99, "ratio", "pairs", 10, 100)


def printed(
    capsys, a: dict[str, Any], b: dict[str, Any], *, cases: tuple[Case, Case] | None = None, **found: Any
) -> str:
    """What is printed of two sides whose pairs say that an item of B takes 0.6 times as long."""
    cases = cases or (a_case(), a_case())
    old, new = (Side(label, "", case.case_id) for label, case in zip(("old", "new"), cases, strict=True))
    fields: dict[str, Any] = {"ratio": RATIO, "verdict": Judgement.BETTER, "margin": 0.02, **found}
    trials = tuple(
        a_trial(**{**told, "facts": {"side": side, **told.get("facts", {})}}) for side, told in (("A", a), ("B", b))
    )
    summarized = tuple(
        SimpleNamespace(**msgspec.structs.asdict(case), case_id=case.case_id, trials=()) for case in cases
    )
    results: Any = SimpleNamespace(summary=SimpleNamespace(record="r.jsonl", cases=summarized), document="d.json")
    print_ab(results, Contested(Comparison(old, new, "step_time", **fields), trials, 10, 2, 20.0, "settled"))
    text: str = capsys.readouterr().out
    return text


def test_steps_of_other_sizes_are_not_taken_for_one_another(capsys):
    text = printed(capsys, {"items": 4}, {"items": 8})
    assert re.search(r"step time .* \+20\.0 %", text), "0.6 times the time of an item, for twice the items"
    assert re.search(r"throughput .* \+66\.7 %", text)
    assert "a step of B has 2 times the items of one of A" in text
    equal = printed(capsys, {"items": 8}, {"items": 8})
    assert re.search(r"step time .* -40\.0 %", equal)
    assert "times the items" not in equal
    assert "10 pairs of processes from 2 templates, at most 1.0% false alarms; 20 s" in equal


def test_a_side_that_computes_no_number_is_told(capsys):
    def sides(x, y):
        return printed(capsys, {"steady": {"fingerprint": [1.5, x]}}, {"steady": {"fingerprint": [1.5, y]}})

    assert "different results: first 2.00000 and nan" in sides(2.0, math.nan)
    assert "different results" in sides(2.0, 2.1)
    assert "expected" not in sides(2.0, 2.1), "equal settings"
    assert "different results" not in sides(2.0, 2.0001)
    assert "different results" not in sides(math.nan, math.nan)


def test_other_results_of_settings_that_change_them_are_no_alarm(capsys):
    def sides(b, y=2.1):
        a = a_case({"precision": "fp32", "fused": "on"})
        values = ({"steady": {"fingerprint": [1.5, value]}} for value in (2.0, y))
        return printed(capsys, *values, cases=(a, b))

    bf16 = sides(a_case({"precision": "bf16"}))
    assert "first 2.00000 and 2.10000, as is expected of precision fp32 against bf16: see that quality holds" in bf16
    assert "expected of another device" in sides(a_case({"fused": "on"}, placement=Placement("cuda")))
    assert "expected of another model" in sides(a_case({"fused": "on"}, model="net:mlp"))
    assert "expected" not in sides(a_case({"fused": "off"})), "a setting for speed alone"
    assert "expected" not in sides(a_case(fixed={"revision": "abc"})), "code that changed"
    assert "expected" not in sides(a_case({"precision": "fp16"}), math.nan), "no setting is meant to give no number"


def test_the_answer_comes_first_in_one_sentence_with_its_interval(capsys):
    first, *_ = printed(capsys, {}, {}).splitlines()
    assert first == "new takes 40.0 % less time than old (99 % interval: 35.0 to 45.0 % less time): better."


@pytest.mark.parametrize(
    ("ends", "verdict", "said"),
    [
        ((1.031, 1.012, 1.05), "worse", "new takes 3.1 % more time than old (… 1.2 to 5.0 % more time): worse"),
        ((1.003, 0.991, 1.015), "same",
         "new takes as long as old, to within 2.0 % (… 0.9 % less to 1.5 % more time): same"),
        ((1.01, 0.98, 1.04), "unclear", "Unclear: new may take 2.0 % less to 4.0 % more time than old (99 % interval)"),
        ((0.3, 0.1, 0.9), "better", "new takes less time than old, how much is not known to ±50 % yet: better"),
        ((1.2, 0.5, 2.9), "unclear", "Unclear: how new and old differ is not known to ±50 % yet"),
    ],
)  # fmt: skip
def test_each_verdict_is_a_sentence(ends, verdict, said):
    value, low, high = ends
    ratio = Estimate(value, low, high, 0.99, "ratio", "pairs", 10, 100)
    found = Comparison(Side("old", "", "a"), Side("new", "", "b"), "step_time", ratio, Judgement(verdict), 0.02)
    assert headline(found).rstrip(".") == said.replace("…", "99 % interval:")


def test_too_few_pairs_say_what_would_be_enough():
    why = "only 2 of the 6 pairs of processes needed fitted into 12 s; --within 40s is enough"
    found = Comparison(Side("old", "", "a"), Side("new", "", "b"), "step_time", None, Judgement.UNCLEAR, 0.02, why=why)
    assert headline(found) == f"Unclear: {why}."
    assert settling(found, Course(2, 1, 12.0)) is None


@pytest.mark.parametrize(
    ("pinned", "said"),
    [(2, "the threads of both sides pinned, to 2 logical cores"), (1, "one thread a side to pin"),
     (0, "threads not pinned: nothing here binds them"), (None, "threads not pinned")],
)  # fmt: skip
def test_it_is_told_whether_threads_were_pinned_and_how_much_was_measured(capsys, pinned, said):
    facts = {} if pinned is None else {"threads_pinned": pinned}
    sides = {"steady": {"turn_time_s": [5.0, 2.5]}, "facts": facts}
    text = " ".join(printed(capsys, sides, sides).split())
    assert f"20 s, 75% of them measured turns; {said}" in text


def test_what_would_settle_it_or_that_nothing_would(capsys):
    def unclear(more, **other):
        ratio = Estimate(1.01, 0.98, 1.04, 0.99, "ratio", "pairs", 10, 100)
        text = printed(capsys, {}, {}, ratio=ratio, verdict=Judgement.UNCLEAR, trials_to_settle=more, **other)
        return " ".join(text.split())

    assert "About 50 more pairs would settle it, 4 times in 5, if B takes what it now seems: --within 2m" in unclear(50)
    never = unclear(None)
    assert "Not even 1,000 more pairs would settle it; if " in never
    assert re.search(r"--margin [45]%", never)
    assert "settle" not in printed(capsys, {}, {}, ratio=None, verdict=Judgement.UNCLEAR), "too few pairs to say"
    assert "settle" not in printed(capsys, {}, {})
    sooner = unclear(50, with_other_threads=OtherThreads(1, 3, 1.01, 14, 41.0))
    assert "Sooner on fewer cores: 3 pairs of it, measured here, spread so little that 14 would settle it" in sooner
    assert "--axis threads=1 --within 50s" in sooner


def test_the_course_of_a_record_is_read_from_its_trials():
    began = ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z", "", "2026-11-21T10:00:30Z")
    facts = ((0, 1), (0, 1), (1, 2), (1, 2))
    trials = [
        a_trial(started_utc=utc, duration_s=5.0, facts={"pair": pair, "template": template})
        for utc, (pair, template) in zip(began, facts, strict=True)
    ]
    assert course_recorded(trials) == Course(2, 2, 35.0)
    assert course_recorded(trials[2:3]) == Course(1, 1, None), "a process that was never started"
    assert course_recorded(()) == Course(0, 0, None)


def test_a_ratio_that_is_hardly_known_is_not_in_the_table_either(capsys):
    wide = Estimate(0.3, 0.1, 0.9, 0.99, "ratio", "pairs", 6, 100)
    assert re.search(r"throughput .* \+66\.7 %", printed(capsys, {}, {}))
    text = printed(capsys, {}, {}, ratio=wide)
    assert not re.search(r"(step time|throughput) .*[+-][\d.]+ %", text)
