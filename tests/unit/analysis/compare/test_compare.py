"""Verdicts: right on what is the same and what is not, with the reason where nothing may be said."""

import math
import random
import re
from typing import Any

import msgspec
import pytest
from build import a_case, a_finding, a_machine, a_trial
from comparable import a_gpu, a_stored_run

from torchstone.analysis.compare.compare import ComparisonRequest, Gate, compare, failing
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.compare.task_answers import TaskResult, task_answers
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.comparison import Judgement, Rules
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Measurement, Series, Stage
from torchstone.report.diagnosis_messages import text
from torchstone.report.documents.comparison import answer_words

BASE = (0.0100, 0.0101, 0.0099, 0.0100, 0.0101, 0.0099)
NOISY = (0.0100, 0.0104, 0.0096, 0.0105, 0.0101, 0.0095)


def judged(*runs, margin=0.02, prices=None, labels="ABCD"):
    named = zip("ABCD", labels, runs, strict=False)
    sides = [ComparedInput(letter, label, letter, (run,)) for letter, label, run in named]
    return compare(sides, ComparisonRequest(margin, prices or {}))


def the(compared, metric="throughput"):
    (found,) = [one.comparison for one in compared.judged if one.comparison.metric == metric]
    return found


def labels(*runs, metric="throughput"):
    """Under which labels a figure of these runs is compared."""
    (found,) = [one.labels for one in judged(*runs).judged if one.comparison.metric == metric]
    return "\n".join(map(text, found))


def scaled(by, base=BASE):
    return [time_s * by for time_s in base]


def said(compared):
    return " | ".join(
        f"{one.what}: {one.matters and text(one.matters)}" for one in compared.judged[0].comparison.differing
    )


def test_what_is_the_rate_turned_round_has_its_verdict_and_its_interval():
    compared = judged(a_stored_run(NOISY), a_stored_run(scaled(1.05, NOISY), minutes=2), prices={"A": 2.0, "B": 2.0})
    rate, cost = the(compared), the(compared, "cost_per_million_items")
    assert (cost.verdict, cost.ratio.level) == (rate.verdict, rate.ratio.level)
    assert (cost.ratio.low, cost.ratio.high) == (pytest.approx(1 / rate.ratio.high), pytest.approx(1 / rate.ratio.low))
    dearer = judged(a_stored_run(NOISY), a_stored_run(scaled(1.05, NOISY), minutes=2), prices={"A": 2.0, "B": 9.0})
    assert the(dearer, "cost_per_million_items").verdict == Judgement.WORSE, "its price is another"


@pytest.mark.parametrize(
    ("by", "base", "verdict"),
    [
        (1.0, BASE, Judgement.SAME), (2.0, BASE, Judgement.WORSE), (0.5, NOISY, Judgement.BETTER),
        (1.03, NOISY, Judgement.UNCLEAR), (1.0, NOISY, Judgement.UNCLEAR),
    ],
)  # fmt: skip
def test_verdicts_of_throughput_and_step_time_agree(by, base, verdict):
    compared = judged(a_stored_run(base), a_stored_run(scaled(by, base), minutes=2))
    rate, step = the(compared), the(compared, "step_time_mean")
    assert (rate.verdict, step.verdict) == (verdict, verdict)
    assert rate.ratio.value == pytest.approx(1 / by)
    assert step.ratio.value == pytest.approx(by)
    assert rate.ratio.low < rate.ratio.value < rate.ratio.high
    assert rate.trials_to_settle is None or verdict == Judgement.UNCLEAR


def test_same_only_where_the_interval_lies_within_the_margin():
    run, again = a_stored_run(BASE), a_stored_run(BASE, minutes=2)
    wide, tight = the(judged(run, again, margin=0.05)), the(judged(run, again, margin=0.001))
    assert (wide.verdict, tight.verdict) == (Judgement.SAME, Judgement.UNCLEAR)
    assert 1 / 1.05 <= wide.ratio.low <= 1 / 1.001


