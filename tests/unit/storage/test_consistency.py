"""What the types do not say of a record: cases that are named must be there, numbers must be numbers of use."""

import math
from typing import Any

import msgspec
import pytest
from build import a_case, a_run, compared
from results import a_tuned_run
from strange import an_ab_run

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Usual
from torchstone.core.schema.run_document import document_bytes
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import record_lines
from torchstone.storage.run_document import read_document


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
