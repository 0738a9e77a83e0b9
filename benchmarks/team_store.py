"""A team's store on PostgreSQL beside the index of a folder (SQLite): lists over a million trials, and many writers.

    python benchmarks/team_store.py lists [RUNS] [TRIALS]             20,000 runs of 50 trials; exit 1 above 0.3 s,
                                                                      `recommend` above 3 s, `history CASE` above 1 s
    python benchmarks/team_store.py merge [JOBS] [TRIALS] [WRITERS]   1,000 jobs of 100 trials, 16 processes that push

The server is Debian's, started for this alone with its data in a temporary folder (tests/postgresql.py), a pool of
64 MB and every commit flushed to disk. `lists`: both stores have the same runs, the team's with every record. Each
question is asked five times; the command as a whole includes Python's start. `merge`: the records lie in folders of
their own, as jobs of a cluster leave them. A tenth is pushed by two writers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from big_store import MODELS, big_store, named
from postgresql import Server, postgresql
from stored import a_stored_run, case, machine, store

from torchstone.core.schema.case import Case
from torchstone.storage.catalogue import Wanted, run_lines
from torchstone.storage.database import open_index
from torchstone.storage.index import current
from torchstone.storage.measured import measured_of_case
from torchstone.storage.place import Place, Team, team_at
from torchstone.storage.query import find, runs
from torchstone.storage.team.records import create
from torchstone.storage.team.session import PREPARE, TeamSession, connect

PROMISED_S, TIMES = 0.3, 5
_PROMISED_OF_ALL_S = {"recommend": 3.0, "history": 1.0}  # commands whole
_COLUMNS = {"runs": 17, "trials": 13, "lines": 12, "cases": 15}


def lists(options: argparse.Namespace, server: Server, folder: Path) -> int:
    """Time the same questions to both stores; return 1 if one takes too long."""
    count, trials = options.first or 20_000, options.second or 50
    began_s = time.perf_counter()
    big_store(folder, count, cases=10, trials=trials // 10)
    print(f"{count:,} runs of {trials} trials in a folder: {time.perf_counter() - began_s:.0f} s", file=sys.stderr)
    team = _new(server, "lists")
    began_s = time.perf_counter()
    _copied(folder, team)
    print(f"the same in PostgreSQL: {time.perf_counter() - began_s:.0f} s", file=sys.stderr)
    worst = 0.0
    print(f"| {'asked of a store of ' + format(count * trials, ',') + ' trials':44} | SQLite s | PostgreSQL s |")
    print(f"|{'-' * 46}|---------:|-------------:|")
    for title, ask in questions(count).items():
        took = [_median_s(partial(ask, place)) for place in (folder, team)]
        worst = max(worst, *took)
        print(f"| {title:44} | {took[0]:8.3f} | {took[1]:12.3f} |")
    case_id = _a_case().case_id
    for words in (["runs", "--name", "bert", "--device", "cuda"], ["runs", "--name", "nothing"], ["show", "latest"],
                  ["history", case_id], ["recommend"], ["recommend", "--by", "memory"]):  # fmt: skip
        took = [_median_s(partial(_command, words, place)) for place in (folder, team)]
        worst = max(worst, PROMISED_S * max(took) / _PROMISED_OF_ALL_S.get(words[0], math.inf))
        print(f"| {'`torchstone ' + ' '.join(words) + '`, whole':44} | {took[0]:8.3f} | {took[1]:12.3f} |")
    size = sum(path.stat().st_size for path in folder.glob("torchstone.sqlite*"))
    print(f"\nindex {size / 2**20:.0f} MiB; {_size(server, 'lists')}")
    return int(worst > PROMISED_S)


def questions(count: int) -> dict[str, Callable[[Place], object]]:
    """Return what is asked."""
    case_id = _a_case().case_id

    def listed(place: Place, **wanted: str) -> object:
        with current(place) as (connection, _):
            return run_lines(connection, Wanted(**wanted))

    def history(place: Place) -> object:
        with current(place) as (connection, _):
            return measured_of_case(connection, case_id, ("throughput",), 200)

    return {
        "runs, the newest 20": lambda place: runs(place, 20),
        "runs, name and device": lambda place: runs(place, 20, "bert", "cuda"),
        "runs, nothing matches": lambda place: runs(place, 20, "nothing"),
        "runs, all that match": lambda place: runs(place, None, "bert", "cuda"),
        "page of a model, device and verdict": lambda place: listed(
            place, model="resnet50", device="NVIDIA H200", verdict="SUSPECT"
        ),
        "page of a search": lambda place: listed(place, text="node-2 gpt2"),
        "page, nothing matches": lambda place: listed(place, text="nothing"),
        "one run with its figures": lambda place: find(place, named(count // 3)[0]),
        "history of a case, 200 runs": history,
    }


def _a_case() -> Case:
    return case("cuda", model=MODELS[0], batch_size=16)


def _median_s(ask: Callable[[], object]) -> float:
    took = []
    for _ in range(TIMES):
        began_s = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began_s)
    return statistics.median(took)


def _command(words: list[str], place: Place) -> None:
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if isinstance(place, Team):
        environment["TORCHSTONE_STORE"] = place.url
    else:
        words = [*words, "--output-dir", str(place)]
    command = [sys.executable, "-m", "torchstone", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def _copied(folder: Path, team: Team) -> None:
    """Copy the rows of the index and the records; the summaries over all runs are made by the store itself."""
    with open_index(folder) as index, connect(team) as raw:
        raw.execute(PREPARE)
        session = TeamSession(raw)
        for table, columns in _COLUMNS.items():
            places = ", ".join("?" * columns)
            session.executemany(f"INSERT INTO {table} VALUES ({places})", index.execute(f"SELECT * FROM {table}"))
        names = "run_id, started_utc, check_name, severity, subject, message, advice"
        rows = index.execute(f"SELECT {names} FROM findings ORDER BY id")
        session.executemany(f"INSERT INTO findings ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        digests: list[tuple[str, str, str]] = []
        session.executemany("INSERT INTO pieces VALUES (?, ?, ?)", _pieces(folder, digests))
        session.executemany("INSERT INTO records (run_id, digest, source) VALUES (?, ?, ?)", digests)
    with connect(team) as raw:
        raw.autocommit = True
        raw.execute("ANALYZE")


def _pieces(folder: Path, digests: list[tuple[str, str, str]]) -> Iterator[tuple[str, int, bytes]]:
    for path in sorted((folder / "records").iterdir()):
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        digests.append((path.stem, digest, digest))
        yield path.stem, 0, zlib.compress(data, 1)


def merge(options: argparse.Namespace, server: Server, folder: Path) -> int:
    """Let processes push the records of many jobs; return 1 if a trial is lost or there twice."""
    jobs, trials, writers = options.first or 1000, options.second or 100, options.third or 16
    team = _new(server, "merge")
    expected = _written(folder, jobs, trials, writers)
    processes = [_writer(folder / f"w{number}", team) for number in range(writers)]
    peaks = _Peaks(server)
    began_s = time.perf_counter()
    ends = [process.communicate() for process in processes]
    took_s = time.perf_counter() - began_s
    peaks.end()
    failed = [err for process, (_, err) in zip(processes, ends, strict=True) if process.returncode]
    used = [json.loads(err.splitlines()[-1]) for _, err in ends if err.strip()]
    (found,) = server.sql(
        "SELECT (SELECT count(*) FROM torchstone.runs), (SELECT count(*) FROM torchstone.trials), (SELECT count("
        "DISTINCT (run_id, case_id, number, purpose)) FROM torchstone.trials), (SELECT sum(runs)::bigint FROM"
        " torchstone.series), (SELECT count(*) FROM torchstone.cases WHERE counted > 0)", "merge",
    )  # fmt: skip
    runs_found, rows, different, counted, cases = (int(str(value)) for value in found)
    right = not failed and (runs_found, rows, different) == (jobs, expected, expected) and counted == cases
    pushes = jobs + jobs // 10
    print(f"{jobs:,} jobs of {trials} trials, {pushes:,} pushes by {writers} processes: {took_s:.1f} s,"
          f" {pushes / took_s:.0f} runs/s, {rows / took_s:,.0f} trials/s")  # fmt: skip
    print(f"memory: at most {max(used, default=0) / 2**20:.0f} MiB a writer, {peaks.server / 2**20:.0f} MiB the server"
          f" (proportional); {_size(server, 'merge')}")  # fmt: skip
    print(
        f"runs {runs_found:,}, trials {rows:,} of {expected:,}, different {different:,}: {'right' if right else failed}"
    )
    again_s = _again_s(folder, team, writers)
    print(f"pushed once more: {again_s:.1f} s, nothing changed")
    return int(not right)


def _written(folder: Path, jobs: int, trials: int, writers: int) -> int:
    cases = [(case("cuda", batch_size=8 * (place + 1)), 1000.0 + place) for place in range(10)]
    for number in range(jobs):
        run = a_stored_run(number, cases, machine("cuda", f"node-{number % 100}"), trials=trials // 10,
                           run_id=f"20261123-{number:06d}-job", name=f"job-{number % 7}")  # fmt: skip
        for writer in {number % writers, (number + 1) % writers} if number % 10 == 0 else {number % writers}:
            store(folder / f"w{writer}", [run])
    return jobs * (trials // 10) * 10


_PUSH = """
import resource, sys
from torchstone.cli import main
code = main(["push", "--all", "--json", "--output-dir", sys.argv[1]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""


def _writer(folder: Path, team: Team) -> subprocess.Popen[str]:
    environment = {**os.environ, "TORCHSTONE_STORE": team.url}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _PUSH, str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _again_s(folder: Path, team: Team, writers: int) -> float:
    began_s = time.perf_counter()
    for number in range(writers):
        out, err = _writer(folder / f"w{number}", team).communicate()
        if any(one["pushed"] for one in json.loads(out)["runs"]):
            raise RuntimeError(f"a run was pushed twice: {err}")
    return time.perf_counter() - began_s


class _Peaks:
    """The most memory of the server's processes together, a page that several share counted once (PSS)."""

    def __init__(self, server: Server) -> None:
        self.server = 0
        self._data = str(server.folder)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            self.server = max(self.server, sum(map(_shared_bytes, self._processes())))

    def _processes(self) -> list[psutil.Process]:
        for one in psutil.process_iter(["name", "cmdline"]):
            if one.info["name"] == "postgres" and any(self._data in word for word in one.info["cmdline"] or ()):
                return [one, *one.children(recursive=True)]
        return []


def _shared_bytes(process: psutil.Process) -> int:
    try:
        found: Any = process.memory_full_info()
        return int(found.pss)
    except psutil.Error:  # it has ended
        return 0


def _new(server: Server, name: str) -> Team:
    team = team_at(server.secret_url(server.new_database(name)), typed=False)
    create(team)
    return team


def _size(server: Server, database: str) -> str:
    ((size,),) = server.sql(f"SELECT pg_database_size('{database}')")
    return f"database {int(str(size)) / 2**20:.0f} MiB"


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lists", "merge"))
    for name in ("first", "second", "third"):
        parser.add_argument(name, type=int, nargs="?")
    options = parser.parse_args()
    with postgresql() as server, tempfile.TemporaryDirectory(prefix="torchstone-team-") as folder:
        os.environ["TORCHSTONE_CACHE"] = str(Path(folder) / "cache")
        measure = lists if options.what == "lists" else merge
        return measure(options, server, Path(folder) / "outputs")


if __name__ == "__main__":
    sys.exit(main())
