"""Inference as a user would write it: eval, inference_mode, autocast, torch.compile; latency and throughput windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.peak_memory import PeakMemory
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Prepared, Samples
from torchstone.plugins.tasks._inference import PreparedInference


class Infer(Engine):
    """Engine for task infer."""

    describes = "forward passes in eval mode: latency in a closed loop, throughput back to back"
    axes: tuple[str, ...] = (
        "batch_size",
        "sequence_length",
        "image_size",
        "audio_s",
        "precision",
        "compile",
        "runtime",
        "channels_last",
        "sdpa",
        "threads",
        "num_workers",
        "pin_memory",
        "prefetch_factor",
        "feed",
        "mode",
    )

    def preload(self) -> None:
        """Import this engine's own files: torch's compiler, of which they set a switch, alone takes a second."""

    def windows(self, configuration: Mapping[str, Scalar]) -> Sequence[str]:
        """Return the windows that `mode` asks for."""
        mode = str(configuration.get("mode", "both"))
        return ("latency", "throughput") if mode == "both" else (mode,)

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        """Open the feed that the configuration asks for."""
        from torchstone.plugins.tasks._batches import open_batches

        return open_batches(case.configuration, model, samples, device, seed)

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        """Set the model up. Raises Unsupported with the reason."""
        return PreparedInference(case, model, device)

    def peak_memory(self, case: Case, model: LoadedModel, drawn: Mapping[str, Any], device: Device) -> PeakMemory:
        """Return the peak memory of a step on a device that need not be here. Raises Unsupported with the reason."""
        from torchstone.plugins.tasks import _peak_memory, _runtimes

        if (name := _runtimes.runtime_of(case.configuration, device)) is not None:
            raise Unsupported(f"runtime={name}: its memory cannot be predicted without running it")
        return _peak_memory.peak_memory(self, case, model, drawn, device)


PLUGIN: Engine = Infer()
