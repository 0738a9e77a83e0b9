"""An accelerator beside the CPU at equal batches: how many times as fast, and what holds it back (seed S4-61)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchstone.advice.advice import Advice
from torchstone.summary import CaseSummary

_WORTH_IT = 1.5  # times the CPU's throughput: below, an accelerator buys little


def beside_the_cpu(cases: Sequence[CaseSummary]) -> list[Advice]:
    """Return a reading of each accelerator among the Cases of one workload; none where the CPU was not measured."""
    devices = list(dict.fromkeys(str(case.placement) for case in cases))
    rates = {device: _rates(cases, device) for device in devices}
    if "cpu" not in rates:
        return []
    return [_reading(device, rates[device], rates["cpu"]) for device in devices if device != "cpu"]


def _rates(cases: Sequence[CaseSummary], device: str) -> Mapping[int, float]:
    """Return the throughput at each batch size; where it was measured with several other settings, the highest."""
    found: dict[int, float] = {}
    for case in cases:
        size, rate = case.configuration.get("batch_size"), case.estimates.get("throughput")
        if str(case.placement) == device and isinstance(size, int) and rate is not None and rate.value > 0.0:
            found[size] = max(found.get(size, 0.0), rate.value)
    return found


def _reading(device: str, rates: Mapping[int, float], cpu: Mapping[int, float]) -> Advice:
    gains = {size: rates[size] / rate for size, rate in cpu.items() if size in rates}
    if not gains:
        return Advice(f"{device} and the CPU have no batch size in common that both measured")
    seen = f"{device} is {', '.join(f'{gain:.3g} times as fast at {size}' for size, gain in gains.items())}"
    if max(gains.values()) >= _WORTH_IT:
        return Advice(seen)
    return Advice(
        f"{seen}: little for an accelerator",
        ("a model or batches too small for it", "transfers that it waits for"),
        (
            "a larger batch", "pin_memory=true and more num_workers, where transfer or data is long",
            "CUDA graphs for operations that repeat (compile=reduce-overhead)", "libraries optimized for the device",
            "the CPU, for a model that small",
        ),
    )  # fmt: skip
