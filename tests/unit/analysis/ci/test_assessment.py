"""What follows for a pull request: only what is proven closes the gate, and what is missing never opens it."""

import math

import msgspec
import pytest
from build import compared
from ci_results import BASE, FASTER, HEAD, OPEN, SAME, SLOWER, STATES, a_comparison, a_result, assessed, measured

from torchstone.analysis.ci import Acceptance, ChangeVerdict, Conclusion, OtherResult, assess
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.ci import CiBenchmark, State
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.trial import Outcome, Status

CONCLUSIONS = {
    "slower": Conclusion.SLOWER, "slower, several": Conclusion.SLOWER, "slower, within the limit": Conclusion.PASSED,
    "slower, the limit is undecided": Conclusion.UNDECIDED, "faster": Conclusion.PASSED,
    "faster, other results": Conclusion.PASSED,
    "unchanged": Conclusion.PASSED, "undecided": Conclusion.UNDECIDED, "undecided, one": Conclusion.UNDECIDED,
    "undecided, out of reach": Conclusion.UNDECIDED, "undecided, nothing is known": Conclusion.UNDECIDED,
    "no baseline": Conclusion.NO_BASELINE, "no base at all": Conclusion.NO_BASELINE, "failed": Conclusion.FAILED,
    "failed, cut off": Conclusion.FAILED, "accepted": Conclusion.ACCEPTED,
    "accepted, without a reason": Conclusion.SLOWER, "not reliable": Conclusion.UNDECIDED,
    "accepted, and one failed": Conclusion.FAILED, "200 cases": Conclusion.SLOWER, "hostile names": Conclusion.FAILED,
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_what_follows_of_every_state(name):
    found = STATES[name]()
    assert found.conclusion is CONCLUSIONS[name]
    quiet = ("unchanged", "undecided", "undecided, one", "undecided, out of reach", "undecided, nothing is known")
    assert found.is_decided == (name not in (*quiet, "not reliable"))


@pytest.mark.parametrize(
    ("interval", "limit", "follows"),
    [
        ((1.06, 1.0501, 1.07), 0.05, Conclusion.SLOWER),
        ((1.06, 1.0499, 1.07), 0.05, Conclusion.UNDECIDED),
        ((1.03, 1.021, 1.0499), 0.05, Conclusion.PASSED),
        ((1.01, 0.97, 1.0499), 0.05, Conclusion.PASSED),
        ((1.01, 0.97, 1.0501), 0.05, Conclusion.UNDECIDED),
        ((1.0, 0.99, 1.0199), 0.01, Conclusion.PASSED),  # a limit below the margin cannot be asked of
    ],
)
def test_the_gate_closes_only_where_the_whole_interval_is_beyond_the_limit(interval, limit, follows):
    assert assessed({"a": interval}, limit=limit).conclusion is follows
    result, runs = measured({"a": interval})
    assert assess(result, runs, limit=limit).conclusion is follows, "a limit given later counts"


def test_a_slowdown_is_accepted_by_a_label_with_a_reason_only():
    slow = {"a": SLOWER}
    assert assessed(slow, label=Acceptance("ok", "right")).conclusion is Conclusion.ACCEPTED
    assert assessed(slow, label=Acceptance("ok", None)).conclusion is Conclusion.SLOWER
    failed = [CiBenchmark("b", (), State.FAILED, why="it fell over")]
    found = assessed(slow, others=failed, label=Acceptance("ok", "right"))
    assert found.conclusion is Conclusion.FAILED, "nobody accepted that"


def test_the_verdict_is_computed_again_from_the_interval():
    found = assessed({"a": SLOWER}, more={"verdict": Judgement.BETTER})
    assert found.changes[0].verdict is ChangeVerdict.SLOWER


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"base": HEAD}, "another commit than a1b2c3d4e"),
        ({"head": BASE}, "another commit than 0f1e2d3c4"),
        ({"metric": "throughput"}, "compares throughput"),
        ({"verdict": Judgement.NOT_COMPARABLE, "why": "head crashed: it fell over"}, "it fell over"),
        ({"ratio": (1.0, 1.2, 1.1)}, "interval in its record is none"),
        ({"ratio": (1.0, 0.5, math.inf)}, "interval in its record is none"),
        ({"ratio": (1.0, 0.0, 1.1)}, "interval in its record is none"),
    ],
)
def test_a_record_of_something_else_is_a_failure(changes, why):
    given = {"ratio": (1.0, 0.99, 1.01), "verdict": Judgement.SAME, **changes}
    value, low, high = given.pop("ratio")
    about = {name: given.pop(name) for name in ("base", "head") if name in given}
    run = a_comparison((1.0, 0.99, 1.01), **about)
    assert run.comparison is not None
    assert run.comparison.ratio is not None
    bent = msgspec.structs.replace(run.comparison.ratio, value=value, low=low, high=high)
    run = compared(run, msgspec.structs.replace(run.comparison, ratio=bent, **given))
    result = a_result([CiBenchmark("a", (), State.MEASURED, "run-1")])
    (change,) = assess(result, {"run-1": run}).changes
    assert change.verdict is ChangeVerdict.FAILED
    assert why in str(change.why)


