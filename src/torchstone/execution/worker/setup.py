"""Opens device, model and data of a trial. A data set is cut to its split and its limit here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from torchstone.core.cores import NEAR_DEVICE
from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.model import LoadedModel, Unreadable, View
from torchstone.execution.inspection import keep_to, located
from torchstone.execution.worker.collector import Collector
from torchstone.plugins import registry
from torchstone.plugins.choices import has_end
from torchstone.plugins.machine_protocols import Device, Vendor
from torchstone.plugins.protocols import DataSource, Engine, Samples


class Setup(NamedTuple):
    """A model on an open device, ready to step, and what is measured of it so far.

    `prepared`: of the engine. `began_s`: when its trial began to build it; None: it was there before.
    """

    case: Case
    engine: Engine
    model: LoadedModel
    prepared: Any
    device: Device
    tally: Collector
    began_s: float | None = None


class SetupPart:
    """Some items of a data set, in an order of their own."""

    def __init__(self, samples: Samples, numbers: list[int]) -> None:
        self._samples = samples
        self.numbers = numbers
        self.tokenizer = getattr(samples, "tokenizer", None)
        self.augments = getattr(samples, "augments", False)
        self.collate = getattr(samples, "collate", None)  # a user's own way to make a batch of items

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Mapping[str, Any] | Unreadable:
        return self._samples[self.numbers[index]]

    def label(self, index: int) -> int | None:
        """Return the class of an item, where the data set tells it."""
        label_of = getattr(self._samples, "label", None)
        return label_of(self.numbers[index]) if label_of is not None else None


def open_device(case: Case) -> Device:
    """Open the device of a case. Raises RuntimeError if it was there when the run began, and is no more."""
    try:
        device: Device = registry.load("devices", case.placement.device).open(case.placement.index)
    except Unsupported as gone:  # only devices that were there when the run began are in its plan
        raise RuntimeError(f"device lost: {gone}") from gone
    return device


def kept_to(word: str, placement: Placement) -> str:
    """Keep this trial to the cores that its Procedure asks for; return them as text. Raises UsageError if it cannot."""
    vendor: Vendor = registry.load("devices", placement.device)
    info = None
    if word == NEAR_DEVICE:
        info = next((located(device) for device in vendor.probe() if device.index == placement.index), None)
    return keep_to(word, info)


def load_model(case: Case) -> LoadedModel:
    """Load the model of a case, on the CPU."""
    scheme, _, name = case.workload.model.partition(":")
    model: LoadedModel = registry.load("models", scheme).load(name, case.workload, case.configuration)
    return model


def open_samples(case: Case, model: LoadedModel, seed: int) -> Samples | None:
    """Open the data of a case as it is measured: the model's own, if it brings some; None for its example."""
    if case.workload.data.partition(":")[0] == "example":
        if model.tokenizer is not None and model.samples is None:  # what to read was not said: any text will do
            made: DataSource = registry.load("data", "synthetic")
            return made.samples("", view_of(case, model, seed, None))
        own: Samples | None = model.samples
        return own
    split = case.workload.data_options.get("split")
    return limited(open_view(case, view_of(case, model, seed, str(split) if split else None)), case, seed)


def view_of(case: Case, model: LoadedModel, seed: int, split: str | None, **others: Any) -> View:
    """Return the View of a split for a model; `others`: further fields of it."""
    own = {name: value for name, value in case.workload.data_options.items() if name not in ("split", "limit")}
    view = View(model.input, case.configuration, model.tokenizer, seed, own, split)
    return msgspec.structs.replace(view, **others)


def open_view(case: Case, view: View) -> Samples:
    """Open the data of a case as that View sees it."""
    scheme, _, path = case.workload.data.partition(":")
    source: DataSource = registry.load("data", scheme)
    return source.samples(path, view)


def limited(samples: Samples, case: Case, seed: int) -> Samples:
    """Return at most `limit` items: drawn by the seed, in their own order, so that no class is favoured."""
    limit = case.workload.data_options.get("limit")
    if limit is None or int(limit) >= len(samples):
        return samples
    import torch

    drawn = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    return SetupPart(samples, sorted(drawn[: int(limit)]))


def dataset_items(case: Case, samples: Samples | None, *, own: bool) -> int | None:
    """Return how many items an epoch has; None for what is made to measure, or comes in batches without a length.

    `own`: the model brought the samples.
    """
    counted = samples is not None and hasattr(samples, "__len__") and (own or has_end(case.workload.data))
    return len(samples) if samples is not None and counted else None
