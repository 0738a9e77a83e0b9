"""The page of a history: drift first, each benchmark over its commits, and pictures in files of harmless names."""

import re

from ci_results import HOSTILE, a_point, an_entry, drifting, history_of
from marks import names_of

from torchstone.core.charts.vega_lite import vega_lite
from torchstone.report.document import Chart, Role, Section, Table, Text


def sections(entries):
    return {part.title: part for part in history_of(entries).parts if isinstance(part, Section)}


def charts(entries):
    return [part for section in sections(entries).values() for part in section.parts if isinstance(part, Chart)]


def verdicts(one):
    """Those that the legend of a chart has."""
    (panel,) = one.picture.panels
    return names_of(panel)


def columns(table):
    return {column.title: column.cells for column in table.columns}


def overview(entries):
    (table,) = (part for part in history_of(entries).parts if isinstance(part, Table))
    return columns(table)


def test_what_drifted_is_the_answer_and_stands_first():
    answer = history_of(drifting()).parts[0]
    assert isinstance(answer, Text)
    assert answer.role is Role.HEADLINE
    assert re.fullmatch(
        r"Slow drift: 1 of 3 benchmarks over 40 commits, most of all net/train: "
        r"\+\d+\.\d % \[\+\d+\.\d %, \+\d+\.\d %\] in 16 commits\.",
        answer.text,
    ), "since the gap at commit 25"
    found = overview(drifting())
    assert found["benchmark"] == ("net/train", "net/infer", "sdpa/bf16")
    assert found["slower"] == ("0", "0", "1")
    assert found["faster"] == ("0", "0", "1")
    assert found["drift"][1:] == ("–", "–")


def test_without_drift_it_says_so_and_without_a_ratio_there_is_nothing_to_show():
    assert history_of([an_entry(1, a_point(0.01))]).headline == (
        "No slow drift is proven beyond the limit: 1 benchmark over 1 commit."
    )
    (only,) = history_of([an_entry(1)]).parts
    assert only == Text("No benchmark has a ratio yet.", Role.HEADLINE)


def test_each_benchmark_has_a_picture_and_its_commits_newest_first():
    found = sections(drifting())
    assert list(found) == ["net/infer", "net/train", "sdpa/bf16"]
    assert all(section.folded for section in found.values())
    picture, table = found["sdpa/bf16"].parts
    assert isinstance(picture, Chart)
    assert isinstance(table, Table)
    commits = columns(table)["commit"]
    assert len(commits) == 40
    assert columns(table)["verdict"][40 - 12] == "slower"
    assert columns(table)["committed"][0] > columns(table)["committed"][-1]
    assert set(columns(table)["step time"]) == {"4.20 ms"}
    values = picture.picture.panels[0].values
    assert [value["commit"] for value in values] == list(range(1, 41)), "oldest first"
    assert "gap" in str(vega_lite(picture.picture))
    assert [verdicts(one) for one in charts(drifting())] == [
        ("unchanged",), ("unchanged",), ("slower", "faster", "unchanged", "undecided"),
    ]  # fmt: skip
    assert charts([an_entry(1, a_point(0.01))]) == [], "one point is no history"


def test_a_name_becomes_no_path_and_many_benchmarks_have_fifty_pictures():
    entries = [an_entry(number, a_point(0.0, f"../../{HOSTILE}"), a_point(0.0, "…")) for number in (1, 2)]
    assert {re.fullmatch(r"history_[12]_[A-Za-z0-9-]+", one.name) is not None for one in charts(entries)} == {True}
    many = [an_entry(number, *(a_point(0.0, f"b{n:02d}") for n in range(60))) for number in (1, 2)]
    assert len(charts(many)) == 50
    assert len(sections(many)) == 60
