"""Every query of storage/ on SQLite and on PostgreSQL, over the same runs: the same answers, in the same order."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from build import a_finding, a_trial
from over import over
from postgresql import postgresql
from stored import a_stored_run, case, machine, store

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.trial import Outcome, Status
from torchstone.storage import catalogue
from torchstone.storage.catalogue import Key, Wanted
from torchstone.storage.importing import import_path, push_records
from torchstone.storage.index import current, sync
from torchstone.storage.measured import measured_kept, measured_of_case, stored_cases, stored_cases_by_id
from torchstone.storage.place import team_at
from torchstone.storage.query import find, locate, read_run, runs, stored, tune_answers
from torchstone.storage.record_reader import read_record
from torchstone.storage.team.records import create
from torchstone.storage.team.tables import TABLES

BERT, RESNET = case(model="hf:bert"), case("cuda", model="timm:resnet50", task="infer")
HOT = a_finding("throttled", Severity.WARNING, "the clock fell by 5 %", "cool it", BERT.case_id)
ODD = a_finding("Größe", Severity.INFO, "it's ? :name %s 가나", "a", "run")
SAMPLES = Path(__file__).parents[2] / "plugins" / "importers" / "samples"
HOSTILE = ("%", "_", "?", ":name", "%s", "'; DROP TABLE runs; --", "\\", "가나", "\ud800", "a\0b", "ÜBER", "  ")


def some_runs():
    """Forty days: two models, a card every third day, findings, failures, a run cut off, names of other scripts."""
    for day in range(40):
        cases = [(BERT, 100.0 + day)] + ([(RESNET, 5000.0)] if day % 3 == 0 else [])
        on = machine("cuda" if day % 3 == 0 else "cpu", f"desk{day % 2}", "2.13.0" if day > 20 else "2.12.0")
        findings = [HOT] if day % 10 == 5 else [ODD] if day == 7 else []
        name = {0: "über Größe", 1: "가나다", 2: "Z", 3: "a", 4: "'quoted' 100%"}.get(day, f"night {day}")
        failed = [BERT.case_id] if day == 8 else []
        yield a_stored_run(day, cases, on, findings=findings, name=name, failed=failed, noise=0.02)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """An output folder, a team's store that its runs were pushed to in another order, and an empty one."""
    folder = tmp_path_factory.mktemp("same") / "outputs"
    store(folder, list(some_runs()))
    records = sorted((folder / "records").iterdir())
    cut = records[10].read_bytes().splitlines(keepends=True)
    records[10].write_bytes(b"".join(cut[:3]))
    with pytest.MonkeyPatch.context() as patch, postgresql() as server:
        patch.setenv("TORCHSTONE_CACHE", str(folder.parent / "cache"))
        team = team_at(server.secret_url(server.new_database("same")), typed=False)
        create(team)
        taken, faults = push_records([*records[20:], *records[:20]], team)
        assert (len(taken), faults) == (40, [])
        assert sync(folder) == ()
        empty = team_at(server.secret_url(server.new_database("empty")), typed=False)
        create(empty)
        yield folder, team, empty


@pytest.fixture
def places(stores):
    """The two that have the same runs."""
    folder, team, _ = stores
    return folder, team


@pytest.fixture
def team(stores):
    """The one that tests push to."""
    return stores[2]


def plain(found: Any) -> Any:
    """What an answer says, without what belongs to one store: numbers of rows, paths, when a file was written."""
    if isinstance(found, UsageError):
        return str(found)
    if isinstance(found, msgspec.Struct):
        fields = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not msgspec.UNSET}
        for name in fields.keys() & {"priors", "pair_priors"}:  # JSON that is decoded where it is asked for
            fields[name] = msgspec.json.decode(fields[name])
        return {name: plain(value) for name, value in fields.items() if name not in ("id", "path", "stamp", "problems")}
    if isinstance(found, list | tuple):
        return [plain(one) for one in found]
    return found


def check_same(places, ask):
    """Check that both stores answer the same; return the answer."""
    ours, theirs = (plain(ask(place)) for place in places)
    assert encode(theirs) == encode(ours)
    return ours


def found_or_refused(place, word):
    try:
        return find(place, word)
    except UsageError as fault:
        return fault


def on(query):
    def ask(place):
        with current(place) as (connection, _):
            return query(connection)

    return ask


@over("device", [None, "cuda", "cpu", "cuda:0", "cud", "%", "'"])
@over("name", [None, "night", "night 1", *HOSTILE[:7]])
def test_lists_of_runs(places, name, device):
    if name is not None and "\ud800" in name:
        pytest.skip("SQLite refuses half a character")
    check_same(places, lambda place: runs(place, None, name, device))
    check_same(places, lambda place: runs(place, 3, name, device))


@over("word", ["latest", "night 12", "가나다", "202601", "20260113", "nothing", "", *HOSTILE[:8]])
def test_one_run_by_any_of_its_names(places, word):
    check_same(places, lambda place: found_or_refused(place, word))


def test_ids_prefixes_and_records(places):
    ids = [row["run_id"] for row in check_same(places, runs)]
    assert len(ids) == 40
    for run_id in ids[::7]:
        check_same(places, lambda place, one=run_id: find(place, one))
        check_same(places, lambda place, one=run_id: find(place, one[:-5]))
        check_same(places, on(lambda connection, one=run_id: catalogue.cases_of(connection, one)))
        check_same(places, on(lambda connection, one=run_id: catalogue.line_of(connection, one)))
        check_same(places, on(lambda connection, one=run_id: catalogue.beginning_with(connection, one[:6])))
        folder, team = places
        assert encode(read_run(locate(folder, run_id))) == encode(read_run(locate(team, run_id)))
        with current(team) as (connection, _):
            assert plain(stored(connection, team, run_id)) == plain(find(folder, run_id))


