"""A team's store through the real command line, on a real PostgreSQL: push, the reading commands, bad input."""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import string
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from postgresql import OWNER, PASSWORDS, READER, WRITER
from served import served
from stored import a_stored_run, case, machine, store

from torchstone.cli import main

HOSTS = [f"node-{number}" for number in range(10)]


@pytest.fixture
def runs(outputs, capsys):
    """Seven runs of two cases in the output folder."""
    cases = [(case(batch_size=8), 100.0), (case(batch_size=16), 150.0)]
    store(outputs, [a_stored_run(number, cases, machine(), name=f"night-{number}") for number in range(7)])
    return outputs


def printed(capsys, *words, code=0):
    capsys.readouterr()
    assert main(list(words)) == code
    return capsys.readouterr().out


def refused(capsys, *words, code=2):
    """Return the one line on stderr."""
    capsys.readouterr()
    assert main(list(words)) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert not any(secret in said for secret in PASSWORDS.values())
    return said


def test_push_and_every_reading_command_as_from_the_folder(team, runs, capsys, monkeypatch):
    url = team.url("bench", WRITER)
    said = printed(capsys, "push", "--all", "--store", url)
    assert said.startswith(f"7 runs pushed to postgresql://127.0.0.1:{team.port}/bench.")
    assert "7 already there" in printed(capsys, "push", "--all", "--store", url)
    assert "1 already there" in printed(capsys, "push", "latest", "--store", url)
    reading = team.url("bench", READER)
    for words in (
        ["runs"], ["runs", "--name", "night-3", "--limit", "2"], ["runs", "--device", "cpu"], ["show", "latest"],
        ["show", "night-2", "--full"], ["history"], ["history", "--metric", "step_time_mean"], ["recommend"],
    ):  # fmt: skip
        theirs = json.loads(printed(capsys, *words, "--json", "--store", reading))
        ours = json.loads(printed(capsys, *words, "--json", "--output-dir", str(runs)))
        assert alike(theirs) == alike(ours), words
    one = json.loads(printed(capsys, "compare", "night-1", "night-2", "--json", "--store", reading))
    other = json.loads(printed(capsys, "compare", "night-1", "night-2", "--json"))
    assert one["comparisons"] == other["comparisons"]
    monkeypatch.setenv("TORCHSTONE_STORE", team.secret_url("bench", READER))
    assert f"postgresql://127.0.0.1:{team.port}/bench" not in printed(capsys, "runs")
    assert len(json.loads(printed(capsys, "runs", "--json"))["runs"]) == 7
    assert json.loads(printed(capsys, "runs", "--json", "--output-dir", str(runs / "none")))["runs"] == []


def test_reports_and_exports_of_the_store(team, runs, tmp_path, capsys):
    assert main(["push", "--all", "--store", team.url("bench", WRITER)]) == 0
    reading = team.url("bench", READER)
    for words in (["latest"], ["night-1", "night-2", "--compare"], ["night-1", "night-2", "--combined"]):
        made = {}
        for number, place in enumerate((["--store", reading], ["--output-dir", str(runs)])):
            folder = tmp_path / f"{words[-1]}{number}"
            said = printed(capsys, "report", *words, "--format", "json,csv", "--output", str(folder), *place)
            made[number] = {Path(line).name: Path(line).read_text() for line in said.split()}
        assert made[0].keys() == made[1].keys()
        csv = next(name for name in made[0] if name.endswith(".csv"))
        assert made[0][csv] == made[1][csv]
    to = str(tmp_path / "run.csv")
    assert main(["export", "night-4", "--to", to, "--store", reading]) == 0
    there = printed(capsys, "export", "night-4", "--output-dir", str(runs)).strip()
    assert Path(to).read_text() == Path(there).read_text()


def alike(document):
    """What is the same wherever a run is read: without the path of its record."""
    return json.loads(re.sub(r'"[^"]*/records/|"[^"]*/store/[0-9a-f]{64}/', '"', json.dumps(document)))


