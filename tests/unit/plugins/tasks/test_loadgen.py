"""Task loadgen: which queries become a batch, the samples they ask for, LoadGen's settings, and what its logs say."""

import tempfile
import threading
import time

import pytest
import torch

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.procedure import LoadPlan
from torchstone.plugins import registry
from torchstone.plugins.protocols import Streamable
from torchstone.plugins.tasks.loadgen import driving
from torchstone.plugins.tasks.loadgen.driving import Waiting, open_library

ENGINE = registry.load("engines", "loadgen")
DEFAULTS = {axis: AXES[axis].default for axis in ENGINE.axes}


# ── dynamic batching ────────────────────────────────────────────────────────────────────────────────────────


def waiting(most, max_wait_s, *queries):
    found: Waiting[str] = Waiting(most, max_wait_s, time.perf_counter)
    for query in queries:
        found.put(query)
    return found


def test_a_batch_is_what_waits_up_to_the_most_the_oldest_first():
    queue = waiting(3, 0.0, *"abcde")
    assert queue.take() == ["a", "b", "c"]
    assert queue.take() == ["d", "e"]


def test_a_batch_that_is_not_full_waits_as_long_as_it_may():
    queue = waiting(2, 0.1, "a")
    began_s = time.perf_counter()
    assert queue.take() == ["a"]
    assert 0.05 < time.perf_counter() - began_s < 5.0


def test_a_batch_begins_when_it_is_full():
    queue = waiting(2, 600.0, "a")
    threading.Timer(0.05, queue.put, ["b"]).start()
    assert queue.take() == ["a", "b"]


def test_the_last_queries_wait_for_no_others():
    queue = waiting(4, 600.0, "a")
    queue.flush()
    assert queue.take() == ["a"]
    threading.Timer(0.05, queue.end).start()
    assert queue.take() == []


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────


def model(**changes):
    example = {"input": torch.arange(12.0).reshape(4, 3)}
    parts = {"module": torch.nn.Identity(), "forward": lambda n, t: n(t["input"]), "loss": None}
    return LoadedModel(**{**parts, "input": InputSpec("own"), "example": example, **changes})


def test_any_samples_make_a_batch():
    library = open_library({"batch_size": 2}, model(), None, 0)
    assert library.samples == 8
    rows = library.batch(range(8)).tensors["input"]
    batch = library.batch([5, 2, 5])
    assert batch.items == 3
    assert torch.equal(batch.tensors["input"], rows[[5, 2, 5]])
    assert torch.equal(library.batch([3]).tensors["input"], rows[3:4])
    assert library.next().items == 2


def test_tokens_are_counted_without_padding():
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]])
    example = {"input_ids": torch.ones(4, 3, dtype=torch.int64), "attention_mask": mask}
    library = open_library({"batch_size": 1}, model(example=example), None, 0)
    every = [library.batch([n]).tokens or 0 for n in range(library.samples)]
    assert sum(every) == 2 * 8
    assert library.batch([0, 1]).tokens == every[0] + every[1]


def test_data_without_single_samples_are_refused():
    class Stream(Streamable):
        def open_batches(self, configuration):
            raise AssertionError

    class Batches:
        open_batches = Stream.open_batches

    with pytest.raises(UsageError, match=r"torchstone\.extend\.Streamable"):
        open_library({"batch_size": 1}, model(), Batches(), 0)
    with pytest.raises(Unsupported, match="return the Dataset"):
        open_library({"batch_size": 1}, model(), Stream(), 0)
    with pytest.raises(Unsupported, match="no example batch"):
        open_library({"batch_size": 1}, model(example=None), None, 0)


def test_scenario_server_without_a_rate_is_refused():
    case = Case(Workload(Task.LOADGEN, "m", "example", "item"), {**DEFAULTS, "scenario": "server"}, Placement("cpu"))
    with pytest.raises(Unsupported, match=r"--axis target_qps=50, or let `torchstone goodput`"):
        ENGINE.prepare(case, model(), registry.load("devices", "cpu").open(0))


# ── LoadGen's settings ──────────────────────────────────────────────────────────────────────────────────────


def settings(step_s=0.01, seed=3, **axes):
    lg = pytest.importorskip("mlperf_loadgen", reason="pip install 'torchstone[load]'")
    from torchstone.plugins.tasks.loadgen.driving import settings_of

    return settings_of(lg, {**DEFAULTS, **axes}, LoadPlan(2.5, seed, step_s))


def test_durations_and_least_queries_are_those_of_early_stopping():
    alone = settings()
    assert (alone.min_duration_ms, alone.min_query_count) == (2500, 64)
    assert alone.single_stream_expected_latency_ns == 2_500_000, "a quarter of the warm-up's: none runs out of queries"
    several = settings(scenario="multi_stream", samples_per_query=8, batch_size=4)
    assert (several.multi_stream_samples_per_query, several.min_query_count) == (8, 662)
    assert settings(scenario="offline", batch_size=4).offline_expected_qps == pytest.approx(520.0)


