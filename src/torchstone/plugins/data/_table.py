"""A table of any form, by a short description: which column is the text, or which are the features, and the label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._table_items import LARGEST_LABEL, Item, Splits

OPTIONS = ("text", "features", "label")
_LARGEST_NUMBER = 3.4028234e38  # of float32, which features become
_WHOLE = re.compile(r"(-?\d{1,9})(?:\.0*)?", re.ASCII)  # what was a number with gaps is written 1.0 by many programs
_LONGEST_TEXT, _LONGEST_NAME = 1 << 20, 200


class TableFile(Protocol):
    """One file of a table. `name`: as messages call it."""

    name: str
    columns: tuple[str, ...]

    def numeric(self) -> tuple[str, ...]:
        """Return the columns that hold numbers."""

    def rows(self, wanted: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the number of each row and its cells of these columns. Raises UsageError if there is none."""


class Choice(msgspec.Struct, frozen=True):
    """Which columns are taken: `text` or `features`, and the label's."""

    text: str | None
    features: tuple[str, ...]
    label: str | None

    @property
    def kind(self) -> str:
        """The kind of InputSpec that it makes."""
        return "features" if self.text is None else "text"


def chosen(table: TableFile, options: Mapping[str, Scalar]) -> Choice:
    """Return the columns that the options name; without text and features, all columns of numbers but the label.

    Raises UsageError naming the columns there are.
    """
    text, label = (None if options.get(name) is None else str(options[name]) for name in ("text", "label"))
    features = tuple(word.strip() for word in str(options.get("features") or "").split(",") if word.strip())
    if text is not None and features:
        raise UsageError(f"{table.name}: text={text} and features={','.join(features)}: give only one of them")
    for name in (text, label, *features):
        if name is not None and name not in table.columns:
            raise UsageError(f"{table.name}: has no column {name!r}; it has: {listed(table.columns)}")
    if label is not None and label in (text, *features):
        raise UsageError(f"{table.name}: label={label} is also an input of the model; remove it from the inputs")
    if text is None and not features:
        features = tuple(name for name in table.numeric() if name != label)
        if not features:
            raise UsageError(f"{table.name}: give text=COLUMN or features=COLUMN,…; it has: {listed(table.columns)}")
    return Choice(text, features, label)


def listed(columns: Sequence[str]) -> str:
    """Return the names of columns for a message: not a thousand of them."""
    shown = ", ".join(name[:40] for name in columns[:20])
    return f"{shown}, … ({len(columns)} columns)" if len(columns) > 20 else shown


def splits_of(tables: Mapping[str | None, Sequence[TableFile]], options: Mapping[str, Scalar]) -> tuple[str, Splits]:
    """Return the kind of data, and how to read each split. The first file decides which columns are taken.

    A test set without the label's column, beside one with it, has no labels. Raises UsageError where others lack one.
    """
    first = next(iter(tables.values()))[0]
    choice = chosen(first, options)
    choices = {}
    for split, files in tables.items():
        bare = split == "test" and choice.label is not None and not any(choice.label in file.columns for file in files)
        choices[split] = Choice(choice.text, choice.features, None) if bare and files[0] is not first else choice
        for file in files:
            for name in (choice.text, choices[split].label, *choice.features):
                if name is not None and name not in file.columns:
                    raise UsageError(
                        f"{file.name}: has no column {name!r}, which {first.name} has; it has: {listed(file.columns)}"
                    )
    return choice.kind, {split: partial(_read, files, choices[split]) for split, files in tables.items()}


def _read(files: Sequence[TableFile], choice: Choice) -> Iterator[Item]:
    """Yield the rows of several files. Raises UsageError naming the first that is wrong."""
    values = choice.features if choice.text is None else (choice.text,)
    wanted = values if choice.label is None else (*values, choice.label)
    whole: bool | None = None  # whether labels are numbers, as the first is
    for file in files:
        for number, cells in file.rows(wanted):
            at = f"{file.name}: row {number}"
            label: int | str | None = None
            if choice.label is not None:
                word = _word(cells[-1])
                whole = bool(_WHOLE.fullmatch(word)) if whole is None else whole
                label = _class(at, choice.label, word) if whole else _name(at, choice.label, word)
            if choice.text is not None:
                yield Item(at, _sentence(at, choice.text, cells[0]), label)
            else:
                yield Item(at, [_number(at, name, cell) for name, cell in zip(values, cells, strict=False)], label)


def _word(cell: Any) -> str:
    return "" if cell is None else str(int(cell) if isinstance(cell, bool) else cell).strip()


def _class(at: str, column: str, word: str) -> int:
    match = _WHOLE.fullmatch(word)
    if match is None:
        raise UsageError(f"{at}: {column} is {word[:40]!r}, not a whole number as in the first row")
    value = int(match[1])
    if not 0 <= value <= LARGEST_LABEL:
        raise UsageError(
            f"{at}: {column} is {value}, {'negative' if value < 0 else 'too large'} for a class; they count from 0"
        )
    return value


def _name(at: str, column: str, word: str) -> str:
    if not word:
        raise UsageError(f"{at}: {column} is empty: the row has no label")
    if len(word) > _LONGEST_NAME:
        raise UsageError(f"{at}: {column} has {len(word)} characters: too long for the name of a class")
    return word


def _sentence(at: str, column: str, cell: Any) -> str:
    if not isinstance(cell, str) or not cell.strip():
        raise UsageError(f"{at}: {column} has no text{'' if cell is None else f', but {str(cell)[:40]!r}'}")
    if len(cell) > _LONGEST_TEXT:
        raise UsageError(f"{at}: {column} has {len(cell)} characters, more than the {_LONGEST_TEXT} that are read")
    return cell.strip()


def _number(at: str, column: str, cell: Any) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = float("nan")
    if not abs(value) <= _LARGEST_NUMBER:
        raise UsageError(f"{at}: {column} is {str(cell)[:40]!r}, not a finite number")
    return value