def test_pages_over_the_store(team, runs, monkeypatch, capsys):
    pytest.importorskip("uvicorn", reason="serve needs uvicorn (pip install 'torchstone[serve]')")
    assert main(["push", "--all", "--store", team.url("bench", WRITER)]) == 0
    ids = [one["run_id"] for one in json.loads(printed(capsys, "runs", "--json"))["runs"]]
    with served(runs, "--store", team.url("bench", READER)) as found:
        for path in (
            "/runs", "/runs?q=night-3", f"/runs/{ids[0]}", f"/runs/{ids[0]}/pictures", "/history", "/findings",
            f"/compare?a={ids[0]}&b={ids[1]}", f"/history/{case(batch_size=8).case_id}",
        ):  # fmt: skip
            status, page = asked(found.address, path)
            assert status == 200, (path, page)
            assert not any(secret in page for secret in PASSWORDS.values())
            assert PASSWORDS[READER] not in Path(f"/proc/{found.process.pid}/cmdline").read_text()
        assert "night-3" in asked(found.address, "/runs?q=night-3")[1]
        team.kill()
        try:
            status, page = asked(found.address, "/runs")
            assert status == 503
            assert "cannot be reached" in page
        finally:
            team.start()
        assert asked(found.address, "/runs")[0] == 200


def asked(address, path):
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request("GET", path)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, body


def test_the_folders_of_ten_machines(team, tmp_path, capsys, monkeypatch):
    for number, host in enumerate(HOSTS):
        cases = [(case(batch_size=8), 100.0 + number)]
        made = [a_stored_run(10 * number + day, cases, machine(host=host), name=host) for day in range(3)]
        store(tmp_path / "collected" / host, made)
    url = team.url("bench", WRITER)
    assert "30 runs imported" in printed(capsys, "import", str(tmp_path / "collected"), "--store", url)
    assert "30 already stored" in printed(capsys, "import", str(tmp_path / "collected"), "--store", url)
    status = json.loads(printed(capsys, "store", "--json", "--store", url))
    assert (status["runs"], status["trials"], status["hosts"], status["may_push"]) == (30, 90, 10, True)
    assert not (tmp_path / "outputs" / "records").exists()
    told = json.loads(printed(capsys, "history", "--json", "--store", team.url("bench", READER)))
    assert {one["host"] for one in told["histories"]} == set(HOSTS)


def test_two_jobs_that_wrote_one_record(team, runs, tmp_path, capsys):
    url = team.url("bench", WRITER)
    assert main(["push", "--all", "--store", url]) == 0
    (first, *_) = sorted((runs / "records").iterdir())
    other = tmp_path / "other" / "records" / first.name
    other.parent.mkdir(parents=True)
    other.write_bytes(first.read_bytes().replace(b'"duration_s":', b'"duration_s":1', 1))
    said = printed(capsys, "push", "--all", "--store", url, "--output-dir", str(tmp_path / "other"), code=2)
    assert f"run {first.stem} is in the store already with other content" in re.sub(r"\s+", " ", said)
    cut = tmp_path / "cut" / "records" / first.name
    cut.parent.mkdir(parents=True)
    cut.write_bytes(b"".join(first.read_bytes().splitlines(keepends=True)[:3]))
    assert "1 already there" in printed(capsys, "push", "--all", "--store", url, "--output-dir", str(tmp_path / "cut"))


def test_a_longer_record_takes_the_place_of_the_one_it_begins_with(team, runs, tmp_path, capsys):
    url = team.url("bench", WRITER)
    (first, *_) = sorted((runs / "records").iterdir())
    whole = first.read_bytes().splitlines(keepends=True)
    for lines in (3, 5, len(whole)):
        first.write_bytes(b"".join(whole[:lines]))
        assert "1 run pushed" in printed(capsys, "push", str(first), "--store", url)
        shown = json.loads(printed(capsys, "show", first.stem, "--json", "--store", url))
        assert sum(len(one["trials"]) for one in shown["cases"]) == min(lines - 1, 6)
    assert team.sql("SELECT count(*) FROM torchstone.trials", "bench") == [(6,)]
    assert team.sql("SELECT runs FROM torchstone.series", "bench") == [(1,), (1,)]