def test_two_machines_need_no_common_clock_and_no_common_device():
    runs = [
        a_stored_run(scaled(by), a_case(placement=Placement(kind)), machine=a_gpu(card, vendor, host=card))
        for by, kind, card, vendor in ((1.0, "rocm", "RX 7900", "amd"), (0.5, "cuda", "RTX 4090", "nvidia"))
    ]
    compared = judged(*runs, labels=("RX 7900", "RTX 4090"))
    assert the(compared).verdict == Judgement.BETTER
    assert "time" not in [one.what for one in the(compared).differing]
    (told,) = task_answers(compared)
    assert (told.faster, told.task) == ("B", "train")
    assert answer_words(told, compared).startswith("B (RTX 4090) is 2.00 [1.9")


def test_where_the_baseline_is_faster_the_ratio_is_said_to_be_of_the_other():
    compared = judged(a_stored_run(BASE), a_stored_run(scaled(2.0), minutes=1), labels=("fast", "slow"))
    (told,) = task_answers(compared)
    assert told.faster == "A"
    assert answer_words(told, compared).startswith("B (slow) is 0.500 [0.4")


def test_one_trial_is_never_sure_of_what_two_processes_differ_by():
    runs = [(a_stored_run(BASE[:1]), a_stored_run(scaled(by)[:1], minutes=1)) for by in (1.4, 4.0)]
    near, far = (judged(*each) for each in runs)
    assert the(near).verdict == Judgement.UNCLEAR
    assert "one trial: the variation between processes is not measured" in labels(*runs[0])
    assert the(near).trials_to_settle is not None
    assert the(far).verdict == Judgement.WORSE, "beyond what processes were ever seen to differ by"
    assert "one trial" in the(far).ratio.method


def test_steps_alone_do_not_make_one_trial_surer():
    few, many = (
        the(judged(a_stored_run(BASE[:1], steps=n), a_stored_run(scaled(1.3)[:1], steps=n))) for n in (10, 1000)
    )
    assert few.ratio.low == pytest.approx(many.ratio.low, rel=0.01)


def test_one_training_each_asks_for_no_more_trainings():
    fit = {"procedure": Procedure(trials=1, fit=Fit())}
    runs = [a_stored_run(scaled(by)[:1], minutes=minutes, head=fit) for by, minutes in ((1.0, 0), (1.1, 1))]
    compared = judged(*runs)
    assert the(compared).verdict == Judgement.UNCLEAR
    assert the(compared).trials_to_settle is None
    (told,) = task_answers(compared)
    assert (told.trained, told.trials_to_settle) == (True, None)
    assert "a training is one trial: `torchstone run --trials 5` repeats its step" in answer_words(told, compared)


def test_a_side_of_three_runs_is_judged_over_runs():
    def side(letter, by, minutes):
        offsets = (0.97, 1.0, 1.03)  # runs differ by more than their trials show
        runs = tuple(a_stored_run(scaled(by * o), minutes=minutes + i) for i, o in enumerate(offsets))
        return ComparedInput(letter, letter, letter, runs)

    compared = compare([side("A", 1.0, 0), side("B", 1.03, 60)], ComparisonRequest())
    assert the(compared).ratio.method == "Welch's t on the log over runs"
    assert the(compared).verdict == Judgement.UNCLEAR
    low, high = math.log(the(compared).ratio.low), math.log(the(compared).ratio.high)
    assert (high - low) / 2 == pytest.approx(2.776 * math.sqrt(2 / 3) * 0.03, rel=0.05)


def test_cases_of_one_run_are_compared_round_by_round():
    cases = [a_case({"precision": word}) for word in ("fp32", "bf16")]
    drifting = [0.010, 0.014, 0.020, 0.028]
    run = a_stored_run(drifting, cases[0], (cases[1], [0.8 * time_s for time_s in drifting]))
    parts = [
        msgspec.structs.replace(
            run, trials=run.of_case(case.case_id),
            head=msgspec.structs.replace(run.head, plan=msgspec.structs.replace(run.head.plan, cases=(case,))),
        )
        for case in cases
    ]  # fmt: skip
    found = the(judged(*parts))
    assert found.verdict == Judgement.BETTER, "the drift hits both alike"
    assert found.ratio.method == "t on the log ratios of rounds"
    assert found.ratio.low == pytest.approx(1.25)
    other = msgspec.structs.replace(parts[1], head=msgspec.structs.replace(parts[1].head, run_id="x"))
    apart = the(judged(parts[0], other))
    assert apart.verdict == Judgement.UNCLEAR, "as two runs nothing could be said of it"


