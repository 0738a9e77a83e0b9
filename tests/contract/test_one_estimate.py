"""A figure has one value and interval, on whatever page it stands: show, cost, compare, recommend, history, serve."""

import json

import pytest
from priced import prices_of
from stored import a_stored_run, case, machine, store

from torchstone.analysis import cost
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.compare import compare
from torchstone.analysis.compare.inputs import gather, split
from torchstone.analysis.recommend.case_history import history
from torchstone.analysis.recommend.recommend import RecommendRequest, recommend
from torchstone.analysis.rows import case_rows
from torchstone.analysis.summary import summarize
from torchstone.cli import main
from torchstone.core import units
from torchstone.core.schema.run import Usual
from torchstone.storage.catalogue import cases_of
from torchstone.storage.index import current
from torchstone.storage.query import find, read_run

CASES = [(case(batch_size=size), rate) for size, rate in ((8, 100.0), (16, 180.0), (32, 300.0))]
ALONE = (case(batch_size=64), 500.0)


@pytest.fixture(params=["beside others", "alone, with a history"])
def runs(request, outputs):
    """Two runs of the same Cases: their intervals are moderated by each other, or by what earlier runs say."""
    cases = CASES if request.param == "beside others" else [ALONE]
    usual = None if request.param == "beside others" else Usual(0.01, 8, 4)
    made = [
        a_stored_run(number, cases, machine(host=host), noise=0.05, usual=usual)
        for number, host in ((1, "desk"), (2, "rack"))
    ]
    store(outputs, made)
    return [find(outputs, run.head.run_id) for run in made]


def ends(found):
    return found.value, found.low, found.high


def shown(entry, figure="throughput"):
    """What `show` says of each Case."""
    return {one.case_id: ends(one.estimates[figure]) for one in summarize(entry).cases}


def test_the_intervals_are_moderated(runs):
    methods = {one.estimates["throughput"].method for one in summarize(runs[0]).cases}
    assert methods == {"t-interval on the log over trials, spread moderated by other cases or earlier runs"}


@pytest.mark.parametrize("figure", ["throughput", "step_time_mean", "peak_rss_bytes"])
def test_compare_says_of_either_side_what_show_says(runs, outputs, figure):
    found = compare.compare(gather([entry.row.run_id for entry in runs], outputs), compare.ComparisonRequest())
    own = [one for one in found.judged if one.comparison.metric == figure]
    assert {one.comparison.baseline.case_id: ends(one.baseline_value) for one in own} == shown(runs[0], figure)
    assert {one.comparison.candidate.case_id: ends(one.candidate_value) for one in own} == shown(runs[1], figure)


def test_compare_over_an_axis_says_what_show_says_of_the_whole_run(outputs):
    made = a_stored_run(1, CASES, machine(), noise=0.05)
    store(outputs, [made])
    found = compare.compare(split(made.head.run_id, "batch_size", outputs), compare.ComparisonRequest())
    told = {one.comparison.candidate.case_id: ends(one.candidate_value) for one in found.judged
            if one.comparison.metric == "throughput"}  # fmt: skip
    said = shown(find(outputs, made.head.run_id))
    assert told == {case_id: said[case_id] for case_id in told}
    assert len(told) == 2


def test_compare_over_an_axis_gives_the_ratios_of_show(outputs):
    made = a_stored_run(1, CASES, machine(), noise=0.05)
    store(outputs, [made])
    found = compare.compare(split(made.head.run_id, "batch_size", outputs), compare.ComparisonRequest())
    of_show = InRounds(summarize(find(outputs, made.head.run_id)).cases)
    rates = [one.comparison for one in found.judged if one.comparison.metric == "throughput"]
    assert len(rates) == 2
    for one in rates:
        assert one.ratio is not None
        ratio = of_show.ratio(one.candidate.case_id, one.baseline.case_id, one.ratio.level)
        assert ends(one.ratio) == pytest.approx(ratio, rel=1e-12)


def test_cost_and_the_cost_of_a_comparison_are_the_rate_turned_over(runs, outputs):
    (first, *_) = summarize(runs[0]).cases
    rate = first.estimates["throughput"]
    asked = cost.CostRequest(prices_of("EUR", {"Xeon": 0.36}))
    (told, *_) = cost.costs([summarize(runs[0])], asked).cases
    money = told.amounts[0].money
    assert ends(money) == pytest.approx([100.0 / (one or 0.0) for one in (rate.value, rate.high, rate.low)])
    compared = compare.compare(
        gather([one.row.run_id for one in runs], outputs), compare.ComparisonRequest(prices={"A": 0.36, "B": 1.0})
    )
    own = next(one for one in compared.judged if one.comparison.metric == "cost_per_million_items")
    assert ends(own.baseline_value) == pytest.approx(ends(money), rel=1e-12)


