"""The texts of what checks find: for each check, and each reason where it has several, what was seen and what to do.

Those of diagnoses and advice are in `report/diagnosis_messages.py`.

A place holds a value of the finding, and its format: `{share:percent}`, `{step:s}` and `{memory:bytes}` are quantities,
`{low:3}` has three significant digits, `{count:,}` and `{time:.0}` are whole, `{steps:step|steps}` is a number with its
noun, `{settings: + }` a list with what stands between its members. A finding without a text of its own brings one (a
third party's check).
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.core import units

Value = str | bool | int | float | tuple[str, ...] | None
Values = dict[str, Value]


class Words(msgspec.Struct, frozen=True):
    """What a finding says, and what it advises where it names no remedies: texts with places."""

    message: str
    advice: str = ""


class _Filler(string.Formatter):
    """Fills places by their names alone: a record may be anybody's."""

    def get_field(self, field_name: str, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return kwargs.get(field_name), field_name

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return value

    def format_field(self, value: Any, format_spec: str) -> str:
        return _shown(value, format_spec)


_FILLER = _Filler()


def filled(text: str, values: Mapping[str, Value]) -> str:
    """Return a text with the values in its places; one that is no text with places as it is."""
    try:
        return _FILLER.vformat(text, (), values)
    except ValueError:  # a stranger's braces
        return text


def _shown(value: Value, form: str) -> str:
    if value is None:
        return units.MISSING
    if isinstance(value, tuple):
        return (form or ", ").join(value)
    if isinstance(value, str | bool):
        return str(value).lower() if isinstance(value, bool) else value
    if "|" in form:
        one, more = form.split("|", 1)
        return f"{value:.0f} {one if value == 1 else more}"
    if form.isdigit():
        return units.significant(value, int(form))
    if form in (",", ".0"):
        return f"{value:{form}f}" if form == ".0" else f"{value:,.0f}"
    unit, _, digits = form.partition(".")
    if unit == "percent":
        return units.percent(value, int(digits or 0))
    if unit:
        return units.quantity(value, unit, int(digits or 3))
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def words_of(check: str, reason: str) -> Words:
    """Return the texts of a finding; of an unknown one its names."""
    name = f"{check}.{reason}" if reason else check
    return MESSAGES.get(name) or Words(name.replace("_", " "))


_MORE = 10  # trials, at least, where fewer have told nothing


def too_wide(trials: int) -> str:
    """Return why so many trials have no interval that is worth showing, and what to type; 0: there are only probes."""
    if trials == 0:
        return "probes alone differ too much for an interval (wider than ±50 %)"
    return f"{trials} trials differ too much for an interval (wider than ±50 %): --trials {max(_MORE, 2 * trials)}"


# Why a trial ended, or was not started (core/schema/trial.py: Reason); of others, torch and drivers have the words.
OUTCOMES = {
    "time_limit": "the run's {limit} had passed",
    "absent": "{why}",
    "same_before": "{status} before, in trial {trial}{why}",
    "smaller_before": "{sizes} ran out of memory before, in trial {trial}",
    "too_large": (
        "needs at least {need_bytes:bytes} of {room_bytes:bytes} {memory} memory, extrapolated from batch_size "
        "{batch_sizes}"
    ),
    "other_side": "not started: the other side of its pair failed to start",
}
# Why a comparison has no ratio (core/schema/comparison.py: Comparison.why).
NOT_COMPARED = {
    "no_trial": "no successful trial of the {side} (none was started)",
    "no_trial.failed": "no successful trial of the {side} ({status}: {message})",
    "invalid": "the {side} is INVALID: {message}",
    "other_data": "other data: {baseline} and {candidate}",
    "other_items": "the baseline counts {baseline}s, the candidate {candidate}s",
    "other_model": "not the same model: {baseline:,} parameters and {candidate:,}",
    "other_work": "not the same work: {baseline:FLOP} per item and {candidate:FLOP} per item",
    "other_results": "different results with the same seed: {baseline:5} and {candidate:5}",
    "no_figure": "they have no figure in common",
    # of a live comparison
    "side_failed": "{side} {status}: {message}",
    "sides_failed": "{side} {status}: {message}; {other} {other_status}: {other_message}",
    "nothing_measured": "nothing was measured",
    "no_pair": "{budget} s ended before the first pair of processes: starting took {start_s:.0} s",
    "short": "{budget} s are too short for a pair of processes; {fewest} pairs are needed",
    "short.enough": (
        "{budget} s are too short for a pair of processes; {fewest} pairs are needed; --within {needed_s:.0}s is enough"
    ),
    "few_pairs": "only {pairs} of the {fewest} pairs of processes needed fitted into {budget} s",
    "few_pairs.enough": (
        "only {pairs} of the {fewest} pairs of processes needed fitted into {budget} s; "
        "--within {needed_s:.0}s is enough"
    ),
    "short.enough_for_all": (
        "{budget} s are too short for a pair of processes; {fewest} pairs are needed; "
        "torchstone ci measure --within {within} is enough"
    ),
    "few_pairs.enough_for_all": (
        "only {pairs} of the {fewest} pairs of processes needed fitted into {budget} s; "
        "torchstone ci measure --within {within} is enough"
    ),
    "probe_failed": "{status}: {message}",
    "few_probes": "too few pairs",
}


def not_compared(reason: str, values: Mapping[str, Any]) -> str:
    """Return why a comparison has no ratio; of an unknown reason its name: a record may be anybody's."""
    return filled(NOT_COMPARED[reason], values) if reason in NOT_COMPARED else reason


# Why what a user's data fix cannot be another (core/schema/model.py: OwnData.why).
OWN_DATA = {
    "batch_sampler": "a batch_sampler makes the batches",
    "whole_batches": "the data set gives whole batches",
    "as_they_come": "batches of a {kind} are used as they come",
    "no_such_loader": "no DataLoader of such a setting",
}


def why_fixed(reason: str, values: Mapping[str, Any]) -> str:
    """Return why what the data fix cannot be another; of an unknown reason its name."""
    return filled(OWN_DATA[reason], values) if reason in OWN_DATA else reason


# What disturbed a trial (core/schema/trial.py: Disturber); `programs`: other programs whose names are known.
DISTURBED = {
    "processes": "other programs used up to {cores} CPU cores",
    "programs": "other programs ({programs}) used up to {cores} CPU cores",
    "waits": "threads waited for a free core",
    "steal": "the hypervisor gave the CPU to other virtual machines",
    "quota": "the CPU quota of this container was used up",
    "stopped": "a signal stopped the trial",
    "swap": "the host swapped memory",
    "device_shared": "other processes used the device",
    "device_throttled": "the device was throttled",
}
_LEFT_OUT = "nothing to do: others were measured"
_STOP = "stop them, and measure again"
_NO_USE = "do not use the energy of this case: wrong unit or unreliable sensor"
_UNITS = "check the unit (MB, MiB or bytes; percent or fraction) and the name of the device"
_RECORD = "record which device it was before comparing it with another"
_SLOWER_START = "the figures are valid; without that import each trial would start seconds sooner"
_SYNCHRONISE = "synchronise before every reading of the clock, or time with the device's own events"
_TOTALS = "use total items divided by total time, as torchstone does where the file has step times"
_RATE = "reported throughput is {reported:items/s}, but {items} items in {duration:s} is {rate:items/s}"
_RAW = "use the raw values, from which torchstone computes its own figures"
_SUMMARY = "the {figure} of {steps} steps is reported as {reported:s}, but is {actual:s}"
_MIXED_UP = "do not use these figures: the tool mixed up samples, names or units"
_TWICE = "measure again: a result was stored twice or was not measured"
_PRODUCT, _ITEMS = "{power:W} × {duration:s} is not {energy:J}", "{each:J} per item × {items} items is not {energy:J}"
_DATASET = "return the Dataset, so that torchstone can build the DataLoader"
_INPUTS = "check for all-zero inputs, frozen weights or a branch that is never taken"
_RULE = "state the rule, for example: the highest among those within {top:percent} of the highest throughput"
_KEPT = (
    "check what each step keeps: a loss with its graph (keep loss.item()), a growing list or cache; "
    "a data set still being loaded into memory looks the same until the end of its first epoch"
)
_BUSY = "{trials} of {of} trials left out: "
_ENERGY_SLIPS = {
    "": "",
    ".milli": ": off by a factor of 1,000 (mJ or mW)",
    ".Wh": ": probably Wh read as J",
    ".kWh": ": probably kWh read as J",
}

MESSAGES: dict[str, Words] = {
    # ── enough ──────────────────────────────────────────────────────────────────────────────────────────────
    "several_machines": Words(
        "measured on {count} machines of one kind: {hosts}",
        "put cases that are compared with each other into one job: --cases-per-job",
    ),
    "several_machines.kinds": Words(
        "measured on {count} kinds of machines: {kinds:; }",
        "ask for machines of one kind: --partition, --constraint, --gres or --accelerator-type",
    ),
    "several_machines.nodes": Words(
        "the ranks of a trial were on nodes of several kinds: {kinds:; }",
        "all wait for the slowest; ask for nodes of one kind: --constraint or --partition",
    ),
    "few_trials.one": Words("one trial: the variation between trials is not known"),
    "few_trials.two": Words(
        "2 trials: their 95 % confidence intervals are wide (Student's t is 12.7; with 3 trials 4.3)"
    ),
    "few_samples": Words("only {steps:steady step|steady steps} in the {window} window"),
    "failed_trials": Words("{well} trials succeeded, {failed} did not: {endings}"),
    "failed_requests": Words(
        "{failed:request failed or was cut off|requests failed or were cut off}; latencies and rates are of {answered} "
        "that were answered",
        "load the server less, or for longer, until all are answered",
    ),
    "unsupported_percentile": Words("{figure} is reported from {steps} steps, but needs {needed}"),
    "loadgen_invalid": Words("LoadGen: INVALID in {loads} of {of} loads: {why:; }"),
    "loadgen_invalid.errors": Words("LoadGen: INVALID in {loads} of {of} loads: {why:; }; its errors: {errors:; }"),
    "loadgen_invalid.no_result": Words("LoadGen: INVALID in {loads} of {of} loads: it gave no result"),
    "only_summaries": Words(
        "the file has summaries but no step times: spread, drift and modes are not known",
        "let the tool write raw values, if it can",
    ),
    "items_unknown": Words(
        "how many items a step has is unknown: its batches' tensors differ in their first dimension, or it was not "
        "given",
        "say them in the loop: window.step(items=…)",
    ),
    "in_this_process.function": Words(
        "a fresh process cannot import it: it was called in this one, whose interval leaves out what differs between "
        "processes",
        "define it with def at a file's top",
    ),
    "in_this_process.arguments": Words(
        "a fresh process cannot be sent its arguments: it was called in this one, whose interval leaves out what "
        "differs between processes",
        "pass numbers, texts and tensors, or lists, tuples and dictionaries of them",
    ),
    "resumed": Words("resumed with --force after changes: {changes:; }", "measure again in one run"),
    # ── steady ──────────────────────────────────────────────────────────────────────────────────────────────
    "not_settled": Words("steps kept getting faster after warm-up, in {trials} of {of} trials"),
    "warmup_left_in.first_step": Words(
        "the first step of the {window} window takes {first:s}, a typical one {typical:s}"
    ),
    "warmup_left_in.first_steps": Words(
        "the first {steps} steps of the {window} window take {first:s}, the others {typical:s}"
    ),
    "warmup_left_in.mean": Words(
        "the mean {figure} ({mean:s}) is above the 95th percentile ({p95:s}): it includes the first steps"
    ),
    "drift.slower": Words("steps of the {window} window became {change:percent} slower"),
    "drift.faster": Words("steps of the {window} window became {change:percent} faster"),
    "drift.trials_slower": Words(
        "from the first trial to the last, steps became {change:percent} slower",
        "the machine had not settled (clocks, temperature, other work on the host): measure again",
    ),
    "drift.trials_faster": Words(
        "from the first trial to the last, steps became {change:percent} faster",
        "the machine had not settled (clocks, temperature, other work on the host): measure again",
    ),
    "several_modes": Words(
        "step times have two modes: {low_share:percent} take {low:s}, {high_share:percent} take {high:s}"
    ),
    # ── undisturbed ─────────────────────────────────────────────────────────────────────────────────────────
    **{f"neighbours.left_out.{cause}": Words(_BUSY + seen, _LEFT_OUT) for cause, seen in DISTURBED.items()},
    **{
        f"neighbours.busy.{cause}": Words(
            f"{DISTURBED[cause]} in {{trials}} of {{of}} trials: this is the figure of a busy machine", advice
        )
        for cause, advice in {
            "processes": _STOP,
            "programs": _STOP,
            "waits": "programs of this system used little: is its host busy? Measure again",
            "quota": "use no more threads than the quota has cores (--axis threads=N), or raise it",
            "stopped": "find what sends SIGSTOP to it, and measure again",
        }.items()
    },
    "neighbours.kept": Words("other programs used up to {cores} CPU cores in {trials} of {of} trials", _STOP),
    "steal": Words(
        "the hypervisor gave up to {share:percent.1} of the CPU time to other virtual machines in {trials} of {of} "
        "trials"
    ),
    "other_processes": Words("{processes:other process|other processes} used {device} during {trials} of {of} trials"),
    "slow_rank": Words(
        "rank {rank} is the slowest in {share:percent} of the steps, by {excess:percent} beyond the median of the "
        "others, in {trials} of {of} trials: all wait for it",
        "look at its device, its cores and its part of the data: `torchstone machine check`",
    ),
    "shared_cores": Words(
        "{ranks} ranks share {cores} logical cores: several compute in turn on one",
        "use world_size={cores} or less on this machine",
    ),
    "beyond_threads": Words(
        "{runtime} kept up to {cores:3} cores busy with {threads:thread|threads}, in {trials} of {of} trials: more "
        "than it was given, and than others have",
        "give each runtime as many threads (--axis threads=N), and start no others in the model",
    ),
    "throttled": Words(
        "the device was throttled by temperature or power: up to {share:percent} of the readings, in {trials} of {of} "
        "trials",
        "cool the device, raise its power limit or lock a clock that it can sustain, and measure again; for its "
        "sustained speed, measure with {longer}",
    ),
    "throttled.power_limit": Words(
        "the device ran at its power limit, which lowers its clock: up to {share:percent} of the readings, in {trials} "
        "of {of} trials",
        "usual at full load; compare only with runs under the same limit and with windows of the same length: in short "
        "ones the clock is higher",
    ),
    "energy_ticks": Words(
        "the device's energy counter updated at most {updates} times in the windows of {trials} of {of} trials: below "
        "{fewest} updates no energy is reported"
    ),
    "not_forked.initialised.import": Words(
        "{trials} of {of} trials started a new interpreter, not a fork: the {driver} was initialised ({asked} returned "
        "{returned}) by the preload of {step}, at `import {module}`",
        _SLOWER_START,
    ),
    "not_forked.initialised.preload": Words(
        "{trials} of {of} trials started a new interpreter, not a fork: the {driver} was initialised ({asked} returned "
        "{returned}) by the preload of {step}",
        _SLOWER_START,
    ),
    "not_forked.initialised.before": Words(
        "{trials} of {of} trials started a new interpreter, not a fork: the {driver} was initialised ({asked} returned "
        "{returned}) before anything was preloaded, by a sitecustomize or .pth file of this environment",
        _SLOWER_START,
    ),
    "not_forked.initialised.after": Words(
        "{trials} of {of} trials started a new interpreter, not a fork: the {driver} was initialised ({asked} returned "
        "{returned}) after everything was preloaded, by a thread that an import started",
        _SLOWER_START,
    ),
    "not_forked.unknown": Words(
        "{trials} of {of} trials started a new interpreter, not a fork: the {driver} is loaded and has no {asked} to "
        "ask whether it was initialised",
        _SLOWER_START,
    ),
    "not_forked.intel": Words(
        "{trials} of {of} trials started a new interpreter, not a fork: torch is built for Intel GPUs, whose driver "
        "does not survive a fork"
    ),
    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────
    "swapping.faults": Words("{faults} major page faults during the steady windows"),
    "swapping.swapped": Words("the host swapped {swapped:bytes} during the steady windows"),
    "swapping.both": Words("{faults} major page faults and the host swapped {swapped:bytes} during the steady windows"),
    "allocator_retries": Words(
        "the allocator freed its cache and retried {retries:time|times}: the case only just fits in memory"
    ),
    "out_of_memory": Words("batch_size {batch_size} ran out of memory"),
    "out_of_memory.fitted": Words("batch_size {batch_size} ran out of memory; {fitted} fitted"),
    "out_of_memory.skipped": Words("batch_size {batch_size} was skipped: {why}"),
    "out_of_memory.skipped_fitted": Words("batch_size {batch_size} was skipped: {why}; {fitted} fitted"),
    "out_of_memory.case": Words("the case ran out of memory"),
    "out_of_memory.case_skipped": Words("the case was skipped: {why}"),
    "leak.rss_bytes": Words("resident memory grew steadily, by {rise:bytes} per 1,000 steps", _KEPT),
    "leak.device_memory_used_bytes": Words("device memory grew steadily, by {rise:bytes} per 1,000 steps", _KEPT),
    # ── timed correctly ─────────────────────────────────────────────────────────────────────────────────────
    "not_synchronised.device_works": Words(
        "the steps of the {window} window sum to {sum:s} of its {span:s}: the device was still working in the rest",
        _SYNCHRONISE,
    ),
    "not_synchronised.no_step": Words(
        "the steps of the {window} window sum to {sum:s} of its {span:s}: the rest belongs to no step", _SYNCHRONISE
    ),
    "not_synchronised.few_wait": Words(
        "a step of the {window} window takes {typical:s}, but all {steps} take {sum:s}: only a few steps wait for the "
        "device",
        _SYNCHRONISE,
    ),
    "not_synchronised.queue": Words(
        "the first {steps} steps of the {window} window take {first:s}, all others {typical:s}: these were only "
        "launched",
        _SYNCHRONISE,
    ),
    "not_synchronised.warmup": Words("a step takes {step:s}, but {waited:s} with synchronisation", _SYNCHRONISE),
    "not_synchronised.launch": Words(
        "batches of {smallest} and of {largest} take the same time, within {within:percent}: it is the launch time",
        _SYNCHRONISE,
    ),
    "not_synchronised.launch_perhaps": Words(
        "batches of {smallest} and of {largest} take the same time, within {within:percent}: it may be the launch time",
        _SYNCHRONISE,
    ),
    "timer_too_coarse": Words("a step takes {step:s}, but the clock resolution is {tick:s}"),
    "impossible.time": Words("{figure} of the {window} window has a value that is not a positive time"),
    "impossible.ended_before": Words("the {window} window ended before it began"),
    "impossible.too_long": Words("the steps of the {window} window sum to {sum:s}, but the window took {span:s}"),
    "impossible.timestamps": Words("the timestamps of {figure} decrease"),
    "impossible.counter": Words("{figure} is a counter, but its readings decrease"),
    "impossible.value": Words("{figure} is recorded as {value}"),
    "phases_differ.optimizer": Words(
        "{phases: + } sum to the whole step: the optimizer step is in no phase, nor in the step time"
    ),
    "phases_differ.rest": Words(
        "{share:percent} of the step is in no phase: phases were timed without synchronisation"
    ),
    "phases_differ.sum": Words("{phases: + } sum to {sum:s.5}, but the reported step time is {step:s.5}"),
    "phases_differ.window": Words(
        "a step split into phases takes {split:s}, but {step:s} in the window: the window's steps were not timed to "
        "their end"
    ),
    "copied_values.equal": Words("all {steps} step times are exactly {step:s.6}", _TWICE),
    "copied_values.trial": Words("all {steps} step times of a trial are those of another trial", _TWICE),
    "copied_values.case": Words("all {steps} step times of a trial are those of the case {settings}", _TWICE),
    "copied_values.figures_trial": Words("all its figures are identical to those of another trial", _TWICE),
    "copied_values.figures_case": Words("all its figures are identical to those of the case {settings}", _TWICE),
    # ── consistent ──────────────────────────────────────────────────────────────────────────────────────────
    "wrong_rate.steps": Words(
        f"{_RATE}: the items of all {{steps}} steps were divided by the time of one step", _TOTALS
    ),
    "wrong_rate.batch_twice": Words(f"{_RATE}: the batch size counted twice", _TOTALS),
    "wrong_rate.batches": Words(f"{_RATE}: batches were counted instead of items", _TOTALS),
    "wrong_rate.devices_twice": Words(f"{_RATE}: devices were counted twice", _TOTALS),
    "wrong_rate.one_device": Words(f"{_RATE}: only one of several devices was counted", _TOTALS),
    "wrong_rate.accumulated_twice": Words(f"{_RATE}: accumulated batches were counted twice", _TOTALS),
    "wrong_rate.accumulated_once": Words(f"{_RATE}: accumulated batches were counted once", _TOTALS),
    "wrong_rate.tokens_for_sequences": Words(f"{_RATE}: tokens were counted instead of sequences", _TOTALS),
    "wrong_rate.tokens_for_texts": Words(f"{_RATE}: tokens were counted instead of texts", _TOTALS),
    "wrong_rate.generated_tokens": Words(f"{_RATE}: generated tokens were counted instead of texts", _TOTALS),
    "wrong_rate.milliseconds": Words(f"{_RATE}: milliseconds were read as seconds", _TOTALS),
    "wrong_rate.seconds": Words(f"{_RATE}: seconds were read as milliseconds", _TOTALS),
    "wrong_rate.microseconds": Words(f"{_RATE}: microseconds were read as seconds", _TOTALS),
    "wrong_rate.minutes": Words(f"{_RATE}: it is a rate per minute", _TOTALS),
    "wrong_rate.hours": Words(f"{_RATE}: it is a rate per hour", _TOTALS),
    "wrong_rate.mean_of_rates": Words(f"{_RATE}: it is the mean of per-step rates", _TOTALS),
    "wrong_rate.more": Words(f"{_RATE}: {{factor}} times as much", _TOTALS),
    "wrong_rate.less": Words(f"{_RATE}: {{factor:percent}} of it", _TOTALS),
    "wrong_rate.volume": Words(
        "a step processed {items} items, but its case has {asked}",
        "check whether a batch was cut after running out of memory; items are per step and device",
    ),
    "wrong_summary": Words(_SUMMARY, _RAW),
    "wrong_summary.milliseconds": Words(f"{_SUMMARY}: milliseconds and seconds were mixed up", _RAW),
    "wrong_summary.microseconds": Words(f"{_SUMMARY}: microseconds and seconds were mixed up", _RAW),
    "wrong_summary.nanoseconds": Words(f"{_SUMMARY}: nanoseconds and seconds were mixed up", _RAW),
    "wrong_summary.minutes": Words(f"{_SUMMARY}: minutes and seconds were mixed up", _RAW),
    "wrong_summary.standard_error": Words(f"{_SUMMARY}: that is the standard error of the mean", _RAW),
    "wrong_summary.zeros": Words(f"{_SUMMARY}: times that are missing were counted as 0", _RAW),
    "wrong_summary.gaps": Words(f"{_SUMMARY}: it was divided by the tokens, not by the times between them", _RAW),
    "wrong_summary.warmup": Words(f"{_SUMMARY}: it includes the warm-up steps", _RAW),
    "out_of_order": Words("{figure}: {lower} ({low:4}) is above {upper} ({high:4})", _MIXED_UP),
    "out_of_order.large_deviation": Words(
        "{figure}: the standard deviation ({deviation:3}) is too large for its range", _MIXED_UP
    ),
    "out_of_order.small_deviation": Words(
        "{figure}: the standard deviation ({deviation:3}) is too small for its range ({range:3}) in {steps} steps: "
        "probably the standard error of the mean",
        _MIXED_UP,
    ),
    "impossible_energy.limit": Words("average power is {power:W}, but its power limit is {limit:W}", _NO_USE),
    "impossible_energy.no_device": Words(
        "average power is {power:W}, but no device draws more than {limit:W}", _NO_USE
    ),
    **{f"impossible_energy.product{slip}": Words(_PRODUCT + why, _NO_USE) for slip, why in _ENERGY_SLIPS.items()},
    **{f"impossible_energy.items{slip}": Words(_ITEMS + why, _NO_USE) for slip, why in _ENERGY_SLIPS.items()},
    "impossible_energy.few_readings": Words("power was sampled only {readings:time|times}", _NO_USE),
    "impossible_energy.counter": Words(
        "the energy counter reports {counter:J}, but power integrates to {power:J}", _NO_USE
    ),
    "zero_for_missing": Words("{figures}: reported as 0 where nothing was measured"),
    "zero_for_missing.more": Words("{figures} and {more} more: reported as 0 where nothing was measured"),
    "wrong_choice.throughput": Words(
        "{labelled:4} items/s is labelled the best throughput, but batch_size {batch_size} has {best:4}", _RULE
    ),
    "wrong_choice.efficiency": Words(
        "{labelled:4} items/s/GB is labelled the best efficiency, but batch_size {batch_size} has {best:4}", _RULE
    ),
    # ── within the device's limits ──────────────────────────────────────────────────────────────────────────
    "faster_than_peak.mfu": Words("reported MFU is {mfu:percent}, above 100 %"),
    "faster_than_peak.achieved": Words("achieved {achieved:FLOP/s}, above the dense peak of {peak:FLOP/s} ({source})"),
    "faster_than_peak.peak_used": Words("the peak used is {used:FLOP/s}; the dense peak is {peak:FLOP/s} ({source})"),
    "faster_than_peak.sparse_peak": Words(
        "the peak used is {used:FLOP/s} (with 2:4 sparsity); the dense peak is {peak:FLOP/s} ({source})"
    ),
    "faster_than_peak.half": Words(
        "reported MFU is {mfu:percent.1}, but {achieved:FLOP/s} is {share:percent.1} of the peak: the sparse peak was "
        "used, or a multiply-add was counted as one operation"
    ),
    "beyond_device.card": Words("{device} is recorded with {memory:bytes} of memory: wrong unit?", _UNITS),
    "beyond_device.memory": Words("{figure} is {value:bytes}, and {device} has {room:bytes}", _UNITS),
    "beyond_device.host": Words("{figure} is {value:bytes}, and the host has {room:bytes}", _UNITS),
    "beyond_device.utilization": Words(
        "utilization is {value:percent}: a percentage was probably read as a fraction", _UNITS
    ),
    "beyond_device.clock": Words("{figure} is {value:Hz}: probably MHz read as kHz", _UNITS),
    "beyond_device.hot": Words("{figure} is {value:°C}: outside any chip's operating range", _UNITS),
    "beyond_device.cold": Words("{figure} is {value:°C}", _UNITS),
    "device_unclear.nameless": Words("the name of {device} is not recorded", _RECORD),
    "device_unclear.memory": Words(
        "{device} is recorded with {memory:bytes} of memory, which contradicts its name", _RECORD
    ),
    "device_unclear.another": Words("a trial ran on {names}, but the machine's device is {device}", _RECORD),
    "device_unclear.one_process": Words(
        "labelled distributed with a world size of 1: nothing was communicated", _RECORD
    ),
    "device_lost": Words("{device} was lost in {trials} of {of} trials"),
    # ── correct results ─────────────────────────────────────────────────────────────────────────────────────
    "nan_loss": Words("the loss became NaN or infinite in {trials} of {of} trials"),
    "loss_diverged": Words("the loss diverged in {trials} of {of} trials: minimum {lowest:3}, last {last:3}"),
    "loss_spikes": Words("the loss spiked {spikes:time|times} in {steps} steps, first in step {first}"),
    "fingerprint_moved": Words(
        "trials with the same seed computed different results: {one:6} in one, {other:6} in another",
        "seed every random generator (the seed is {seed}); what is left comes from nondeterministic "
        "operators: torch.use_deterministic_algorithms(True) names them",
    ),
    "nan_output": Words("the mean of the output is NaN in {trials} of {of} trials"),
    "nan_output.infinite": Words("the output is infinite in {trials} of {of} trials"),
    "constant_output.items": Words("the output is {value} for every one of {items} items", _INPUTS),
    "constant_output.batches": Words(
        "batches of {sizes} have the same output (mean {value}): it does not depend on the input", _INPUTS
    ),
    "constant_output.loss": Words("the loss is {value} in all {steps} steps: nothing is learned", _INPUTS),
    "setting_without_effect": Words(
        "{precision} gave exactly the results of fp32: it was not in effect",
        "check that autocast covers the forward pass and that the device supports the format",
    ),
    "setting_without_effect.pinned": Words(
        "{setting} has no effect on {devices}, which works in the host's own memory: measured with {measured}",
        "it may stay where it is, for machines with an accelerator",
    ),
    "runtime_differs": Words(
        "{runtime} does not compute what eager mode in fp32 does, and is not shown to be as good: relative error "
        "{error:2}, top-1 agreement {agreement:percent}",
        "do not use it before you know why; give real --data, of which it answers more items",
    ),
    # ── data ────────────────────────────────────────────────────────────────────────────────────────────────
    "unreadable": Words(
        "{items:item|items} could not be read: {first}",
        "repair or remove the named items; on_error=stop ends a trial at the first one",
    ),
    "unreadable.of": Words(
        "{items:item|items} of {of} could not be read: {first}",
        "repair or remove the named items; on_error=stop ends a trial at the first one",
    ),
    "own_loader": Words("the DataLoader of {model} has {has}: not measured", "to measure its settings: {settings: }"),
    "own_batches.batch_sampler": Words("not tuned of {model}: {axes} (a batch_sampler makes the batches)", _DATASET),
    "own_batches.whole_batches": Words("not tuned of {model}: {axes} (the data set gives whole batches)", _DATASET),
    "own_batches.as_they_come": Words(
        "not tuned of {model}: {axes} (batches of a {kind} are used as they come)", _DATASET
    ),
}

# What to do, where it depends on more than the reason: `remedies` of a finding name these.
REMEDIES: dict[str, str] = {
    "again": "measure again with {setting}",
    "again_before": "measure again with {setting} (it was {before}s)",
    "longer": "measure longer",
    "longer_with": "measure longer: {longer}",
    "own_loop": "or take more steps of your own loop",
    # enough
    "fresh_processes": "the tool measured in one process; `torchstone run` uses {enough} fresh processes",
    "run_it_too": "a training is one trial; `torchstone run` measures the same settings in {enough} trials",
    "more_time": "the time limit ended the run before more were taken: give it more, --within 5m",
    "script_again": "run the script {enough} times: `torchstone history latest` shows how far its runs differ",
    "trials_inline": (
        "measure with trials={enough}, or in fresh processes: torchstone run --model py:FILE.py:FUNCTION --trials "
        "{enough}"
    ),
    "others_ended": "{asked} trials were requested: see how the others ended, and measure again",
    "steps_after_warmup": "measure at least 20 steps after warm-up",
    "more_epochs": "train more epochs than {epochs}, or smaller batches",
    "see_message": "see why in the messages of the failed trials (`torchstone show {run}`)",
    "see_message_there": "see why in the messages of the failed trials",
    "more_timeout": "if slow rather than stuck, measure again with --timeout {double}s (it was {timeout}s)",
    "smaller_batch": "out_of_memory: a smaller --axis batch_size leaves memory to spare",
    "smaller_batch_there": "out_of_memory: a smaller batch leaves memory to spare",
    "as_maximum": "read it as the maximum of a few steps, or measure longer",
    "server_load": "lower target_qps, raise latency_bound_s, or measure longer: {longer}",
    # steady
    "exclude_first": "exclude the first steps in the tool",
    "longer_warmup_there": "use a longer warm-up",
    "check_machine_there": "check temperature, clocks and other processes there",
    "later_epochs": "a cache that fills or kernels being tuned: use the later epochs",
    "still_warming": "still warming up: measure again with {setting}",
    "slows_down": ("possible causes: thermal throttling, memory growth, other processes; measure again with {longer}"),
    "follow_batches": "the modes follow the batches: see what differs between them",
    "two_modes": "check for clock changes, other users, garbage collection; use the mean, not the median",
    "mean": "use the mean, not the median",
    # undisturbed
    "quiet_host": "measure when the host is less busy, or on a dedicated one",
    "more_trials": "or take more trials: {setting}",
    "stop_processes": "stop them (nvidia-smi, rocm-smi or xpu-smi lists them)",
    "other_device": "or measure on another device with --device {other}",
    "longer_windows": "for energy per item use longer windows: {longer}",
    "closer_target": "for energy per item omit --trials, or add --target 0.1% to lengthen the windows",
    # memory
    "less_memory": "try {settings:, then }, then a smaller model (less depth or width)",
    "smaller_model": "a smaller model (less depth or width), or a device with more memory",
    "stop_memory_users": "stop other programs that use memory",
    "expandable": "or PYTORCH_ALLOC_CONF=expandable_segments:True, against fragmentation",
    "fewer_workers": "each DataLoader worker needs host memory: {workers}",
    # timed correctly
    "use_throughput": "use throughput (timed over the whole window), not step times",
    "more_work": "or give a step more work ({setting})",
    "more_work_there": "or give a step more work",
    "report": "do not use these figures; report them with `torchstone show {run} --json`",
    "report_there": "do not use these figures; report them to the tool that wrote them",
    "no_phases": "do not use the phases; report this",
    "phases_there": "give every part of a step a phase, and the rest one",
    # consistent
    "driver_zeros": "the driver reports 0 for values it does not have: use none of these",
    "zeros_there": ("exclude them from every mean and comparison; the tool should write no value where it has none"),
    # within the device's limits
    "missing_wait": "check for a missing synchronisation, or for operations counted but not executed",
    "missing_wait_there": (
        "check for a missing synchronisation, operations counted twice, or the peak of another card"
    ),
    "blocking_launches": (
        "a kernel of this case failed; the device worked again afterwards: measure it with CUDA_LAUNCH_BLOCKING=1, so "
        "that the error names the operation"
    ),
    "reset_device": "no later trial on it succeeded: see {log}, reset the device or reboot, and measure again",
    # correct results
    "never_a_number": (
        "it never was a number: check the inputs for NaN (`x.isnan().any()`) and the loss for a division by zero"
    ),
    "check_labels": "check the loss for a division by zero or labels out of range, or train in fp32",
    "wider_range": "measure again with {precision}, which has the range of fp32",
    "lower_rate": "measure again with {rate} (it was {rate_before})",
    "stable_rate": "measure again with {rate}, which was stable here",
    "clip": "measure again with {clip}",
    "tighter_clip": "measure again with {clip} (it was {clip_before})",
    "rate_warmup": "use a learning-rate warm-up",
    "unless_masked": "no fault if the model masks its output with infinity",
    "check_model": (
        "check for NaN weights, a division by zero or a logarithm of 0 in the model, and inputs out of range"
    ),
}
