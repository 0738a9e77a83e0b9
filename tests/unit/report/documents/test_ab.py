"""What `ab` says: B against A by an item's time, and a word where the sides compute something else."""

import math
import re
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from build import a_case, a_trial

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import AbResult, Course
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.comparison import Comparison, Judgement, OtherThreads, Side
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.report.document import Document, Role, Section, Text
from torchstone.report.documents.ab import ab_parts, ab_rest
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal

COURSE = Course(10, 2, 20.0, "settled")
RATIO = Estimate(0.6, 0.55, 0.65, 0.99, "ratio", "pairs", 10, 100)


def document(
    a: dict[str, Any],
    b: dict[str, Any],
    *,
    cases: tuple[Case, Case] | None = None,
    course: Course = COURSE,
    **found: Any,
) -> Document:
    """What is said of two sides whose pairs say that an item of B takes 0.6 times as long."""
    cases = cases or (a_case(), a_case())
    old, new = (Side(label, "", case.case_id) for label, case in zip(("old", "new"), cases, strict=True))
    fields: dict[str, Any] = {"ratio": RATIO, "verdict": Judgement.BETTER, "margin": 0.02, **found}
    trials = tuple(
        a_trial(**{**told, "facts": {"side": side, **told.get("facts", {})}}) for side, told in (("A", a), ("B", b))
    )
    summarized: Any = [
        SimpleNamespace(**msgspec.structs.asdict(case), case_id=case.case_id, trials=(), verdict=Verdict.VALID)
        for case in cases
    ]
    answer = AbResult(Comparison(old, new, "step_time_mean", **fields), course)
    rest = Section("everything else", tuple(ab_rest(answer, trials, summarized)), folded=True)
    return Document("new against old", (*ab_parts(answer, trials, summarized), rest))


def printed(a: dict[str, Any], b: dict[str, Any], **about: Any) -> str:
    return terminal(document(a, b, **about), 300, every=True)


def test_steps_of_other_sizes_are_not_taken_for_one_another():
    text = printed({"items": 4}, {"items": 8})
    assert re.search(r"step time .* 1\.20 \[1\.10, 1\.30\]", text), "0.6 times the time of an item, for twice the items"
    assert re.search(r"throughput .* 1\.67 \[1\.54, 1\.82\]", text)
    assert "compared per item: a step of B has 2 times the items of A's" in text
    equal = printed({"items": 8}, {"items": 8})
    assert re.search(r"step time .* 0\.600 \[0\.550, 0\.650\]", equal)
    assert "times the items" not in equal
    assert "10 pairs of processes from 2 templates, at most 1 % false alarms; 20 s" in equal


def test_a_side_that_computes_no_number_is_told():
    def sides(x, y):
        return printed({"steady": {"fingerprint": [1.5, x]}}, {"steady": {"fingerprint": [1.5, y]}})

    assert "different results: loss 2.00000 (A) and nan (B)" in sides(2.0, math.nan)
    assert "different results" in sides(2.0, 2.1)
    assert "expected" not in sides(2.0, 2.1), "equal settings"
    assert "different results" not in sides(2.0, 2.0001)
    assert "different results" not in sides(math.nan, math.nan)


def test_other_results_of_settings_that_change_them_are_no_alarm():
    def sides(b, y=2.1):
        a = a_case({"precision": "fp32", "fused": "on"})
        values = ({"steady": {"fingerprint": [1.5, value]}} for value in (2.0, y))
        return printed(*values, cases=(a, b))

    bf16 = sides(a_case({"precision": "bf16"}))
    assert "results differ as expected of precision fp32 against bf16\n" in bf16
    assert "2.10000" not in bf16, "two first steps say nothing of which trains better"
    assert "expected of another device" in sides(a_case({"fused": "on"}, placement=Placement("cuda")))
    assert "expected of another model" in sides(a_case({"fused": "on"}, model="net:mlp"))
    assert "expected" not in sides(a_case({"fused": "off"})), "a setting for speed alone"
    assert "expected" not in sides(a_case(fixed={"revision": "abc"})), "code that changed"
    assert "expected" not in sides(a_case({"precision": "fp16"}), math.nan), "no setting is meant to give no number"


