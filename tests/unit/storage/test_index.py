import os
import sqlite3
import subprocess
import sys

import msgspec
import pytest
from build import a_machine, a_run, a_trial

from torchstone.core.errors import UsageError
from torchstone.core.schema.machine import Host
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Status
from torchstone.storage import database
from torchstone.storage.database import is_network
from torchstone.storage.index import rebuild, sync
from torchstone.storage.query import find, locate, read_run, runs, trainings
from torchstone.storage.record_writer import RecordWriter

IMPORTS = "import sys\nfrom pathlib import Path\nfrom torchstone.storage.query import find, runs\n"


def store(folder, run_id, trials=None, **head):
    """Store a finished run under that id, with those fields of its head."""
    run = a_run(trials, **({"machine": head.pop("machine")} if "machine" in head else {}))
    path = folder / "records" / f"{run_id}.jsonl"
    with RecordWriter(path, msgspec.structs.replace(run.head, run_id=run_id, **head)) as writer:
        for line in (*run.trials, *((run.end,) if run.end else ())):
            writer.append(line)
    return path


def test_runs_come_newest_first_and_filtered(tmp_path):
    for day in range(1, 6):
        store(tmp_path, f"2026110{day}-a", name="odd" if day % 2 else "even", started_utc=f"2026-11-0{day}T00:00:00Z")
    assert [r.run_id[7] for r in runs(tmp_path)] == list("54321")
    assert [r.run_id[7] for r in runs(tmp_path, limit=2, name="odd")] == list("53")
    assert len(runs(tmp_path, device="cpu")) == 5
    assert runs(tmp_path, device="cuda") == ()
    assert (runs(tmp_path)[0].trials, runs(tmp_path)[0].ok, runs(tmp_path)[0].status) == (3, 3, "done")


def test_where_trainings_wrote_their_checkpoints_newest_first(tmp_path):
    for day, place in ((1, "mine"), (2, None), (3, "outputs/training/demo"), (4, "mine")):
        fit = Fit(folder=f"/home/ada/{place}") if place is not None else None
        store(tmp_path, f"2026110{day}-a", procedure=Procedure(fit=fit), started_utc=f"2026-11-0{day}T00:00:00Z")
    assert [str(path) for path in trainings(tmp_path)] == ["/home/ada/mine", "/home/ada/outputs/training/demo"]
    assert trainings(tmp_path / "none") == ()


def test_a_folder_that_is_not_there_holds_nothing_and_is_not_made(tmp_path):
    assert runs(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()
    with pytest.raises(UsageError, match="no run is stored here yet"):
        find(tmp_path / "none", "latest")


def test_a_growing_record_shows_and_a_removed_one_goes(tmp_path):
    path = store(tmp_path, "r1")
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    assert (runs(tmp_path)[0].trials, runs(tmp_path)[0].status) == (1, "cut off")
    path.write_bytes(whole)
    assert runs(tmp_path)[0].trials == 3
    path.unlink()
    assert runs(tmp_path) == ()


def test_an_unreadable_record_is_reported_and_hides_nothing(tmp_path):
    store(tmp_path, "r1")
    bad = tmp_path / "records" / "bad.jsonl"
    bad.write_text("{}\n")
    for _ in range(2):
        (problem,) = sync(tmp_path)
        assert problem.file == "bad.jsonl"
        assert "not a torchstone record" in problem.message
    assert len(runs(tmp_path)) == 1
    bad.unlink()
    assert sync(tmp_path) == ()


def test_a_copy_of_a_record_is_a_problem_not_a_second_run(tmp_path):
    path = store(tmp_path, "r1")
    sync(tmp_path)
    (tmp_path / "records" / "copy.jsonl").write_bytes(path.read_bytes())
    assert [p.file for p in sync(tmp_path)] == ["copy.jsonl"]
    assert runs(tmp_path)[0].file == "r1.jsonl"
    path.unlink()
    sync(tmp_path)
    assert [r.file for r in runs(tmp_path)] == ["copy.jsonl"]


def test_one_run_comes_with_outcomes_facts_and_figures(tmp_path):
    failed = a_trial(trial_id="t9", number=1, status=Status.OUT_OF_MEMORY, facts={"claimed_x": 1.5})
    store(tmp_path, "r1", trials=[a_trial(), failed])
    entry = find(tmp_path, "r1")
    assert entry.head == read_run(entry.path).head
    assert [t.outcome.status for t in entry.trials] == [Status.OK, Status.OUT_OF_MEMORY]
    assert entry.trials[0].figures.values["throughput"] == pytest.approx(160 / 0.107)
    assert entry.trials[1].facts.claimed == {"x": 1.5}
    assert find(tmp_path, str(entry.path)) == msgspec.structs.replace(entry, path=entry.path)


def test_a_run_has_many_names(tmp_path):
    store(tmp_path, "20261101-aa", name="night", started_utc="2026-11-01T00:00:00Z")
    store(tmp_path, "20261102-ab", name="night", started_utc="2026-11-02T00:00:00Z")
    assert find(tmp_path, "latest").row.run_id == "20261102-ab"
    assert find(tmp_path, "20261101").row.run_id == "20261101-aa"
    assert find(tmp_path, "night").row.run_id == "20261102-ab"
    assert locate(tmp_path, "20261101-aa") == tmp_path / "records" / "20261101-aa.jsonl"
    with pytest.raises(UsageError, match="matches several runs: 20261102-ab, 20261101-aa"):
        find(tmp_path, "2026")
    with pytest.raises(UsageError, match=r"no run 'nigth'.*Did you mean 'night'"):
        find(tmp_path, "nigth")
    for word in ("%", "_", "", "a\0b", "x" * 5000, "'; DROP TABLE runs; --"):
        with pytest.raises(UsageError, match="no run"):
            find(tmp_path, word)


def test_a_damaged_index_is_made_anew(tmp_path):
    store(tmp_path, "r1")
    sync(tmp_path)
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"torchstone.sqlite{suffix}").unlink(missing_ok=True)
    (tmp_path / "torchstone.sqlite").write_bytes(b"not a database" * 1000)
    assert len(runs(tmp_path)) == 1
    rebuild(tmp_path)
    assert len(runs(tmp_path)) == 1


