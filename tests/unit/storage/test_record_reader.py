"""Numbers that no measurement can be are none, wherever a stored trial comes from."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from build import a_case, a_run, a_trial, compared
from results import a_tuned_run
from strange import an_ab_run

from torchstone.analysis.summary import summarize
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import End, Usual
from torchstone.core.schema.run_document import document_bytes
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status
from torchstone.plugins.checking import look
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import RecordPart, bounded, read_record
from torchstone.storage.record_writer import record_lines
from torchstone.storage.run_document import read_document, write_document

ODD = {
    "too large": [1e308] * 12,
    "infinite both ways": [math.inf, -math.inf] * 6,
    "a NaN before it": [math.nan, *[1e308] * 11],
    "a NaN after it": [0.01, math.nan, *[-1e308] * 10],
    "as small as nothing": [5e-324, 0.01] * 6,
}


def hostile(values):
    """Three trials with such steps, losses, readings and claims."""
    power = Series("device_power_w", "nvml", tuple(values), tuple(values), "cuda:0")
    facts = {"claimed_throughput": values[-1], "claimed_steps": 1e300, "claimed_loss_last": values[0]}
    counts = ("items", "minor_faults", "major_faults", "allocator_retries")
    steady = dict.fromkeys(("data_wait_s", "loss", "window_time_s", *counts), values)
    return [
        a_trial(values, steady=steady, series=[power], facts=facts, trial_id=f"t{n}", number=n, order=n)
        for n in range(3)
    ]


@pytest.mark.parametrize("values", ODD.values(), ids=ODD)
def test_no_figure_and_no_check_fails_on_a_hostile_record(tmp_path, values):
    run = a_run(hostile(values))
    record = tmp_path / "r.jsonl"
    trials = [encode(trial) for trial in run.trials]
    record.write_bytes(b"\n".join([encode(run.head), *trials, encode(run.end), b""]))
    for read in (read_record(record), read_document(write_document(run, tmp_path))):
        findings = look(read)
        assert not [f for f in findings if "failed:" in f.message], "a check that raised"
        assert "impossible" in {f.check for f in findings}
        found = msgspec.structs.replace(read, findings=tuple(findings))
        assert summarize(entry_of(found, Path("r"))).cases[0].verdict == "INVALID"


def test_what_can_be_measured_is_left_as_it_is():
    trial = a_trial(facts={"parameters": 10**12, "claimed_mfu": 0.5, "fused": True, "name": "x", "none": None})
    assert bounded(trial) == trial
    assert str(bounded(a_trial(steady={"loss": [math.inf, -math.inf, 3e38]})).values("loss")) == "(inf, -inf, 3e+38)"


def test_what_cannot_is_not_a_number_or_nothing():
    values = bounded(a_trial([0.5, 1e41, -math.inf, 1e-300, -0.5])).values("step_time_s")
    assert str(values) == "(0.5, nan, nan, 0.0, -0.5)"
    (gauge,) = bounded(a_trial(series=[Series("device_power_w", "nvml", (1.0, 2.0, 3.0), (300.0, 310.0))])).series
    assert (gauge.at_s, gauge.values) == ((1.0, 2.0), (300.0, 310.0)), "a moment without a value"
    facts = bounded(a_trial(facts={"parameters": 10**400, "claimed_energy_j": -math.inf})).facts
    assert facts.parameters is None
    assert math.isnan(facts.claimed["energy_j"])


def replace(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)


def with_answer(**changes):
    run = a_tuned_run()
    return replace(run, answer=replace(run.answer, **changes))


def of_nowhere():
    answer: Any = a_tuned_run().answer
    return replace(answer.recommended, case_id="abc")


def with_head(**changes):
    run = a_run()
    return replace(run, head=replace(run.head, **changes))


def with_host(**changes):
    machine = a_run().head.machine
    return with_head(machine=replace(machine, host=replace(machine.host, **changes)))


def with_comparison(**changes):
    run = an_ab_run()
    return compared(run, replace(run.comparison, **changes))


COMPARISON: Any = an_ab_run().comparison
STRANGE = {
    "a recommended case that is none": with_answer(recommended=of_nowhere()),
    "a best one that is none": with_answer(best_efficiency=of_nowhere()),
    "one of the front that is none": with_answer(pareto=(of_nowhere(),)),
    "a side that is none": with_comparison(baseline=replace(COMPARISON.baseline, case_id="abc")),
    "a ratio that is infinite": with_comparison(ratio=replace(COMPARISON.ratio, high=math.inf)),
    "a memory of 400 digits": with_host(memory_bytes=10**400),
    "a usual deviation of 0": with_head(usual=Usual(0.0, 3, 3)),
    "a usual deviation that is none": with_head(usual=Usual(math.nan, 3, 3)),
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_run_that_does_not_hold_together(tmp_path, what):
    run = STRANGE[what]
    record, document = tmp_path / "run.jsonl", tmp_path / "benchmark_cpu_1.json"
    record.write_bytes(b"".join(record_lines(run)))
    document.write_bytes(document_bytes(run, ()))
    for read, path in ((read_record, record), (read_document, document)):
        with pytest.raises(UsageError, match=r"is not in the run's plan|no number of use|usual deviation") as told:
            read(path)
        assert str(told.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        ("batch_size", 10**400),
        ("learning_rate", math.nan),
        ("world_size", "two"),
        ("batch_size", True),
        ("mine", -(10**30)),
    ],
)
def test_an_axis_with_a_value_of_no_use(tmp_path, axis, value):
    case = a_case({axis: value})
    run = a_run([], cases=[case])
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(run.head) + b"\n")
    with pytest.raises(UsageError, match=f"axis '{axis}' has .*: not a number of use"):
        read_record(path)


@pytest.mark.parametrize("value", [None, 16, 0.5, 10**15])
def test_an_axis_with_a_value_of_use(tmp_path, value):
    run = a_run([], cases=[a_case({"batch_size": value, "mine": "a word"})])
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(run.head) + b"\n")
    assert read_record(path).head.plan == run.head.plan


CASES = tuple(a_case({"batch_size": size}) for size in (8, 16, 32))
A, B, C = (one.case_id for one in CASES)
GAUGE = Series("rss_bytes", "psutil", (0.0, 1.0), (1e9, 2e9))
LOSS = Measurement("loss", Stage.STEADY, (2.0, 1.5, 1.0), "throughput")


def a_record(tmp_path, *, loss=LOSS, **trials):
    """A record of two trials of each Case; `trials`: the Outcome of one of them, by id."""
    taken = [
        a_trial(
            case_id=case.case_id, trial_id=f"t{number}{place}", number=number, order=3 * number + place, more=[loss],
            series=[GAUGE], **({"outcome": trials[name]} if (name := f"t{number}{place}") in trials else {}),
        )
        for number in range(2) for place, case in enumerate(CASES)
    ]  # fmt: skip
    run = a_run(taken, cases=CASES)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(record_lines(run)))
    return path


def trimmed(trial, *metrics):
    kept = tuple(one for one in trial.measurements if one.metric in metrics)
    return msgspec.structs.replace(trial, measurements=kept, series=())


@pytest.mark.parametrize("value", [1.0, math.inf])
def test_some_trials_are_whole_some_have_a_few_metrics_and_the_others_are_left_out(tmp_path, value):
    path = a_record(tmp_path, loss=msgspec.structs.replace(LOSS, values=(2.0, value)))
    whole = read_record(path)
    part = read_record(path, RecordPart(frozenset([A]), frozenset([B]), frozenset(["loss", "items"])))
    assert part.head == whole.head
    assert (part.findings, part.end) == (whole.findings, whole.end)
    assert part.of_case(A) == whole.of_case(A)
    assert part.of_case(B) == tuple(trimmed(trial, "loss", "items") for trial in whole.of_case(B))
    assert [one.values for trial in part.of_case(B) for one in trial.measurements if one.metric == "loss"]
    assert part.of_case(C) == ()
    assert len(whole.of_case(C)) == 2


def test_a_trial_that_was_passed_over_resumed_the_run_too(tmp_path):
    path = a_record(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + encode(End("2026-11-21T10:00:00Z", "interrupted")) + b"\n" + lines[-2])
    assert read_record(path, RecordPart(frozenset([A]))).end is None
    assert read_record(path).end is None


def test_an_interrupted_trial_that_was_taken_again_is_left_out_there_too(tmp_path):
    path = a_record(tmp_path, t00=Outcome(Status.INTERRUPTED))
    lines = path.read_bytes().splitlines(keepends=True)
    again = next(line for line in lines if b'"t10"' in line).replace(b'"number":1', b'"number":0')
    again = again.replace(b'"t10"', b'"again"')
    path.write_bytes(b"".join((*lines, again)))
    wanted = RecordPart(frozenset([A]))
    assert [trial.trial_id for trial in read_record(path, wanted).trials] == ["t10", "again"]


def test_what_is_passed_over_has_to_be_json_all_the_same(tmp_path):
    path = a_record(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if line.startswith(b'{"record":"trial"') and C.encode() in line)
    lines[place] = lines[place].replace(b"]", b"", 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=f":{place + 1}: is not JSON"):
        read_record(path, RecordPart(frozenset([A])))