def test_recommend_history_lists_and_tables_say_what_show_says(runs, outputs):
    said = [shown(entry) for entry in runs]
    for found in history(outputs).histories:
        entry = said[0] if found.host == "desk" else said[1]
        assert [ends(point) for point in found.points] == [entry[found.case_id]]
    with current(outputs) as (connection, _):
        for entry, own in zip(runs, said, strict=True):
            rows = cases_of(connection, entry.row.run_id)
            assert {row.case_id: (row.rate, row.low, row.high) for row in rows} == own
    for entry, own in zip(runs, said, strict=True):
        table = case_rows(read_run(entry.path))
        assert {r["case_id"]: (r["throughput"], r["throughput_low"], r["throughput_high"]) for r in table} == own


def test_recommend_says_of_settings_of_one_run_what_show_says(outputs):
    made = a_stored_run(1, CASES, machine(), noise=0.05)
    store(outputs, [made])
    said = shown(find(outputs, made.head.run_id))
    (settings,) = recommend(outputs, RecommendRequest()).settings
    assert {offer.case_ids[0]: ends(offer) for offer in settings.offers} == said


def test_a_ratio_of_two_settings_is_one_in_compare_recommend_and_show(outputs):
    """Each says at which level its interval holds: at one level it is one interval."""
    made = a_stored_run(1, CASES, machine(), noise=0.05)
    store(outputs, [made])
    (settings,) = recommend(outputs, RecommendRequest()).settings
    lead, (first, second, _) = settings.lead, settings.offers
    compared = compare.compare(
        split(made.head.run_id, "batch_size", outputs, "batch_size=16"), compare.ComparisonRequest()
    )
    of_show = InRounds(summarize(find(outputs, made.head.run_id)).cases)
    (ratio,) = [
        one.comparison.ratio for one in compared.judged
        if one.comparison.metric == "throughput" and one.comparison.candidate.case_id == first.case_ids[0]
    ]  # fmt: skip
    assert lead is not None
    assert ratio is not None
    assert (lead.level, lead.method) == (of_show.level, ratio.method)
    assert ends(lead) == pytest.approx(of_show.ratio(first.case_ids[0], second.case_ids[0]), rel=1e-12)
    at_its_level = of_show.ratio(first.case_ids[0], second.case_ids[0], ratio.level)
    assert ends(ratio) == pytest.approx(at_its_level, rel=1e-12)
    assert [offer.could_be for offer in settings.offers] == [True, False, False]


def test_the_pages_of_serve_print_what_show_prints(runs, outputs):
    """A run's page, its list of cases and a comparison of two runs."""
    pytest.importorskip("starlette", reason="the pages need starlette (pip install 'torchstone[serve]')")
    from asgi import get

    from torchstone.cli._output import document_of
    from torchstone.report.pages.guard import Guard
    from torchstone.report.pages.server import application
    from torchstone.report.pages.site import Site
    from torchstone.report.pages.store import Store

    application_ = application(Site(Store(outputs), document_of), Guard((), None, 8642))
    first, second = (entry.row.run_id for entry in runs)
    for entry, address in ((runs[0], f"/runs/{first}"), (runs[1], f"/compare?a={first}&b={second}")):
        page = get(application_, address).text
        for value, low, high in shown(entry).values():
            assert units.significant(value, 3) in page
            assert units.spread(value, low, high) in page


def test_the_commands_print_the_same(runs, outputs, capsys):
    """What a user sees: JSON and the printed table of `show` and `compare`."""
    first, second = (entry.row.run_id for entry in runs)
    place = ["--output-dir", str(outputs)]
    assert main(["show", first, "--json", *place]) == 0
    of_show = json.loads(capsys.readouterr().out)["cases"][0]["estimates"]["throughput"]
    assert main(["compare", first, second, "--json", *place]) == 0
    of_compare = json.loads(capsys.readouterr().out)["comparisons"][0]["baseline_value"]
    assert of_compare == of_show
