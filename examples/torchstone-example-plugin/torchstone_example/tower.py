"""`tower:small`, `tower:large`: linear layers over each moment of a sequence, and a vote of all moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torchstone.extend import (
    Facts,
    InputSpec,
    LoadedModel,
    ModelCard,
    ModelSource,
    Scalar,
    UsageError,
    Workload,
    unknown,
)

_WIDTHS = {"small": 16, "large": 256}
_INPUT = InputSpec("features", classes=3, width=1)


class Tower(ModelSource):
    """Model source `tower`."""

    describes = "example: linear layers over a sequence, tower:small or tower:large"

    def names(self) -> Iterable[tuple[str, str]]:
        """Return what `torchstone list models` shows."""
        return [(name, f"two layers of {width}, 3 classes") for name, width in _WIDTHS.items()]

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        """Describe a tower without torch."""
        if name not in _WIDTHS:
            raise unknown("tower", name, _WIDTHS)
        if options:
            raise UsageError(f"tower:{name}: takes no option, got {', '.join(options)}")
        return ModelCard("sequence", _INPUT, name, "example", {"weights": "random", "source": "tower"})

    def preload(self, name: str) -> None:
        """Nothing beyond torch itself."""

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        """Build the tower with random weights."""
        from torch import nn

        width = _WIDTHS[name]
        module = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 3))
        return LoadedModel(
            module, _votes, lambda network, batch: nn.functional.cross_entropy(_votes(network, batch), batch["labels"]),
            _INPUT, facts=Facts(parameters=sum(p.numel() for p in module.parameters()), weights="random"),
        )  # fmt: skip


def _votes(network: Any, batch: Mapping[str, Any]) -> Any:
    return network(batch["features"]).mean(dim=1)


PLUGIN: ModelSource = Tower()
