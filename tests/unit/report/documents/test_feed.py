"""What fed a case, in words."""

from types import SimpleNamespace
from typing import Any

import pytest
from build import a_case

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.facts import Facts
from torchstone.report.documents.feed import fed_by, fed_words

OWN_SET = Facts(own_data="SlowSet")
OWN_LOADER = Facts(own_data="DataLoader", own_batch_size=8, own_num_workers=2)
OWN_LIST = Facts(own_data="list", own_fixed=("num_workers",), own_why=Statement("as_they_come", {"kind": "list"}))


def told(settings, facts=None, varying=(), **work):
    case = a_case(settings, **{"model": "py:slow.py:load", "data": "example", **work})
    return fed_by(case.workload, case.configuration, facts or Facts(), varying)


@pytest.mark.parametrize(
    ("facts", "workers", "says"),
    [
        (OWN_SET, 2, "fed by a DataLoader over the SlowSet of load(), 2 workers"),
        (OWN_SET, 0, "fed by a DataLoader over the SlowSet of load(), no workers: the step itself makes each batch"),
        (OWN_LOADER, 2, "fed by the DataLoader of load(), 2 workers"),
        (OWN_LOADER, 1, "fed by the DataLoader of load(), 1 worker (its own: 2)"),
        (OWN_LIST, 0, "fed by the list of load(), no workers: the step itself makes each batch"),
    ],
)
def test_a_loader_is_named_with_its_workers(facts, workers, says):
    assert told({"feed": "loader", "num_workers": workers}, facts) == says


def test_a_column_tells_the_workers_that_vary():
    line = told({"feed": "loader", "num_workers": 2}, varying=["num_workers"], data="digits")
    assert line == "fed by a DataLoader over digits"


def test_who_left_a_loader_out_is_told_so():
    aside = "kept on the device (feed=resident); loading is left out (feed=loader measures it, too)"
    assert told({"feed": "resident"}, data="csv:a.csv") == f"fed from memory: a few batches of csv:a.csv, {aside}"
    assert told({"feed": "resident"}, OWN_SET) == f"fed from memory: a few batches of the SlowSet of load(), {aside}"


@pytest.mark.parametrize(
    ("data", "what"),
    [("synthetic", "a few batches of synthetic data"), ("example", "the example batch")],
)
def test_what_has_no_loader_leaves_none_out(data, what):
    assert told({"feed": "resident"}, data=data) == f"fed from memory: {what}, kept on the device (feed=resident)"


def test_a_record_that_does_not_tell_is_not_guessed_about():
    assert told({"batch_size": 8}, data="digits") is None


def test_a_case_that_failed_was_fed_like_the_others():
    case = a_case({"feed": "loader", "num_workers": 0}, model="py:slow.py:load", data="example")
    failed, good = (
        SimpleNamespace(workload=case.workload, configuration=case.configuration, trials=[SimpleNamespace(facts=facts)])
        for facts in (Facts(), OWN_SET)
    )
    both: list[Any] = [failed, good]
    (line,) = fed_words(both)
    assert line.startswith("fed by a DataLoader over the SlowSet of load(), no workers")
