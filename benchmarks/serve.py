"""How soon each page of `torchstone serve` is there over a store of a million trials: 0.3 s at most.

The store: 20,000 runs of 10 cases and 5 trials each, six models on three hosts over two years, with their index
(tests/big_store.py). Each page is asked for a number of times over HTTP on this machine, with other values each time so
that nothing kept from before answers; the first of each is told by itself.

    python benchmarks/serve.py [--runs 20000] [--times 15] [--store DIR] [--json FILE]     exit 1 if a page takes longer
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from big_store import HOSTS, MODELS, big_store, named
from served import served
from stored import case

PROMISED_S = 0.3
Address = Callable[[random.Random], str]


def pages(runs: int) -> Mapping[str, Address]:
    """Return what is asked for: a function that makes an address each."""
    models = [model.partition(":")[2] for model in MODELS]

    def run_id(dice: random.Random) -> str:
        return named(dice.randrange(runs))[0]

    def case_id(dice: random.Random) -> str:
        kind = dice.choice(("cpu", "cuda"))
        return case(kind, model=dice.choice(MODELS), batch_size=8 * dice.randint(1, 10)).case_id

    def behind(dice: random.Random) -> str:
        name, moment = named(dice.randrange(runs))
        return f"{moment}~{name}"

    return {
        "runs, newest": lambda _: "/runs",
        "runs, behind any": lambda dice: f"/runs?before={behind(dice)}",
        "runs of a model": lambda dice: f"/runs?model={dice.choice(models)}",
        "runs, four filters": lambda dice: (
            f"/runs?model={dice.choice(models)}&device=NVIDIA%20H200&verdict=SUSPECT&since=2024-0{dice.randint(1, 9)}-01"
        ),
        "runs, nothing matches": lambda dice: f"/runs?q=nothing{dice.random()}",
        "runs, no such case": lambda dice: f"/runs?model={quote(str(dice.random()))}",
        "search of a word": lambda dice: f"/runs?q={dice.choice(HOSTS)}+{dice.choice(models)}",
        "a run": lambda dice: f"/runs/{run_id(dice)}",
        "a run, every figure": lambda dice: f"/runs/{run_id(dice)}?every=1",
        "comparing two runs": lambda dice: f"/compare?a={run_id(dice)}&b={run_id(dice)}",
        "comparing four runs": lambda dice: "/compare?" + "&".join(f"{x}={run_id(dice)}" for x in "abcd"),
        "cases": lambda _: "/history",
        "cases, searched": lambda dice: f"/history?q={dice.choice(models)}+{dice.choice(HOSTS)}",
        "history of a case": lambda dice: f"/history/{case_id(dice)}",
        "findings, newest": lambda _: "/findings",
        "findings of a check": lambda dice: f"/findings?check=drift&severity=warning&until=2024-0{dice.randint(1, 9)}-28",
        "findings, nothing matches": lambda dice: f"/findings?q=nothing{dice.random()}",
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
        raise SystemExit(f"{path}: {reply.status}")
    return time.perf_counter() - began_s, size


def measure(folder: Path, runs: int, times: int) -> list[dict[str, object]]:
    """Ask for each page so many times, in random order, and return a row each."""
    dice = random.Random(1)
    taken: dict[str, list[float]] = {name: [] for name in pages(runs)}
    sizes: dict[str, int] = {}
    with served(folder) as found:
        time.sleep(5.0)  # the first look at 20,000 records
        for name, make in pages(runs).items():
            seconds, sizes[name] = took_s(found.address, make(dice))
            taken[name].append(seconds)
        again = [name for name in taken for _ in range(times)]
        dice.shuffle(again)
        for name in again:
            taken[name].append(took_s(found.address, pages(runs)[name](dice))[0])
    return [
        {
            "page": name, "first_s": values[0], "median_s": statistics.median(values[1:]), "max_s": max(values[1:]),
            "bytes": sizes[name],
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
            print(f"{options.runs * 50:,} trials written in {time.perf_counter() - began_s:.0f} s")
        rows = measure(folder, options.runs, options.times)
    print(f"{'page':28} {'first':>8} {'median':>8} {'longest':>8} {'bytes':>9}")
    for row in rows:
        print(f"{row['page']:28} {row['first_s']:7.3f}s {row['median_s']:7.3f}s {row['max_s']:7.3f}s {row['bytes']:9,}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    slow = [row["page"] for row in rows if float(str(row["median_s"])) > PROMISED_S]
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
