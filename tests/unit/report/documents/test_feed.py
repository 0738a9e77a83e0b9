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
        (OWN_SET, 2, "feed loader, num_workers 2"),
        (OWN_SET, 0, "feed loader, num_workers 0"),
        (OWN_LOADER, 2, "feed loader, num_workers 2"),
        (OWN_LOADER, 1, "feed loader, num_workers 1 (its own: 2)"),
        (OWN_LIST, 0, "feed loader, num_workers 0"),
    ],
)
def test_a_loader_is_named_with_its_workers(facts, workers, says):
    assert told({"feed": "loader", "num_workers": workers}, facts) == says


def test_a_column_tells_the_workers_that_vary():
    line = told({"feed": "loader", "num_workers": 2}, varying=["num_workers"], data="digits")
    assert line == "feed loader"


def test_who_left_a_loader_out_is_told_so():
    assert told({"feed": "resident"}, data="csv:a.csv") == "feed resident (loading not measured)"
    assert told({"feed": "resident"}, OWN_SET) == "feed resident (loading not measured)"


@pytest.mark.parametrize("data", ["synthetic", "example"])
def test_what_has_no_loader_leaves_none_out(data):
    assert told({"feed": "resident"}, data=data) == "feed resident"


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
    assert line == "feed loader, num_workers 0"
