import msgspec
import pytest
from big_store import big_store, named, tables
from build import a_case, a_finding, a_run, a_trial
from stored import a_stored_run, case, machine, store

from torchstone.analysis.summary import summarize
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.run import Usual
from torchstone.core.schema.trial import Purpose, Status
from torchstone.storage.catalogue import (
    Key,
    Wanted,
    before,
    beginning_with,
    cases_of,
    checks,
    devices,
    finding_lines,
    line_of,
    models,
    run_lines,
    series_lines,
)  # fmt: skip
from torchstone.storage.database import open_index
from torchstone.storage.index import is_stale, rebuild, sync
from torchstone.storage.measured import measured_of_case, stored_cases
from torchstone.storage.progress import Following
from torchstone.storage.query import find

BERT, RESNET = case(model="hf:bert"), case("cuda", model="timm:resnet50", task="infer")
SETTINGS = "batch_size 8, learning_rate 0.001"
HOT = a_finding("throttled", Severity.WARNING, "the clock fell", "cool it", BERT.case_id)


@pytest.fixture
def folder(tmp_path):
    """Twelve days: BERT on a desk's CPU every day, every third day ResNet on a card, too, and on one a finding."""
    runs = []
    for day in range(1, 13):
        cases = [(BERT, 100.0 + day)] + ([(RESNET, 5000.0)] if day % 3 == 0 else [])
        kind = "cuda" if day % 3 == 0 else "cpu"
        findings = [HOT] if day == 5 else []
        runs.append(a_stored_run(day, cases, machine(kind, f"desk{day % 2}"), findings=findings, name=f"run {day}"))
    store(tmp_path, runs)
    assert sync(tmp_path) == ()
    return tmp_path


def names(lines):
    return [int(line.name.split()[1]) for line in lines]


def listed(folder, behind=None, limit=50, **wanted):
    with open_index(folder) as connection:
        return run_lines(connection, Wanted(**wanted), behind, limit)


def test_pages_follow_each_other_without_a_gap_and_without_a_row_twice(folder):
    seen, behind = [], None
    while page := listed(folder, behind, 5):
        seen += names(page)
        behind = Key(page[-1].started_utc, page[-1].run_id)
    assert seen == list(range(12, 0, -1))


def test_filters_are_of_one_and_the_same_case(folder):
    assert names(listed(folder, model="resnet50")) == [12, 9, 6, 3]
    assert names(listed(folder, model="resnet50", device="NVIDIA H200", task="infer", verdict="VALID")) == [12, 9, 6, 3]
    assert names(listed(folder, model="bert", task="infer")) == [], "BERT was trained, ResNet inferred"
    assert names(listed(folder, verdict="SUSPECT")) == [5]
    assert names(listed(folder, since="2026-01-04", until="2026-01-06")) == [5, 4, 3]
    assert names(listed(folder, text="DESK1 bert")) == [11, 9, 7, 5, 3, 1]
    assert names(listed(folder, text="%")) == []
    assert names(listed(folder, model="'; DROP TABLE runs; --")) == []


def test_one_run_and_ids_that_begin_so(folder):
    newest = listed(folder)[0].run_id
    with open_index(folder) as connection:
        assert getattr(line_of(connection, newest), "name", None) == "run 12"
        assert line_of(connection, "nothing") is None
        assert beginning_with(connection, "latest") == (newest,)
        assert beginning_with(connection, newest[:-2]) == (newest,)
        assert len(beginning_with(connection, "2026")) == 9
        assert beginning_with(connection, "%") == ()
        assert [row.case_id for row in cases_of(connection, newest)] == [BERT.case_id, RESNET.case_id]


def test_what_there_is_to_choose_from(folder):
    with open_index(folder) as connection:
        assert models(connection) == ("bert", "resnet50")
        assert devices(connection) == ("Intel Xeon", "NVIDIA H200")
        assert checks(connection) == ("throttled",)


def test_a_case_over_all_runs_by_machine(folder):
    with open_index(folder) as connection:
        lines = series_lines(connection, Wanted())
        assert {(line.model, line.host, line.runs) for line in lines} == {
            ("resnet50", "desk0", 2), ("bert", "desk0", 6), ("bert", "desk1", 6), ("resnet50", "desk1", 2),
        }  # fmt: skip
        assert [line.newest_utc for line in lines] == sorted((line.newest_utc for line in lines), reverse=True)
        newest = next(line for line in lines if (line.model, line.host) == ("bert", "desk0"))
        assert newest.newest_utc == "2026-01-13T10:00:00Z"
        assert newest.low is not None
        assert newest.high is not None
        assert newest.low < 112.0 < newest.high
        first = series_lines(connection, Wanted(), None, 1)[0]
        rest = series_lines(connection, Wanted(), Key(first.newest_utc, str(first.id)))
        assert (first, *rest) == lines
        assert [line.model for line in series_lines(connection, Wanted(text="RESNET desk1"))] == ["resnet50"]