def test_a_reader_may_not_push(team, runs, capsys):
    said = refused(capsys, "push", "--all", "--store", team.url("bench", READER))
    assert "you may not do this" in said
    assert "torchstone store roles" in said
    assert "you may not" in refused(capsys, "store", "roles", "--store", team.url("bench", READER))
    status = json.loads(printed(capsys, "store", "--json", "--store", team.url("bench", READER)))
    assert (status["may_push"], status["superuser"], status["user"]) == (False, False, READER)


def test_a_wrong_password_is_never_printed(team, runs, capsys, monkeypatch):
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    monkeypatch.setenv("PGPASSWORD", "a-wrong-password")
    said = refused(capsys, "runs", "--store", team.url("bench", READER))
    assert "the server refused this user or password" in said
    assert "a-wrong-password" not in said
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("TORCHSTONE_STORE", f"postgresql://{READER}:a-wrong-password@127.0.0.1:{team.port}/bench")
    for words in (["runs"], ["show"], ["push", "--all"], ["store"], ["serve"], ["history"], ["recommend"]):
        said = refused(capsys, *words)
        assert "refused this user or password" in said
        assert "a-wrong-password" not in said
    said = refused(capsys, "runs", "--store", f"postgresql://{READER}:a-wrong-password@127.0.0.1:{team.port}/bench")
    assert "~/.pgpass" in said
    assert "a-wrong-password" not in said


def test_a_server_that_is_away_loses_nothing(team, runs, capsys, monkeypatch):
    monkeypatch.setattr("torchstone.storage.team.records.PATIENCE_S", 0.5)
    before = {path.name: path.read_bytes() for path in (runs / "records").iterdir()}
    team.kill()
    try:
        said = refused(capsys, "push", "--all", "--store", team.url("bench", WRITER), code=3)
        assert f"nothing is lost: the records stay in {runs}, push them again later" in said
        assert "cannot be reached" in refused(capsys, "runs", "--store", team.url("bench", READER), code=3)
    finally:
        team.start()
    assert {path.name: path.read_bytes() for path in (runs / "records").iterdir()} == before
    assert "7 runs pushed" in printed(capsys, "push", "--all", "--store", team.url("bench", WRITER))


def test_a_store_of_another_version(team, runs, capsys):
    url = team.url("bench", OWNER)
    team.sql("UPDATE torchstone.version SET layout = 99", "bench")
    for words in (["runs"], ["push", "--all"], ["store", "upgrade"], ["store", "create"]):
        assert "is of a newer torchstone (version 99." in refused(capsys, *words, "--store", url)
    team.sql("UPDATE torchstone.version SET layout = 1, figures = 0", "bench")
    for words in (["runs"], ["push", "--all"], ["store", "create"]):
        assert "torchstone store upgrade" in refused(capsys, *words, "--store", url)
    assert "were upgraded" in printed(capsys, "store", "upgrade", "--store", url)
    assert "up to date already" in printed(capsys, "store", "upgrade", "--store", url)
    team.new_database("empty")
    assert "torchstone store create" in refused(capsys, "runs", "--store", team.url("empty"))
    assert "does not exist" in refused(capsys, "runs", "--store", team.url("nowhere"))


def test_an_upgrade_derives_every_figure_again_from_the_records(team, runs, capsys):
    url = team.url("bench", OWNER)
    assert main(["push", "--all", "--store", url]) == 0
    ours = json.loads(printed(capsys, "history", "--json", "--store", url))
    team.sql("UPDATE torchstone.version SET figures = 0", "bench")
    team.sql("""UPDATE torchstone.trials SET figures = '{"values":{},"reasons":{}}'""", "bench")
    assert main(["store", "upgrade", "--store", url]) == 0
    assert json.loads(printed(capsys, "history", "--json", "--store", url)) == ours
    assert team.sql("SELECT count(DISTINCT pushed_by) FROM torchstone.records", "bench") == [(1,)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("push", "name the runs to push, or type torchstone push --all"),
        ("push --all latest", "name the runs to push, or type torchstone push --all"),
        ("push --all", "no store is named: type --store postgresql://USER@HOST/DATABASE"),
        ("store", "no store is named: type --store postgresql://USER@HOST/DATABASE"),
        ("store --print", "--print goes with torchstone store roles"),
    ],
)
def test_a_request_that_is_wrong(words, says, outputs, capsys, monkeypatch):
    monkeypatch.delenv("TORCHSTONE_STORE", raising=False)
    assert says in refused(capsys, *words.split())


