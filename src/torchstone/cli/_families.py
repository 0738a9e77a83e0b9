"""--model-families: of the workloads of a recipe or a file, those whose model is of one of these families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchstone.cli._parsing import words_of
from torchstone.core.errors import unknown

if TYPE_CHECKING:
    from torchstone.core.schema.request import WorkloadRequest


def of_families(workloads: Sequence[WorkloadRequest], texts: Sequence[str] | None) -> tuple[WorkloadRequest, ...]:
    """Return those of the families named; all, if none is. Raises UsageError for a family that none of them is of."""
    from torchstone.plugins.model_choice import card_of

    words = words_of(texts)
    if not words:
        return tuple(workloads)
    families = [card_of(one.model, one.options).family or "custom" for one in workloads]
    for word in words:
        if word not in families:
            raise unknown("model family here", word, set(families))
    return tuple(one for one, family in zip(workloads, families, strict=True) if family in words)
