"""What loads are told as: goodput with its interval, or each scenario with LoadGen's verdict."""

from pathlib import Path

import msgspec
from build import a_run
from loads import a_load, a_load_case, a_search

from torchstone.analysis.summary import summarize
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run import End
from torchstone.core.schema.trial import Disturbance, Outcome, Purpose, Status
from torchstone.report.document import Table, Text
from torchstone.report.documents.run import run_document
from torchstone.storage.query import entry_of


def lines(run):
    document = run_document(summarize(entry_of(run, Path())))
    return document, [part.text for part in document.parts if isinstance(part, Text)]


def test_goodput_is_the_headline_and_loadgens_verdict_stands_below():
    document, said = lines(a_search())
    assert document.headline is not None
    assert document.headline.startswith("cnn on cpu: goodput 100 images/s at p99 ≤ 50.0 ms (95 % confidence interval 9")
    assert "Batches of at most 4, as soon as the model is free; arrivals are a Poisson process." in said
    assert "From 9 loads at 3 rates, by log-linear regression of the late queries on the rate." in said
    assert "MLPerf LoadGen calls 92.0 queries/s VALID in 3 of 3 loads." in said
    assert "Not an MLPerf result: min_duration 5.00 s, a submission's is 600 s." in said


def test_a_bound_that_no_rate_meets_is_the_headline():
    late = [a_load(a_load_case(rate, max_wait_s=0.002), 50_000, 100_000, p99_s=0.07) for rate in (80.0, 92.0)]
    cases = [a_load_case(rate, max_wait_s=0.002) for rate in (80.0, 92.0)]
    run = a_search(trials=late)
    run = msgspec.structs.replace(run, head=msgspec.structs.replace(
        run.head, plan=msgspec.structs.replace(run.head.plan, cases=tuple(cases))))  # fmt: skip
    document, said = lines(run)
    assert document.headline == (
        "cnn on cpu: no rate meets p99 ≤ 50.0 ms. At 80.0 queries/s, the lowest measured, it is 70.0 ms."
    )
    assert "Batches of at most 4, after 2.00 ms at the latest; arrivals are a Poisson process." in said
    alone, _ = lines(a_search(trials=[a_load(a_load_case(batch_size=1), p99_s=0.4)]))
    assert alone.headline is not None
    assert alone.headline.endswith("A query that is alone takes 100 ms (median).")


def test_a_rate_without_an_interval_or_none_at_all_says_so():
    run = a_search()
    probes = [t for t in run.trials if t.purpose == Purpose.PROBE]
    document, _ = lines(msgspec.structs.replace(run, trials=tuple(probes)))
    assert document.headline is not None
    assert "is not known; LoadGen calls 80.0 queries/s VALID. More time: --within." in document.headline
    crashed = msgspec.structs.replace(
        probes[0], outcome=Outcome(Status.CRASHED, "it broke"), facts=Facts(), measurements=()
    )
    document, _ = lines(msgspec.structs.replace(run, trials=(crashed,)))
    assert document.headline is not None


def test_a_search_that_was_interrupted_says_of_no_rate_that_none_meets_the_bound():
    cut = End("2026-11-21T10:01:00Z", "interrupted")
    closed = a_search(end=cut)
    document, _ = lines(msgspec.structs.replace(closed, trials=closed.trials[:1]))
    assert (
        document.headline
        == "cnn on cpu: the highest rate at p99 ≤ 50.0 ms is not known. No rate was measured. More time: --within."
    )
    document, _ = lines(msgspec.structs.replace(closed, trials=(closed.trials[0], closed.trials[2])))
    assert document.headline == (
        "cnn on cpu: the highest rate at p99 ≤ 50.0 ms is not known. At 160 queries/s, the lowest measured, "
        "it is 500 ms. More time: --within."
    )


def test_loads_that_other_programs_disturbed_want_them_stopped_and_not_more_time():
    closed = a_search(end=End("2026-11-21T10:01:00Z", "interrupted"))
    disturbed = msgspec.structs.replace(closed.trials[0], disturbance=Disturbance(disturbed=True, share=1.0))
    document, _ = lines(msgspec.structs.replace(closed, trials=(disturbed,)))
    assert document.headline == (
        "cnn on cpu: the highest rate at p99 ≤ 50.0 ms is not known. No rate was measured. "
        "Other programs disturbed 1 of 1 loads: stop them, and measure again."
    )


def test_a_lower_rate_that_was_begun_and_has_no_answer_leaves_it_open():
    late = [a_load(a_load_case(rate), 50_000, 100_000, p99_s=0.07) for rate in (80.0, 92.0)]
    cut = msgspec.structs.replace(late[0], outcome=Outcome(Status.INTERRUPTED, "the time had passed"), facts=Facts())
    document, _ = lines(a_search(trials=[cut, late[1]]))
    assert document.headline == (
        "cnn on cpu: the highest rate at p99 ≤ 50.0 ms is not known. At 92.0 queries/s, the lowest measured, it is "
        "70.0 ms. More time: --within."
    )


def test_a_scenario_without_a_rate_has_a_dash_and_no_zero():
    cases = [a_load_case(), a_load_case(100.0)]
    document, _ = lines(a_run([a_load(case) for case in cases], cases=cases))
    (table,) = [p for s in document.parts if hasattr(s, "parts") for p in s.parts if isinstance(p, Table)]
    (column,) = [c for c in table.columns if c.title == "target qps"]
    assert sorted(column.cells) == ["100.0", "–"]


def test_loads_of_a_run_are_told_one_by_one_with_loadgens_verdict():
    cases = [a_load_case(), a_load_case(scenario="offline"), a_load_case(100.0), a_load_case(200.0)]
    trials = [a_load(case, 500 if case is cases[3] else 0, number=n) for case in cases for n in range(2)]
    document, _ = lines(a_run(trials, cases=cases))
    said = document.headline or ""
    assert "single_stream: p90 5.00 ms" in said
    assert "offline: 100 images/s" in said
    assert "server, 100 queries/s: p99 20.0 ms" in said
    assert ", bound 50.0 ms; LoadGen: VALID in 2 of 2 loads." in said
    assert "server, 200 queries/s" in said
    assert "INVALID in 2 of 2 loads" in said
    (table,) = [p for s in document.parts if hasattr(s, "parts") for p in s.parts if isinstance(p, Table)]
    (column,) = [c for c in table.columns if c.title == "LoadGen"]
    assert sorted(column.cells) == ["0 of 2 VALID", "2 of 2 VALID", "2 of 2 VALID", "2 of 2 VALID"]
