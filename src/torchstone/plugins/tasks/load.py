"""The loader alone: batches are taken as fast as they come and nothing is computed. What the loader *could* deliver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.batch import Batch
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.metric import DATA
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.peaks import StepCounts
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Mark, Prepared, Samples
from torchstone.plugins.tasks._inference import LOADER, SIZES, FedEngine


class PreparedLoading(Prepared):
    """Nothing to compute with: a step takes one batch and drops it."""

    facts = Facts()

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        pull()
        mark(DATA)

    def results(self) -> Mapping[str, Sequence[float]]:
        return {}

    def count(self, batch: Batch) -> StepCounts:
        return StepCounts(why_not=Statement("loader_alone"))


class Load(FedEngine):
    """Engine for task load."""

    describes = "the data loader alone: batches back to back, no computation"
    axes: tuple[str, ...] = (*SIZES, *LOADER, "threads")

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        fed = msgspec.structs.replace(case, configuration={**case.configuration, "feed": "loader"})
        return super().open_batches(fed, model, samples, device, seed)

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        from torchstone.plugins.tasks import _settings

        _settings.refuse(case.configuration, model, device)
        _settings.set_numerics(case.configuration)
        return PreparedLoading()


PLUGIN: Engine = Load()