def test_a_run_that_goes_takes_its_rows_with_it(folder):
    before = tables(folder)
    path = max((folder / "records").iterdir())
    whole = path.read_bytes()
    path.unlink()
    sync(folder)
    with open_index(folder) as connection:
        bert = next(line for line in series_lines(connection, Wanted(text="bert desk0")))
        assert (bert.runs, bert.newest_utc) == (5, "2026-01-11T10:00:00Z")
    for other in sorted((folder / "records").iterdir()):
        other.unlink()
    sync(folder)
    assert tables(folder) == {key: [] for key in before}
    path.write_bytes(whole)
    sync(folder)
    assert len(tables(folder)["series"]) == 2


def test_a_record_that_grows_is_counted_once(folder):
    path = max((folder / "records").iterdir())
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    sync(folder)
    path.write_bytes(whole)
    sync(folder)
    grown = tables(folder)
    rebuild(folder)
    assert tables(folder) == grown
    with open_index(folder) as connection:
        assert sum(line.runs for line in series_lines(connection, Wanted(text="bert"))) == 12


def test_findings_of_all_runs_newest_first(folder):
    with open_index(folder) as connection:
        (found,) = finding_lines(connection, Wanted())
        assert (found.check, found.severity, found.work, found.settings) == (
            "throttled",
            "warning",
            "train bert",
            SETTINGS,
        )
        assert finding_lines(connection, Wanted(severity="error")) == ()
        assert finding_lines(connection, Wanted(check="throttled", text="CLOCK", since="2026-01-06")) == (found,)
        assert finding_lines(connection, Wanted(), Key(found.started_utc, str(found.id))) == ()
        assert finding_lines(connection, Wanted(), Key(found.started_utc, "x")) == ()


def test_a_verdict_is_that_of_show(tmp_path):
    probe = msgspec.structs.replace(a_trial(trial_id="p"), purpose=Purpose.PROBE)
    crashed = a_trial(trial_id="c", status=Status.CRASHED)
    kinds = {
        "good": ([a_trial()], "VALID", 1),
        "probe": ([probe], "VALID", 0),
        "crashed": ([crashed], "INVALID", 0),
        "none": ([], "", 0),
    }
    runs = []
    for number, (name, (trials, _, _)) in enumerate(kinds.items()):
        run = a_run(trials)
        runs.append(
            msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, run_id=f"r{number}", name=name))
        )
    store(tmp_path, runs)
    sync(tmp_path)
    with open_index(tmp_path) as connection:
        for line in run_lines(connection, Wanted()):
            (row,) = cases_of(connection, line.run_id)
            assert (line.verdict, row.counted) == kinds[line.name][1:], line.name


def test_one_case_is_read_as_all_are(folder):
    whole = [one for one in stored_cases(folder, ("throughput",)).measured if one.case_id == BERT.case_id]
    with open_index(folder) as connection:
        assert list(measured_of_case(connection, BERT.case_id, ("throughput",), 50)) == whole
        assert list(measured_of_case(connection, BERT.case_id, ("throughput",), 3)) == whole[-3:]
        assert measured_of_case(connection, a_case().case_id, ("throughput",), 3) == ()


def test_the_big_store_is_what_reading_its_records_makes_of_them(tmp_path):
    big_store(tmp_path, 40, cases=2, trials=2)
    made = tables(tmp_path)
    assert [row[0] for row in made["runs"]] == sorted(named(number)[0] for number in range(40))
    assert len(made["trials"]) == 160
    assert sync(tmp_path) == ()
    assert tables(tmp_path) == made, "every record counts as read"
    rebuild(tmp_path)
    assert tables(tmp_path) == made


@pytest.mark.parametrize("sizes", [(8,), (8, 16), (8, 16, 32, 64)])
@pytest.mark.parametrize("usual", [None, Usual(0.05, 9, 3)])
def test_a_rate_and_its_interval_are_those_of_show(tmp_path, sizes, usual):
    cases = [(case(batch_size=size), 10.0 * size) for size in sizes]
    run = a_stored_run(3, cases, machine(), trials=2, noise=0.04, usual=usual)
    store(tmp_path, [run])
    shown = [one.estimates["throughput"] for one in summarize(find(tmp_path, run.head.run_id)).cases]
    with open_index(tmp_path) as connection:
        rows = cases_of(connection, run.head.run_id)
    followed = Following(tmp_path / "records" / f"{run.head.run_id}.jsonl").look().cases
    expected = [(one.value, one.low, one.high) for one in shown]
    assert [(row.rate, row.low, row.high) for row in rows] == expected
    assert [(row.rate, row.low, row.high) for row in followed] == expected


def test_the_run_before_by_the_same_name(tmp_path):
    runs = [a_stored_run(day, [(case(), 100.0)], machine(), name="ab"[day % 2]) for day in range(1, 5)]
    store(tmp_path, runs)
    sync(tmp_path)
    with open_index(tmp_path) as connection:
        lines = {line.run_id: line for line in run_lines(connection, Wanted())}
        ids = [run.head.run_id for run in runs]
        assert [before(connection, lines[run_id]) for run_id in ids] == [None, None, ids[0], ids[1]]


def test_a_record_that_was_written_to_since_is_stale(folder):
    path = max((folder / "records").iterdir())
    with open_index(folder) as connection:
        assert not is_stale(connection, folder, path.stem)
        with path.open("ab") as file:
            file.write(b"\n")
        assert is_stale(connection, folder, path.stem)
        path.unlink()
        assert is_stale(connection, folder, path.stem)
        assert is_stale(connection, folder, "nothing")