def test_the_answer_comes_first_in_one_sentence_with_its_interval():
    told = document({}, {})
    answer = "new is 1.67 [1.54, 1.82] times as fast as old (99 % confidence): better."
    assert told.headline == answer
    assert terminal(told, 120).splitlines()[0] == answer
    assert markdown(told).startswith(f"# new against old\n\n**{answer}**\n")


@pytest.mark.parametrize(
    ("ends", "verdict", "said"),
    [
        ((1.031, 1.012, 1.05), "worse", "new is 0.970 [0.952, 0.988] times as fast as old (…): worse"),
        ((1.003, 0.991, 1.015), "same", "new is 0.997 [0.985, 1.009] times as fast as old (…), within ±2 %: same"),
        ((1.01, 0.98, 1.04), "unclear", "Unclear: new is 0.990 [0.962, 1.020] times as fast as old (…)"),
        ((0.3, 0.1, 0.9), "better",
         "new is at least 1.11 times as fast as old (…): better; its size is not known to ±50 % yet"),
        ((1.2, 0.5, 2.9), "unclear", "Unclear: how new and old differ is not known to ±50 % yet"),
    ],
)  # fmt: skip
def test_each_verdict_is_a_sentence(ends, verdict, said):
    value, low, high = ends
    ratio = Estimate(value, low, high, 0.99, "ratio", "pairs", 10, 100)
    told = document({}, {}, ratio=ratio, verdict=Judgement(verdict)).headline
    assert told == f"{said.replace('…', '99 % confidence')}."


def test_too_few_pairs_say_what_would_be_enough():
    why = "only 2 of the 6 pairs of processes needed fitted into 12 s; --within 40s is enough"
    few = Statement("few_pairs.enough", {"pairs": 2, "fewest": 6, "budget": "12", "needed_s": 40.2})
    found = Comparison(
        Side("old", "", "a"), Side("new", "", "b"), "step_time_mean", None, Judgement.UNCLEAR, 0.02, why=few
    )
    answer = AbResult(found, Course(2, 1, 12.0, "budget"))
    (first,) = ab_parts(answer, (), ())
    assert first == Text(f"Unclear: {why}.", Role.HEADLINE), "nothing would settle it"
    assert tuple(ab_rest(answer, (), ())) == (Text("2 pairs of processes from 1 template; 12 s; threads not pinned"),)


@pytest.mark.parametrize(
    ("pinned", "said"),
    [(2, "threads of both sides pinned to 2 logical cores"), (1, "one thread a side to pin"),
     (0, "threads not pinned: nothing here binds them"), (None, "threads not pinned")],
)  # fmt: skip
def test_it_is_told_whether_threads_were_pinned_and_how_much_was_measured(pinned, said):
    course = Course(10, 2, 20.0, "settled", 0.75, pinned)
    text = " ".join(printed({}, {}, course=course).split())
    assert f"20 s, 75 % of it measured turns; {said}" in text


def test_what_would_settle_it_or_that_nothing_would():
    def unclear(more, value=1.005, **other):
        ratio = Estimate(value, 0.98, 1.04, 0.99, "ratio", "pairs", 10, 100)
        text = printed({}, {}, ratio=ratio, verdict=Judgement.UNCLEAR, trials_to_settle=more, **other)
        return " ".join(text.split())

    settles = "(80 % power at the observed ratio): the same command with --within 2m."
    assert f"About 50 more pairs needed to show that they are the same within ±2 % {settles}" in unclear(50)
    assert f"About 50 more pairs needed to show that they differ {settles}" in unclear(50, 1.015)
    never = unclear(None)
    assert "More than 1,000 further pairs needed (80 % power at the observed ratio); if " in never
    assert re.search(r"widen the equivalence margin: --margin [45]%", never)
    assert "needed" not in printed({}, {}, ratio=None, verdict=Judgement.UNCLEAR), "too few pairs to say"
    assert "needed" not in printed({}, {})
    sooner = unclear(50, with_other_threads=OtherThreads(1, 3, 1.01, 14, 41.0))
    assert "About 14 pairs needed in all with threads=1" in sooner
    assert "--axis threads=1 --within 50s" in sooner


def test_a_ratio_that_is_hardly_known_is_not_in_the_table_either():
    wide = Estimate(0.3, 0.1, 0.9, 0.99, "ratio", "pairs", 6, 100)
    assert re.search(r"throughput .* 1\.67 \[", printed({}, {}))
    text = printed({}, {}, ratio=wide)
    assert not re.search(r"(step time|throughput) .*\[", text)