def test_a_run_that_drifts_says_so_and_is_known_less_well():
    calm = a_stored_run([0.0100, 0.0103, 0.0097, 0.0101, 0.0099, 0.0100])
    moving = a_stored_run([0.0100, 0.0105, 0.0110, 0.0115, 0.0120, 0.0125], minutes=2)
    found = the(judged(calm, moving))
    assert found.verdict == Judgement.UNCLEAR
    assert "candidate: figures drifted over its run" in labels(calm, moving)


def test_runs_of_one_machine_an_hour_apart_say_so_and_are_known_less_well():
    near, far = (judged(a_stored_run(BASE), a_stored_run(scaled(1.1), minutes=m)) for m in (1, 90))
    assert the(far).ratio.low < the(near).ratio.low
    assert "min apart on one machine" in said(far)
    assert "min apart" not in said(near)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"facts": {"parameters": 2000}}, "not the same model: 1,000 parameters and 2,000"),
        ({"setup": {"flops": [2e9]}}, "not the same work: 62.5 MFLOP per item and 125 MFLOP per item"),
        ({"case": a_case(data="digits")}, "other data: synthetic and digits"),
        ({"more": [Measurement("fingerprint", Stage.STEADY, (2.5, 2.4))]}, "different results with the same seed"),
        ({"steps_s": [None, None]}, "no successful trial of the candidate (out_of_memory: it took all)"),
    ],
)  # fmt: skip
def test_not_comparable_says_why(change, why):
    usual: dict[str, Any] = {"setup": {"flops": [1e9]}, "more": [Measurement("fingerprint", Stage.STEADY, (2.3, 2.2))]}
    given = {"steps_s": BASE, **usual, **change}
    compared = judged(a_stored_run(BASE, **usual), a_stored_run(given.pop("steps_s"), **given))
    (one,) = compared.judged
    assert one.comparison.verdict == Judgement.NOT_COMPARABLE
    assert one.comparison.ratio is None
    assert why in one.comparison.why_text
    assert task_answers(compared) == []
    assert failing(compared, Gate(worse=True)) == [one]


def test_an_invalid_case_is_not_compared():
    run, bad = a_stored_run(BASE), a_stored_run(scaled(0.5))
    finding = a_finding("nan_loss", Severity.ERROR, "the loss is no number", "lower it", a_case().case_id)
    found = the(judged(run, msgspec.structs.replace(bad, findings=(finding,))))
    assert found.verdict == Judgement.NOT_COMPARABLE
    assert found.why_text == "the candidate is INVALID: the loss is no number"


def test_results_that_something_known_explains_are_a_label():
    prints: list[dict[str, Any]] = [
        {"more": [Measurement("fingerprint", Stage.STEADY, (value,))]} for value in (2.3, 2.5)
    ]
    other_torch = a_machine(software={"torch": "2.10.0"})
    runs = a_stored_run(BASE, **prints[0]), a_stored_run(BASE, machine=other_torch, **prints[1])
    assert the(judged(*runs)).verdict == Judgement.SAME
    assert "first results differ (2.3000 and 2.5000)" in labels(*runs)
    code = {"code": {"net:cnn": "abc"}}
    runs = a_stored_run(BASE, head=code), a_stored_run(BASE, head={"code": {"net:cnn": "abd"}}, minutes=1)
    assert the(judged(*runs)).verdict == Judgement.SAME
    assert labels(*runs) == "other code under the same name"
    weights = [a_stored_run(BASE, a_case(fixed={"weights": digest})) for digest in "ab"]
    assert labels(*weights) == "other weights or sizes under the same name"


def test_another_batch_size_compares_items_and_not_steps():
    runs = [a_stored_run(scaled(by), a_case({"batch_size": size})) for by, size in ((1.0, 8), (1.5, 16))]
    compared = judged(*runs)
    metrics = [one.comparison.metric for one in compared.judged]
    assert "step_time_mean" not in metrics
    assert the(compared).verdict == Judgement.BETTER
    assert "settings compared: batch_size 8 against 16" in labels(*runs)
    assert "batch_size: steps differ in work" in said(compared)