@pytest.mark.parametrize(
    ("sides", "verdict"), [("A", ChangeVerdict.NO_BASELINE), ("B", ChangeVerdict.FAILED), ("AB", ChangeVerdict.FAILED)]
)
def test_a_base_that_crashes_alone_is_no_baseline(sides, verdict):
    run = a_comparison(None, verdict=Judgement.NOT_COMPARABLE, why=Statement("nothing_measured"))
    ends = {"A": Outcome(Status.SKIPPED), "B": Outcome(Status.SKIPPED)} | {
        side: Outcome(Status.CRASHED) for side in sides
    }
    last = [msgspec.structs.replace(t, outcome=ends[t.facts.side]) for t in run.trials[-2:]]
    run = msgspec.structs.replace(run, trials=(*run.trials[:-2], *last))
    result = a_result([CiBenchmark("a", (), State.MEASURED, "run-1")])
    assert assess(result, {"run-1": run}).changes[0].verdict is verdict


def test_a_record_that_is_missing_is_a_failure_and_no_benchmark_is_no_baseline():
    result = a_result([CiBenchmark("a", (), State.MEASURED, "run-1")])
    assert "missing" in str(assess(result, {}).changes[0].why)
    assert assess(a_result([]), {}).conclusion is Conclusion.NO_BASELINE


def test_the_control_s_interval_is_the_floor_and_a_control_that_differs_decides_nothing():
    found = assessed({"a": FASTER, "b": OPEN}, control=(1.0, 0.99, 1.004))
    assert found.floor == pytest.approx(1 / 0.99 - 1)
    assert found.is_reliable
    assert assessed({"a": SAME}, control=None).floor is None
    assert assessed({"a": SAME}, control=SLOWER).conclusion is Conclusion.UNDECIDED


def test_a_change_that_computes_something_else_is_told_unless_the_base_differs_from_itself():
    result, runs = measured({"a": FASTER, "b": SAME})
    assert assess(result, runs).with_other_results == []
    runs["run-0"] = a_comparison(FASTER, run_id="run-0", results=(2.5, 2.1))
    (one,) = assess(result, runs).with_other_results
    assert (one.name, one.verdict, one.other) == ("a", ChangeVerdict.FASTER, OtherResult("loss", 2.5, 2.1))
    runs["control"] = a_comparison(SAME, run_id="control", head=BASE, results=(2.5, 2.4))
    assert assess(result, runs).with_other_results == [], "nothing is computed twice alike"


def test_changes_are_in_the_order_of_their_size():
    found = assessed({"a": (1.05, 1.04, 1.06), "b": (1.5, 1.4, 1.6), "c": SAME})
    assert [one.name for one in found.of(ChangeVerdict.SLOWER)] == ["b", "a"]
    assert dict(found.environment)["processor"] == "a processor"
