"""The checks, by the module that has them: a function each, of the name of its check."""

BY_TOPIC = {
    "enough": (
        *(
            "several_machines",
            "few_trials",
            "few_samples",
            "failed_trials",
            "failed_requests",
            "unsupported_percentile",
        ),
        *("loadgen_invalid", "only_summaries"),
    ),
    "steady": ("not_settled", "warmup_left_in", "drift", "several_modes"),
    "undisturbed": (
        *("neighbours", "steal", "other_processes", "slow_rank", "shared_cores", "throttled", "energy_ticks"),
        *("not_forked", "beyond_threads"),
    ),
    "memory": ("swapping", "allocator_retries", "out_of_memory", "leak"),
    "timing": ("not_synchronised", "timer_too_coarse", "impossible", "phases_differ", "copied_values"),
    "claimed": ("wrong_rate", "wrong_summary", "out_of_order", "impossible_energy", "zero_for_missing", "wrong_choice"),
    "device": ("faster_than_peak", "beyond_device", "device_unclear", "device_lost"),
    "results": (
        *("nan_loss", "loss_diverged", "loss_spikes", "fingerprint_moved", "nan_output", "constant_output"),
        *("setting_without_effect", "runtime_differs"),
    ),
    "data": ("unreadable", "own_loader", "own_batches"),
}