WANTED = [
    Wanted(), Wanted(model="resnet50"), Wanted(model="bert", device="Intel Xeon"),
    Wanted(task="infer", verdict="VALID"),
    Wanted(verdict="SUSPECT"), Wanted(verdict="INVALID"), Wanted(since="2026-01-05", until="2026-02-01"),
    Wanted(check="throttled"), Wanted(severity="info"),
    *(Wanted(text=text) for text in ("DESK1 bert", "5 %", *HOSTILE)),
]  # fmt: skip


@over("wanted", WANTED)
@pytest.mark.parametrize("query", [catalogue.run_lines, catalogue.finding_lines])
def test_pages(places, query, wanted):
    if "\ud800" in wanted.text:
        pytest.skip("SQLite refuses half a character")
    check_same(places, on(lambda connection: query(connection, wanted)))
    check_same(places, on(lambda connection: query(connection, wanted, None, 5)))


def series(connection, *about):
    """Cases over all runs; those of one moment stand in the order in which they first came to a store."""
    return sorted(catalogue.series_lines(connection, *about), key=lambda one: (one.newest_utc, one.case_id, one.host))


@over("wanted", WANTED)
def test_pages_of_cases(places, wanted):
    if "\ud800" in wanted.text:
        pytest.skip("SQLite refuses half a character")
    check_same(places, on(lambda connection: series(connection, wanted)))


def test_pages_behind_a_key(places):
    behind, seen = None, 0
    while page := check_same(places, on(lambda c, b=behind: catalogue.run_lines(c, Wanted(), b, 7))):
        behind = Key(page[-1]["started_utc"], page[-1]["run_id"])
        check_same(places, on(lambda c, b=behind: series(c, Wanted(), Key(b.moment, "0"))))
        check_same(places, on(lambda c, b=behind: catalogue.finding_lines(c, Wanted(), Key(b.moment, "0"), 7)))
        seen += len(page)
    assert seen == 40


def test_what_there_is_to_choose_from(places):
    for query in (catalogue.models, catalogue.devices, catalogue.checks):
        assert check_same(places, on(query))


@pytest.mark.parametrize("figures", [("throughput",), ("throughput", "step_time_p50", "peak_rss_bytes"), ("nothing",)])
def test_measured(places, figures):
    check_same(places, lambda place: stored_cases(place, figures))
    check_same(places, measured_kept)
    for one in (BERT, RESNET):
        check_same(places, on(lambda c, case_id=one.case_id: measured_of_case(c, case_id, figures, 5)))
        check_same(places, lambda place, word=one.case_id[:5]: stored_cases_by_id(place, word, figures))


def test_answers_of_tunes(places):
    assert check_same(places, lambda place: [one.head.run_id for one in tune_answers(place)]) == []


def test_tables_have_the_columns_of_the_index_in_its_order(places):
    folder, team = places
    for table in TABLES[:6]:
        with current(folder) as (connection, _):
            ours = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        with current(team) as (connection, _):
            theirs = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'torchstone'"
                " AND table_name = ? ORDER BY ordinal_position",
                (table,),
            ).fetchall()
        assert [name for (name,) in theirs] == ours


def test_the_trials_of_a_run_grow_by_those_that_were_taken(team, tmp_path):
    """Pushed shorter, longer and shorter again: what is longer stays."""
    run = a_stored_run(200, [(BERT, 1.0)], machine(), trials=6, run_id="growing")
    store(tmp_path, [run])
    path = tmp_path / "records" / "growing.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    for lines, new in ((3, True), (5, True), (4, False), (len(whole), True), (5, False)):
        path.write_bytes(b"".join(whole[:lines]))
        assert push_records([path], team) == ([("growing", new)], [])
    assert len(read_record(locate(team, "growing")).trials) == 6


def test_a_value_that_no_database_holds_is_refused_and_the_others_stay(team, tmp_path):
    huge = a_trial([0.1], case_id=BERT.case_id, number=2**70)
    failed = msgspec.structs.replace(huge, number=0, outcome=Outcome(Status.CRASHED, "a\0b"))
    run = a_stored_run(201, [(BERT, 1.0)], machine(), run_id="with-a-nul")
    odd = a_stored_run(202, [(BERT, 1.0)], machine(), run_id="too-large")
    store(tmp_path, [msgspec.structs.replace(run, trials=(failed,)), msgspec.structs.replace(odd, trials=(huge,))])
    taken, faults = push_records(sorted((tmp_path / "records").iterdir()), team)
    assert taken == [("with-a-nul", True)]
    assert len(faults) == 1
    assert find(team, "with-a-nul").trials[0].outcome.message == "a\ufffdb"


def test_results_of_other_tools_and_a_copy_of_their_file(team, tmp_path):
    """What another tool wrote has no time of its own: its copy has another id, and is the same run."""
    for sample in ("timm_train.csv", "optimum_training.json", "sweep_table.csv"):
        path, copy = tmp_path / sample, tmp_path / "copied" / sample
        shutil.copy(SAMPLES / sample, path)
        first = import_path(path, team)
        assert first
        assert all(new for _, new in first)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
        os.utime(copy, (1_700_000_000, 1_700_000_000))
        assert import_path(copy, team) == [(run_id, False) for run_id, _ in first]
