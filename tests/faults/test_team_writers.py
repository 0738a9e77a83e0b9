"""Sixteen writers at once, and a server that is killed meanwhile: nothing is lost, nothing is there twice."""

import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest
from postgresql import OWNER, postgresql
from stored import a_stored_run, case, machine, store

from torchstone.storage.importing import push_records
from torchstone.storage.place import team_at
from torchstone.storage.team.records import UPGRADE_LOCK, Writer, create
from torchstone.storage.team.session import AwayError

WRITERS, RUNS, TRIALS = 16, 10, 20


@pytest.fixture(scope="module")
def server():
    with postgresql() as found:
        yield found


@pytest.fixture
def team(server):
    found = team_at(server.secret_url(server.new_database("many")), typed=False)
    create(found)
    return found


def counts(server):
    """Runs, trials, different trials, what the summaries count, and the runs of each Case."""
    (found,) = server.sql(
        "SELECT (SELECT count(*) FROM torchstone.runs), (SELECT count(*) FROM torchstone.trials),"
        " (SELECT count(DISTINCT (run_id, case_id, number, purpose)) FROM torchstone.trials),"
        " (SELECT sum(trials) FROM torchstone.lines)::bigint, (SELECT sum(runs) FROM torchstone.series)::bigint,"
        " (SELECT count(*) FROM torchstone.cases WHERE counted > 0), (SELECT count(*) FROM torchstone.records)",
        "many",
    )
    return found


def folders(tmp_path):
    """Ten runs of 20 trials for each writer, of the same two Cases on one machine, and one run that all have."""
    cases = [(case(batch_size=8), 100.0), (case(batch_size=16), 150.0)]
    shared = a_stored_run(9999, cases, machine(), trials=TRIALS // 2)
    for writer in range(WRITERS):
        own = [a_stored_run(writer * RUNS + n, cases, machine(), trials=TRIALS // 2) for n in range(RUNS)]
        store(tmp_path / f"w{writer}", [*own, shared])
        yield tmp_path / f"w{writer}"


def started(folder, url):
    command = [sys.executable, "-m", "torchstone", "push", "--all", "--output-dir", str(folder)]
    environment = {**os.environ, "TORCHSTONE_STORE": url}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sixteen_processes_and_a_server_that_is_killed_and_started_again(server, team, tmp_path):
    url, own = server.secret_url("many"), list(folders(tmp_path))
    processes = [started(folder, url) for folder in own]
    try:
        give_up = time.monotonic() + 60.0
        while counts(server)[0] < 20 and time.monotonic() < give_up:
            time.sleep(0.02)
        before = counts(server)[0]
        assert 20 <= before < WRITERS * RUNS, "it is killed while they write"
        server.kill()
        time.sleep(0.5)
        server.start()
        ends = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    for process, (out, err) in zip(processes, ends, strict=True):
        assert process.returncode == 0 or (process.returncode == 3 and "nothing is lost" in err), out + err
    for folder, process in zip(own, processes, strict=True):  # whoever came while it was away comes again
        if process.returncode:
            assert started(folder, url).communicate(timeout=60)[1] == ""
    runs, trials = WRITERS * RUNS + 1, (WRITERS * RUNS + 1) * TRIALS
    assert counts(server) == (runs, trials, trials, trials, 2 * runs, 2 * runs, runs)
    taken, faults = push_records(sorted(path for folder in own for path in (folder / "records").iterdir()), team)
    assert (sum(new for _, new in taken), faults) == (0, []), "what is there stays as it is"
    assert counts(server) == (runs, trials, trials, trials, 2 * runs, 2 * runs, runs)


def test_one_record_that_grows_is_pushed_by_several_at_once(server, team, tmp_path):
    store(tmp_path, [a_stored_run(1, [(case(), 100.0)], machine(), trials=TRIALS, run_id="one")])
    whole = (tmp_path / "records" / "one.jsonl").read_bytes().splitlines(keepends=True)
    paths = []
    for lines in (3, 8, 13, 18, len(whole)):
        path = tmp_path / f"cut{lines}.jsonl"
        path.write_bytes(b"".join(whole[:lines]))
        paths.append(path)
    faults: list[str] = []

    def push(first):
        faults.extend(push_records(paths[first:] + paths[:first], team)[1])

    threads = [threading.Thread(target=push, args=(first,)) for first in range(len(paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert faults == []
    assert counts(server) == (1, TRIALS, TRIALS, TRIALS, 1, 1, 1)


def test_two_that_make_the_tables_at_once(server):
    found = team_at(server.secret_url(server.new_database("twice")), typed=False)
    faults = []

    def make():
        try:
            create(found)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert faults == []


def test_patience_ends_and_the_writer_goes_on_when_the_server_is_back(server, team, tmp_path):
    store(tmp_path, [a_stored_run(1, [(case(), 100.0)], machine())])
    (path,) = (tmp_path / "records").iterdir()
    from torchstone.storage.record_reader import read_record

    with Writer(team, patience_s=0.3) as writer:
        server.kill()
        try:
            with pytest.raises(AwayError, match="cannot be reached"):
                writer.put(read_record(path), "here")
        finally:
            server.start()
        assert writer.put(read_record(path), "here")[1]


def test_a_push_waits_for_an_upgrade_and_an_upgrade_for_a_push(server, team, tmp_path):
    import psycopg

    store(tmp_path, [a_stored_run(1, [(case(), 100.0)], machine())])
    with psycopg.connect(server.secret_url("many", OWNER)) as other, contextlib.ExitStack() as stack:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))
        done = threading.Event()

        def push():
            push_records((tmp_path / "records").iterdir(), team)
            done.set()

        thread = threading.Thread(target=push)
        thread.start()
        stack.callback(thread.join, 30)
        assert not done.wait(0.5)
        other.rollback()
        assert done.wait(20)
