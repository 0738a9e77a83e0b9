"""What LoadGen wrote: its verdict in its own words, its summary, and the latency of every query from its trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from torchstone.core.schema.axis import Scalar

SUMMARY, DETAIL, TRACE = "mlperf_log_summary.txt", "mlperf_log_detail.txt", "mlperf_log_trace.json"
MOST_LATENCIES = 200_000  # of more, as many order statistics are kept, evenly spaced: the quantiles stay
_MOST_CHARACTERS = 16_384
_NS = 1e-9
_SAMPLE = re.compile(
    r'"name":"Sample".*?"ph":"b".*?"query_seq":(?P<query>\d+),.*?"issue_start_ns":(?P<issued>\d+),'
    r'"complete_ns":(?P<done>\d+)'
)
_STAMP = re.compile(r'"ts":(?P<us>[\d.]+)')
_RESULT = re.compile(r"^Result is : (?P<result>\w+)", re.MULTILINE)


class Answers(msgspec.Struct, frozen=True):
    """The latency of each query (s; of several samples, that of the last), and from first arrival to last answer.

    `late`: how many were above the bound.
    """

    latencies_s: tuple[float, ...]
    queries: int
    samples: int
    total_s: float
    late: int


def answers(folder: Path, bound_s: float) -> Answers:
    """Read the trace: the times that LoadGen's own percentiles are made of."""
    slowest: dict[int, int] = {}
    samples, first_us, last_us = 0, float("inf"), 0.0
    for query, arrived_us, done_ns in _samples(folder / TRACE):
        samples += 1
        slowest[query] = max(done_ns, slowest.get(query, 0))
        first_us, last_us = min(first_us, arrived_us), max(last_us, arrived_us + done_ns * 1e-3)
    kept = [ns * _NS for ns in slowest.values()]
    late = sum(latency_s > bound_s for latency_s in kept)
    if len(kept) > MOST_LATENCIES:
        ordered, step = sorted(kept), (len(kept) - 1) / (MOST_LATENCIES - 1)
        kept = [ordered[round(n * step)] for n in range(MOST_LATENCIES)]
    return Answers(tuple(kept), len(slowest), samples, max(0.0, last_us - first_us) * 1e-6, late)


def _samples(path: Path) -> Iterator[tuple[int, float, int]]:
    """Yield (query, arrival in µs, latency in ns) of each sample. A line that is torn is passed over."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if (found := _SAMPLE.search(line)) and (stamp := _STAMP.search(line)):
                yield int(found["query"]), float(stamp["us"]), int(found["done"])


def said(folder: Path) -> Mapping[str, Scalar]:
    """Return LoadGen's verdict, its reasons word by word, the errors it noted, and its summary, as facts of a trial."""
    summary = _beginning(folder / SUMMARY)
    return {**verdict_of(summary), "loadgen_errors": _errors(folder / DETAIL), "loadgen_summary": summary}


def verdict_of(summary: str) -> Mapping[str, Scalar]:
    """Return `loadgen_result` (VALID or INVALID) and `loadgen_reasons`: the lines below it, with "; " between them."""
    found = _RESULT.search(summary)
    if found is None:
        return {"loadgen_result": None, "loadgen_reasons": None}
    block = summary[found.end() :].partition("====")[0]
    return {"loadgen_result": found["result"], "loadgen_reasons": _joined(block) or None}


def _joined(block: str) -> str:
    """Return lines as one, each word as it is: "; " between statements, a space within one and below its heading."""
    text = ""
    for line in filter(None, (" ".join(line.split()) for line in block.splitlines())):
        goes_on = line[0].islower() or (text.endswith((":", ",")) and not line.endswith(":"))
        text += (" " if goes_on else "; " if text else "") + line
    return text


def _errors(path: Path) -> str | None:
    """Return the errors of the detail log, which the summary only counts."""
    found = []
    for line in _beginning(path, 1 << 20).splitlines():
        _, mark, body = line.partition(":::MLLOG ")
        if mark and '"is_error": true' in body:
            try:
                found.append(str(msgspec.json.decode(body)["value"]))
            except (msgspec.DecodeError, KeyError, TypeError):
                continue
    return "; ".join(found)[:_MOST_CHARACTERS] or None


def _beginning(path: Path, most: int = _MOST_CHARACTERS) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except OSError:  # LoadGen ended before it wrote
        return ""
