"""Facts: single things worth knowing of a trial beside its measurements, each with a name and a type."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from torchstone.core.messages import Value
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.quality import AnswerCounts


class SettingFact(msgspec.Struct, frozen=True):
    """How an axis was set that could have been left to the device, and why (report/documents/run.py)."""

    value: str
    reason: str
    values: dict[str, Value] = {}


class Facts(msgspec.Struct, omit_defaults=True):
    """What is known of a trial; None: not known. It is filled while a trial goes on.

    `own_…`: what a loader that came with the model has itself, and `own_fixed`, the axes whose value cannot be another,
    for the reason `own_why`. `…_by_rank`: one for each rank, in their order. `claimed`: what another tool says, by
    figure. `other`: what is of another tool, or of a plug-in of another package.
    """

    task: str | None = None
    device: str | None = None
    device_name: str | None = None  # as another tool says
    logical_cores: int | None = None
    torch: str | None = None
    # the model and its data
    parameters: int | None = None
    trainable_parameters: int | None = None  # where they are not all
    weights: str | None = None
    new_tensors: tuple[str, ...] = ()  # that the weights do not have
    attention: str | None = None
    dataset_items: int | None = None
    validation_items: int | None = None
    test_items: int | None = None
    data_classes: int | None = None
    unreadable_items: int | None = None
    unreadable_first: str | None = None
    own_data: str | None = None  # the class of what came with the model
    own_batch_size: int | None = None
    own_num_workers: int | None = None
    own_pin_memory: bool | None = None
    own_prefetch_factor: int | None = None
    own_fixed: tuple[str, ...] = ()
    own_why: Statement | None = None
    example_tokens: int | None = None  # of each synthetic sentence, where a model brings a tokenizer and no data
    # how it was set
    settings: dict[str, SettingFact] = {}
    threads_in_effect: int | None = None
    threads_pinned: int | None = None  # logical cores that have a thread bound to them alone
    cpu_affinity: str | None = None
    heap: str | None = None
    float32_matmul_precision: str | None = None
    flash_attention_allowed: bool | None = None
    precision_in_effect: str | None = None  # autocast, tf32_off, tf32_on
    attention_kernel: str | None = None  # that ran
    attention_not_seen: str | None = None  # torch's own words
    fused_optimizer: bool | None = None
    effective_batch_size: int | None = None
    new_tokens: int | None = None
    stops_at_end_of_sequence: bool | None = None
    kv_cache: str | None = None
    kv_cache_expected_bytes: int | None = None
    loader_workers: int | None = None  # of a program, as are those that follow
    seed: int | None = None  # of torch's generator: no two processes have one that a program did not set
    loader_pinned: bool | None = None
    pageable_copies: float | None = None  # of tensors to the device, a step
    loader_batch_size: int | None = None
    loading_s: float | None = None  # to load a batch, where its own process loads
    loading_busy: float | None = None  # the share of that in which it computed
    items_per_step: float | None = None
    # how it was measured
    not_forked: Statement | None = None  # why it was started as a new interpreter
    warmup_steps: int | None = None
    warmup_settled: bool | None = None
    steps: int | None = None
    backward_passes: float | None = None
    clock_resolution_s: float | None = None
    energy_tick_s: float | None = None  # how often the device's energy counter moves
    power_limit_w: float | None = None
    stopped_because: dict[str, str] = {}  # by window
    stopwatch: dict[str, str] = {}  # by window: what it reads
    flops_not_counted: Statement | None = None
    nvtx: Statement | None = None
    trace: str | None = None
    template: int | None = None  # the process that it was forked from
    answers: AnswerCounts | None = None  # of another runtime or format, beside eager mode in fp32
    # in the user's own process
    kept_bytes: int | None = None
    kept_s: float | None = None
    restored_s: float | None = None
    # of a training to its end
    epochs: int | None = None
    best_epoch: int | None = None
    final_train_accuracy: float | None = None
    final_val_accuracy: float | None = None
    final_test_accuracy: float | None = None
    resumed_after_epoch: int | None = None
    stopped_early: int | None = None  # epochs without improvement after which it was stopped
    # ranks, nodes, jobs of a cluster
    ranks: int | None = None
    cores: str | None = None  # of this rank alone, as the kernel writes them: 0-3,8
    node: str | None = None  # of this rank alone
    threads_by_rank: tuple[int | None, ...] = ()
    cores_by_rank: tuple[str | None, ...] = ()
    node_by_rank: tuple[str | None, ...] = ()
    items_per_s_by_rank: tuple[float, ...] = ()
    unlike_nodes: tuple[str, ...] = ()  # what each node is, where they are not of one kind
    communication_not_measured: str | None = None  # compiled: the step would be compiled anew without communication
    collectives_per_step: int | None = None
    communicated_bytes_per_step: int | None = None
    fsdp_units: int | None = None
    fsdp_gradients: str | None = None
    reshard_after_forward: tuple[str, ...] = ()  # of the root, then of its units, each way once
    distributed: bool | None = None
    machine: int | None = None  # its place among the head's `machines`
    job: str | None = None
    # of a pair
    side: str | None = None
    pair: int | None = None
    pair_warm_s: float | None = None
    pair_turns_s: float | None = None
    pair_measured_s: float | None = None
    pair_end_s: float | None = None
    # of MLPerf LoadGen
    loadgen_version: str | None = None
    loadgen_queries: int | None = None
    loadgen_late: int | None = None
    loadgen_min_duration_s: float | None = None
    loadgen_mlperf_min_duration_s: float | None = None
    loadgen_min_queries: int | None = None
    loadgen_schedule_seed: int | None = None
    loadgen_sample_seed: int | None = None
    loadgen_arrivals: str | None = None
    loadgen_result: str | None = None  # VALID, INVALID
    loadgen_reasons: tuple[str, ...] = ()  # its own words
    loadgen_errors: tuple[str, ...] = ()
    loadgen_summary: str | None = None
    # of another tool
    imported_from: str | None = None
    total_runtime_s: float | None = None  # how long all took that its file reports
    rate_unclear: bool | None = None  # a claimed rate may be that of one process or of several: it is not judged
    labelled_best: tuple[str, ...] = ()  # throughput, efficiency, recommended
    claimed: dict[str, float] = {}
    other: dict[str, Scalar] = {}

    def own(self, axis: str) -> Scalar:
        """Return what the loader that came with the model has itself for an axis of a DataLoader."""
        value: Scalar = getattr(self, f"own_{axis}", None)
        return value


_NOTHING: tuple[Any, ...] = ((), {})  # what a fact has that is not known, where that is not None


def present_facts(facts: Facts) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each fact that is known."""
    for name, value in msgspec.structs.asdict(facts).items():
        if value or (value is not None and value not in _NOTHING):
            yield name, value


