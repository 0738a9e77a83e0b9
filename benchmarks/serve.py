"""How soon each page of `torchstone serve` is there over a store of a million trials: 0.3 s at most.

The store: 20,000 runs of 10 cases and 5 trials each, six models on three hosts over two years, with their index
(tests/big_store.py); twenty runs of 336 cases and 3 trials; and a run in progress of 100 cases and 10,000 trials, which
grows between two looks. Each page is asked for a number of times over HTTP on this machine, with other values each time
so that nothing kept from before answers; the first of each is told by itself.

    python benchmarks/serve.py [--runs 20000] [--times 15] [--store DIR] [--json FILE]     exit 1 if a page takes longer
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from big_store import HOSTS, MODELS, big_store, named
from served import served
from stored import a_stored_run, case, machine, store

from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Run
from torchstone.storage.record_writer import RecordWriter

PROMISED_S = 0.3
LARGE, LIVE = 20, "20270101-0000-live"
Address = Callable[[random.Random], str]


def pages(runs: int) -> Mapping[str, Address]:
    """Return what is asked for: a function that makes an address each."""
    models = [model.partition(":")[2] for model in MODELS]
    large = [f"20261231-{number:04d}-large" for number in range(LARGE)]  # each is asked for once in each way

    def run_id(dice: random.Random) -> str:
        return named(dice.randrange(runs))[0]

    def case_id(dice: random.Random) -> str:
        kind = dice.choice(("cpu", "cuda"))
        return case(kind, model=dice.choice(MODELS), batch_size=8 * dice.randint(1, 10)).case_id

    def behind(dice: random.Random) -> str:
        name, moment = named(dice.randrange(runs))
        return f"{moment}~{name}"

    several, every, drawn = iter(large * 2), iter(large * 2), iter(large * 2)
    return {
        "runs, newest": lambda _: "/runs",
        "runs, behind any": lambda dice: f"/runs?before={behind(dice)}",
        "runs of a model": lambda dice: f"/runs?model={dice.choice(models)}",
        "runs, four filters": lambda dice: (
            f"/runs?model={dice.choice(models)}&device=NVIDIA%20H200&verdict=SUSPECT"
            f"&since=2024-0{dice.randint(1, 9)}-01"
        ),
        "runs, nothing matches": lambda dice: f"/runs?q=nothing{dice.random()}",
        "runs, no such model": lambda dice: f"/runs?model={quote(str(dice.random()))}",
        "search of a word": lambda dice: f"/runs?q={dice.choice(HOSTS)}%20{dice.choice(models)}",
        "a run": lambda dice: f"/runs/{run_id(dice)}",
        "a run, every figure": lambda dice: f"/runs/{run_id(dice)}?every=1",
        "a run of 336 cases": lambda _: f"/runs/{next(several)}",
        "336 cases, every figure": lambda _: f"/runs/{next(every)}?every=1",
        "pictures of a run": lambda dice: f"/runs/{run_id(dice)}/pictures",
        "336 cases, pictures": lambda _: f"/runs/{next(drawn)}/pictures",
        "comparing two runs": lambda dice: f"/compare?a={run_id(dice)}&b={run_id(dice)}",
        "comparing four runs": lambda dice: "/compare?" + "&".join(f"{x}={run_id(dice)}" for x in "abcd"),
        "cases": lambda _: "/history",
        "cases, searched": lambda dice: f"/history?q={dice.choice(models)}%20{dice.choice(HOSTS)}",
        "history of a case": lambda dice: f"/history/{case_id(dice)}",
        "findings, newest": lambda _: "/findings",
        "findings of a check": lambda dice: (
            f"/findings?check=drift&severity=warning&until=2024-0{dice.randint(1, 9)}-28"
        ),
        "findings, nothing matches": lambda dice: f"/findings?q=nothing{dice.random()}",
        "a run in progress, update": lambda _: f"/runs/{LIVE}/live",
    }


def took_s(address: str, path: str) -> tuple[float, int]:
    """Return how long a page took, and how many bytes it has."""
    parts = urlsplit(address)
    began_s = time.perf_counter()
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    connection.request("GET", path)
    reply = connection.getresponse()
    size = len(reply.read())
    connection.close()
    if reply.status != 200:
        raise RuntimeError(f"{path}: {reply.status}")
    return time.perf_counter() - began_s, size


def cpu_s(pid: int) -> float:
    """Return the processor time of the server so far: it tells a slow page from a machine that others use."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def large_runs(folder: Path) -> None:
    """Write runs of 336 cases and 3 trials."""
    cases = [(case(batch_size=8 * (place + 1)), 100.0 + place) for place in range(336)]
    store(folder, [
        a_stored_run(number, cases, machine(), name="sweep", run_id=f"20261231-{number:04d}-large",
                     started_utc=f"2026-12-31T10:{number:02d}:00Z")
        for number in range(LARGE)
    ])  # fmt: skip