def test_rebuild_is_for_a_folder(team, capsys):
    assert "store upgrade" in refused(capsys, "runs", "--rebuild", "--store", team.url("bench"))


def test_the_statements_for_an_administrator(capsys):
    said = printed(capsys, "store", "roles", "--print")
    assert "CREATE ROLE torchstone_reader NOLOGIN" in said
    assert "DELETE ON torchstone.trials TO torchstone_writer" in said
    assert "DELETE ON torchstone.version" not in said


def test_what_is_damaged_in_the_store_is_said(team, runs, tmp_path, capsys):
    url = team.url("bench", OWNER)
    assert main(["push", "latest", "--store", url]) == 0
    assert main(["show", "latest", "--store", url]) == 0
    team.sql("UPDATE torchstone.trials SET status = 'splendid'", "bench")
    assert "not as torchstone writes it" in refused(capsys, "show", "latest", "--store", url, code=1)
    shutil.rmtree(tmp_path / "cache")
    team.sql("UPDATE torchstone.pieces SET data = 'x'", "bench")
    assert "is damaged; push it again" in refused(capsys, "show", "latest", "--store", url)
    team.sql("UPDATE torchstone.records SET digest = '../../../elsewhere'", "bench")
    assert "is damaged; push it again" in refused(capsys, "show", "latest", "--store", url)


def test_a_row_that_does_not_decode_is_one_line_that_names_its_run(team, outputs, capsys):
    """So many trials that the server still sends rows when the first cannot be read."""
    store(outputs, [a_stored_run(1, [(case(batch_size=8), 100.0)], machine(), trials=3000)])
    url = team.url("bench", WRITER)
    assert main(["push", "--all", "--store", url]) == 0
    ((run_id,),) = team.sql("SELECT run_id FROM torchstone.runs", "bench")
    team.sql("""UPDATE torchstone.trials SET figures = '{"values":{"throughput":1e999}}' WHERE place = 0""", "bench")
    readings = '{"readings":[{"case_id":"x","trials":1,"figures":{"throughput":[1e999]}}]}'
    team.sql(f"UPDATE torchstone.runs SET readings = '{readings}'", "bench")
    for words in (["recommend"], ["history"]):
        began_s = time.monotonic()
        said = refused(capsys, *words, "--store", url, code=1)
        assert f"a row is not as torchstone writes it: run {run_id}: " in said
        assert time.monotonic() - began_s < 20.0
    assert main(["runs", "--store", url]) == 0


def test_a_row_that_does_not_decode_is_a_page_that_says_so(team, runs, capsys):
    pytest.importorskip("uvicorn", reason="serve needs uvicorn (pip install 'torchstone[serve]')")
    assert main(["push", "--all", "--store", team.url("bench", WRITER)]) == 0
    team.sql("""UPDATE torchstone.trials SET figures = '{"values":{"throughput":1e999}}'""", "bench")
    with served(runs, "--store", team.url("bench", READER)) as found:
        status, page = asked(found.address, f"/history/{case(batch_size=8).case_id}")
        assert (status, "not as torchstone writes it" in page) == (500, True)
        assert asked(found.address, "/runs")[0] == 200


def test_a_run_is_taken_out_in_psql_as_the_docs_say(team, runs, capsys):
    assert main(["push", "--all", "--store", team.url("bench", WRITER)]) == 0
    ((run_id,),) = team.sql("SELECT run_id FROM torchstone.runs LIMIT 1", "bench")
    with psycopg_as(team, WRITER) as connection:
        connection.execute("DELETE FROM torchstone.runs WHERE run_id = %s", (run_id,))
    left = "SELECT (SELECT count(*) FROM torchstone.runs), (SELECT max(runs) FROM torchstone.series)"
    assert team.sql(left, "bench") == [(6, 6)]


