"""Classes: what a data set calls them, as the numbers that a model knows them by."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.errors import UsageError
from torchstone.core.schema.batch import View


class Classes:
    """The classes that a model knows: those of the training before it (`view.labels`), or else `names` in order."""

    def __init__(self, names: Sequence[str], view: View) -> None:
        self._numbers = {name: number for number, name in enumerate(view.labels or names)}
        self._count = len(view.labels) or view.input.classes
        self._trained = ", ".join(view.labels)

    def number(self, label: str | int, at: str) -> int:
        """Return the number of a class, given its name or number. Raises UsageError, beginning with `at`.

        A name the model was not trained on is refused, and so is a number it has no output for.
        """
        if isinstance(label, str):
            if label not in self._numbers:
                raise UsageError(
                    f"{at}: class {label[:40]!r} is not a class of the model's training: {self._trained}"
                )
            label = self._numbers[label]
        if self._count is not None and label >= self._count:
            known = f"{self._count} classes, 0 to {self._count - 1}"
            if self._trained:
                raise UsageError(f"{at}: label {label}, but the model was trained on {known}: {self._trained}")
            raise UsageError(f"{at}: label {label}, but the model has {known}; give it more: classes={label + 1}")
        return label