def test_a_server_load_has_rate_bound_seeds_and_an_end_where_it_is_hopeless():
    server = settings(scenario="server", target_qps=200.0, latency_bound_s=0.05)
    assert (server.server_target_qps, server.server_target_latency_ns) == (200.0, 50_000_000)
    assert (server.server_target_latency_percentile, server.min_query_count) == (0.99, 662)
    assert server.server_max_async_queries == 64 + 100
    names = ("schedule_rng_seed", "sample_index_rng_seed", "qsl_rng_seed")
    seeds = {getattr(settings(seed=n), name) for n in (3, 4) for name in names}
    assert len(seeds) == 6


# ── what LoadGen wrote ──────────────────────────────────────────────────────────────────────────────────────

SUMMARY = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Completed samples per second    : 195.46
Result is : INVALID
  Performance constraints satisfied : Yes
  Early stopping satisfied: NO
Recommendations:
Early Stopping Result:
 * Run unsuccessful.
 * Processed 393 queries.
 * Would need to run at least 66 more queries,
 with the run being successful if every additional
 query were under latency.

================================================
Additional Stats
================================================
Scheduled samples per second : 195.68
"""


def trace(*samples):
    """Lines as LoadGen writes them: (query, arrival in µs, latency in ns) of each sample."""
    begun = (
        f'{{"name":"Sample","cat":"default","ph":"b","pid":1,"id":{n},"ts":{at},"args":{{"sample_seq":{n},"query_seq":{query},'
        f'"sample_idx":2,"issue_start_ns":17,"complete_ns":{ns}}}}},\n'
        for n, (query, at, ns) in enumerate(samples)
    )
    return '{"traceEvents":[\n' + "".join(begun) + '{"name":"IssueQuery","ph":"X","ts":26.7,"dur":3.9,"args":{}},\n'


def test_the_verdict_is_loadgens_own_word_by_word():
    said = driving.verdict_of(SUMMARY)
    assert said.loadgen_result == "INVALID"
    assert said.loadgen_reasons == (
        "Performance constraints satisfied : Yes",
        "Early stopping satisfied: NO",
        "Recommendations:",
        "Early Stopping Result: * Run unsuccessful.",
        "* Processed 393 queries.",
        (
            "* Would need to run at least 66 more queries, with the run being successful if every additional query "
            "were under latency."
        ),
    )
    assert driving.verdict_of("nothing").loadgen_result is None


def test_latencies_are_those_of_the_trace_and_of_a_query_its_slowest_sample():
    samples = (0, 10.0, 2_000_000), (0, 10.0, 5_000_000), (1, 1010.0, 3_000_000)
    torn = trace(*samples) + '{"na'
    found = driving.answers(torn.splitlines(), 0.004)
    assert found.latencies_s == (0.005, 0.003)
    assert (found.queries, found.samples, found.late) == (2, 3, 1)
    assert found.total_s == pytest.approx(0.005)


def test_of_very_many_latencies_the_quantiles_are_kept(monkeypatch):
    monkeypatch.setattr(driving, "MOST_LATENCIES", 101)
    found = driving.answers(trace(*((n, float(n), n) for n in range(1, 1002))).splitlines(), 901e-9)
    assert len(found.latencies_s) == 101
    assert min(found.latencies_s) == pytest.approx(1e-9)
    assert max(found.latencies_s) == pytest.approx(1001e-9)
    assert sorted(found.latencies_s)[50] == pytest.approx(501e-9)
    assert (found.queries, found.late) == (1001, 100)


def test_errors_of_the_detail_log_are_kept_and_torn_lines_passed_over():
    error = ':::MLLOG {"key": "error_runtime", "value": "Ending early", "metadata": {"is_error": true}}\n'
    torn = ':::MLLOG {"key": "a", "value": "b", "metadata": {"is_error": true'
    assert driving.errors_of(error + torn) == ("Ending early",)
    assert driving.errors_of("") == ()


def test_what_loadgen_writes_is_read_when_its_folder_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with driving.LogFiles() as files:
        with (files.folder / driving.SUMMARY).open("w") as summary, (files.folder / driving.TRACE).open("w") as written:
            files.unname()
            assert list(tmp_path.iterdir()) == []
            summary.write(SUMMARY)
            written.write(trace((0, 10.0, 2_000_000)))
        assert driving.answers(files.lines(driving.TRACE), 1.0).latencies_s == (0.002,)
        assert driving.facts_of(files).loadgen_summary == SUMMARY
        assert driving.facts_of(files).loadgen_errors == (), "a file that it did not open"


def test_logs_that_loadgen_could_not_open_are_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with driving.LogFiles() as files:
        assert driving.facts_of(files).loadgen_result is None
        with pytest.raises(FileNotFoundError, match=r"could not write .*mlperf_log_trace\.json: is there room"):
            files.lines(driving.TRACE)
    assert list(tmp_path.iterdir()) == []
