"""Figures: each has a title of its own and a group, and those of a table a rank."""

from over import over

from torchstone.core.schema.metric import FIGURES, PEAKS, RAW, Better, MetricGroup


def test_titles_tell_figures_apart_and_leave_the_unit_out():
    titles = [one.title for one in FIGURES.values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    assert not [title for title in titles if title.endswith(("_s", "_bytes", " s", " bytes"))]
    assert max(map(len, titles)) <= 32


def test_every_group_has_figures_and_a_heading():
    assert {one.group for one in FIGURES.values()} == set(MetricGroup)
    assert [group.heading for group in MetricGroup][:2] == ["Throughput", "Phases"]
    assert MetricGroup.START.heading == "Start-up"
    assert {FIGURES[name].group for name in PEAKS} == {MetricGroup.MEMORY}


def test_what_is_compared_first_leaves_a_narrow_table_last():
    ranks = {name: one.rank for name, one in FIGURES.items() if one.rank is not None}
    assert min(ranks, key=lambda name: (ranks[name], name != "throughput")) == "throughput"
    assert all(rank > 0 for rank in ranks.values())


@over("name", RAW)
def test_raw_values_are_in_no_table(name):
    assert (RAW[name].title, RAW[name].rank) == ("", None)


def test_a_rate_is_better_higher_and_a_time_lower():
    assert FIGURES["throughput"].better == Better.HIGHER
    assert FIGURES["step_time_p50"].better == Better.LOWER
