"""The messages of diagnoses and advice: a template for the id of each Statement, formatted here and nowhere below.

A place is `{name}` or `{name:format}`. Formats: a unit ("s", "bytes", "items/s", …, with digits "s.2"), "%" of a share,
"yes" for yes or no, "plural" for the s of a noun, "times", "gain" and "spread" of (value, low, high), what Python has
("," or ".1f"), and of several values what stands between them.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core import units
from torchstone.core.messages import OWN_DATA, not_compared, too_wide
from torchstone.core.schema.advice import Advice, Statement
from torchstone.core.schema.axis import scalar_word
from torchstone.core.schema.diagnosis import ChecklistItem
from torchstone.core.schema.estimate import Finding

CAUSES = {  # titles
    "loader": "the step waits for the loader",
    "loader_computes": "preprocessing is too slow: the step waits while the loader computes",
    "loader_waits": "the step waits for the loader, and the loader for its source",
    "transfer": "copying batches to the device takes long",
    "transfer_pageable": "batches are copied from pageable memory: the device waits for them",
    "threads_share_cores": "{threads} threads share {cores} cores: they wait for one another at every operator",
    "others_keep_cores": "other processes keep {others:.1f} of {cores} cores busy: the step waits for them",
    "waits": "the step asks tensors for their values {waits:,.0f} times (item() or the like), and waits for each",
    "waits_at": "the step waits for values of tensors that line {line} of {file} asks for (item() or the like)",
    "python_loop": "a loop in Python: line {line} of {file} runs {runs:,.0f} times a step",
    "outside": "lines of the script between the passes of the model take long, most of all line {line} of {file}",
    "update_of_many_tensors": "the optimizer updates many small tensors, one after another",
    "update_not_fused": "the optimizer's update is not fused",
    "update_long": "the update of the weights takes long",
    "host_swaps": "the host swaps: pages are read from disk in every step",
    "page_faults": "memory is given back and fetched again in every step: page faults",
    "memory_short": "memory is short: the allocator flushes its cache and tries again",
    "out_of_memory": "it runs out of memory",
    "small_batch": "the batch is too small: a step costs {fixed_s:s.2} whatever its size",
    "precision": "products are computed in fp32, and {device} is made for {format}",
    "computing": "computing is what limits",
    "not_filled": "the device is not filled",
    "between_phases": "time between the phases",
}
EVIDENCE = {
    "phase_share": "{phase} is {share:%} of the step ({time_s:s})",
    "phase_of_step": "{phase} is {share:%} of the step",
    "data_share_long": "data is {share:%} of the step ({time_s:s}, more than the usual {usual_s:s.2})",
    "data_of_step": "data is {share:%} of the step",
    "idle": "the device is in use {share:%} of the time, less than the usual {usual:%}",
    "rough_shares": "the steps with phases took {apart_s:s}, the others {step_s:s}: the shares are rough",
    "loader_process": "one process takes {time_s:s} a batch, and has a core {busy:%} of it; the rest it waits",
    "loader_busy": "a process that loads has a core {busy:%} of the time in which it loads",
    "loader_process_queued": "one process takes {time_s:s} a batch, and has a core {busy:%} of it, waits {queued:%} "
    "for a core, {source:%} for its source",
    "loader_unmeasured": "who waits for whom is not known: the loader alone was not measured",
    "device_unmeasured": "who waits for whom is not known: the device alone was not measured",
    "paced_by_loader": "the loader delivers {loader:items/s}, the device processes {device:number}: the device waits "
    "{share:%} of the step",
    "paced_by_device": "the loader delivers {loader:items/s}, the device processes {device:number}: the loader is "
    "{ahead:times} as fast as it must be; more workers gain nothing",
    "paced_by_both": "the loader delivers {loader:items/s}, the device processes {device:number}: they keep pace, and "
    "only both together can get faster",
    "paced_by_turns": "the loader delivers {loader:items/s}, the device processes {device:number}: with 0 workers they "
    "alternate, and the device waits {share:%} of the step",
    "together_only": "together they reach only {rate:number} of the {possible:items/s} that this allows",
    "pageable_copies": "{copies:g} copies a step are from pageable memory: the host waits for each",
    "host_spends": "the host spends {time_s:s} a step on it",
    "threads_on_cores": "{threads} threads on {cores} cores",
    "threads_and_workers": "{threads} threads and {workers} processes that load on {cores} cores",
    "cores_taken": "the kernel took a core away {times:.0f} times a step",
    "others_busy": "{others:.1f} cores were busy with other processes, and the step has {threads} "
    "thread{threads:plural}",
    "thread_had_core": "the thread that does the steps had a core {share:%} of the time",
    "line_asks": "{file}:{line} asks {waits:,.0f} times a step",
    "lines_share": "those lines take {share:%} of the step, by {samples:,} samples of the host's stack",
    "line_runs": "{file}:{line} runs {runs:,.0f} times a step, {time_s:s.2} each time",
    "loop_share": "the loop takes {share:%} of the step, by {samples:,} samples of the host's stack",
    "loop_with_backward": "its part of the backward pass makes that {share:%}",
    "operators": "{calls:,} operators a step",
    "optimizer_share": "optimizer is {share:%} of the step ({time_s:s}), usually a small share",
    "updates_tensors": "it updates {tensors:,} tensors, half of them of {elements:,.0f} numbers or fewer",
    "not_fused": "its kernels are not fused",
    "faults": "{minor:,.0f} page faults a step without the disk, {major:,.1f} that read from it",
    "kernel_time": "the kernel takes {share:%} of the CPU time ({system_s:s} of {cpu_s:s} a step)",
    "main_thread_waits": "the main thread waits {share:%} of the time",
    "flushed": "it did {times:.0f} times",
    "flushed_full": "it did {times:.0f} times, the peak is {share:ratio} of {memory_bytes:bytes} (usual: "
    "{low:hundredths} to {high:%}, safe: up to {safe:%})",
    "larger_batch_takes": "a step of {times:g} times the batch takes {slower:.2g} times as long",
    "fixed_share": "{share:%} of the step at batch_size {batch_size} does not depend on the batch",
    "operators_every": "{calls:,} operators a step, one every {each_s:s.2}",
    "kernels_every": "{calls:,} operators ({kernels:,} kernels) a step, one every {each_s:s.2}",
    "passes_in_fp32": "the passes of the model are {share:%} of the step, in fp32",
    "native_formats": "native on {device}: {formats}",
    "ended": "{status}: {message}",
    "share_over_trials": "over {trials} processes: {share:%} of the step, 95 % confidence interval {low:%} to {high:%}",
    "share_over_windows": "over {windows} windows of {window_s:s.2}: {share:%} of the step, 95 % confidence interval "
    "{low:%} to {high:%}",
    "rate_over_trials": "over {trials} processes: {rate:number} {item}s/s, 95 % confidence interval {low:number} to "
    "{high:number}",
}
USUAL = {  # what is usually behind it
    "slow_disk": "slow disk",
    "few_workers": "too few workers",
    "costly_preprocessing": "costly preprocessing",
    "pageable_memory": "pageable memory",
    "complex_model": "complex model",
    "batch_too_small": "batch too small",
    "large_batch": "large batch",
    "inefficient_operations": "inefficient operations",
    "complex_backward": "complex graph of the backward pass",
    "large_model": "large model",
    "small_updates": "small batch",
    "adamw": "AdamW",
    "python_between": "Python between the calls",
    "synchronisation": "synchronisation",
    "launches_between": "launches and synchronisation between its kernels",
    "loader_waited_for": "a loader that is waited for",
    "fixed_overhead": "fixed overhead of a step",
    "low_occupancy": "low occupancy",
    "launch_overhead": "launch overhead",
    "too_small_for_it": "a model or batches too small for it",
    "transfers_waited_for": "transfers that it waits for",
    "activations": "activations kept for the backward pass",
    "memory_pressure": "memory pressure",
    "swapping": "swapping",
    "access_patterns": "access patterns",
    "growth_of_backward": "growth of the backward pass",
    "other_work": "other work on the machine",
    "batches_by_hand": "batches made in the loop itself",
    "enough_at_once": "a step with enough to do at once",
    "memory_suffices": "memory that still suffices",
    "few_trials": "too few trials",
    "warmup_not_over": "warm-up that was not over",
    "changing_clocks": "changing clocks",
}
REMEDIES = {
    "larger_batch": "a larger batch",
    "batch_size": "batch_size={batch_size}",
    "larger_batch_if_faster": "a larger batch, if throughput still rises with it",
    "larger_batch_to_decode": "a larger batch: a token of every item shares one reading of the weights",
    "larger_batch_or_accumulation": "a larger batch or grad_accumulation: fewer updates for each item",
    "grad_accumulation": "grad_accumulation: fewer updates for each item",
    "smaller_batch": "a smaller batch",
    "smaller_batch_accumulated": "a smaller batch, with grad_accumulation for the same effective batch",
    "optimum": "batch_size={batch_size} for production",
    "optimum_accumulated": "for a larger effective batch, batch_size={batch_size} with grad_accumulation",
    "batch_sizes": "--batch-sizes 8,32,128",
    "tune_batch_size": "torchstone tune, which chooses it",
    "num_workers": "num_workers={workers:,}",
    "more_workers": "more num_workers",
    "own_workers": "processes that load: return the Dataset, or a DataLoader of torch's, of which others are made",
    "pin_memory": "pin_memory=true",
    "pinned_copies": "pinned memory (pin_memory=True of the DataLoader, or tensor.pin_memory()) and "
    ".to(device, non_blocking=True)",
    "faster_disk": "a faster disk (SSD), or fewer, larger files",
    "less_preprocessing": "less preprocessing for each item, or once, beforehand",
    "faster_cpu": "a faster CPU",
    "faster_cpu_than_workers": "a faster CPU: {workers} workers on {cores} cores will not get faster by more workers",
    "work_in_workers": "more of the loader's work in its workers",
    "bf16": "precision=bf16",
    "tf32": "precision=tf32",
    "compile": "compile=default",
    "cuda_graphs": "compile=reduce-overhead (CUDA graphs for operations that repeat)",
    "channels_last": "channels_last=on for convolutions",
    "gradient_checkpointing": "gradient_checkpointing=true: less memory, a longer backward pass",
    "libraries": "libraries optimized for the device (fused attention, cuDNN, oneDNN)",
    "lighter_model": "a lighter model",
    "smaller_model": "a smaller model (less depth or width), or another architecture",
    "fused": "fused=on: one kernel for many tensors",
    "fewer_waits": "fewer synchronisations (.item(), prints) in the step",
    "use_cpu": "the CPU, for a model that small",
    "threads": "threads={threads}",
    "no_more_threads": "no more threads than there are free cores",
    "end_others": "end what else runs, or measure at another time (torchstone machine check tells)",
    "count_on_device": "keep what is counted on the device (sums of tensors), and read it every 50 steps or so",
    "whole_tensors": "work on whole tensors instead of item by item: (answers == labels).sum()",
    "log_outside": "print and log outside the step",
    "into_loader": "batches from a DataLoader with num_workers, which makes them beside the step",
    "less_often": "what is not needed in every step, every 50 steps or so",
    "operators_for_loop": "operators on whole tensors in place of the loop (matmul, cumsum, scan, unfold, einsum)",
    "compile_loop": "torch.compile, which can unroll a loop of a fixed length",
    "heap_fixed": "heap=fixed: glibc keeps what it was given",
    "trials": "--trials {trials}",
    "warmup": "--warmup {steps}",
    "budget": "--budget {budget_s:g}s for longer windows",
    "ab": "torchstone ab for the difference of two settings",
    "both_devices": "{flags}, on both devices in one run",
}
IN_CODE = {  # how a remedy is done in a program of one's own, which is worth telling all the more once it was measured
    "larger_batch": "a larger batch_size; the learning rate follows it",
    "bf16": "torch.autocast (AMP); on older cards fp16 and GradScaler",
    "tf32": "torch.set_float32_matmul_precision('high')",
    "compile": "torch.compile(model)",
    "cuda_graphs": "torch.compile(model, mode='reduce-overhead')",
    "pin_memory": "pin_memory=True of the DataLoader, .to(device, non_blocking=True)",
    "pinned_copies": "pin_memory=True of the DataLoader, .to(device, non_blocking=True)",
    "fused": "fused=True (or foreach=True) of the optimizer",
    "threads": "OMP_NUM_THREADS={threads}, or torch.set_num_threads({threads})",
    "heap_fixed": "MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296, or jemalloc or tcmalloc",
}
TRIED = {  # what came of a remedy: why there is no gain, and what it does to what is computed
    "budget_spent": "not measured: the budget of {budget_s:g} s is spent",
    "compiling_takes_long": "not measured: compiling takes long; --budget {budget_s:g}s or more tries it",
    "too_few_pairs": "not measured: too few pairs in its time",
    "slower_at_first_look": "slower: {times:number.2} times the rate in one short trial",
    "less_than_another_value": "{times:number} times the rate in one short trial: less than another value of the same",
    "fits": "fits: {rate:items/s} in one short trial",
    "loss_same": "the same",
    "loss_apart": "{share:percent} apart in {steps} steps",
    "loss_of_another_result": "another result: {axes}",
    "loss_of_other_batches": "other batches",
    "loss_broken": "the loss is NaN or infinite",
    "loss_broken_before": "the loss is NaN or infinite with the present settings",
}
SEEN = {  # in the recorded Cases, or in the loop of somebody's own program
    "asks_in_loop": "the loop asks tensors for their values (item(), cpu(), print), for which a device is waited for: "
    "{places:; }",
    "asks_at": "{file}:{line}, {times:,.0f} times a step: {code}",
    "speed_up": "speed-up over batch_size {batch_size} ({rate:number} {unit}): {others}",
    "speed_up_at": "{batch_size}: {ratio:number.2}×",
    "speed_up_none": "{batch_size}: not significant",
    "low": "at batch_size {batch_size}, throughput is {share:%} of the top",
    "fixed_cost": "a step costs about {fixed_s:s.2} whatever its size, {share:%} of it at {batch_size}, "
    "{share_at_top:%} of it at {top}",
    "highest_at_smallest": "throughput is highest at batch_size {batch_size}, the smallest",
    "highest_between": "throughput is highest at batch_size {batch_size}, between the smallest and the largest",
    "falls": "beyond it, throughput falls: by {share:%} at batch_size {batch_size}",
    "flushed_there": "the allocator flushed its cache {times:.0f} times there: memory is short",
    "memory_in_use_there": "{share:%} of the memory is in use there",
    "rises": "throughput still rises at the largest batch_size {batch_size}, by {share:%} over {before}",
    "memory_in_use": "{share:%} of the memory is in use",
    "ran_out": "batch_size {batch_size} ran out of memory",
    "saturated": "from batch_size {batch_size} on, throughput is within 5 % of the top: larger batches use more memory "
    "without a significant speed-up",
    "memory_below": "peak memory is {share:ratio} of the device's, less than the usual {low:hundredths} to {high:%}",
    "memory_within": "peak memory is {share:ratio} of the device's, within the usual {low:hundredths} to {high:%}",
    "memory_above": "peak memory is {share:ratio} of the device's, more than the usual {low:hundredths} to {high:%}",
    "likely_to_run_out": "likely to run out",
    "single_items": "batch_size is 1, and no larger one was measured: each item pays for a whole step",
    "varies": "throughput varies much: {spread:spread} over {trials} trials",
    "beside_the_cpu": "{device} beside the CPU: {gains}",
    "times_as_fast": "{gain:gain} times as fast at batch_size {batch_size}",
    "times_as_fast_with": "{gain:gain} times as fast at batch_size {batch_size} with {settings}",
    "little_gain": "little for an accelerator",
    "transfer_of_its_step": "transfer is {share:%} of its step at batch_size {batch_size}",
    "no_size_in_common": "{device} and the CPU have no batch size in common that both measured",
    "settings_differ": "{device} and the CPU are compared at the fastest settings of each, which differ: {differ:; }",
    "differ_at": "{settings} (batch_size {sizes})",
    "at_equal_settings": "at equal settings: {gains}",
    "no_equal_settings": "no equal settings were measured on both",
    "own_program": "it was measured in a program of yours, which alone can measure it again",
    "another_machine": "it was recorded on another machine, or with other settings: {changes:; }",
    "busy_machine": "other programs were busy while its cases were measured",
    "edited": "{model} was edited since it was recorded: what is measured here is what it is now",
    "not_as_recorded": "not as it was when it was recorded: {changes:; }",
}
LIMITS = {  # of the hardware
    "bound_loader": "loader: {share:ratio} of the time is spent waiting for batches",
    "bound_transfer": "transfer: {share:ratio} of a step",
    "bound_communication": "communication: {share:ratio} of a step",
    "bound_compute": "compute: {flops:FLOP} at {peak:FLOP/s} (measured, {precision}) would be {share:ratio} of the "
    "step ({step_s:s})",
    "bound_compute_datasheet": "compute: {flops:FLOP} at {peak:FLOP/s} (of the datasheet, {precision}) would be "
    "{share:ratio} of the step ({step_s:s})",
    "bound_memory": "memory: at least {traffic_bytes:bytes} at {rate:bytes}/s would be {share:ratio} of the step "
    "({step_s:s})",
    "bound_launch": "launch: {operators:.0f} operators, {launch_s:s} each would be {share:ratio} of the step "
    "({step_s:s})",
    "no_limit_near": "no limit is near: at peak rates this step would need {share:ratio} of its time",
    "no_peaks": "no peaks of this device are known: measure them with `torchstone machine peaks` (half a minute)",
}
QUESTIONS = {
    "is_io_high": "is the I/O time high? {answer:yes}, {share:%} of the step, {time_s:s} → num_workers up, if it is",
    "is_utilization_low": "is the utilization low? {answer:yes}, {share:%} (usual: {low:hundredths} to {high:%}) → "
    "batch_size up, if it is",
    "is_utilization_known": "is the utilization low? not known: the device has no such gauge (it is one of "
    "accelerators)",
    "are_passes_slow": "are forward and backward slow? {answer:yes}, {share:%} of the step → mixed precision (AMP), if "
    "they are",
}
CHECKLIST = {  # `mark`: whether it is done
    "measured": "{mark} it was measured",
    "batch_sizes_compared": "{mark} batch sizes compared: {tried}",
    "workers_compared": "{mark} num_workers compared: {tried}",
    "precision_compared": "{mark} precision chosen: {precision}",
    "memory_unknown": "{mark} memory: how much the device has is not known",
    "memory_is_below": "{mark} peak memory {share:ratio} of the device's, less than the usual {low:hundredths} to "
    "{high:%}: a larger batch may fit; whether it is faster is measured",
    "memory_is_within": "{mark} peak memory {share:ratio} of the device's, within the usual {low:hundredths} to "
    "{high:%}",
    "memory_is_above": "{mark} peak memory {share:ratio} of the device's, more than the usual {low:hundredths} to "
    "{high:%}, and safe up to {safe:%}",
    "memory_is_full": "{mark} peak memory {share:ratio} of the device's: likely to run out",
    "throughput_known": "{mark} throughput known: {rate:items/s}",
}
TO_DO = {  # what to type for what is not done
    "measured": "torchstone run",
    "batch_sizes_compared": "torchstone tune",
    "workers_compared": "tune --only num_workers",
    "precision_compared": "try bf16",
    "throughput_known": "torchstone run",
}
COMPARED = {  # under what a comparison has to be read, and what a difference does to its fairness
    "settings_compared": "settings compared: {settings}",
    "setting_compared": "{setting} {baseline} against {candidate}",
    "other_code": "other code under the same name",
    "other_weights": "other weights or sizes under the same name",
    "first_results_differ": "first results differ ({baseline:number.5} and {candidate:number.5})",
    "side_of_one_trial": "{side}: one trial: the variation between processes is not measured, {assumed:%} is assumed",
    "side_drifted": "{side}: figures drifted over its run, which widens their intervals",
    "worse_side_disturbed": "only the worse side ({side}) was disturbed ({what} {value:ratio}): measure it again",
    "worse_side_disturbed_cores": "only the worse side ({side}) was disturbed ({what} {value:.2f} cores): measure it "
    "again",
    "mostly_drift": "the variation between processes alone gives ±{alone:ratio}; drift between runs widens it to "
    "±{whole:ratio}; `torchstone ab` interleaves and avoids it",
    "time_apart": "{apart_s:s} apart on one machine: drift between them is not measured; ab interleaves",
    "steps_differ": "steps differ in work: only figures per item are compared",
    "items_differ": "items differ in work",
    "result_changes": "it changes the result: check the quality",
    "other_sharing": "another number shares the work",
    "both_disturbed": "both sides were disturbed",
    "other_kernels": "another torch version has other kernels: part of the difference is due to it",
    "other_heap": "the heap alone can move a small model by 13 %",
    "other_isolation": "the way processes start changes their figures",
    "other_chosen_settings": "settings chosen for the device are part of the difference",
    "other_seed": "another seed gives other numbers",
    "nvtx_costs_time": "NVTX ranges cost time in the measured windows",
    "pinning_changes_timing": "pinned threads change the timing",
    "other_cores": "trials on other cores have other caches, and other ways to the device",
    "others_were_busy": "other processes were busy during one side: one makes a 2-thread step 5 to 15 times slower",
    "cpu_time_stolen": "the hypervisor took CPU time from one side",
    "one_side_throttled": "one side was throttled by temperature or power",
    "other_governors": "different CPU frequency governors",
    "timings_may_change": "can change timings",
    "other_tools": "the tools measure differently",
    "one_side_suspect": "one side's figures are SUSPECT",
    "failed_left_out": "failed trials are not in the figures",
}
MACHINE = {  # what a check of a machine saw, and what it advises
    "not_reported": "this system does not report it",
    "no_governor": "not reported by the system (a virtual machine has none)",
    "set_to": "{word}",
    "clock_steps": "steps of {resolution_s:s}",
    "measure_longer_steps": "measure longer steps: the clock is too coarse for short ones (clocksource should be tsc)",
    "core_loses": "a core loses {share:ratio} of its time, at most {longest_s:s} in one piece",
    "stop_what_takes_time": "stop what takes CPU time, or use dedicated cores",
    "spread_in_process": "±{spread:ratio} (robust standard deviation, inside a process)",
    "longer_windows": "use longer windows (--budget), and find what disturbs the steps",
    "spread_of_processes": "±{spread:ratio} between {processes} processes of the same code",
    "compare_with_ab": "compare with `torchstone ab`, which interleaves, and use more trials in `run` (--trials 10)",
    "training_failed": "a small training failed: {message}",
    "see_run": "see `torchstone run --model {model}`",
    "stolen": "{share:ratio} of the CPU time went to other virtual machines",
    "host_overcommitted": "the host is overcommitted: use dedicated cores, or measure at another time",
    "cores_busy": "{cores:.2f} of {total} cores busy",
    "cores_busy_by": "{cores:.2f} of {total} cores busy: {names}",
    "stop_other_processes": "stop other processes, or wait until they end",
    "one_on_device": "1 other process on the device",
    "others_on_device": "{count:.0f} other processes on the device",
    "wait_or_other_device": "wait until they end, or use another device (--device)",
    "device_throttled": "the device is throttled {share:ratio} of the time",
    "cpu_throttled": "{events} throttling events of the CPU during the check",
    "check_cooling": "check cooling and power limits; let it cool down",
    "performance_governor": "`sudo cpupower frequency-set -g performance` keeps the clock up",
    "clock_depends": "the clock depends on temperature and on the number of busy cores: compare with `ab`, which "
    "interleaves",
    "nothing_swapped": "nothing swapped",
    "swapped": "{swapped_bytes:bytes} swapped during the check",
    "free_memory": "free memory: swapping slows every step",
    "memory_free": "{free_bytes:bytes} of {total_bytes:bytes} free",
    "stop_programs": "stop programs that use it",
    "disk_free": "{free_bytes:bytes} free in {folder}",
    "free_disk": "free disk space, or use another folder (--output-dir)",
    "degrees": "{celsius:.0f} °C",
    "cool_down": "let it cool down; check the fans",
    "no_other_torchstone": "none is measuring on this device",
    "wait_for_its_end": "wait until it ends (--when-busy wait)",
    "aa_not_finished": "not finished: {why}",
    "see_conditions_above": "see the conditions above",
    "aa_false_alarm": "false alarm: equal code was called {verdict}; 1 in 100 checks is expected to",
    "check_again": "run the check again",
    "aa_detects": "a minute of `torchstone ab` detects differences from {difference:ratio}",
    "longer_ab": "for smaller differences use more time (`ab --within 5m`) or a quieter machine",
}
CHOSEN = {  # why a tune chose it
    "loader_alone": "loader alone: {rates}",
    "device_alone": "device alone: {rates}",
    "rate_with": "{rate:items/s} with {axis} {value}",
    "peak_memory": "peak memory {memory_bytes:bytes}, {share:ratio} of the memory",
    "probes_ran_out": "{hit} of {probes} probes ran out of memory",
    "no_probe_ran_out": "no probe ran out of memory",
}
RECOMMENDED = {  # why settings and devices are left out of a recommendation, and what it cannot say
    "settings_wide": "{count} of {of} settings: {why:; }",
    "trials_differ": "{trials:wide}",
    "trials_pooled": "trials with every {axes: and } count together, as it changes no speed",
    "settings_suspect": "{count} of {of} settings are SUSPECT ({checks})",
    "settings_few_trials": "{count} of {of} settings have fewer than {fewest} trials",
    "settings_refused": "{count} of {of} settings: they nearly fill the memory, train worse or are not shown "
    "to be as good",
    "best_settings_differ": "the best settings differ between the devices ({settings:; }): part of the difference is "
    "due to them",
    "axis_values": "{axis} {values}",
    "value_on": "{value} on {device}",
    "torch_differs": "torch differs ({versions}): part of a difference may be due to it",
    "several_runs": "measured in several runs: drift between runs is estimated, not measured",
    "one_name": "{device} stands for {count} machines ({hosts}), which may differ",
    "figures_suspect": "figures are SUSPECT ({checks}): see `torchstone show`",
    "figures_suspect_of": "figures of {devices} are SUSPECT ({checks}): see `torchstone show`",
    "some_one_trial": "some have one trial; its variation is taken from the others or assumed",
    "memory_nearly_full": "settings that use more than {share:%} of the device's memory",
    "precision_diverges": "precision {precision}: its loss diverges",
    "quality_not_shown": "{variant}, {rate:number} {unit}: not shown to be as good as eager mode in fp32 (--data)",
    "precision_worse": "precision {precision}: its loss ends {difference:percent} above that of {against}",
    "optimizer_unstable": "optimizer {optimizer}: its loss rises or diverges",
    "optimizer_worse": "optimizer {optimizer}: its loss ends at {loss:.3g}, that of {best} at {least:.3g}",
    "only_setting": "only measured setting; otherwise not recommended: {why}",
    "far_from_top": "{count} setting{count:plural} more than {share:%} below the highest throughput",
    "loss_not_compared": "quality not measured: {axis} {value}, its loss was not compared",
    "effect_not_measured": "quality not measured: {axis} {value}, its effect on the results was not measured",
    "loss_falls_slower": "per item its loss falls {share:%} as fast as with batch_size {batch_size}: a larger batch "
    "may need another learning rate and more items to reach the same loss",
    # what losses cannot say
    "resident_data": "feed=resident repeats 4 batches: this is how fast they are learned by heart; measure again with "
    "--axis feed=loader to see data as a training does",
    "synthetic_data": "data synthetic is random: there is nothing to learn in it; name --data",
    "one_seed": "every trial has the same seed: another one may change the order of what lies close together",
}
HISTORY = {  # why a run is left out of a history
    "not_above_zero": "not above 0: no ratio",
    "suspect_run": "SUSPECT: {checks}",
    "outlier_run": "outlier among its runs",
}
ANALYSED = {  # what a run shows along one of its axes, and what of a device is not known
    "batches_as_fast": "from batch size {first} to {last} throughput is the same within its noise",
    "batches_differ": "from batch size {first} to {last} ({items_times:.3g} times the items a step) throughput is "
    "{rate_times:.3g} times as high: {share:ratio} of what steps of equal length would give",
    "highest_at": "it is highest at {value}",
    "memory_grows": "memory grows {memory_times:.3g} times",
    "value_times_as_fast": "{value} is {rate_times:.3g} times as fast as {than}{memory}",
    "value_as_fast": "{value} is as fast, within the noise, as {than}{memory}",
    "in_as_much_memory": ", in as much memory",
    "in_times_the_memory": ", in {memory_times:.3g} times the memory",
    "model_takes": "{large} has {size_times:.3g} times the parameters of {small} and takes {time_times:.3g} times as "
    "long",
    "model_takes_at": "{large} has {size_times:.3g} times the parameters of {small} and takes {time_times:.3g} times "
    "as long, at {share:ratio} of its operations a second",
    "bounds_of_cases": "{bounds:, } of {of} cases",
    "bounds": "{what} bounds {count}",
    "io_bounds": "{what} (I/O) bounds {count}",
    "none_near": "no limit is near in {count}",
    "bound_unknown": "not known in {count} ({why})",
    "cases_wide": "{count} of {of} cases: {trials:wide}",
    "no_device": "{placement} is not among the devices of this record's machine",
    "product_not_measured": "no {precision} matrix product was measured on {device}",
    "peaks_disturbed": "the peaks of {device} may be higher: other processes kept {busy_cores:g} cores busy during "
    "their measurement; `torchstone machine peaks --again`",
    "sustained_not_measured": "the sustained {precision} rate of {device} was not measured, only bursts: `torchstone "
    "machine peaks --again`",
    "no_datasheet": "no vendor's figure is known for {device} in {precision}",
    "peaks_of_other_threads": "peaks were measured with {measured} threads, but this ran with {threads}",
    "peaks_not_measured": "no peaks were measured of {placement} of {host}: measure them with `torchstone machine "
    "peaks` (half a minute)",
}
MESSAGES: Mapping[str, str] = (
    CAUSES
    | EVIDENCE
    | USUAL
    | REMEDIES
    | TRIED
    | SEEN
    | LIMITS
    | QUESTIONS
    | CHECKLIST
    | COMPARED
    | MACHINE
    | CHOSEN
    | RECOMMENDED
    | HISTORY
    | ANALYSED
    | OWN_DATA
)


def text(statement: Statement) -> str:
    """Return the English text; the id where there is no such message: a stranger's record may have any."""
    template, values = MESSAGES.get(statement.id), statement.values
    if isinstance(statement, ChecklistItem):
        values = {**values, "mark": "[x]" if statement.done else "[ ]"}
    return not_compared(statement.id, values) if template is None else _PLACES.vformat(template, (), values)