def psycopg_as(team, user):
    import psycopg

    return psycopg.connect(team.secret_url("bench", user))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE torchstone.records SET pushed_by = 'eve'",
        "UPDATE torchstone.records SET pushed_at = now()",
        "INSERT INTO torchstone.records (run_id, digest, source, pushed_by) VALUES ('x', '', '', 'eve')",
    ],
)
def test_who_pushed_is_not_the_writers_to_say(team, runs, capsys, statement):
    import psycopg

    assert main(["push", "--all", "--store", team.url("bench", WRITER)]) == 0
    assert team.sql("SELECT DISTINCT pushed_by FROM torchstone.records", "bench") == [(WRITER,)]
    with psycopg_as(team, WRITER) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def test_a_record_that_the_store_cannot_hold_is_named_and_the_others_are_pushed(team, outputs, capsys):
    poison = "".join(random.Random(0).choices(string.ascii_letters, k=9000))  # longer than an index holds
    cases = [(case(batch_size=8), 100.0)]
    names = ["before", poison, "after"]
    store(outputs, [a_stored_run(number, cases, machine(), name=name) for number, name in enumerate(names)])
    capsys.readouterr()
    assert main(["push", "--all", "--json", "--store", team.url("bench", WRITER)]) == 2
    told = json.loads(capsys.readouterr().out)
    assert len(told["runs"]) == 2
    (why,) = told["refused"]
    assert str(sorted((outputs / "records").iterdir())[1]) in why
    assert "a value that cannot be stored: index row" in why


def test_a_server_that_restarts_when_a_push_begins_is_waited_for(team, runs, capsys):
    team.kill()
    thread = threading.Timer(1.0, team.start)
    thread.start()
    try:
        assert "7 runs pushed" in printed(capsys, "push", "--all", "--store", team.url("bench", WRITER))
    finally:
        thread.join()


def test_a_push_waits_for_a_free_connection(team, runs, capsys):
    import psycopg

    taken = []
    with contextlib.suppress(psycopg.OperationalError):
        while True:
            taken.append(psycopg_as(team, WRITER))
    timer = threading.Timer(1.0, lambda: [one.close() for one in taken])
    timer.start()
    try:
        assert "7 runs pushed" in printed(capsys, "push", "--all", "--store", team.url("bench", WRITER))
    finally:
        timer.join()


def test_a_host_that_is_mistyped_is_not_waited_for(runs, capsys):
    pytest.importorskip("psycopg")
    began_s = time.monotonic()
    said = refused(capsys, "push", "--all", "--store", "postgresql://ana@nowhere.invalid/bench", code=3)
    assert "cannot be reached" in said
    assert time.monotonic() - began_s < 20.0


URL = "postgresql://ana:a-secret-word@db.example/bench"


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--stor", URL], ["runs", URL], ["run", "smoke", "--push", URL], ["show", URL], ["import", URL],
        ["show", URL[:35]], ["show", f"{URL}?password=a-secret-word"], ["push", URL], ["compare", URL, URL],
    ],
)  # fmt: skip
def test_a_password_in_a_wrong_place_is_not_echoed(words, outputs, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_STORE", "")
    assert "a-secret" not in refused(capsys, *words)


def test_without_the_library_the_command_that_installs_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = refused(capsys, "runs", "--store", "postgresql://db.example/bench", code=3)
    assert "pip install 'torchstone[postgres]'" in said


def test_no_password_in_the_list_of_processes(team, runs):
    """The command sees it in its environment; what `ps` shows has the words that were typed."""
    environment = {**os.environ, "TORCHSTONE_STORE": team.secret_url("bench", READER)}
    script = "import torchstone.cli; torchstone.cli.main(['runs']); print(open('/proc/self/cmdline').read())"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert PASSWORDS[READER] not in done.stdout + done.stderr
