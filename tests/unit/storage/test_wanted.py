"""A part of a record: what is wanted is as it is in the whole, and the rest is not read."""

import math

import msgspec
import pytest
from build import a_case, a_run, a_trial

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import End
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import record_lines
from torchstone.storage.wanted import Wanted

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
    part = read_record(path, Wanted(frozenset([A]), frozenset([B]), frozenset(["loss", "items"])))
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
    assert read_record(path, Wanted(frozenset([A]))).end is None
    assert read_record(path).end is None


def test_an_interrupted_trial_that_was_taken_again_is_left_out_there_too(tmp_path):
    path = a_record(tmp_path, t00=Outcome(Status.INTERRUPTED))
    lines = path.read_bytes().splitlines(keepends=True)
    again = next(line for line in lines if b'"t10"' in line).replace(b'"number":1', b'"number":0')
    again = again.replace(b'"t10"', b'"again"')
    path.write_bytes(b"".join((*lines, again)))
    wanted = Wanted(frozenset([A]))
    assert [trial.trial_id for trial in read_record(path, wanted).trials] == ["t10", "again"]


def test_what_is_passed_over_has_to_be_json_all_the_same(tmp_path):
    path = a_record(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if line.startswith(b'{"record":"trial"') and C.encode() in line)
    lines[place] = lines[place].replace(b"]", b"", 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=f":{place + 1}: is not JSON"):
        read_record(path, Wanted(frozenset([A])))