def busy(cores):
    """Series of a trial beside which other processes used so many cores during its window (2.0 s to 2.1 s)."""
    at = (0.0, 10.0)
    return [Series("host_busy_s", "proc", at, (0.0, 10 * cores)), Series("process_cpu_s", "proc", at, (0.0, 0.0))]


def test_who_is_worse_beside_a_neighbour_is_not_called_worse():
    quiet, noisy = a_stored_run(BASE, series=busy(0.0)), a_stored_run(scaled(3), minutes=1, series=busy(1.0))
    for first, second, side in ((quiet, noisy, "candidate"), (noisy, quiet, "baseline")):
        found = the(judged(first, second))
        assert found.verdict == Judgement.UNCLEAR
        assert found.trials_to_settle is None, "it is disturbed, and not too few"
        assert f"only the worse side ({side}) was disturbed (other processes 1.00 cores)" in labels(first, second)
    faster = a_stored_run(scaled(0.5), minutes=1, series=busy(1.0))
    assert the(judged(quiet, faster)).verdict == Judgement.BETTER, "better in spite of it"
    both = the(judged(noisy, a_stored_run(BASE, series=busy(1.2))))
    assert both.verdict == Judgement.BETTER
    assert any(one.what == "other processes" and one.matters == Statement("both_disturbed") for one in both.differing)


def test_what_differs_is_listed_and_what_matters_comes_first():
    other = a_machine(software={"torch": "2.10.0", "python": "3.12"}, settings={"OMP_NUM_THREADS": "1"})
    run = a_stored_run(BASE)
    changed = a_stored_run(
        BASE, machine=other, minutes=1, head={"procedure": Procedure(trials=3, heap="default", budget_s=9.0)}
    )
    found = the(judged(run, changed)).differing
    names = [one.what for one in found]
    assert {"torch", "python", "OMP_NUM_THREADS", "heap", "budget_s"} == set(names)
    matters = [one.matters is not None for one in found]
    assert matters == sorted(matters, reverse=True)
    assert {one.what for one in found if one.matters} == {"torch", "OMP_NUM_THREADS", "heap"}
    assert the(judged(run, a_stored_run(BASE, minutes=1))).differing == ()


def test_doubts_and_failures_of_one_side_are_listed():
    finding = a_finding("drift", Severity.WARNING, "it drifts", "wait", a_case().case_id)
    bad = msgspec.structs.replace(a_stored_run([*BASE, None], minutes=1), findings=(finding,))
    found = {one.what: one for one in the(judged(a_stored_run(BASE), bad)).differing}
    assert (found["drift"].baseline, found["drift"].candidate) == (None, finding)
    assert found["failed trials"].candidate == 1


def test_memory_and_energy_and_cost():
    held: list[dict[str, Any]] = [{"steady": {"peak_reserved_bytes": [n * 2.0**30]}} for n in (4, 3)]
    compared = judged(
        a_stored_run(BASE, **held[0]), a_stored_run(scaled(0.5), minutes=1, **held[1]), prices={"A": 1.0, "B": 3.0}
    )
    assert the(compared, "peak_reserved_bytes").verdict == Judgement.BETTER
    assert the(compared, "peak_reserved_bytes").ratio.low == pytest.approx(0.75)
    cost = the(compared, "cost_per_million_items")
    assert cost.ratio.value == pytest.approx(1.5)
    assert cost.verdict == Judgement.WORSE, "twice as fast for three times the money"
    (one,) = [one for one in compared.judged if one.comparison.metric == "cost_per_million_items"]
    assert one.baseline_value.value == pytest.approx(1e6 / 1600 / 3600, rel=0.01)


def test_ranks_that_share_a_cpu_are_paid_as_one_machine():
    pair = a_case(placement=Placement("cpu", count=2))
    runs = (a_stored_run(scaled(by), pair, minutes=minutes) for by, minutes in ((1.0, 0), (0.5, 1)))
    (one,) = [j for j in judged(*runs, prices={"A": 1.0, "B": 1.0}).judged if j.comparison.metric.startswith("cost")]
    assert one.baseline_value.value == pytest.approx(1e6 / 1600 / 3600, rel=0.01)


