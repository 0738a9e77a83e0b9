"""What can be measured or derived: the raw values, the figures that follow from them, and their units."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec


class Unit(StrEnum):
    """The units a quantity may have; `units.py` is the only place that prints them."""

    SECOND = "s"
    BYTE = "bytes"
    JOULE = "J"
    WATT = "W"
    HERTZ = "Hz"
    CELSIUS = "°C"
    ITEM_RATE = "items/s"
    TOKEN_RATE = "tokens/s"
    FLOP = "FLOP"
    FLOP_RATE = "FLOP/s"
    RATIO = "ratio"
    COUNT = "count"
    NUMBER = "number"


class Better(StrEnum):
    """Which direction is an improvement."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Pool(StrEnum):
    """How values of one Metric become one figure, over the steps of a Trial or over its ranks."""

    MEDIAN = "median"
    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    FIRST = "first"
    LAST = "last"
    ONLY = "only"


DATA = "data"  # waiting for the next batch
TRANSFER = "transfer"  # bringing it to the device; a batch that is there already has none
PREFILL = "prefill"  # the whole prompt in one pass, which gives the first token
DECODE = "decode"  # the further tokens, a pass each
FORWARD = "forward"  # the model and its loss
BACKWARD = "backward"
OPTIMIZER = "optimizer"  # clipping, the update, and clearing the gradients
REST = "rest"  # what lies between the phases: the loop itself
PHASES = (DATA, TRANSFER, PREFILL, DECODE, FORWARD, BACKWARD, OPTIMIZER, REST)


class MetricGroup(StrEnum):
    """What a figure is about: figures of one group are shown together, groups in this order."""

    THROUGHPUT = "throughput"
    PHASES = "phases"
    RANKS = "ranks"
    LATENCY = "latency"
    START = "start"
    MEMORY = "memory"
    ENERGY = "energy"
    ROOFLINE = "roofline"
    TRAINING = "training"
    DEVICE = "device"
    RUNTIME = "runtime"

    @property
    def heading(self) -> str:
        """The name of the group, as a heading has it."""
        return {"start": "Start-up", "device": "Device and other processes"}.get(self.value, self.value.capitalize())


class Metric(msgspec.Struct, frozen=True):
    """One thing that is measured or derived: a per-trial figure of FIGURES, or the values of RAW.

    Of figures: `title`, a few words without the unit; `group`; `rank`: in a table of Cases, the highest leaves first
    where there is no room (None: it is not in that table).
    """

    name: str
    unit: Unit
    better: Better
    over_steps: Pool
    over_ranks: Pool
    meaning: str
    title: str = ""
    group: MetricGroup = MetricGroup.RUNTIME
    rank: int | None = None


_Row = tuple[str, Unit, Better, Pool, Pool, str]
Named = Mapping[MetricGroup, tuple[tuple[str, str, int | None], ...]]


def metric_table(*rows: _Row, named: Named | None = None) -> dict[str, Metric]:
    """Return the metrics by name. `named`: the name, title and rank of each, by group; None: raw values have none."""
    if named is None:
        return {row[0]: Metric(*row) for row in rows}
    shown = {name: (title, group, rank) for group, members in named.items() for name, title, rank in members}
    return {row[0]: Metric(*row, *shown[row[0]]) for row in rows}


_H, _L, _N = Better.HIGHER, Better.LOWER, Better.NEITHER
_U, _P = Unit, Pool

