"""What a load generator measures: the rows and titles that core/schema/metric.py has in its tables."""

from __future__ import annotations

from torchstone.core.schema.quantity import Better, Pool, Unit

_L, _N, _S = Better.LOWER, Better.NEITHER, Unit.SECOND
_P = Pool

RAW_OF_LOAD = (
    ("query_latency_s", _S, _L, _P.MEDIAN, _P.MAX, "one query of a load: from its scheduled arrival to its answer"),
    ("batch_time_s", _S, _L, _P.MEAN, _P.MAX, "one batch of a load, from its queries' collection to its answer"),
)
FIGURES_OF_LOAD = (
    ("query_latency_mean_s", _S, _L, _P.MEAN, _P.MAX, "mean time from a query's arrival to its answer"),
    ("query_latency_p50_s", _S, _L, _P.MEDIAN, _P.MAX, "median time from a query's arrival to its answer"),
    ("query_latency_p90_s", _S, _L, _P.ONLY, _P.MAX, "90th percentile of the latency of a query"),
    ("query_latency_p95_s", _S, _L, _P.ONLY, _P.MAX, "95th percentile of the latency of a query"),
    ("query_latency_p99_s", _S, _L, _P.ONLY, _P.MAX, "99th percentile of the latency of a query"),
    ("items_per_batch", Unit.NUMBER, _N, _P.MEAN, _P.MEAN, "mean items of a batch that queries were put together to"),
)
# Name, title and rank, as _NAMED has them.
LATENCIES_OF_LOAD = (
    ("query_latency_mean_s", "mean query latency", None), ("query_latency_p50_s", "query latency p50", 2),
    ("query_latency_p90_s", "query latency p90", 6), ("query_latency_p95_s", "query latency p95", None),
    ("query_latency_p99_s", "query latency p99", 1),
)  # fmt: skip
BATCHES_OF_LOAD = ("items_per_batch", "items per batch", 9)
