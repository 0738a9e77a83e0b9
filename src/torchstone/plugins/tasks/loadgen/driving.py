"""A load from its first query to its last answer: LoadGen asks, the model answers, its logs are read."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Condition
from time import perf_counter
from typing import Any, Generic, Self, TextIO, TypeVar

import msgspec
import torch

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.core.schema.procedure import (
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
from torchstone.plugins.protocols import Streamable
from torchstone.plugins.tasks._batches import collate, samples_of
from torchstone.plugins.tasks._inference import PreparedInference

_MOST_SAMPLES, _MOST_BYTES = 1024, 256 << 20
_LEAST_SAMPLES = 8  # even of large ones, so that no cache learns a single one by heart


class SampleLibrary:
    """What LoadGen calls a query sample library; at the same time the feed of the warm-up."""

    def __init__(self, whole: Batch, size: int) -> None:
        self.queue, self.turn = 0, 1
        self.unreadable = {bad.where: bad.why for bad in whole.unreadable}
        self.samples = whole.items
        self._tensors = whole.tensors
        mask = whole.tensors.get("attention_mask") if whole.tokens is not None else None
        self._tokens = None if mask is None else [int(n) for n in mask.flatten(1).sum(1).tolist()]
        turns = itertools.cycle(range(self.samples))
        self.next: Callable[[], Batch] = lambda: self.batch([next(turns) for _ in range(size)])

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return the samples of these numbers as a batch; a single one is not copied."""
        if len(numbers) == 1:
            (n,) = numbers
            tensors = {name: tensor[n : n + 1] for name, tensor in self._tensors.items()}
        else:
            rows = torch.tensor(numbers)
            tensors = {name: tensor.index_select(0, rows) for name, tensor in self._tensors.items()}
        tokens = None if self._tokens is None else sum(self._tokens[n] for n in numbers)
        return Batch(tensors, len(numbers), tokens)

    def begin_epoch(self, number: int) -> None:
        """Nothing to begin: the samples have no order of their own."""

    def close(self) -> None:
        """Nothing to end."""


def open_library(configuration: Mapping[str, Scalar], model: LoadedModel, samples: Any, seed: int) -> SampleLibrary:
    """Return so many samples, drawn by the seed, as fit; without data, of the model's own example.

    Raises Unsupported where there are no single samples.
    """
    size = int(configuration["batch_size"] or 1)
    samples = samples_of(model, samples, _LEAST_SAMPLES)
    if isinstance(samples, Streamable):
        raise Unsupported("the data come in batches, and queries ask for single samples: return the Dataset")
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    stack: Callable[[Sequence[Any]], Batch] = getattr(samples, "collate", None) or collate
    one = stack([samples[order[0]]])
    bytes_each = sum(tensor.numel() * tensor.element_size() for tensor in one.tensors.values())
    most = max(_LEAST_SAMPLES, min(_MOST_SAMPLES, _MOST_BYTES // max(1, bytes_each)))
    whole = stack([samples[n] for n in order[:most]])
    if any(len(tensor) != whole.items for tensor in whole.tensors.values()):
        raise Unsupported("the tensors of a batch are not one row an item, so that no query can ask for one")
    return SampleLibrary(whole, size)


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


def facts_of(files: LogFiles) -> Facts:
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


T = TypeVar("T")


class Waiting(Generic[T]):
    """Queries that wait. One thread puts them in, another takes batches out.

    A batch has at most `most` queries. It begins when it is full or when its oldest query has waited `max_wait_s`,
    whichever comes first, and not before the model is free: who takes, computes. The same rule as Triton Inference
    Server's dynamic batcher (max_batch_size, max_queue_delay_microseconds).
    """

    def __init__(self, most: int, max_wait_s: float, clock: Callable[[], float]) -> None:
        self._most, self._max_wait_s, self._clock = most, max_wait_s, clock
        self._queue: deque[tuple[float, T]] = deque()
        self._changed = Condition()
        self._over = self._flushed = False

    def put(self, query: T) -> None:
        """Add a query that has just arrived."""
        with self._changed:
            self._queue.append((self._clock(), query))
            self._changed.notify()

    def flush(self) -> None:
        """Note that no query comes any more: what waits need not wait for others."""
        with self._changed:
            self._flushed = True
            self._changed.notify()

    def end(self) -> None:
        """Note that all is over, so that who takes does not wait for ever."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def take(self) -> list[T]:
        """Wait for the next batch and return its queries, the oldest first; none when all is over."""
        with self._changed:
            while not self._queue:
                if self._over:
                    return []
                self._changed.wait()
            while len(self._queue) < self._most and not self._flushed and not self._over:
                left_s = self._queue[0][0] + self._max_wait_s - self._clock()
                if left_s <= 0.0:
                    break
                self._changed.wait(left_s)
            return [self._queue.popleft()[1] for _ in range(min(self._most, len(self._queue)))]


_SCENARIOS = {"single_stream": "SingleStream", MULTI_STREAM: "MultiStream", OFFLINE: "Offline", SERVER: "Server"}
_SLACK = 1.3  # what the warm-up tells of the rate of an offline load may be so wrong
_FASTER = 4.0  # queries of a closed loop are made ready for a model so many times faster than in the warm-up
_HOPELESS_BOUNDS, _HOPELESS_SHARE, _LEAST_WAITING = 10.0, 0.1, 64
_EVERY_SIZE = 32  # up to this batch size, each smaller one is warmed up as well; above, powers of two


class Answering:
    """Answers queries with the model, and keeps how long each batch took and how many items it had."""

    def __init__(self, library: SampleLibrary, inference: PreparedInference, device: Device, tell: Tell) -> None:
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
    configuration: Mapping[str, Scalar],
    library: SampleLibrary,
    inference: PreparedInference,
    device: Device,
    plan: LoadPlan,
    tell: Tell,
) -> LoadMeasured:
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
    with LogFiles() as files:
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
            _queries(lg, start, most, answering)
        end_s = perf_counter()
        found, facts = answers(files.lines(TRACE), bound_s), facts_of(files)
    values: dict[str, Sequence[float]] = {
        "batch_time_s": answering.times_s,
        "items": answering.items,
        "window_time_s": [found.total_s],
        **({"tokens": answering.tokens} if answering.tokens else {}),
        **({"query_latency_s": found.latencies_s} if scenario != OFFLINE else {}),
    }
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


def _queries(lg: Any, start: Callable[..., None], most: int, answering: Answering) -> None:
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


def _how(configuration: Mapping[str, Scalar], plan: LoadPlan, settings: Any, found: Answers) -> Facts:
    """Return how the load was made, for the record."""
    server = configuration["scenario"] == SERVER
    try:
        package = version("mlcommons-loadgen")
    except PackageNotFoundError:  # built from its repository
        package = "unknown"
    return Facts(
        loadgen_version=package,
        loadgen_queries=found.queries,
        loadgen_late=found.late if server else None,
        loadgen_min_duration_s=plan.duration_s,
        loadgen_mlperf_min_duration_s=MLPERF_DURATION_S,
        loadgen_min_queries=settings.min_query_count,
        loadgen_schedule_seed=settings.schedule_rng_seed if server else None,
        loadgen_sample_seed=settings.sample_index_rng_seed,
        loadgen_arrivals="Poisson" if server else "closed loop",
    )