# What a trial finds once of the runtime that computes its model: raw values, and figures as they are.
_OF_RUNTIMES: tuple[_Row, ...] = (
    ("export_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "exporting the model to its runtime, to files"),
    ("build_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "opening the files in the runtime, until it can answer"),
    ("exported_bytes", _U.BYTE, _L, _P.ONLY, _P.SUM, "size of the files on disk"),
    ("loaded_peak_bytes", _U.BYTE, _L, _P.ONLY, _P.SUM,
     "peak RSS of a process that only loads the files and answers one batch"),
    ("output_error", _U.NUMBER, _L, _P.ONLY, _P.MAX, "largest difference of an output's number from eager mode's"),
    ("relative_output_error", _U.NUMBER, _L, _P.ONLY, _P.MAX,
     "norm of the outputs' difference from eager mode's, over that of eager mode's"),
    ("top1_agreement", _U.RATIO, _H, _P.ONLY, _P.MIN, "share of rows whose largest number is where eager mode's is"),
)  # fmt: skip
OF_RUNTIMES = tuple(row[0] for row in _OF_RUNTIMES)

# Raw values, as Measurements and Series carry them.
RAW = metric_table(
    ("step_time_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "one step, steps issued back to back"),
    ("latency_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "one batch, closed loop: sent, computed, synchronised"),
    ("data_wait_s", _U.SECOND, _L, _P.SUM, _P.MAX, "host time that a step waits for its batch"),
    ("phase_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "one named phase of a step; phases and rest sum to the step"),
    ("host_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "one named phase by the host's clock, beside a device's own time"),
    ("anatomy_step_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "one step of the pass that is split into phases"),
    ("synchronized_step_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX,
     "one step of several ranks with its communication, all beginning together"),
    ("unsynchronized_step_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX,
     "one step of a rank without communication, all beginning together"),
    ("communication_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "the communication of one step, alone"),
    ("window_time_s", _U.SECOND, _N, _P.ONLY, _P.MAX, "a whole window, synchronised at both ends"),
    ("window_span_s", _U.SECOND, _N, _P.ONLY, _P.MAX,
     "begin and end of a window, in seconds since the trial was requested"),
    ("turn_begin_s", _U.SECOND, _N, _P.FIRST, _P.MIN, "start of a turn of a live comparison, on the shared clock"),
    ("turn_time_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "a turn of a live comparison, synchronised at both ends"),
    ("items", _U.COUNT, _N, _P.SUM, _P.SUM, "items (images, sequences, samples) of a step"),
    ("tokens", _U.COUNT, _N, _P.SUM, _P.SUM, "tokens of a step without padding; of generation: the prompts'"),
    ("time_to_first_token_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "from sending a batch of prompts to its first tokens"),
    ("time_per_output_token_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "a batch's mean time between its tokens"),
    ("output_token_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "one token to the next, of the first generations"),
    ("kv_cache_bytes", _U.BYTE, _L, _P.LAST, _P.SUM, "keys and values kept for a batch at the end of its generation"),
    ("query_latency_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX,
     "one query of a load: from its scheduled arrival to its answer"),
    ("batch_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "one batch of a load, from its queries' collection to its answer"),
    ("loss", _U.NUMBER, _L, _P.LAST, _P.MEAN, "training loss of the kept steps"),
    ("fingerprint", _U.NUMBER, _N, _P.FIRST, _P.MEAN,
     "what the first steps computed: losses, moments of the output, or a digest of the tokens"),
    ("first_step_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "the first step, alone and synchronised"),
    ("first_query_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "the first answer of a runtime, before the first step"),
    ("model_load_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "building the model and moving it to the device"),
    ("start_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "from requesting the trial until its process runs"),
    *_OF_RUNTIMES,
    ("flops", _U.FLOP, _N, _P.ONLY, _P.SUM, "floating-point operations of one step (2 per multiply-add)"),
    ("traffic_bytes", _U.BYTE, _N, _P.ONLY, _P.SUM, "least traffic of a step: bytes read and written"),
    ("operators", _U.COUNT, _N, _P.ONLY, _P.SUM, "torch's operators of one step that make a device work"),
    ("allocated_bytes", _U.BYTE, _L, _P.LAST, _P.SUM, "device memory held by tensors"),
    ("reserved_bytes", _U.BYTE, _L, _P.LAST, _P.SUM, "device memory held by the allocator"),
    ("peak_allocated_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak device memory of tensors, in the windows"),
    ("peak_reserved_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak device memory of the allocator, in the windows"),
    ("allocator_retries", _U.COUNT, _L, _P.LAST, _P.SUM, "times the allocator had to flush and try again"),
    ("peak_rss_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak resident memory of the trial's process"),
    ("minor_faults", _U.COUNT, _L, _P.SUM, _P.SUM, "page faults without disk reads, over the steady windows"),
    ("major_faults", _U.COUNT, _L, _P.SUM, _P.SUM, "page faults with disk reads, over the steady windows"),
    ("involuntary_switches", _U.COUNT, _L, _P.SUM, _P.SUM,
     "times the kernel took the core away, over the steady windows"),
    # Gauges, read by the controller while the trial runs.
    ("device_utilization", _U.RATIO, _N, _P.MEAN, _P.MEAN, "share of time in which a kernel ran (not: work done)"),
    ("device_memory_used_bytes", _U.BYTE, _N, _P.MAX, _P.SUM, "device memory in use by everybody"),
    ("device_temperature_c", _U.CELSIUS, _N, _P.MEAN, _P.MAX, "temperature of the device"),
    ("device_power_w", _U.WATT, _L, _P.MEAN, _P.SUM, "power drawn by the device"),
    ("device_power_limit_w", _U.WATT, _N, _P.MEAN, _P.SUM, "what the device's driver holds its mean power below"),
    ("device_energy_j", _U.JOULE, _L, _P.LAST, _P.SUM, "the device's own energy counter, since some past moment"),
    ("device_clock_hz", _U.HERTZ, _N, _P.MEAN, _P.MIN, "clock of the device's compute units"),
    ("device_throttled", _U.RATIO, _L, _P.MEAN, _P.MAX, "1 while a power or thermal limit throttles the clock"),
    ("device_power_capped", _U.RATIO, _N, _P.MEAN, _P.MAX, "1 while the power limit alone throttles it"),
    ("device_other_processes", _U.COUNT, _L, _P.MAX, _P.MAX, "processes on the device that are not the trial"),
    ("device_working_processes", _U.COUNT, _L, _P.MAX, _P.MAX,
     "processes that are not the trial and ran kernels since the last reading"),
    ("package_energy_j", _U.JOULE, _L, _P.LAST, _P.SUM, "the CPU packages' energy counter (RAPL), unwrapped"),
    ("rss_bytes", _U.BYTE, _N, _P.MAX, _P.SUM,
     "resident memory of the trial's processes; pages they share count in each"),
    ("process_cpu_s", _U.SECOND, _N, _P.LAST, _P.SUM, "CPU time the trial's processes have used"),
    ("process_stopped", _U.RATIO, _N, _P.MEAN, _P.MAX, "1 while the trial's process is stopped by a signal"),
    ("core_wait_s", _U.SECOND, _L, _P.LAST, _P.MAX, "time its threads were ready to run and had no core"),
    ("quota_wait_s", _U.SECOND, _L, _P.LAST, _P.MAX, "time the CPU quota of the control group held its processes up"),
    ("host_busy_s", _U.SECOND, _N, _P.LAST, _P.MAX, "CPU time all processes of the host have used"),
    ("host_steal_s", _U.SECOND, _L, _P.LAST, _P.MAX, "CPU time given to other virtual machines"),
    ("host_memory_used_bytes", _U.BYTE, _N, _P.MAX, _P.MAX, "host memory in use"),
    ("host_swapped_bytes", _U.BYTE, _L, _P.LAST, _P.MAX, "bytes swapped in and out since boot"),
    ("host_clock_hz", _U.HERTZ, _N, _P.MEAN, _P.MIN, "clock of the CPU cores"),
    ("host_temperature_c", _U.CELSIUS, _N, _P.MEAN, _P.MAX, "temperature of the CPU"),
    ("instructions", _U.COUNT, _N, _P.LAST, _P.SUM, "instructions that the trial retired in user mode"),
    ("cpu_cycles", _U.COUNT, _N, _P.LAST, _P.SUM, "CPU cycles of the trial in user mode"),
    ("cache_misses", _U.COUNT, _N, _P.LAST, _P.SUM, "accesses of the trial that missed the last cache"),
)  # fmt: skip

# Name, title and rank of every figure, by group.
_NAMED: Named = {
    MetricGroup.PHASES: (
        ("phase_data_s", "data", 6), ("phase_transfer_s", "transfer", 9), ("phase_prefill_s", "prefill", 8),
        ("phase_decode_s", "decode", 8), ("phase_forward_s", "forward", 8), ("phase_backward_s", "backward", 8),
        ("phase_optimizer_s", "optimizer", 8), ("phase_rest_s", "rest", 9), ("anatomy_step_s", "step in phases", None),
    ),
    MetricGroup.RANKS: (
        ("communication_time_s", "communication", 10), ("exposed_communication_s", "exposed communication", None),
        ("communication_overlap", "overlap with compute", None),
        ("compute_step_time_s", "step without communication", None),
        ("slowest_rank_excess", "excess of the slowest rank", None),
        ("slowest_rank_share", "steps in which it is slowest", None),
    ),
    MetricGroup.THROUGHPUT: (
        ("throughput", "throughput", 1), ("token_throughput", "token throughput", 17),
        ("output_token_throughput", "output token throughput", 1),
        ("prompt_token_throughput", "prompt token throughput", None), ("step_time_p50", "median step time", 5),
        ("step_time_mean", "step time", 5), ("step_time_min", "fastest step", None),
        ("step_time_max", "slowest step", None), ("step_time_std", "std of step time", None),
        ("time_per_item_s", "time per item", None), ("data_wait_share", "data wait", 16),
        ("data_wait_s", "data wait per step", None), ("epoch_time_s", "epoch time", None),
        ("dataset_time_s", "data set time", None), ("items_per_batch", "items per batch", 9),
    ),
    MetricGroup.LATENCY: (
        ("latency_per_batch_mean_s", "mean latency", None), ("latency_per_batch_p50_s", "latency p50", 2),
        ("latency_per_batch_p90_s", "latency p90", None), ("latency_per_batch_p95_s", "latency p95", 5),
        ("latency_per_batch_p99_s", "latency p99", 14), ("latency_per_batch_min_s", "min latency", None),
        ("latency_per_batch_max_s", "max latency", None), ("latency_per_item_s", "latency per item", None),
        ("time_to_first_token_mean_s", "mean TTFT", None),
        ("time_to_first_token_p50_s", "TTFT p50", 1),
        ("time_to_first_token_p90_s", "TTFT p90", None),
        ("time_to_first_token_p95_s", "TTFT p95", 6),
        ("time_to_first_token_p99_s", "TTFT p99", None),
        ("time_per_output_token_mean_s", "mean TPOT", None),
        ("time_per_output_token_p50_s", "TPOT p50", 1),
        ("time_per_output_token_p90_s", "TPOT p90", None),
        ("time_per_output_token_p95_s", "TPOT p95", 6),
        ("time_per_output_token_p99_s", "TPOT p99", None),
        ("query_latency_mean_s", "mean query latency", None), ("query_latency_p50_s", "query latency p50", 2),
        ("query_latency_p90_s", "query latency p90", 6), ("query_latency_p95_s", "query latency p95", None),
        ("query_latency_p99_s", "query latency p99", 1), ("time_to_first_prediction_s", "first prediction", 15),
    ),
    MetricGroup.START: (
        ("first_step_time_s", "first step", None), ("model_load_time_s", "model load", 19),
        ("start_time_s", "process start", None), ("export_time_s", "export", 20), ("build_time_s", "build", 20),
        ("exported_bytes", "size on disk", 12), ("loaded_peak_bytes", "peak RSS of the files alone", 12),
    ),
    MetricGroup.MEMORY: (
        ("peak_reserved_bytes", "peak device memory", 3), ("peak_allocated_bytes", "peak allocated memory", None),
        ("peak_rss_bytes", "peak RSS", 11), ("mean_rss_bytes", "mean RSS", None), ("kv_cache_bytes", "KV cache", 7),
        ("allocated_bytes", "allocated memory", None), ("reserved_bytes", "reserved memory", None),
        ("mean_allocated_bytes", "mean allocated memory", None),
        ("warmup_peak_allocated_bytes", "warm-up peak allocated memory", None),
        ("warmup_peak_reserved_bytes", "warm-up peak device memory", None),
        ("device_memory_used_bytes", "device memory in use", None),
        ("mean_device_memory_used_bytes", "mean device memory in use", None),
        ("allocator_retries", "allocator retries", None),
    ),
    MetricGroup.ENERGY: (
        ("energy_j", "energy", None), ("energy_per_item_j", "energy per item", 13),
        ("average_power_w", "mean power", 13), ("energy_per_step_j", "energy per step", None),
    ),
    MetricGroup.ROOFLINE: (
        ("flops_per_step", "FLOP per step", None), ("achieved_flops", "achieved FLOP/s", 12),
        ("traffic_per_step_bytes", "traffic per step", None), ("operators_per_step", "operators per step", None),
        ("arithmetic_intensity", "arithmetic intensity", None), ("mfu_datasheet", "MFU (datasheet)", None),
        ("mfu_measured", "MFU (measured)", None), ("mfu_sustained", "MFU (sustained)", None),
        ("roofline_share", "roofline share", None),
    ),
    MetricGroup.TRAINING: (
        ("loss_first", "first loss", 18), ("loss_last", "last loss", 18), ("loss_end", "final loss", None),
        ("loss_min", "min loss", None), ("loss_max", "max loss", None), ("loss_mean", "mean loss", None),
        ("loss_std", "std of loss", None), ("loss_convergence_rate", "loss slope per step", None),
        ("loss_rate_per_1000_items", "loss slope per 1,000 items", None),
    ),
    MetricGroup.DEVICE: (
        ("device_utilization", "device utilization", 7), ("device_temperature_c", "device temperature", None),
        ("device_clock_hz", "device clock", None), ("own_cpu_cores", "cores in use", None),
        ("other_cpu_cores", "cores of other processes", None),
        ("steal_share", "CPU steal", None), ("minor_faults_per_step", "page faults per step", None),
        ("instructions_per_cycle", "instructions per cycle", None),
        ("cache_misses_per_item", "cache misses per item", None),
    ),
    MetricGroup.RUNTIME: (
        ("steps", "steps", None), ("total_items", "items", None), ("total_time_s", "measured time", None),
        ("output_error", "largest error", None), ("relative_output_error", "error", 7),
        ("top1_agreement", "top-1 agreement", 8),
    ),
}  # fmt: skip

# Figures: one number a trial, derived on reading from the raw values above. An Estimate carries its unit beside it.
FIGURES = metric_table(
    ("throughput", _U.ITEM_RATE, _H, _P.ONLY, _P.SUM, "total items over total time of the window"),
    ("token_throughput", _U.TOKEN_RATE, _H, _P.ONLY, _P.SUM, "total tokens (padding left out) over total time"),
    ("step_time_p50", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median step, issued back to back"),
    ("step_time_mean", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean step, issued back to back"),
    ("step_time_min", _U.SECOND, _L, _P.MIN, _P.MAX, "minimum step time"),
    ("step_time_max", _U.SECOND, _L, _P.MAX, _P.MAX, "maximum step time"),
    ("step_time_std", _U.SECOND, _L, _P.ONLY, _P.MAX, "standard deviation of the steps of one trial"),
    ("time_per_item_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "time of the window over its items"),
    ("latency_per_batch_mean_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time from sending a batch to its result"),
    ("latency_per_batch_p50_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median time from sending a batch to its result"),
    ("latency_per_batch_p90_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "90th percentile of the latency of a batch"),
    ("latency_per_batch_p95_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "95th percentile of the latency of a batch"),
    ("latency_per_batch_p99_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "99th percentile of the latency of a batch"),
    ("latency_per_batch_min_s", _U.SECOND, _L, _P.MIN, _P.MAX, "minimum latency of a batch"),
    ("latency_per_batch_max_s", _U.SECOND, _L, _P.MAX, _P.MAX, "maximum latency of a batch"),
    ("latency_per_item_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median latency of a batch over its items"),
    ("time_to_first_token_mean_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time from prompts to first token"),
    ("time_to_first_token_p50_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median time from prompts to first token"),
    ("time_to_first_token_p90_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "90th percentile of the time to first token"),
    ("time_to_first_token_p95_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "95th percentile of the time to first token"),
    ("time_to_first_token_p99_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "99th percentile of the time to first token"),
    ("time_per_output_token_mean_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time between tokens after the first"),
    ("time_per_output_token_p50_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median batch's mean time between its tokens"),
    ("time_per_output_token_p90_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "90th percentile of the time per output token"),
    ("time_per_output_token_p95_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "95th percentile of the time per output token"),
    ("time_per_output_token_p99_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "99th percentile of the time per output token"),
    ("query_latency_mean_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time from a query's arrival to its answer"),
    ("query_latency_p50_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median time from a query's arrival to its answer"),
    ("query_latency_p90_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "90th percentile of the latency of a query"),
    ("query_latency_p95_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "95th percentile of the latency of a query"),
    ("query_latency_p99_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "99th percentile of the latency of a query"),
    ("items_per_batch", _U.NUMBER, _N, _P.MEAN, _P.MEAN, "mean items of a batch that queries were put together to"),
    ("output_token_throughput", _U.TOKEN_RATE, _H, _P.ONLY, _P.SUM,
     "generated tokens over total time, including prefill"),
    ("prompt_token_throughput", _U.TOKEN_RATE, _H, _P.ONLY, _P.SUM, "prompt tokens over the time to the first token"),
    ("kv_cache_bytes", _U.BYTE, _L, _P.LAST, _P.SUM, "keys and values kept for a batch at the end of its generation"),
    ("time_to_first_prediction_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "the first answer of a fresh process"),
    ("first_step_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "the first training step of a fresh process"),
    ("model_load_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "building the model and moving it to the device"),
    ("start_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "from requesting the trial until its process runs"),
    *_OF_RUNTIMES,
    ("data_wait_share", _U.RATIO, _L, _P.ONLY, _P.MAX, "share of the window spent waiting for data"),
    ("data_wait_s", _U.SECOND, _L, _P.MEDIAN, _P.MAX, "median time a step waits for its batch"),
    ("epoch_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "expected time for one pass over the data set at this throughput"),
    ("dataset_time_s", _U.SECOND, _L, _P.ONLY, _P.MAX, "expected time of inference over the data set at this rate"),
    ("phase_data_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time a step waits for its batch (of a device: idle time)"),
    ("phase_transfer_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's transfer of its batch to the device"),
    ("phase_prefill_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's pass over its prompts"),
    ("phase_decode_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's passes for the tokens after the first"),
    ("phase_forward_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's forward pass and loss"),
    ("phase_backward_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's backward pass"),
    ("phase_optimizer_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's update: clipping, weights, zeroing"),
    ("phase_rest_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step between its phases"),
    ("anatomy_step_s", _U.SECOND, _L, _P.MEAN, _P.MAX,
     "mean step of the pass split into phases: the sum of its phases"),
    ("communication_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean time of a step's communication, alone"),
    ("exposed_communication_s", _U.SECOND, _L, _P.ONLY, _P.ONLY,
     "mean step less the mean step without communication: what compute does not hide"),
    ("communication_overlap", _U.RATIO, _H, _P.ONLY, _P.ONLY, "share of the communication that compute hides"),
    ("compute_step_time_s", _U.SECOND, _L, _P.MEAN, _P.MAX, "mean step without communication, of the slowest rank"),
    ("slowest_rank_excess", _U.RATIO, _L, _P.ONLY, _P.ONLY,
     "how much longer the slowest rank computes than the median of the others"),
    ("slowest_rank_share", _U.RATIO, _N, _P.ONLY, _P.ONLY, "share of the steps in which that rank is the slowest"),
    ("allocated_bytes", _U.BYTE, _L, _P.LAST, _P.SUM, "device memory held by tensors after the last step"),
    ("reserved_bytes", _U.BYTE, _L, _P.LAST, _P.SUM, "device memory held by the allocator after the last step"),
    ("peak_allocated_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak device memory of tensors, in the windows"),
    ("peak_reserved_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak device memory of the allocator, in the windows"),
    ("warmup_peak_allocated_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak of tensors before the windows"),
    ("warmup_peak_reserved_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak of the allocator before the windows"),
    ("mean_allocated_bytes", _U.BYTE, _L, _P.MEAN, _P.SUM, "mean device memory held by tensors (of imported results)"),
    ("allocator_retries", _U.COUNT, _L, _P.LAST, _P.SUM, "times the allocator freed its cache and retried"),
    ("peak_rss_bytes", _U.BYTE, _L, _P.MAX, _P.SUM, "peak resident memory of the trial's process"),
    ("mean_rss_bytes", _U.BYTE, _L, _P.MEAN, _P.SUM, "mean resident memory of the trial's processes while it ran"),
    ("energy_j", _U.JOULE, _L, _P.SUM, _P.SUM, "energy over the steady windows"),
    ("energy_per_item_j", _U.JOULE, _L, _P.ONLY, _P.SUM, "energy over the items of the steady windows"),
    ("average_power_w", _U.WATT, _L, _P.MEAN, _P.SUM, "mean power over the steady windows"),
    ("device_utilization", _U.RATIO, _N, _P.MEAN, _P.MEAN, "share of time in which a kernel ran (not: work done)"),
    ("device_memory_used_bytes", _U.BYTE, _N, _P.MAX, _P.SUM, "peak device memory in use by all processes"),
    ("mean_device_memory_used_bytes", _U.BYTE, _N, _P.MEAN, _P.SUM, "mean device memory in use by all processes"),
    ("device_temperature_c", _U.CELSIUS, _N, _P.MEAN, _P.MAX, "mean temperature of the device"),
    ("device_clock_hz", _U.HERTZ, _N, _P.MEAN, _P.MIN, "mean clock of the device's compute units"),
    ("loss_first", _U.NUMBER, _N, _P.FIRST, _P.MEAN, "loss of the first step"),
    ("loss_last", _U.NUMBER, _L, _P.LAST, _P.MEAN, "loss of the last step"),
    ("loss_min", _U.NUMBER, _L, _P.MIN, _P.MEAN, "smallest loss of the kept steps"),
    ("loss_max", _U.NUMBER, _L, _P.MAX, _P.MEAN, "largest loss of the kept steps"),
    ("loss_mean", _U.NUMBER, _L, _P.MEAN, _P.MEAN, "mean loss of the kept steps"),
    ("loss_std", _U.NUMBER, _L, _P.ONLY, _P.MEAN, "standard deviation of the loss over the kept steps"),
    ("loss_end", _U.NUMBER, _L, _P.MEAN, _P.MEAN, "mean loss of the last tenth of the kept steps"),
    ("loss_convergence_rate", _U.NUMBER, _L, _P.ONLY, _P.MEAN, "slope of ln(loss) per step: -0.01 is a fall by 1 %"),
    ("loss_rate_per_1000_items", _U.NUMBER, _L, _P.ONLY, _P.MEAN, "slope of ln(loss), per 1,000 items"),
    ("flops_per_step", _U.FLOP, _N, _P.ONLY, _P.SUM, "floating-point operations of one step (2 per multiply-add)"),
    ("achieved_flops", _U.FLOP_RATE, _H, _P.ONLY, _P.SUM, "operations of a step over its mean time"),
    ("traffic_per_step_bytes", _U.BYTE, _N, _P.ONLY, _P.SUM, "least traffic of a step: bytes read and written"),
    ("operators_per_step", _U.COUNT, _N, _P.ONLY, _P.SUM, "operators of one step, without views and the optimizer's"),
    ("arithmetic_intensity", _U.NUMBER, _N, _P.ONLY, _P.MEAN, "operations of a step per byte of its least traffic"),
    ("mfu_datasheet", _U.RATIO, _H, _P.ONLY, _P.MEAN, "achieved FLOP/s over the vendor's dense rate of that precision"),
    ("mfu_measured", _U.RATIO, _H, _P.ONLY, _P.MEAN,
     "achieved FLOP/s over the fastest measured matrix product (burst)"),
    ("mfu_sustained", _U.RATIO, _H, _P.ONLY, _P.MEAN, "achieved FLOP/s over the sustained rate of a matrix product"),
    ("roofline_share", _U.RATIO, _H, _P.ONLY, _P.MEAN,
     "achieved FLOP/s over the roofline of measured peak and bandwidth"),
    ("own_cpu_cores", _U.NUMBER, _N, _P.MEAN, _P.MAX, "cores busy with the trial's own processes"),
    ("other_cpu_cores", _U.NUMBER, _N, _P.MEAN, _P.MAX, "cores busy with other processes during the trial"),
    ("steal_share", _U.RATIO, _N, _P.MEAN, _P.MAX, "share of the host's CPU time given to other virtual machines"),
    ("minor_faults_per_step", _U.COUNT, _L, _P.ONLY, _P.SUM, "page faults per step without disk reads"),
    ("steps", _U.COUNT, _N, _P.ONLY, _P.ONLY, "steady steps measured"),
    ("total_items", _U.COUNT, _N, _P.ONLY, _P.SUM, "items of the steady windows"),
    ("total_time_s", _U.SECOND, _N, _P.ONLY, _P.MAX, "total time of the measured windows"),
    ("instructions_per_cycle", _U.NUMBER, _H, _P.ONLY, _P.MEAN,
     "instructions over cycles of the CPU in user mode, in the windows"),
    ("cache_misses_per_item", _U.NUMBER, _L, _P.ONLY, _P.MEAN,
     "misses of the CPU's last cache per item, in user mode, in the windows"),
    ("energy_per_step_j", _U.JOULE, _L, _P.ONLY, _P.SUM, "energy over the steps of the steady windows"),
    named=_NAMED,
)  # fmt: skip

_NEVER_ZERO = (_U.SECOND, _U.BYTE, _U.JOULE, _U.WATT, _U.HERTZ, _U.CELSIUS, _U.ITEM_RATE, _U.TOKEN_RATE)
# A spread may be none, a phase may not be there, and a batch may lie ready.
_MAY_BE_ZERO = ("step_time_std", "data_wait_s", "kv_cache_bytes")


def may_be_zero(name: str) -> bool:
    """Say whether a figure may be exactly 0: of others that stands for a value that is missing."""
    never = name in FIGURES and FIGURES[name].unit in _NEVER_ZERO
    return not never or name in _MAY_BE_ZERO or name.startswith("phase_")


# Of what the bytes at the peak are. activations: what the forward pass keeps for the backward pass, and what
# checkpointing computes again of it; of inference, all that the forward pass holds. temporaries: the rest.
KINDS = ("weights", "gradients", "optimizer", "activations", "inputs", "temporaries", "workspace")


class PeakMemory(msgspec.Struct, frozen=True):
    """The most bytes a device holds at once in a step whose optimizer has its state already, or gets it.

    `kinds`: of KINDS, the bytes at that moment; their sum is `allocated_bytes`. `phase`: forward, backward or
    optimizer. `reserved_bytes`: what a caching allocator takes from the device for it, with what it cannot use; None
    where there is none (CPU).
    """

    batch_size: int
    allocated_bytes: int
    kinds: Mapping[str, int]
    phase: str
    reserved_bytes: int | None = None


V = TypeVar("V")

# What the allocator holds is what nobody else can have; what tensors hold is less.
DEVICE_PEAKS = ("peak_reserved_bytes", "peak_allocated_bytes")
HOST_PEAK = "peak_rss_bytes"
PEAKS = (*DEVICE_PEAKS, HOST_PEAK)


def memory_figures(device: str) -> tuple[str, ...]:
    """Return the figures of peak memory on that kind of device (cpu, cuda, …): the first that was measured counts.

    What the process takes of the host's memory counts on the CPU alone: of an accelerator's it says nothing.
    """
    return PEAKS if device == "cpu" else DEVICE_PEAKS


def peak_memory(found: Mapping[str, V], device: str) -> V | None:
    """Return the peak memory on that kind of device among figures by name, in bytes; None where there is none."""
    return next((found[name] for name in memory_figures(device) if name in found), None)
