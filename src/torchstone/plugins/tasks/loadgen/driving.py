"""A load from its first query to its last answer: LoadGen asks, the model answers, its logs are read."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.load import (
    MLPERF_DURATION_S,
    MULTI_STREAM,
    OFFLINE,
    PERCENTILES_OF_SCENARIO,
    SERVER,
    LoadMeasured,
    LoadPlan,
    Tell,
)
from torchstone.core.stats.quantile import needed
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.tasks._inference import PreparedInference
from torchstone.plugins.tasks.loadgen import logs
from torchstone.plugins.tasks.loadgen.library import Library
from torchstone.plugins.tasks.loadgen.waiting import Waiting

_SCENARIOS = {
    "single_stream": "SingleStream", MULTI_STREAM: "MultiStream", OFFLINE: "Offline", SERVER: "Server",
}  # fmt: skip
_SLACK = 1.3  # what the warm-up tells of the rate of an offline load may be so wrong
_FASTER = 4.0  # queries of a closed loop are made ready for a model so many times faster than in the warm-up
_HOPELESS_BOUNDS, _HOPELESS_SHARE, _LEAST_WAITING = 10.0, 0.1, 64
_EVERY_SIZE = 32  # up to this batch size, each smaller one is warmed up as well; above, powers of two


class Answering:
    """Answers queries with the model, and keeps how long each batch took and how many items it had."""

    def __init__(self, library: Library, inference: PreparedInference, device: Device, tell: Tell) -> None:
        self._library, self._inference, self._synchronize, self._tell = library, inference, device.synchronize, tell
        self.times_s: list[float] = []
        self.items: list[int] = []
        self.tokens: list[int] = []
        self._began_s = self._told_s = perf_counter()

    def warm_up(self, most: int) -> None:
        """Answer one batch of every size that may come: the first of a size is slower."""
        sizes = range(1, most) if most <= _EVERY_SIZE else [2**n for n in range(most.bit_length())]
        for size in sizes:
            self._answer([n % self._library.samples for n in range(size)])
        self._began_s = self._told_s = perf_counter()

    def batch(self, numbers: Sequence[int]) -> None:
        """Answer the samples of these numbers together."""
        began_s = perf_counter()
        tokens = self._answer(numbers)
        now_s = perf_counter()
        self.times_s.append(now_s - began_s)
        self.items.append(len(numbers))
        if tokens is not None:
            self.tokens.append(tokens)
        if now_s - self._told_s >= 1.0:
            self._told_s = now_s
            self._tell(len(self.times_s), now_s - self._began_s, self.times_s[-1])

    def _answer(self, numbers: Sequence[int]) -> int | None:
        batch = self._library.batch(numbers)
        self._inference.step(lambda: batch, _unmarked)
        self._synchronize()
        return batch.tokens


def _unmarked(_phase: str) -> None:
    """Do nothing at the end of a phase."""


def drive(
    configuration: Mapping[str, Scalar], library: Library, inference: PreparedInference, device: Device,
    plan: LoadPlan, tell: Tell,
) -> LoadMeasured:  # fmt: skip
    """Carry out one load and return what it measured. Raises what the model raises, and Unsupported without LoadGen."""
    try:
        import mlperf_loadgen as lg
    except ImportError as fault:
        raise Unsupported(f"MLCommons LoadGen cannot be loaded: {fault}; pip install 'torchstone[load]'") from fault
    most, scenario = int(configuration["batch_size"] or 1), str(configuration["scenario"])
    bound_s = float(configuration["latency_bound_s"] or math.inf) if scenario == SERVER else math.inf
    answering = Answering(library, inference, device, tell)
    answering.warm_up(most)
    settings = settings_of(lg, configuration, plan)
    with logs.LogFiles() as files:
        log = lg.LogSettings()
        output = log.log_output
        output.outdir, output.copy_summary_to_stdout = str(files.folder), False
        log.log_output, log.enable_trace = output, True

        def start(issue: Callable[[Any], None], flush: Callable[[], None]) -> None:
            sut = lg.ConstructSUT(issue, flush)
            # All samples are in memory already: nothing to load. LoadGen asks for it when it has opened its files.
            qsl = lg.ConstructQSL(library.samples, library.samples, lambda _: files.unname(), _nothing)
            lg.StartTestWithLogSettings(sut, qsl, settings, log, "")
            lg.DestroyQSL(qsl)
            lg.DestroySUT(sut)

        begin_s = perf_counter()
        if scenario == SERVER:
            waiting: Waiting[Any] = Waiting(most, float(configuration["max_wait_s"] or 0.0), perf_counter)
            _served(lg, start, waiting, answering)
        else:
            _asked(lg, start, most, answering)
        end_s = perf_counter()
        found, facts = logs.answers(files.lines(logs.TRACE), bound_s), logs.said(files)
    values: dict[str, Sequence[float]] = {
        "batch_time_s": answering.times_s, "items": answering.items, "window_time_s": [found.total_s],
        **({"tokens": answering.tokens} if answering.tokens else {}),
        **({"query_latency_s": found.latencies_s} if scenario != OFFLINE else {}),
    }  # fmt: skip
    return LoadMeasured(values, merged(facts, _how(configuration, plan, settings, found)), begin_s, end_s)


def settings_of(lg: Any, configuration: Mapping[str, Scalar], plan: LoadPlan) -> Any:
    """Return LoadGen's settings: MLPerf's but for the duration, with the least queries that early stopping needs."""
    scenario, most = str(configuration["scenario"]), int(configuration["batch_size"] or 1)
    each = int(configuration["samples_per_query"] or 1) if scenario == MULTI_STREAM else 1
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, _SCENARIOS[scenario])
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = max(1, round(1e3 * plan.duration_s))
    if (percentile := PERCENTILES_OF_SCENARIO.get(scenario)) is not None:
        settings.min_query_count = needed(percentile)
    else:  # one query of all samples
        settings.min_query_count = 1
    settings.schedule_rng_seed, settings.sample_index_rng_seed, settings.qsl_rng_seed = _seeds(plan.seed)
    expected_ns = max(1, round(1e9 * plan.step_s * math.ceil(each / most) / _FASTER))
    settings.single_stream_expected_latency_ns = expected_ns
    settings.multi_stream_expected_latency_ns = expected_ns
    settings.multi_stream_samples_per_query = each
    settings.offline_expected_qps = _SLACK * most / max(plan.step_s, 1e-9)
    if scenario == SERVER:
        rate, bound_s = float(configuration["target_qps"] or 0.0), float(configuration["latency_bound_s"] or 0.0)
        settings.server_target_qps = rate
        settings.server_target_latency_ns = max(1, round(1e9 * bound_s))
        settings.server_target_latency_percentile = PERCENTILES_OF_SCENARIO[SERVER]
        # So many queries waiting are more than 1 % of the load over the bound, whatever comes: LoadGen then ends it.
        hopeless_s = max(_HOPELESS_BOUNDS * bound_s, _HOPELESS_SHARE * max(plan.duration_s, needed(0.99) / rate))
        settings.server_max_async_queries = _LEAST_WAITING + math.ceil(rate * hopeless_s)
    return settings


def _seeds(seed: int) -> tuple[int, int, int]:
    """Return the seeds of arrivals, of the order of samples, and of which samples are in memory: all from one."""
    first = 3 * seed + 1
    return first, first + 1, first + 2


def _asked(lg: Any, start: Callable[..., None], most: int, answering: Answering) -> None:
    """Answer in LoadGen's own thread, which is this one: it asks for no more before it has its answer.

    After an error of the model all further queries are answered at once and without it, so that LoadGen, which cannot
    be stopped, comes to its end.
    """
    wrong: list[BaseException] = []

    def issue(samples: Sequence[Any]) -> None:
        for first in range(0, len(samples), most):
            asked = samples[first : first + most]
            if not wrong:
                try:
                    answering.batch([sample.index for sample in asked])
                except BaseException as error:
                    wrong.append(error)
            lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in asked])

    start(issue, _nothing)
    if wrong:
        raise wrong[0]


def _served(lg: Any, start: Callable[..., None], waiting: Waiting[Any], answering: Answering) -> None:
    """Answer in this thread, whose pool of threads torch computes with, while LoadGen asks in another one.

    An error of the model leaves that thread behind; it ends with its process.
    """
    wrong: list[BaseException] = []

    def issue(samples: Sequence[Any]) -> None:
        for sample in samples:
            waiting.put(sample)

    def ask() -> None:
        try:
            start(issue, waiting.flush)
        except BaseException as error:
            wrong.append(error)
        finally:
            waiting.end()

    asking = threading.Thread(target=ask, name="loadgen", daemon=True)
    asking.start()
    while asked := waiting.take():
        answering.batch([sample.index for sample in asked])
        lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in asked])
    asking.join()
    if wrong:
        raise wrong[0]


def _nothing(*_: Any) -> None:
    """Do nothing."""


def _how(configuration: Mapping[str, Scalar], plan: LoadPlan, settings: Any, found: logs.Answers) -> Facts:
    """Return how the load was made, for the record."""
    server = configuration["scenario"] == SERVER
    try:
        package = version("mlcommons-loadgen")
    except PackageNotFoundError:  # built from its repository
        package = "unknown"
    return Facts(
        loadgen_version=package, loadgen_queries=found.queries, loadgen_late=found.late if server else None,
        loadgen_min_duration_s=plan.duration_s, loadgen_mlperf_min_duration_s=MLPERF_DURATION_S,
        loadgen_min_queries=settings.min_query_count,
        loadgen_schedule_seed=settings.schedule_rng_seed if server else None,
        loadgen_sample_seed=settings.sample_index_rng_seed,
        loadgen_arrivals="Poisson" if server else "closed loop",
    )  # fmt: skip
