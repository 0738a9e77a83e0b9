"""The answer of a stored tune follows from the trials of its final round, or what does not is named."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.analysis.summary import summarize
from torchstone.core.schema.answer import TuneResult, TuneSpec
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Run
from torchstone.core.schema.search import Part, Probe, ProbeResult
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.storage.query import entry_of
from torchstone.workflows.tune.answering import answer_of, ranked_cases
from torchstone.workflows.tune.recomputed import faults
from torchstone.workflows.tune.space import TuneSpace

BASE = {
    "batch_size": 8,
    "precision": "fp32",
    "feed": "resident",
    "grad_accumulation": 1,
    "learning_rate": 1e-3,
}
SPEC = TuneSpec(
    "throughput", "grid", a_case(BASE), {"batch_size": (8, 32, 64)}, present={"batch_size": 8}, final_trials=3
)
SPACE = TuneSpace(SPEC)
CASES = [SPACE.case({"batch_size": size}) for size in (8, 32, 64)]
STEPS_S = {8: 0.010, 32: 0.020, 64: 0.050}  # 800, 1600, 1280 items/s


def the_trials() -> list[Trial]:
    """Three rounds of three configurations; the rounds differ by a percent or more."""
    return [
        a_trial(
            [STEPS_S[size] * (1.0 + 0.01 * number * (1 + place))] * 10, items=size,
            steady={"peak_rss_bytes": [1e8 * (10 + size)]},
            case_id=case.case_id, trial_id=f"{size}-{number}", number=number, order=3 * number + place,
        )
        for number in range(3) for place, (size, case) in enumerate(zip(STEPS_S, CASES, strict=True))
    ]  # fmt: skip


def tuned() -> Run:
    """The run with the answer that `tune` records."""
    machine = a_machine(devices=(DeviceInfo("cpu", "cpu", "Intel", 0, "a processor", 64 * 10**9),))
    run = a_run(the_trials(), cases=CASES, machine=machine)
    run = msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, tune=SPEC))
    rounds: dict[str, list[Trial]] = {}
    for trial in run.trials:
        rounds.setdefault(trial.case_id, []).append(trial)
    return msgspec.structs.replace(run, answer=answer_of(run, SPACE, rounds, ranked_cases(rounds, SPEC), ()))


def found(run: Run) -> list[str]:
    return list(faults(run, summarize(entry_of(run, Path()))))


def forged(change: Callable[[TuneResult], dict[str, object]]) -> Run:
    run = tuned()
    assert isinstance(run.answer, TuneResult)
    return msgspec.structs.replace(run, answer=msgspec.structs.replace(run.answer, **change(run.answer)))


def test_what_was_recorded_follows():
    run = tuned()
    assert isinstance(run.answer, TuneResult)
    assert run.answer.recommended.case_id == CASES[1].case_id
    assert run.answer.gain is not None
    assert run.answer.gain.value == pytest.approx(2.0, rel=0.02)
    assert found(run) == []


def test_what_was_never_run_is_named_with_the_answer():
    run = tuned()
    rounds = {CASES[0].case_id: [t for t in run.trials if t.case_id == CASES[0].case_id]}
    loader = ProbeResult(Probe({"batch_size": 32}, Part.LOADER), Status.OK, 1.0, 5000.0)
    whole = ProbeResult(Probe({"batch_size": 64}), Status.OUT_OF_MEMORY, 1.0)
    answer = answer_of(run, SPACE, rounds, ranked_cases(rounds, SPEC), [loader])
    assert (answer.tried, answer.untried) == (1, {"batch_size": (32, 64)}), "a loader alone is no setting that was run"
    answer = answer_of(run, SPACE, rounds, ranked_cases(rounds, SPEC), [loader, whole])
    assert (answer.tried, answer.untried) == (2, {"batch_size": (32,)})
    assert isinstance(run.answer, TuneResult)
    assert (run.answer.tried, run.answer.untried) == (3, {})


def test_a_lucky_probe_is_not_on_the_front():
    run = tuned()
    probed = SPACE.case({"batch_size": 128})
    fast = a_trial([0.010] * 10, items=128, case_id=probed.case_id, trial_id="fortunate", purpose=Purpose.PROBE,
                   steady={"peak_rss_bytes": [9e9]})  # fmt: skip
    plan = msgspec.structs.replace(run.head.plan, cases=(*run.head.plan.cases, probed))
    run = msgspec.structs.replace(
        run, trials=(*run.trials, fast), head=msgspec.structs.replace(run.head, plan=plan), answer=None
    )
    rounds: dict[str, list[Trial]] = {}
    for trial in run.trials[:-1]:
        rounds.setdefault(trial.case_id, []).append(trial)
    answer = answer_of(run, SPACE, rounds, ranked_cases(rounds, SPEC), ())
    assert answer.pareto[-1].throughput == answer.highest_throughput.throughput, "the two agree"
    assert all(one.trials for one in answer.pareto)


def test_a_run_of_another_kind_has_nothing_to_say():
    assert found(a_run()) == []
    assert found(msgspec.structs.replace(a_run(), answer=tuned().answer)) == [
        "answer: a tune has that of a tune, and no other run"
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: {"recommended": a.present}, "recommended is batch_size=8, the final round gives batch_size=32"),
        (lambda a: {"highest_throughput": a.present}, "highest throughput is batch_size=8, not batch_size=32"),
        (lambda a: {"best_efficiency": None}, "best efficiency is not what the final round gives"),
        (lambda a: {"pareto": a.pareto[:1]}, "the Pareto front is not what the final round gives"),
        (lambda a: {"gain": msgspec.structs.replace(a.gain, value=3.0)}, "gain 3 ["),
        (lambda a: {"gain": msgspec.structs.replace(a.gain, low=a.gain.value)}, "the final round gives 1.9"),
        (lambda a: {"gain": None}, "gain none, the final round gives 1.9"),
        (lambda a: {"settings": {"batch_size": 64}}, "setting batch_size=64, what was measured had 32"),
        (lambda a: {"epoch_time_s": a.gain}, "the time of an epoch is not what the final round gives"),
        (
            lambda a: {"recommended": msgspec.structs.replace(a.recommended, throughput=2000.0)},
            "recommended, batch_size=32: throughput 2000.0, the trials in the record give 15",
        ),
        (
            lambda a: {"present": msgspec.structs.replace(a.present, case_id="elsewhere")},
            "present settings is a case that the record does not have (elsewhere)",
        ),
    ],
)
def test_what_does_not_follow_is_named(change, said):
    assert any(said in fault for fault in found(forged(change))), found(forged(change))


def test_a_trial_that_was_slower_changes_what_follows():
    run = tuned()
    slow = [
        msgspec.structs.replace(
            trial, measurements=a_trial([0.2] * 10, items=32, steady={"peak_rss_bytes": [42e8]}).measurements
        )
        if trial.case_id == CASES[1].case_id else trial for trial in run.trials
    ]  # fmt: skip
    told = found(msgspec.structs.replace(run, trials=tuple(slow)))
    assert "answer: recommended is batch_size=32, the final round gives batch_size=64" in told


def test_a_round_of_which_nothing_succeeded_gives_no_answer():
    run = tuned()
    bad = [
        msgspec.structs.replace(one, outcome=msgspec.structs.replace(one.outcome, status=Status.CRASHED))
        for one in run.trials
    ]
    told = found(msgspec.structs.replace(run, trials=tuple(bad)))
    assert "answer: no trial of the final round succeeded and met the constraints" in told
