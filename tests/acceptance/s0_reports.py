"""Reports of the seed's script, as JSON: made of the numbers of the comparison that the document prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from acceptance.printed_files import blocks, printed

CARDS = {"AMD": ("AMD", "Radeon RX 7900 XTX"), "NVIDIA": ("NVIDIA", "RTX 4090")}


def number(text: str) -> float:
    """Return the number that a value of a report begins with."""
    return float(text.split(maxsplit=1)[0].rstrip("%x").replace(",", ""))


def sides() -> list[Mapping[str, str]]:
    """Return the blocks [BENCHMARK 1] and [BENCHMARK 2] as printed: AMD, then NVIDIA."""
    found = blocks(printed("s0_comparison.txt"))
    return [found["BENCHMARK 1"], found["BENCHMARK 2"]]


def a_report(told: Mapping[str, str], batch_s: float, **changes: Any) -> str:
    """Return a report as the script writes it. `batch_s`: the median of 200 answers to 16 items each."""
    vendor, card = told["GPU"].split(" - ")
    parameters = told["Model"].partition("(")[2].split()[0].replace(",", "")
    times = [batch_s * (1.0 + 0.001 * (place - 99.5)) for place in range(200)]
    report = {
        "experiment_name": told["Experiment"], "timestamp": "2025-10-29T14:30:22",
        "system_info": {"platform": "Linux-6.8.0-85-generic-x86_64-with-glibc2.39", "pytorch_version": "2.1.0"},
        "gpu_info": {"devices": [{"index": 0, "name": card, "vendor": vendor, "total_memory_gb": 24.0,
                                  "compute_capability": "11.0"}]},
        "model": {"architecture": told["Model"].split()[0], "num_parameters": int(parameters)},
        "data": {"train_samples": 19587, "test_samples": 4893, "num_classes": 9, "sequence_length": 20},
        "training": {
            "summary": {"total_epochs": 150, "avg_epoch_time": 60 * number(told["Runtime"]) / 150,
                        "final_accuracy": number(told["Train accuracy"])},
            "final_test_accuracy": number(told["Test accuracy"]),
        },
        "throughput": {"training": number(told["Throughput"])},
        "inference": {"batches": [{"batch_size": 16, "total_time": time_s} for time_s in times],
                      "summary": {"total_batches": 200, "total_predictions": 3200}},
        "total_runtime_seconds": 60 * number(told["Runtime"]), "total_runtime_minutes": number(told["Runtime"]),
    }  # fmt: skip
    return json.dumps({**report, **changes})