def in_code(remedy: Statement) -> str | None:
    """Return how to do it in a program of one's own; None where that goes without saying."""
    return _PLACES.vformat(IN_CODE[remedy.id], (), remedy.values) if remedy.id in IN_CODE else None


def texts(statements: Sequence[Statement], joint: str) -> str:
    """Return all of them with `joint` between."""
    return joint.join(map(text, statements))


def seen_text(advice: Advice) -> str:
    """Return what was seen."""
    return texts(advice.seen, "; ")


def advice_text(advice: Advice) -> str:
    """Return what was seen, its usual causes, and what to try."""
    parts = [seen_text(advice)]
    parts += [f"Causes: {texts(advice.causes, ', ')}"] if advice.causes else []
    parts += [f"Try: {texts(advice.remedies, '; ')}"] if advice.remedies else []
    return ". ".join(parts)


def with_texts(value: Any) -> Any:
    """Return a value for JSON in which each Statement and Finding has its English text beside its id and values."""
    if isinstance(value, msgspec.Struct):
        texts = {"text": text(value)} if isinstance(value, Statement) else {}
        if isinstance(value, Finding):
            texts = {"message": value.message, "advice": value.advice}
        return {name: with_texts(one) for name, one in {**_tagged(value), **texts}.items()}
    if isinstance(value, Mapping):
        return {name: with_texts(one) for name, one in value.items()}
    return [with_texts(one) for one in value] if isinstance(value, list | tuple) else value


