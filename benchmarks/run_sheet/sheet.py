"""The run sheet: every step with what is done, where it makes sense, what it proves, and what its figures should be.

Where an expectation has a source it is named: "H200" are figures read off such a machine with torch 2.11 and CUDA 13.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from run_sheet.expecting import (
    Expectation,
    at_least,
    at_most,
    between,
    equal,
    holds,
    near_one,
    not_above,
    not_below,
    noted,
    one_of,
)
from run_sheet.part_d import D
from run_sheet.step import GPUS, H200, METAL, MINUTES, Step

PARTS: Mapping[str, str] = {
    "A": "the right device, the right clock, every setting",
    "B": "the best rates, memory, telemetry",
    "C": "live comparisons and tuning",
    "D": "against loops written by hand; trainings; the tests",
}
PART_S = 535.0  # a part is done in less than nine minutes, or says what is left of it

_BUT_CUDA = ("rocm", "xpu", "mps", "cpu")
_NO_COUNTERS = {
    "mps": "macOS tells energy and clock to root alone", "cpu": "an accelerator's counters are meant",
}  # fmt: skip
_SHARED_MEMORY = {
    "mps": "it shares the host's memory: the system would swap, and then end what it likes",
    "cpu": "the host's memory would run out, and other programs with it",
}  # fmt: skip


def _ratio(what: str, share: float) -> tuple[Expectation, ...]:
    """Expect a ratio near 1 of an accelerator; of a CPU, which shares its cores with everybody, the right unit."""
    return (near_one(what, share).of(kinds=(*GPUS, "mps")), between(what, 0.1, 10.0).of(kinds=("cpu",)))


_A = (
    Step(
        "A0", "what the machine is", 20, 60, "compute mode, MIG, power limit: what else may be expected",
        "run_sheet.machine:facts",
        (
            at_least("devices", 1), noted("missing"), noted("device_name"), noted("driver"), noted("torch"),
            equal("compute_mode", "Default").of(kinds=("cuda",)).if_told(),
            one_of("mig_mode", "Disabled").of(kinds=("cuda",)).if_told(),
            equal("power_limit_w", 700.0).of(H200, ("cuda",)), equal("has_uuid", True).of(kinds=("cuda",)),
            noted("compute_capability"), noted("virtualization"), noted("cores"),
            noted("device_memory_bytes", "bytes"), noted("host_memory_bytes", "bytes"),
        ),
    ),
    Step(
        "A1", "fork after each library's import", 40, 120,
        "finding 1: no import asks the driver, and a forked trial reaches the device",
        "run_sheet.forks:probe",
        (
            equal("children_work", True), equal("not_initialised", True).of(kinds=("cuda",)),
            *(one_of(f"code_{name}", 3).of(kinds=("cuda",)).if_told()
              for name in ("builtin", "bert", "gpt2", "timm", "torchvision")),
            *(noted(f"child_{name}") for name in ("builtin", "bert", "gpt2", "timm", "torchvision")),
            noted("not_initialised_plain"), noted("child_bert_plain"),
        ),
        {"xpu": "its driver has no question that does not initialise it; A2 forks and spawns",
         "mps": "macOS' frameworks do not survive a fork: trials are new interpreters there"},
    ),
    Step(
        "A2", "--device auto, forked and spawned", 45, 120, "finding 1: auto takes the accelerator, whichever way",
        "run_sheet.runs:fork_and_spawn",
        (
            equal("status_fork", "ok"), equal("status_spawn", "ok"), equal("not_forked", "none"),
            noted("why_fork"), noted("why_spawn"),
            *(one_of(f"device_{how}", f"{kind}:0").of(kinds=(kind,))
              for kind in (*GPUS, "cpu") for how in ("fork", "spawn")),
            *_ratio("spawn_over_fork", 0.02), noted("step_fork_s", "s"), noted("step_spawn_s", "s"),
        ),
        {"mps": "macOS' frameworks do not survive a fork"},
    ),
    Step(
        "A3", "products of 10 ms, 1 ms and 20 µs by three clocks", 60, 90,
        "finding 6: steps read what they take; by how much short ones do not",
        "run_sheet.stopwatches:compare",
        (
            noted("reads"), *_ratio("laps_over_host_10ms", 0.01), *_ratio("laps_over_host_1ms", 0.01),
            *_ratio("window_over_host_10ms", 0.01), *_ratio("window_over_host_1ms", 0.01),
            near_one("laps_over_do_bench_10ms", 0.03).of(kinds=GPUS).if_told(),
            near_one("laps_over_do_bench_1ms", 0.03).of(kinds=GPUS).if_told(),
            noted("laps_over_host_20us"), noted("window_over_host_20us"), noted("laps_over_do_bench_20us"),
            noted("host_10ms_s", "s"), noted("host_1ms_s", "s"), noted("host_20us_s", "s"),
        ),
    ),
    Step(
        "A4", "training and inference, four number formats", 160, 220,
        "every format ends well, and computes something of its own",
        "run_sheet.runs:precisions",
        (
            equal("not_ok", "none"), equal("fingerprints_apart", True), at_most("most_off_fp32", 0.2),
            equal("ok", 16).of(kinds=("cuda",)), noted("ok"), noted("unsupported"),
        ),
    ),
    Step(
        "A5", "the four modes of torch.compile", 170, 200,
        "findings 2 and 12: CUDA graphs keep their losses; how long the first step takes",
        "run_sheet.runs:compile_modes",
        (
            *(one_of(f"status_{mode}", "ok", "unsupported") for mode in ("off", "default", "reduce_overhead")),
            one_of("status_reduce_overhead_accumulating", "ok", "unsupported"),
            one_of("status_max_autotune", "ok", "unsupported"), at_most("most_loss_off", 0.05),
            *(noted(f"{what}_{mode}_s", "s") for mode in ("off", "default", "reduce_overhead", "max_autotune")
              for what in ("first_step", "step")),
            *(noted(f"why_{mode}") for mode in ("reduce_overhead", "reduce_overhead_accumulating", "max_autotune")),
        ),
        {"mps": METAL}, MINUTES,
    ),
    Step(
        "A6", "AOTInductor and ONNX Runtime beside eager mode", 40, 200,
        "they answer on the device, and as eager mode does",
        "run_sheet.runs:runtimes",
        (
            equal("status_eager", "ok"), one_of("status_aoti", "ok", "unsupported").if_told(),
            one_of("status_onnxruntime", "ok", "unsupported").if_told(),
            *(at_most(f"error_{name}", 0.01).if_told() for name in ("aoti", "onnxruntime")),
            *(noted(f"latency_{name}_s", "s") for name in ("eager", "aoti", "onnxruntime")),
            *(noted(f"why_{name}") for name in ("eager", "aoti", "onnxruntime")),
        ),
        {"mps": METAL}, MINUTES,
    ),
)  # fmt: skip

_B = (
    Step(
        "B1", "machine peaks, and the same by hand", 70, 120, "findings 13 and 14: the peaks are what the device does",
        "run_sheet.rates:compare",
        (
            not_below("peak_memory_copy", "hand_copy_bytes_s", 0.97, "bytes/s").of(kinds=GPUS),
            not_below("peak_matmul_bf16", "hand_burst_flops", 0.97, "FLOP/s").of(kinds=GPUS),
            not_below("peak_host_to_device_pinned", "hand_to_device_pinned_bytes_s", 0.97, "bytes/s").of(kinds=GPUS),
            not_below("peak_device_to_host_pinned", "hand_to_host_pinned_bytes_s", 0.97, "bytes/s").of(kinds=GPUS),
            not_above("peak_kernel_launch", "hand_launch_slowest_s", 1.2, "s").of(kinds=GPUS),
            not_below("peak_memory_copy", "hand_copy_bytes_s", 0.5, "bytes/s").of(kinds=("mps", "cpu")),
            between("hand_copy_bytes_s", 4.0e12, 4.6e12, "bytes/s").of(H200),
            between("hand_burst_flops", 745e12, 825e12, "FLOP/s").of(H200),
            between("hand_to_device_pinned_bytes_s", 48e9, 60e9, "bytes/s").of(H200),
            between("hand_launch_s", 2e-6, 7e-6, "s").of(H200), noted("peak_kernel_launch", "s"),
            noted("hand_launch_fastest_s", "s"), noted("hand_launch_slowest_s", "s"),
            noted("hand_copy_bytes_s", "bytes/s"), noted("hand_burst_flops", "FLOP/s"),
            noted("hand_sustained_flops", "FLOP/s"), noted("hand_sustained_last_second_flops", "FLOP/s"),
            noted("hand_launch_s", "s"), noted("peak_memory_triad", "bytes/s"), noted("peak_matmul_fp32", "FLOP/s"),
            noted("peak_matmul_tf32", "FLOP/s"), noted("peak_matmul_fp16", "FLOP/s"),
            noted("peak_matmul_fp8", "FLOP/s"), noted("peaks_took_s", "s"),
        ),
        {}, "machine peaks alone takes half a minute",
    ),
    Step(
        "B2", "GPT-2 in batches of 8 to 8,192, then 8 again", 110, 170,
        "memory that ends is named, foreseen, and leaves nothing behind",
        "run_sheet.runs:out_of_memory",
        (
            equal("status_8", "ok"), equal("memory_ended", True), equal("foreseen", True), equal("other_ends", "none"),
            equal("status_8_again", "ok"), equal("status_64_again", "ok"), near_one("again_over_before_64", 0.05),
            noted("again_over_before_8"),
            *(noted(f"status_{batch}") for batch in (64, 512, 2048, 4096, 8192)),
            *(noted(f"peak_{batch}_bytes", "bytes") for batch in (8, 64, 512, 2048)), noted("why_8192"),
        ),
        _SHARED_MEMORY,
    ),
    Step(
        "B3", "what reading the driver costs; its energy counter", 95, 150,
        "findings 9 and 10: telemetry disturbs no step; how long a window energy needs",
        "run_sheet.telemetry:costs",
        (
            at_most("p99_on_over_off", 1.02), at_most("mean_on_over_off", 1.005), noted("p999_on_over_off"),
            equal("working_beside_own", 1.0).of(kinds=("cuda",)).if_told(),
            equal("working_beside_idle", 0.0).of(kinds=("cuda",)).if_told(),
            equal("working_beside_busy", 1.0).of(kinds=("cuda",)).if_told(),
            at_most("spread_10_s", 0.02).if_told(), at_most("spread_2_s", 0.05).if_told(), noted("spread_0.6_s"),
            noted("energy_tick_s", "s"), noted("busy_all_s", "s"), noted("idle_all_s", "s"),
            noted("busy_longest_s", "s"), noted("busy_device_other_processes_s", "s"),
            noted("busy_device_power_w_s", "s"), noted("busy_device_utilization_s", "s"),
            noted("busy_device_energy_j_s", "s"),
        ),
        _NO_COUNTERS,
    ),
    Step(
        "B4", "half a minute idle, then steps of 1 ms", 40, 60, "finding 11: how long warm-up has to be",
        "run_sheet.telemetry:ramp",
        (
            at_most("step_settled_s", 0.5, "s"), noted("step_us_by_quarter_second"),
            noted("clock_idle_hz", "Hz"), noted("clock_busy_hz", "Hz"),
            noted("clock_risen_s", "s"), noted("first_step_over_steady"),
        ),
        _NO_COUNTERS,
    ),
    Step(
        "B5", "ResNet-50 through a loader, pinned or not", 50, 90, "copies from page-locked memory cost less",
        "run_sheet.runs:pinned_batches",
        (
            equal("status_pageable", "ok"), equal("status_pinned", "ok"),
            not_above("transfer_pinned_s", "transfer_pageable_s", 1.05, "s"),
            noted("transfer_pageable_s", "s"), noted("throughput_pinned", "items/s"),
            noted("throughput_pageable", "items/s"), noted("data_wait_share_pinned"), noted("why_pinned"),
        ),
        {"mps": "its memory is the host's: nothing is copied", "cpu": "there is no device to copy to"},
    ),
    Step(
        "B6", "diagnose DistilBERT's training in fp32, and take its advice", 110, 170,
        "finding 16: kernels take no more time than their step; what is advised comes true",
        "run_sheet.advised:diagnosed",
        (
            equal("exit_code", 0), not_above("kernel_s", "step_s", 1.02, "s").of(kinds=("cuda", "rocm")),
            noted("kernel_s", "s").of(kinds=("xpu",)), noted("step_s", "s"), noted("kernels"), noted("operators"),
            noted("waits"), noted("first_cause"), noted("first_share"), noted("largest_gain"), noted("why"),
            at_least("advised_over_naive", 3.0).of(kinds=("cuda",)), noted("advised_over_naive").of(kinds=_BUT_CUDA),
            at_most("first_losses_apart", 0.05).if_told(), noted("advised"), noted("stated_gain"),
            *(noted(f"throughput_{name}", "items/s") for name in ("naive", "advised")),
        ),
        {}, MINUTES,
    ),
)  # fmt: skip

_C = (
    Step(
        "C1", "ab of equal code, three workloads", 195, 240, "equal code is called equal on a device",
        "run_sheet.sides:equal_code",
        (
            equal("called_different", 0), at_least("compared", 1).of(kinds=("cpu",)),
            equal("compared", 3).of(kinds=(*GPUS, "mps")),
            *(noted(f"{what}_{name}") for name in ("distilbert", "resnet", "gpt2", "bert_tiny")
              for what in ("verdict", "ratio", "low", "high", "pairs")),
        ),
    ),
    Step(
        "C2", "3 % of device work put in", 150, 200, "finding 7: turns long enough to see it whole",
        "run_sheet.sides:planted",
        (
            holds("ab_ratio", "ab_low", "ab_high", 1.03).of(kinds=(*GPUS, "mps")).if_told(),
            between("ratio_200ms", 1.025, 1.035).of(kinds=(*GPUS, "mps")), noted("ratio_200ms").of(kinds=("cpu",)),
            at_least("pairs_200ms", 2), noted("ratio_10ms"), noted("spread_10ms"), noted("spread_200ms"),
            noted("ab_verdict"), noted("ab_ratio"), noted("ab_low"), noted("ab_high"),
        ),
    ),
    Step(
        "C3", "two sides that do not both fit", 60, 120, "finding 8: one line says so, before anything is lost",
        "run_sheet.sides:both_too_large",
        (
            one_of("exit_code", 1, 3), equal("has_traceback", False), equal("names_memory", True),
            equal("status_alone", "ok"), noted("says"), noted("held_bytes", "bytes"),
        ),
        _SHARED_MEMORY,
    ),
    Step(
        "C4", "tune --quick of GPT-2's training", 80, 140, "a safe answer in a minute, its probes within the memory",
        "run_sheet.runs:tuned",
        (
            equal("exit_code", 0), equal("has_answer", True), equal("crashed", 0), at_most("out_of_memory", 1),
            noted("trials"), noted("took_s", "s"), noted("why"),
        ),
        {}, MINUTES,
    ),
)  # fmt: skip

STEPS: tuple[Step, ...] = (*_A, *_B, *_C, *D)
FORKS = "A1"  # if it fails, all later steps start trials in new interpreters