def test_new_formulas_make_the_index_anew(tmp_path, monkeypatch):
    store(tmp_path, "r1")
    sync(tmp_path)
    with database.open_index(tmp_path) as connection:
        connection.execute('UPDATE trials SET figures = \'{"values":{},"samples":{}}\'')
    assert find(tmp_path, "r1").trials[0].figures.values == {}
    monkeypatch.setattr(database, "VERSION", database.VERSION + 1)
    assert find(tmp_path, "r1").trials[0].figures.values["throughput"] > 0


def test_an_index_of_before_the_first_release_is_made_anew(tmp_path):
    """Its layout had a higher number than the first that was released, and its tables are not the same."""
    store(tmp_path, "r1")
    sync(tmp_path)
    with database.open_index(tmp_path) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN answer")
        connection.execute("UPDATE runs SET name = 'of then'")
        connection.execute("PRAGMA user_version = 5006")
    assert [(row.run_id, row.name) for row in runs(tmp_path)] == [("r1", "test")]


def test_a_newer_index_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "torchstone.sqlite")
    connection.execute("PRAGMA user_version = 99000000")
    connection.close()
    with pytest.raises(UsageError, match="newer torchstone"):
        runs(tmp_path)


def test_network_file_systems_are_known(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"root / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    assert is_network(tmp_path / "outputs", mounts)
    assert not is_network(tmp_path.parent, mounts)
    assert not is_network(tmp_path, tmp_path / "none")


def test_ids_and_hosts_from_strangers_are_only_text(tmp_path):
    host = Host("');DROP TABLE runs;--", "x", None, None, None, None)
    store(tmp_path, "r1", name="a'b\n\x1b[31m", machine=a_machine(host=host))
    assert runs(tmp_path)[0].host == "');DROP TABLE runs;--"


@pytest.mark.parametrize(("many", "each"), [(100, 100), (1, 10_000)])
def test_ten_thousand_trials_are_looked_up_in_a_second_of_a_core(tmp_path, many, each):
    trials = [a_trial(trial_id=f"t{i}", number=i, order=i) for i in range(each)]
    for i in range(many):
        store(tmp_path, f"r{i:03}", trials=trials)
    assert sync(tmp_path) == ()
    for call in ("runs(folder)", "find(folder, 'latest')"):
        code = f"{IMPORTS}import time\nfolder = Path(sys.argv[1])\n{call}\nprint(time.process_time())"
        words = [sys.executable, "-c", code, str(tmp_path)]
        took_s = float(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=warm()).stdout)
        assert took_s < 1.0, call


def warm():
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def test_runs_of_the_same_folder_by_two_processes(tmp_path):
    for i in range(20):
        store(tmp_path, f"r{i}", trials=a_run().trials)
    code = f"{IMPORTS}print(len(runs(Path(sys.argv[1]))))"
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [p.communicate(timeout=60)[0].strip() for p in both] == ["20", "20"]
