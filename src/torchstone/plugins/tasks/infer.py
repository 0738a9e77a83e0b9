"""Inference as a user would write it: eval, inference_mode, autocast, torch.compile; latency and throughput windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchstone.core.schema.case import Case
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.peak_memory import PeakMemory
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Engine, Prepared
from torchstone.plugins.tasks._inference import LOADER, SIZES, FedEngine, PreparedInference


class Infer(FedEngine):
    """Engine for task infer."""

    describes = "forward passes in eval mode: latency in a closed loop, throughput back to back"
    axes: tuple[str, ...] = (
        *SIZES,
        "precision",
        "compile",
        "channels_last",
        "sdpa",
        "threads",
        *LOADER,
        "feed",
        "mode",
    )

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        return PreparedInference(case, model, device)

    def peak_memory(self, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device) -> PeakMemory:
        from torchstone.plugins.tasks import _peak_memory

        return _peak_memory.peak_memory(self, case, model, drawn, device)


PLUGIN: Engine = Infer()
