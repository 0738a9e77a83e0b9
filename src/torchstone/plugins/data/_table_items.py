"""What the rows of any data come down to: a value, and perhaps a class. What a card says of them, and their numbers.

The first split (training, where there is one) decides which classes there are: what only a later one has is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.batch import DataCard, View

LARGEST_LABEL = 999_999
_MOST_NAMES = 10_000  # classes with names; a column with more different words in it holds no classes


class Item(msgspec.Struct, frozen=True):
    """A row. `at` says where it stands, for messages. A label is a class's number or its name; None if it has none."""

    at: str
    value: Any
    label: int | str | None


Splits = Mapping[str | None, Callable[[], Iterator[Item]]]  # how the rows of a split are read; None: data in one piece


class Tally:
    """Counts items and learns their classes. Once `complete`, a label that is not among them is refused."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.complete, self.labelled = False, 0  # items with a label, of all splits so far
        self._fixed = tuple(names)
        self._words: set[str] = set()
        self._highest = -1
        self._kind: type | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers: those given, or sorted; empty for numbers."""
        return self._fixed or tuple(sorted(self._words))

    @property
    def classes(self) -> int | None:
        """How many classes there are; None without labels."""
        return None if self._kind is None else len(self.names) or self._highest + 1

    def count(self, items: Iterator[Item]) -> int:
        """Learn from the items or check them, and return how many there are. Raises UsageError naming the row."""
        number = labelled = 0
        for item in items:
            number += 1
            if item.label is not None:
                labelled += 1
                self._see(item.label, item.at)
            if 0 < labelled < number:
                raise UsageError(f"{item.at}: some rows have a label, others have none")
        self.labelled += labelled
        return number

    def _see(self, label: int | str, at: str) -> None:
        if self._kind is None and not self.complete:
            self._kind = type(label)
        if type(label) is not self._kind:
            which = "a name" if isinstance(label, str) else "a number"
            raise UsageError(f"{at}: the label {label!r} is {which}, unlike those of the split before")
        if self._fixed and isinstance(label, int) and not 0 <= label < len(self._fixed):
            numbered = ", ".join(f"{number} {name}" for number, name in enumerate(self._fixed))
            raise UsageError(f"{at}: label {label}, and there are: {numbered}")
        if self.complete and (label not in self._words if isinstance(label, str) else label > self._highest):
            have = ", ".join(self.names) if self._words else f"0 to {self._highest}"
            raise UsageError(f"{at}: class {label!r} does not occur in the split before, which has {have[:200]}")
        if isinstance(label, int):
            self._highest = max(self._highest, label)
            return
        self._words.add(label)
        if len(self._words) > _MOST_NAMES:
            raise UsageError(f"{at}: more than {_MOST_NAMES} different labels: not a column of classes")


def card_of(kind: str, splits: Splits, sha256: str, names: Sequence[str] = ()) -> DataCard:
    """Read everything and return its card. `names`: of the classes, where they are known beforehand."""
    tally = Tally(names)
    counts = {}
    without = []
    for split, read in splits.items():
        before = tally.labelled
        counts[split] = tally.count(read())
        if split is not None and tally.labelled == before:
            without.append(split)
        tally.complete = tally.complete or tally.classes is not None
    by_name = {split: count for split, count in counts.items() if split is not None}
    total, names = sum(counts.values()), tally.names if tally.classes else ()
    return DataCard(kind, total, tally.classes, sha256, by_name, names, tuple(without) if tally.classes else ())


def numbered(splits: Splits, view: View, names: Sequence[str] = ()) -> Iterator[tuple[Any, int | None]]:
    """Yield value and class number of each item of the view's split; no class for a causal model.

    Raises UsageError for a class that the model does not know.
    """
    if view.split not in splits:
        raise unknown("split", str(view.split), [str(split) for split in splits])
    items = splits[view.split]()
    if view.input.causal:
        yield from ((item.value, None) for item in items)
        return
    known = names or (() if view.labels else _learned(splits))
    classes = Classes(known, view)
    for item in items:
        label = names[item.label] if names and isinstance(item.label, int) else item.label
        yield item.value, None if label is None else classes.number(label, item.at)


def _learned(splits: Splits) -> tuple[str, ...]:
    """Return the names of the classes: none where labels are numbers, which is seen from the first row."""
    for read in splits.values():
        first = next(read(), None)
        if first is not None and isinstance(first.label, str):
            tally = Tally()
            tally.count(read())
            return tally.names
        if first is not None and first.label is not None:
            return ()
    return ()


def rows_of(read: Callable[[Path], Iterator[Item]], files: Sequence[Path]) -> Iterator[Item]:
    """Yield the rows of several files, one after another."""
    for file in files:
        yield from read(file)


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
                raise UsageError(f"{at}: class {label[:40]!r} is not a class of the model's training: {self._trained}")
            label = self._numbers[label]
        if self._count is not None and label >= self._count:
            known = f"{self._count} classes, 0 to {self._count - 1}"
            if self._trained:
                raise UsageError(f"{at}: label {label}, but the model was trained on {known}: {self._trained}")
            raise UsageError(f"{at}: label {label}, but the model has {known}; give it more: classes={label + 1}")
        return label
