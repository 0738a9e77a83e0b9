"""Builders of evidence for diagnoses: a training step of 50 ms on a CPU, sound unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from build import a_case, facts_of

from torchstone.analysis.advice.rules import Evidence
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.trial import HostLine, HostProfile, Operators

CPU = DeviceInfo("cpu", "cpu", "amd", 0, "a processor", precisions=("fp32",))
CARD = DeviceInfo("cuda", "cuda", "nvidia", 0, "a card", 80 * 10**9, precisions=("fp32", "tf32", "bf16", "fp16"))
STEP_S = 0.05
SETTINGS: Mapping[str, Any] = {
    "batch_size": 32, "grad_accumulation": 1, "precision": "fp32", "compile": "off", "feed": "resident",
    "num_workers": 0, "pin_memory": False, "fused": "auto", "optimizer": "adamw", "gradient_checkpointing": False,
    "channels_last": "auto", "threads": 0,
}  # fmt: skip
PHASES: Mapping[str, float] = {"data": 0.01, "forward": 0.33, "backward": 0.6, "optimizer": 0.05, "rest": 0.01}


def a_look(**changes: Any) -> HostProfile:
    """A host that has nothing of its own to do in the step."""
    known: dict[str, Any] = {
        "steps": 20, "step_s": STEP_S, "samples": 1000, "lines": (), "phases": PHASES, "main_busy": 0.95,
        "user_s": 0.049, "system_s": 0.001, "minor_faults": 3.0, "major_faults": 0.0, "involuntary_switches": 1.0,
        "threads": 2, "operators": Operators(120, 1), "tensors": 20, "elements": 100_000.0,
    }  # fmt: skip
    return HostProfile(**{**known, **changes})


def a_line(share: float, runs: float = 1.0, waits: float = 0.0, **changes: Any) -> HostLine:
    """A line of the user's own forward pass."""
    known = {"file": "mine.py", "line": 10, "function": "Net.forward", "code": "h = cell(x[t], h)", "phase": "forward"}
    return HostLine(**{**known, "share": share, "runs_per_step": runs, "waits_per_step": waits, **changes})


def an_evidence(
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, float] | None = None,
    *,
    device: DeviceInfo = CPU,
    figures: Mapping[str, float] | None = None,
    **changes: Any,
) -> Evidence:
    """Evidence of one case; `phases` are shares of the step."""
    case = a_case({**SETTINGS, **(settings or {})}, placement=Placement(device.kind))
    size = int(case.configuration["batch_size"] or 1)
    known = {
        "throughput": size / STEP_S, "step_time_mean": STEP_S,
        **{f"phase_{name}_s": share * STEP_S for name, share in (phases or PHASES).items()}, **(figures or {}),
    }  # fmt: skip
    fields = {"facts": {"threads_in_effect": 2, "fused_optimizer": True}, "cores": 2, "look": a_look(),
              "larger": (4 * size, 3.9 * STEP_S), "small_s": STEP_S, **changes}  # fmt: skip
    return Evidence(case, known, device=device, **{**fields, "facts": facts_of(fields["facts"])})
