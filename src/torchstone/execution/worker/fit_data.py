"""The data of a training: the training set, the held-out set, and the items of the training accuracy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Case
from torchstone.core.schema.fit import Fit
from torchstone.core.schema.model import LoadedModel
from torchstone.execution.worker.setup import Part, limited, open_samples, open_view, view_of
from torchstone.plugins.data_choice import has_end
from torchstone.plugins.protocols import Samples

_LEAST_HELD_OUT = 2


class FitData(msgspec.Struct):
    """`training` is None for a model's example batch. `has_end`: there are epochs of it.

    `validation` is None without; `again`: training items without random changes, as many at most.
    """

    training: Samples | None
    has_end: bool = False
    validation: Samples | None = None
    again: Samples | None = None


def open_fit_data(case: Case, model: LoadedModel, fit: Fit, seed: int) -> FitData:
    """Open the data of a training. Raises Unsupported where too little is left to hold out.

    Data with a split for validation (or, lacking that, for testing) is judged on it. Of data in one piece, a user's own
    among it, a share is drawn by the seed, of each class alike where items tell their class.
    """
    if not has_end(case.workload.data):
        samples = open_samples(case, model, seed)
        if samples is None or samples is not model.samples or not hasattr(samples, "__getitem__"):
            return FitData(samples)
        training = plain = samples
    else:
        told = case.workload.data_options.get("split")
        view = view_of(case, model, seed, str(told) if told is not None else None, augment=fit.augment)
        whole = open_view(case, view)
        training = limited(whole, case, seed)
        tokenizer = getattr(whole, "tokenizer", None) or model.tokenizer
        view = msgspec.structs.replace(view, augment=False, tokenizer=tokenizer)
        plain = limited(open_view(case, view), case, seed) if fit.augment else training
        if fit.validation_split is not None:
            validation = open_view(case, msgspec.structs.replace(view, split=fit.validation_split))
            return FitData(training, True, validation, Part(plain, _some(range(len(plain)), len(validation), seed)))
    kept, held_out = divided(plain, fit.validation, seed)
    again = Part(plain, _some(kept, len(held_out), seed))
    return FitData(Part(training, kept), True, Part(plain, held_out), again)


def divided(samples: Samples, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers to learn from and to hold out, each in order."""
    import torch

    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    by_class: dict[int | None, list[int]] = defaultdict(list)
    label_of = getattr(samples, "label", None)  # reading every item only for its label would take an epoch
    for number in order:
        by_class[label_of(number) if label_of is not None else None].append(number)
    held_out = sorted(n for numbers in by_class.values() for n in numbers[: round(share * len(numbers))])
    if len(held_out) < _LEAST_HELD_OUT:
        raise Unsupported(f"validation={share:g} of {len(samples)} items holds out {len(held_out)}; at least 2 needed")
    out = set(held_out)
    return [number for number in range(len(samples)) if number not in out], held_out


def _some(numbers: Sequence[int], most: int, seed: int) -> list[int]:
    import torch

    drawn = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed + 1)).tolist()
    return sorted(numbers[n] for n in drawn[:most])