def live_run() -> Run:
    """Return a run of 100 cases and 10,000 trials and a few hundred more, which are yet to come."""
    cases = [(case(batch_size=8 * (place + 1)), 100.0 + place) for place in range(100)]
    return a_stored_run(0, cases, machine(), trials=105, name="live", run_id=LIVE, started_utc="2027-01-01T10:00:00Z")


def ready(address: str) -> None:
    """Wait until the pages know every record."""
    for path in (f"/runs/20261231-{LARGE - 1:04d}-large", f"/runs/{LIVE}"):
        for _ in range(100):
            try:
                took_s(address, path)
                break
            except RuntimeError:
                time.sleep(1.0)
    while took_s(address, f"/runs/{LIVE}/live")[1] == 0:
        time.sleep(0.5)
    for _ in range(20):  # an update reads 0.2 s of a record at most
        took_s(address, f"/runs/{LIVE}/live")


def measure(folder: Path, runs: int, times: int) -> list[dict[str, object]]:
    """Ask for each page so many times, in random order, and return a row each."""
    dice, asked = random.Random(1), pages(runs)
    taken: dict[str, list[float]] = {name: [] for name in asked}
    worked: dict[str, list[float]] = {name: [] for name in asked}
    sizes: dict[str, int] = {}
    live = live_run()
    more = iter(live.trials[10_000:])
    path = folder / "records" / f"{LIVE}.jsonl"
    path.write_bytes(b"".join(encode(line) + b"\n" for line in (live.head, *live.trials[:10_000])))
    writer, _ = RecordWriter.reopen(path)
    with writer, served(folder) as found:
        ready(found.address)
        for name, make in asked.items():
            seconds, sizes[name] = took_s(found.address, make(dice))
            taken[name].append(seconds)
        again = [name for name in taken for _ in range(times)]
        dice.shuffle(again)
        for name in again:
            if name == "a run in progress, update":
                writer.append(next(more))
            before_s = cpu_s(found.process.pid)
            taken[name].append(took_s(found.address, asked[name](dice))[0])
            worked[name].append(cpu_s(found.process.pid) - before_s)
    return [
        {
            "page": name, "first_s": values[0], "median_s": statistics.median(values[1:]), "max_s": max(values[1:]),
            "median_cpu_s": statistics.median(worked[name]), "bytes": sizes[name],
        }
        for name, values in taken.items()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--store", type=Path, help="folder of the store, made there if it is not (default: a new one)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.store or Path(temporary) / "store"
        if not folder.is_dir():
            began_s = time.perf_counter()
            big_store(folder, options.runs)
            large_runs(folder)
            print(f"{options.runs * 50:,} trials written in {time.perf_counter() - began_s:.0f} s")
        (folder / "records" / f"{LIVE}.jsonl").unlink(missing_ok=True)
        rows = measure(folder, options.runs, options.times)
    print(f"{'page':28} {'first':>8} {'median':>8} {'longest':>8} {'CPU':>8} {'bytes':>9}")
    for row in rows:
        times = " ".join(f"{row[name]:7.3f}s" for name in ("first_s", "median_s", "max_s", "median_cpu_s"))
        print(f"{row['page']:28} {times} {row['bytes']:9,}")
    if options.json:
        used = {"cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
        found = {**used, "trials": options.runs * 50, "pages": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    slow = [row["page"] for row in rows if float(str(row["median_s"])) > PROMISED_S]
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
