"""What LoadGen wrote: its verdict in its own words, its summary, and the latency of every query from its trace."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TextIO

import msgspec

from torchstone.core.schema.facts import Facts, merged

SUMMARY, DETAIL, TRACE = "mlperf_log_summary.txt", "mlperf_log_detail.txt", "mlperf_log_trace.json"
MOST_LATENCIES = 200_000  # of more, as many order statistics are kept, evenly spaced: the quantiles stay
_MOST_CHARACTERS, _MOST_DETAIL, _MOST_ERRORS = 16_384, 1 << 20, 64
_NS = 1e-9
_SAMPLE = re.compile(
    r'"name":"Sample".*?"ph":"b".*?"query_seq":(?P<query>\d+),.*?"issue_start_ns":(?P<issued>\d+),'
    r'"complete_ns":(?P<done>\d+)'
)
_STAMP = re.compile(r'"ts":(?P<us>[\d.]+)')
_RESULT = re.compile(r"^Result is : (?P<result>\w+)", re.MULTILINE)


class LogFiles:
    """The files that LoadGen writes, in a folder that is removed as soon as it has opened them.

    Nothing of a load is left behind then, even where its process is killed. Use as a context manager.
    """

    def __init__(self) -> None:
        self._closing = ExitStack()
        # Of NFS an open file keeps a name in the folder, which is removed when the file is closed.
        made = tempfile.TemporaryDirectory(prefix="torchstone_load_", ignore_cleanup_errors=True)
        self._remove, self.folder = made.cleanup, Path(made.name)
        self._closing.callback(self._remove)
        self._open: dict[str, TextIO] = {}

    def unname(self) -> None:
        """Open what LoadGen has opened, and remove the names of it all."""
        for path in sorted(self.folder.iterdir()):
            self._open[path.name] = self._closing.enter_context(path.open(encoding="utf-8", errors="replace"))
        self._remove()

    def lines(self, name: str) -> Iterable[str]:
        """Return the lines of a file. Raises FileNotFoundError where LoadGen could not open it."""
        if name not in self._open:
            raise FileNotFoundError(f"LoadGen could not write {self.folder / name}: is there room?")
        return self._open[name]

    def beginning(self, name: str, most: int) -> str:
        """Return so many characters at most of a file; none where LoadGen could not open it."""
        return self._open[name].read(most) if name in self._open else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()


class Answers(msgspec.Struct, frozen=True):
    """The latency of each query (s; of several samples, that of the last), and from first arrival to last answer.

    `late`: how many were above the bound.
    """

    latencies_s: tuple[float, ...]
    queries: int
    samples: int
    total_s: float
    late: int


def answers(trace: Iterable[str], bound_s: float) -> Answers:
    """Read the lines of the trace: the times that LoadGen's own percentiles are made of."""
    slowest: dict[int, int] = {}
    samples, first_us, last_us = 0, float("inf"), 0.0
    for query, arrived_us, done_ns in _samples(trace):
        samples += 1
        slowest[query] = max(done_ns, slowest.get(query, 0))
        first_us, last_us = min(first_us, arrived_us), max(last_us, arrived_us + done_ns * 1e-3)
    kept = [ns * _NS for ns in slowest.values()]
    late = sum(latency_s > bound_s for latency_s in kept)
    if len(kept) > MOST_LATENCIES:
        ordered, step = sorted(kept), (len(kept) - 1) / (MOST_LATENCIES - 1)
        kept = [ordered[round(n * step)] for n in range(MOST_LATENCIES)]
    return Answers(tuple(kept), len(slowest), samples, max(0.0, last_us - first_us) * 1e-6, late)


def _samples(trace: Iterable[str]) -> Iterator[tuple[int, float, int]]:
    """Yield (query, arrival in µs, latency in ns) of each sample. A line that is torn is passed over."""
    for line in trace:
        if (found := _SAMPLE.search(line)) and (stamp := _STAMP.search(line)):
            yield int(found["query"]), float(stamp["us"]), int(found["done"])


def said(files: LogFiles) -> Facts:
    """Return LoadGen's verdict, its reasons word by word, the errors it noted, and its summary, as facts of a trial."""
    summary, detail = files.beginning(SUMMARY, _MOST_CHARACTERS), files.beginning(DETAIL, _MOST_DETAIL)
    return merged(verdict_of(summary), Facts(loadgen_errors=errors_of(detail), loadgen_summary=summary))


def verdict_of(summary: str) -> Facts:
    """Return `loadgen_result` (VALID or INVALID) and `loadgen_reasons`: the statements below it."""
    found = _RESULT.search(summary)
    if found is None:
        return Facts()
    block = summary[found.end() :].partition("====")[0]
    return Facts(loadgen_result=found["result"], loadgen_reasons=_statements(block))


def _statements(block: str) -> tuple[str, ...]:
    """Return the statements of a block, each word as it is; one may go on in the lines below its heading."""
    found: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in block.splitlines())):
        if found and (line[0].islower() or (found[-1].endswith((":", ",")) and not line.endswith(":"))):
            found[-1] += f" {line}"
        else:
            found.append(line)
    return tuple(found)


def errors_of(detail: str) -> tuple[str, ...]:
    """Return the errors of the detail log, which the summary only counts."""
    found = []
    for line in detail.splitlines():
        _, mark, body = line.partition(":::MLLOG ")
        if mark and '"is_error": true' in body:
            try:
                found.append(str(msgspec.json.decode(body)["value"]))
            except (msgspec.DecodeError, KeyError, TypeError):
                continue
    return tuple(one[:256] for one in found[:_MOST_ERRORS])
