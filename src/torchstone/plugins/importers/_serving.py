"""Results of loads on a server: vLLM's `bench serve`, GuideLLM and AIPerf. What the server runs on is in none of them.

A benchmark is a trial of its Case, a request an item. The latency of a request is a query's; `time_per_output_token_s`
is that of one request, (latency - first token) / (tokens - 1), each request counting once. Requests that failed are in
no latency: the fact `failed_requests` says how many. What its model is called, and its load, is all that a Case has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import (
    UNKNOWN,
    documents,
    listed,
    number,
    numbers,
    parsed,
    part,
    scaled,
    sha256_of,
    steady_values,
    text_of,
    whole,
    word,
)
from torchstone.plugins.protocols import Importer

_MS = 1e-3
_WORDS = ("mean", "p50", "p90", "p95", "p99")
_WINDOW = "load"


def _case(model: object, rate: object, arrivals: object, at_once: object, prompt: object, made: object) -> Case:
    """Return the Case of a load. `rate`: requests a second; what is no number sends all that may be `at_once`."""
    name, a_second = word(model), number(rate)
    is_open = a_second is not None and math.isfinite(a_second)
    load: dict[str, Scalar] = {
        "request_rate": a_second if is_open else "inf",
        "arrivals": word(arrivals) if is_open else None,
        "max_concurrency": whole(at_once),
    }
    known = " ".join(f"{name}={value}" for name, value in load.items() if value is not None)
    settings = {**load, "sequence_length": whole(prompt), "new_tokens": whole(made)}
    # Loads that differ are other data: what a server answers under one is no result under another.
    model = f"hf:{name}" if name else UNKNOWN
    return draft.a_case(Task.GENERATE, model, settings, Placement(UNKNOWN), item="request", data=known)


def _facts(case: Case, failed: float | None) -> Facts:
    made, lost = case.configuration.get("new_tokens"), whole(failed)
    return Facts(new_tokens=whole(made), other={} if lost is None else {"failed_requests": lost})


def _mean(total: object, count: object) -> float | None:
    requests = number(count)
    return scaled(total, 1.0 / requests) if requests else None


def _measured(
    latencies: Sequence[float],
    first: Sequence[float],
    each: Sequence[float],
    duration_s: float | None,
    ended: Sequence[float] | None = None,
) -> list[Measurement]:
    """Return the raw values of the requests that ended well. `ended`: 1 for each that did so within the duration."""
    items = [1.0] * len(latencies) if ended is None else ended
    return [
        steady_values("query_latency_s", latencies, _WINDOW),
        steady_values("time_to_first_token_s", first, _WINDOW),
        steady_values("time_per_output_token_s", each, _WINDOW),
        steady_values("items", items, _WINDOW),
        steady_values("window_time_s", [duration_s] if duration_s and latencies else (), _WINDOW),
    ]


# ── vllm_bench ───────────────────────────────────────────────────────────────────────────────────────────────

# vLLM's vllm/benchmarks/serve.py at commit 009e6d4a: `vllm bench serve --save-result` (one object), `--append-result`
# (one more a line). Times are seconds, summaries milliseconds.
#   duration                  from the first request sent to the last answer, failed ones too
#   completed, failed         requests; all rates are of those completed, over `duration`
#   request_throughput, output_throughput, total_token_throughput   a second
#   mean_/median_/pNN_ + ttft, tpot, e2el + _ms   of the completed; e2el from sending, without the wait for a place
#                             among max_concurrency; ..._e2el_including_client_queue_ms: with it, at a finite rate
#   --save-detailed: ttfts, itls, output_lens, errors; newer: latencies, queue_times (kept without it), one a request,
#                             failed ones (0, an error) among them

_VLLM_TIMES = {
    "query_latency": ("e2el_including_client_queue", "e2el"),
    "time_to_first_token": ("ttft",),
    "time_per_output_token": ("tpot",),
}
_VLLM_CLAIMS: draft.Aliases = {
    "throughput": (1.0, "request_throughput"),
    "output_token_throughput": (1.0, "output_throughput"),
    "token_throughput": (1.0, "total_token_throughput"),
    "total_time_s": (1.0, "duration"),
    "total_items": (1.0, "completed"),
    "steps": (1.0, "completed"),
    **{
        f"{figure}_{ours}_s": (_MS, *(f"{'median' if ours == 'p50' else ours}_{name}_ms" for name in names))
        for figure, names in _VLLM_TIMES.items()
        for ours in _WORDS
    },
}


class VllmBench(Importer):
    """Requests of an open loop, at a finite rate, have waited for their place: that is in their latency."""

    describes = "vllm bench serve: --save-result, --append-result, with --save-detailed each request"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        named = all(name in beginning for name in (b'"num_prompts"', b'"burstiness"', b'"endpoint_type"'))
        return named and path.suffix in (".json", ".jsonl") and beginning.lstrip().startswith(b"{")

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = [part(one) for one in documents(text, str(path))]
        begun = found[0].get("date") if found else None
        making = draft.Draft("vllm bench serve", path, sha256_of(text), draft.a_machine(), begun)
        for place, one in enumerate(found, 1):
            if number(one.get("duration")) is None or number(one.get("completed")) is None:
                raise UsageError(f"{path}: benchmark {place} has no duration, or no number of completed requests")
            burstiness = number(one.get("burstiness"))
            case = _case(
                one.get("model_id"),
                one.get("request_rate"),
                "poisson" if burstiness == 1.0 else f"gamma {burstiness}",
                one.get("max_concurrency"),
                _mean(one.get("total_input_tokens"), one.get("completed")),
                _mean(one.get("total_output_tokens"), one.get("completed")),
            )
            claimed = draft.figures_of(one, _VLLM_CLAIMS)
            making.add(case, claimed, _vllm_requests(one), _facts(case, number(one.get("failed"))))
        return [making.run(word(found[0].get("label")) if found else None)]


def _is_open(found: Mapping[str, Any]) -> bool:
    rate = number(found.get("request_rate"))
    return rate is not None and math.isfinite(rate)


def _vllm_requests(found: Mapping[str, Any]) -> list[Measurement]:
    """Return the completed requests; none where the file does not tell which they are."""
    first, tokens, errors = numbers(found.get("ttfts")), numbers(found.get("output_lens")), listed(found.get("errors"))
    gaps, latencies = listed(found.get("itls")), numbers(found.get("latencies"))
    if not latencies and len(gaps) == len(first):
        latencies = tuple(t + sum(numbers(after)) for t, after in zip(first, gaps, strict=True))
    failed = errors if len(errors) == len(latencies) else [None] * len(latencies)
    good = [place for place, latency in enumerate(latencies) if latency > 0.0 and not failed[place]]
    if len(good) != whole(found.get("completed")):
        return []
    waits = numbers(found.get("queue_times")) if _is_open(found) else ()
    waits = waits if len(waits) == len(latencies) else (0.0,) * len(latencies)
    answered = [first[place] for place in good if len(first) == len(latencies) and first[place] > 0.0]
    each = [
        (latencies[place] - first[place]) / (tokens[place] - 1.0)
        for place in good
        if len(first) == len(tokens) == len(latencies) and tokens[place] > 1.0 and first[place] > 0.0
    ]
    whole_s = [latencies[place] + max(0.0, waits[place]) for place in good]
    return _measured(whole_s, answered, each, number(found.get("duration")))


# ── guidellm ─────────────────────────────────────────────────────────────────────────────────────────────────

# GuideLLM 0.7.3+ (commit ee7a7745), src/guidellm/benchmark/schemas: benchmarks.json of metadata.version 2. Of each of
# `benchmarks`:
#   start_time, end_time, duration   seconds since the epoch, of the time measured: warm-up and cool-down are outside
#   config.strategy           synchronous; concurrent: streams; throughput; constant and poisson: rate; max_concurrency
#   metrics.request_totals    requests that lie in part within it: successful, incomplete (cut off), errored
#   metrics.<name>.successful mean, median, count, percentiles; request_latency in seconds, time_to_first_token_ms
#   metrics.requests_per_second.successful   of requests that ended within it: mean = count / duration
#   requests.successful       each: request_start_time, request_end_time, request_latency (s), time_to_first_token_ms,
#                             inter_token_latency_ms (one request's mean); all of them, or a sample of sample_size
# Its own inter_token_latency_ms and time_per_output_token_ms weigh requests by their tokens, and the latter counts the
# first token in: they are no figure of ours, and left out. It counts a time that is missing as 0.0.


class GuideLlm(Importer):
    """A benchmark of its sweep is a Case."""

    describes = "GuideLLM: benchmarks.json"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        return path.suffix == ".json" and b'"guidellm_version"' in beginning and beginning.lstrip().startswith(b"{")

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = parsed(text, str(path))
        about, benchmarks = part(found, "metadata"), part(found).get("benchmarks")
        if whole(about.get("version")) != 2:
            raise UsageError(f"{path}: not version 2 of GuideLLM's report, which alone can be read")
        if not isinstance(benchmarks, list) or not benchmarks:
            raise UsageError(f"{path}: no benchmarks")
        tool = f"GuideLLM {word(about.get('guidellm_version')) or ''}".strip()
        begun = number(part(benchmarks[0]).get("start_time"))
        making = draft.Draft(tool, path, sha256_of(text), draft.a_machine(about), _moment(begun))
        for place, one in enumerate(benchmarks):
            if not part(one, "metrics", "request_latency", "successful"):
                raise UsageError(f"{path}: benchmark {place} has no request_latency of successful requests")
            _add_guidellm(making, part(one), part(found, "config", "spec", "backend").get("model"))
        return [making.run()]


def _moment(seconds: float | None) -> str | None:
    """Return a moment of this century, as ISO 8601."""
    if seconds is None or not 0.0 < seconds < 4e9:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _add_guidellm(making: draft.Draft, one: Mapping[str, Any], model: object) -> None:
    metrics, strategy = part(one, "metrics"), part(one, "config", "strategy")
    totals, rate = part(metrics, "request_totals"), part(metrics, "requests_per_second", "successful")
    kind = word(strategy.get("type_"))
    case = _case(
        model,
        strategy.get("rate"),
        kind,
        1 if kind == "synchronous" else strategy.get("streams", strategy.get("max_concurrency")),
        part(metrics, "prompt_token_count", "successful").get("mean"),
        part(metrics, "output_token_count", "successful").get("mean"),
    )
    claimed: dict[str, float | None] = {
        "throughput": number(rate.get("mean")),
        "output_token_throughput": number(part(metrics, "output_tokens_per_second", "successful").get("mean")),
        "token_throughput": number(part(metrics, "tokens_per_second", "successful").get("mean")),
        "total_time_s": number(one.get("duration")),
        "total_items": number(rate.get("count")),
        "steps": number(totals.get("successful")),
    }
    for figure, name, unit in (
        ("query_latency", "request_latency", 1.0),
        ("time_to_first_token", "time_to_first_token_ms", _MS),
    ):
        summary = part(metrics, name, "successful")
        said = {"mean": summary.get("mean"), "p50": summary.get("median"), **part(summary, "percentiles")}
        claimed |= {f"{figure}_{ours}_s": scaled(said.get(ours), unit) for ours in _WORDS}
    lost = [number(totals.get(status)) for status in ("incomplete", "errored")]
    failed = sum(n for n in lost if n is not None) if lost != [None, None] else None
    making.add(case, claimed, _guidellm_requests(one, totals), _facts(case, failed))


def _guidellm_requests(one: Mapping[str, Any], totals: Mapping[str, Any]) -> list[Measurement]:
    """Return its successful requests within the time measured; none where the file has but a sample of them."""
    begin_s, end_s = number(one.get("start_time")), number(one.get("end_time"))
    if begin_s is None or end_s is None:
        return []
    latencies: list[float] = []
    first, each, ended = [], [], []
    for request in map(part, listed(part(one, "requests").get("successful"))):
        sent_s, done_s = number(request.get("request_start_time")), number(request.get("request_end_time"))
        latency = number(request.get("request_latency"))
        if done_s is None or latency is None or done_s < begin_s or (done_s if sent_s is None else sent_s) > end_s:
            continue
        latencies.append(latency)
        ended.append(1.0 if done_s <= end_s else 0.0)
        first += [t for t in [scaled(request.get("time_to_first_token_ms"), _MS)] if t is not None]
        each += [t for t in [scaled(request.get("inter_token_latency_ms"), _MS)] if t is not None]
    if len(latencies) != whole(totals.get("successful")):
        return []
    return _measured(latencies, first, each, number(one.get("duration")), ended)


# ── aiperf ───────────────────────────────────────────────────────────────────────────────────────────────────

# AIPerf 0.1.1+ (commit db4f6397), aiperf/common/models: profile_export_aiperf.json (unit, avg, p50, … of each metric),
# and profile_export.jsonl beside it (a request a line: metadata, metrics with their units, error).
#   request_latency           from the request to the last of its answer; inter_token_latency: (that - first token) /
#                             (tokens - 1); both of requests that ended well
#   request_throughput        request_count / benchmark_duration, from the first request to the last answer
#   error_request_count       requests that failed or were cancelled
# The file names neither the version of the tool nor its machine.

_SUMMARY, _RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0}
_AIPERF_TIMES = {
    "query_latency": "request_latency",
    "time_to_first_token": "time_to_first_token",
    "time_per_output_token": "inter_token_latency",
}
_AIPERF_COUNTS = {
    "throughput": "request_throughput",
    "output_token_throughput": "output_token_throughput",
    "total_items": "request_count",
    "steps": "request_count",
}


class AiPerf(Importer):
    """Its two files are one run, where both are there."""

    describes = f"AIPerf: {_SUMMARY}, {_RECORDS}"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        of_records = (b'"benchmark_phase"', b'"request_start_ns"', b'"metrics"')
        names = of_records if path.suffix == ".jsonl" else (b'"request_throughput"', b'"request_latency"', b'"avg"')
        return beginning.lstrip().startswith(b"{") and all(name in beginning for name in names)

    def read(self, path: Path) -> Sequence[Run]:
        texts = [text_of(path), ""] if path.suffix != ".jsonl" else ["", text_of(path)]
        for place, name in enumerate((_SUMMARY, _RECORDS)):
            beside = path.with_name(name)
            if not texts[place] and path.name in (_SUMMARY, _RECORDS) and beside.is_file() and not beside.is_symlink():
                texts[place] = text_of(beside)
        summary = part(parsed(texts[0], str(path))) if texts[0] else {}
        records = [part(one) for one in documents(texts[1], str(path))] if texts[1] else []
        measured, failed, begun = _aiperf_requests(records)
        if not part(summary, "request_latency") and not any(m.values for m in measured):
            raise UsageError(f"{path}: no request_latency")
        making = draft.Draft(
            "AIPerf", path, sha256_of("\n".join(texts)), draft.a_machine(), summary.get("start_time", _moment(begun))
        )
        errors = number(part(summary, "error_request_count").get("avg"))
        loadgen, endpoint = part(summary, "input_config", "loadgen"), part(summary, "input_config", "endpoint")
        case = _case(
            next(iter(listed(endpoint.get("model_names"))), None),
            loadgen.get("request_rate"),
            loadgen.get("request_rate_mode"),
            loadgen.get("concurrency"),
            part(summary, "input_sequence_length").get("avg"),
            part(summary, "output_sequence_length").get("avg"),
        )
        making.add(case, _aiperf_claims(summary), measured, _facts(case, errors if failed is None else failed))
        return [making.run()]


def _aiperf_claims(summary: Mapping[str, Any]) -> dict[str, float | None]:
    claimed = {figure: number(part(summary, name).get("avg")) for figure, name in _AIPERF_COUNTS.items()}
    claimed["total_time_s"] = _in_seconds(part(summary, "benchmark_duration"), "avg")
    for figure, name in _AIPERF_TIMES.items():
        for ours in _WORDS:
            claimed[f"{figure}_{ours}_s"] = _in_seconds(part(summary, name), "avg" if ours == "mean" else ours)
    return claimed


def _in_seconds(found: Mapping[str, Any], key: str) -> float | None:
    unit = _UNITS.get(str(found.get("unit")))
    return scaled(found.get(key), unit) if unit is not None else None


def _aiperf_requests(records: Sequence[Mapping[str, Any]]) -> tuple[list[Measurement], float | None, float | None]:
    """Return the requests that ended well, how many did not (None: no records), and when the first was sent."""
    profiled = [one for one in records if part(one, "metadata").get("benchmark_phase") == "profiling"]
    good = [one for one in profiled if one.get("error") is None and part(one, "metrics", "request_latency")]
    times = {name: list(_values(good, name)) for name in _AIPERF_TIMES.values()}
    latencies, first, each = times.values()
    sent = [t for one in good if (t := scaled(part(one, "metadata").get("request_start_ns"), 1e-9)) is not None]
    done = [t for one in good if (t := scaled(part(one, "metadata").get("request_end_ns"), 1e-9)) is not None]
    duration_s = max(done) - min(sent) if sent and len(sent) == len(done) == len(latencies) else None
    failed = float(len(profiled) - len(good)) if records else None
    return _measured(latencies, first, each, duration_s), failed, min(sent, default=None)


def _values(records: Sequence[Mapping[str, Any]], name: str) -> Iterator[float]:
    for one in records:
        if (value := _in_seconds(part(one, "metrics", name), "value")) is not None:
            yield value


PLUGINS: Mapping[str, Importer] = {"vllm_bench": VllmBench(), "guidellm": GuideLlm(), "aiperf": AiPerf()}