def test_three_machines_the_fastest_and_who_cannot_be_told_from_it():
    one, two, three = (a_stored_run(scaled(by), machine=a_machine()) for by in (1.0, 0.5, 0.25))
    compared = judged(one, two, three)
    (told,) = task_answers(compared)
    assert told.faster == "C"
    assert answer_words(told, compared).startswith("C is the fastest: 2.00 [1.9")
    assert " times as fast as B, 4.00 [3.9" in answer_words(told, compared)
    compared = judged(one, two, a_stored_run(scaled(0.49, NOISY)))
    (told,) = task_answers(compared)
    assert (told.faster, told.result, told.even, told.ahead) == (None, TaskResult.LEADS, ("B",), ())
    words = "C leads, and is not significantly different from B; C 2.04 ["
    assert answer_words(told, compared).startswith(words)


def test_of_three_who_leads_on_average_may_be_behind_in_a_case():
    cases = [a_case({"batch_size": size}) for size in (8, 16)]
    runs = [
        a_stored_run(scaled(one), cases[0], (cases[1], scaled(other)))
        for one, other in ((1.0, 1.0), (0.5, 0.5), (0.2, 0.8))
    ]
    compared = judged(*runs)
    (told,) = task_answers(compared)
    assert (told.faster, told.even, told.ahead) == (None, (), ("B",))
    assert answer_words(told, compared).startswith("C leads, and is slower than B in some cases; C 2.50 [1.2")


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((0.5, 0.5), "B is 2.00 [1.97, 2.03] times as fast as A; means of 2 cases with the outermost"),
        ((0.5, 2.0), "it depends: B in 1, A in 1 of 2 cases; B is 1.00 [0.49"),
        ((2.0, 2.0), "B is 0.500 [0.493, 0.507] times as fast as A"),
        ((1.0, 1.0), "equivalent within 2 %"),
        ((1.03, 1.03), "unclear"),
        ((0.5, 1.03), "B is 1.39 [0."),
    ],
)
def test_the_answer_over_several_cases(ratios, words):
    cases = [a_case({"batch_size": size}) for size in (8, 16)]
    mine = a_stored_run(BASE, cases[0], (cases[1], BASE))
    first, second = (scaled(by, NOISY if by == 1.03 else BASE) for by in ratios)
    compared = judged(mine, a_stored_run(first, cases[0], (cases[1], second), minutes=1))
    (told,) = task_answers(compared)
    assert answer_words(told, compared).startswith(words)


def test_training_and_inference_have_an_answer_each():
    cases = [a_case(task=task) for task in (Task.TRAIN, Task.INFER)]
    mine = a_stored_run(BASE, cases[0], (cases[1], BASE))
    yours = a_stored_run(scaled(0.5), cases[0], (cases[1], scaled(2.0)), minutes=1)
    told = [(one.task, one.faster) for one in task_answers(judged(mine, yours))]
    assert told == [("train", "B"), ("infer", "A")]


def test_the_gate():
    run = a_stored_run(BASE)
    worse, same = (judged(run, a_stored_run(scaled(by), minutes=1)) for by in (1.2, 1.0))
    open_ = judged(run, a_stored_run(scaled(1.03, NOISY), minutes=1))
    assert failing(worse, Gate(worse=True))
    assert failing(worse, Gate(worse=True, worse_by=0.1))
    assert not failing(worse, Gate(worse=True, worse_by=0.5))
    assert not failing(open_, Gate(worse=True))
    assert failing(open_, Gate(unclear=True))
    assert not failing(same, Gate(worse=True, unclear=True))


