"""Queries as MLPerf has them arrive: SingleStream, MultiStream, Offline and Server, driven by MLCommons' LoadGen.

LoadGen (Reddi et al., MLPerf Inference Benchmark, ISCA 2020, arXiv:1911.02549) decides when queries arrive, takes their
times and says whether the result is VALID. Samples lie in host memory; putting a batch together, its transfer and its
forward pass are in the latency. Batches: at most `batch_size` items; one begins when it is full, or when its oldest
query has waited `max_wait_s`, on a model that answers one batch at a time.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.machine import StepCounts
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.core.schema.procedure import SERVER, LoadMeasured, LoadPlan, Tell
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Engine, Mark, Prepared, Samples
from torchstone.plugins.tasks._inference import SIZES, PreparedInference


class PreparedLoad(Prepared):
    """A model that answers the queries of a load."""

    is_driven = True

    def __init__(self, case: Case, model: LoadedModel, device: Device) -> None:
        configuration = case.configuration
        if configuration["scenario"] == SERVER and not configuration["target_qps"]:
            raise Unsupported(
                "scenario server needs a rate: --axis target_qps=50, or let `torchstone goodput` find the highest"
            )
        # Batches come from host memory, and are transferred as those of a loader are.
        fed = msgspec.structs.replace(case, configuration={**configuration, "feed": "loader"})
        self._configuration, self._device = configuration, device
        self._inference = PreparedInference(fed, model, device)
        self.facts = self._inference.facts

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        """Answer one batch: of the warm-up, with as many items as a batch may have."""
        self._inference.step(pull, mark)

    def enter(self, window: str) -> None:
        self._inference.enter(window)

    def drive(self, batches: Batches, plan: LoadPlan, tell: Tell) -> LoadMeasured:
        from torchstone.plugins.tasks.loadgen.driving import SampleLibrary, drive

        if not isinstance(batches, SampleLibrary):
            raise TypeError(f"a load is asked of a Library, not of {type(batches).__name__}")
        return drive(self._configuration, batches, self._inference, self._device, plan, tell)

    def results(self) -> Mapping[str, Sequence[float]]:
        return self._inference.results()

    def count(self, batch: Batch) -> StepCounts:
        return StepCounts(why_not=Statement("batches_vary"))


class LoadGen(Engine):
    """Engine for task loadgen."""

    describes = "queries that arrive as in MLPerf (single_stream, multi_stream, offline, server), by MLCommons LoadGen"
    axes: tuple[str, ...] = (
        *("scenario", "target_qps", "latency_bound_s", "batch_size", "max_wait_s", "samples_per_query"),
        *SIZES[1:],
        *("precision", "compile", "channels_last", "sdpa", "threads"),
    )

    def missing(self) -> str | None:
        if importlib.util.find_spec("mlperf_loadgen") is not None:
            return None
        return "task loadgen needs MLCommons LoadGen: pip install 'torchstone[load]'"

    def preload(self) -> None:
        """Import this engine's own files. Not LoadGen: its threads would not survive a fork."""
        from torchstone.plugins.tasks import _batches, _graphs, _settings  # noqa: F401

    def windows(self, configuration: Mapping[str, Scalar]) -> Sequence[str]:
        return ("load",)

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        from torchstone.plugins.tasks.loadgen.driving import open_library

        return open_library(case.configuration, model, samples, seed)

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        return PreparedLoad(case, model, device)


PLUGIN: Engine = LoadGen()