def _tagged(value: msgspec.Struct) -> Mapping[str, Any]:
    config = type(value).__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field is not None else {}
    fields = msgspec.structs.asdict(value).items()
    return {**tag, **{name: field for name, field in fields if field is not msgspec.UNSET}}


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────


class _Places(string.Formatter):
    """Formats the places of a template. A value that is not there is a dash, one of another kind is as it is."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return a value by its name."""
        return kwargs.get(field_name), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as its format says."""
        unit, _, digits = format_spec.partition(".")
        try:
            if value is None:
                return units.MISSING
            if format_spec in _FORMATS:
                return _FORMATS[format_spec](value)
            if isinstance(value, list | tuple):
                return (format_spec or ", ").join(
                    text(x) if isinstance(x, Statement) else scalar_word(x) for x in value
                )
            if unit in _UNITS:
                return units.quantity(value, unit, int(digits or 3))
            return format(value, format_spec) if format_spec else scalar_word(value)
        except (TypeError, ValueError):  # of a stranger's record
            return str(value)


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "%": units.percent,
    "hundredths": lambda share: f"{100 * share:.0f}",
    "percent": lambda share: f"{100 * share:.2g} %",
    "yes": lambda truth: "yes" if truth else "no",
    "plural": lambda count: "s" if count != 1 else "",
    "times": lambda factor: f"{factor:.2g} times" if factor < 9.95 else f"{factor:,.0f} times",
    "gain": lambda ratio: gain if (gain := units.ratio(*ratio)) != units.MISSING else "not known how many",
    "wide": too_wide,
    "spread": lambda rate: units.spread(*rate),
}
_UNITS = ("s", "bytes", "ratio", "items/s", "number", "FLOP", "FLOP/s")
_PLACES = _Places()