def test_many_cases_are_judged_more_strictly_and_verdict_and_interval_agree():
    cases = [a_case({"batch_size": size}) for size in range(1, 21)]
    slow = [scaled(1.12 if n == 0 else 1.0) for n in range(20)]
    alone = judged(a_stored_run(BASE, cases[0]), a_stored_run(slow[0], cases[0], minutes=1))
    many = judged(
        a_stored_run(BASE, cases[0], *((case, BASE) for case in cases[1:])),
        a_stored_run(slow[0], cases[0], *zip(cases[1:], slow[1:], strict=True), minutes=3),
    )
    assert the(alone).verdict == Judgement.WORSE
    assert the(alone).ratio.level == 0.95
    first = next(one.comparison for one in many.judged if one.comparison.metric == "throughput")
    assert first.ratio.level > 0.99
    for one in many.judged:
        found = one.comparison
        if found.verdict in (Judgement.BETTER, Judgement.WORSE):
            assert not found.ratio.low <= 1.0 <= found.ratio.high


def test_a_baseline_that_has_nothing_in_common_with_the_others():
    others = [a_stored_run(BASE, a_case(model="net:mlp")) for _ in range(2)]
    with pytest.raises(UsageError, match="no case in common with the baseline A"):
        judged(a_stored_run(BASE), *others)


def test_a_compiled_model_may_draw_other_numbers():
    found = [
        a_stored_run(BASE, a_case({"compile": word}), more=[Measurement("fingerprint", Stage.STEADY, (value,))])
        for word, value in (("off", 2.3), ("default", 2.5))
    ]
    assert the(judged(*found)).verdict == Judgement.SAME
    assert "first results differ" in labels(*found)


def two_templates(by, held, minutes=0.0, spread=0.17, ab=None, case=None):
    """One side of an `ab`: 26 processes of two templates, whose memory differs by template and hardly else."""
    dice = random.Random(f"{by} {minutes}")
    times = [0.01 * by * math.exp(dice.gauss(0.0, spread)) for _ in range(26)]
    run = a_stored_run(times, case, minutes=minutes)
    trials = [
        msgspec.structs.replace(
            trial, facts=msgspec.structs.replace(trial.facts, template=1 + place // 13),
            measurements=(*trial.measurements, Measurement("peak_rss_bytes", Stage.STEADY, (held(place),))),
        )
        for place, trial in enumerate(run.trials)
    ]  # fmt: skip
    return msgspec.structs.replace(run, trials=tuple(trials), head=msgspec.structs.replace(run.head, ab=ab))


def test_two_records_of_ab_say_what_their_processes_say_and_two_templates_are_no_two_replicates():
    held = lambda place: 282e6 * (1.0 + 0.002 * (place // 13) + 0.0005 * (place % 3))
    runs = two_templates(1.0, held), two_templates(1.05, held, minutes=60)
    found = judged(*runs)
    memory = the(found, "peak_rss_bytes")
    assert memory.verdict == Judgement.SAME
    assert memory.ratio.high / memory.ratio.low < 1.02
    rate = the(found)
    assert rate.verdict == Judgement.UNCLEAR
    assert rate.ratio.high / rate.ratio.low < 2.0
    assert re.search(r"alone gives ±\d\.\d %; drift between runs widens it to ±3\d\.\d %", labels(*runs))
    quiet = [two_templates(by, held, minutes, spread=0.01) for by, minutes in ((1.0, 0), (1.2, 60))]
    assert the(judged(*quiet)).verdict == Judgement.WORSE


def test_both_revisions_of_an_ab_are_one_case_and_are_not_thrown_together():
    def revisions(a, b, minutes):
        run = two_templates(1.0, lambda _: 282e6, minutes, ab=Rules())
        sided = [
            msgspec.structs.replace(trial, facts=msgspec.structs.replace(trial.facts, side="AB"[place % 2]),
                                    measurements=a_trial([(a, b)[place % 2]] * 10).measurements)
            for place, trial in enumerate(run.trials)
        ]  # fmt: skip
        return msgspec.structs.replace(run, trials=tuple(sided))

    found = judged(revisions(0.010, 0.020, 0), revisions(0.010, 0.030, 60))
    ratios = {one.case: one.comparison.ratio.value for one in found.judged if one.comparison.metric == "step_time_mean"}
    assert ratios == {"train cnn, side A": pytest.approx(1.0), "train cnn, side B": pytest.approx(1.5)}
    plain = judged(revisions(0.010, 0.020, 0), a_stored_run(BASE, minutes=60))
    assert the(plain).ratio.value == pytest.approx(math.sqrt(2.0), rel=0.02), "a run without sides meets both of them"