def merged(*parts: Facts) -> Facts:
    """Return the facts of all parts; where several know one, the last has it."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in present_facts(part):
            found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
    return Facts(**found)


def flat(facts: Facts) -> dict[str, Scalar]:
    """Return name → value of each fact that is known, as the columns of a table: of a SettingFact its value."""
    found: dict[str, Scalar] = {}
    for name, value in present_facts(facts):
        if name == "other":
            found |= value
        elif name == "settings":
            found |= {f"setting_{axis}": setting.value for axis, setting in value.items()}
        elif isinstance(value, Statement):
            found[name] = value.id
        elif isinstance(value, AnswerCounts):
            counts = msgspec.structs.asdict(value)
            text = counts.pop("text")
            counts |= {} if text is None else msgspec.structs.asdict(text)
            found |= {f"{name}_{key}": count for key, count in counts.items()}
        elif isinstance(value, dict):
            found |= {f"{name}_{key}" if name == "claimed" else f"{key}_{name}": one for key, one in value.items()}
        else:
            found[name] = "; ".join(map(str, value)) if isinstance(value, tuple) else value
    return found


TRAIN, HELD_OUT, TEST = "final_train_accuracy", "final_val_accuracy", "final_test_accuracy"
_NAMES = {TRAIN: "Train accuracy", HELD_OUT: "Held-out accuracy", TEST: "Test accuracy"}


def accuracies(facts: Facts) -> dict[str, float]:
    """Return the accuracies that are among the facts of a trial, by fact, the training items' first."""
    found: dict[str, float | None] = {name: getattr(facts, name) for name in _NAMES}
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def accuracy_name(fact: str) -> str:
    """Return what people call the accuracy of a fact."""
    return _NAMES[fact]
