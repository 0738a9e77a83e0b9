"""`csv:PATH`: a table as text, with any separator: sentences or numbers, and a label, from the columns you name."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.plugins.data._named_files import lines
from torchstone.plugins.data._table import OPTIONS, TableFile, TableSource, listed
from torchstone.plugins.protocols import DataSource

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}  # hard to type, or to see


class CsvTable:
    """One file, quoted as RFC 4180 says. Rows are numbered by the line they begin on."""

    def __init__(self, file: Path, separator: str | None, *, header: bool) -> None:
        self.name = str(file)
        self._file = file
        self._separator = separator or ("\t" if file.suffix.lower() == ".tsv" else ",")
        self._header = header
        first = next(self._records(), (1, []))[1]
        if not first:
            raise UsageError(f"{file}: has no rows")
        self.columns = tuple(word.strip() for word in first) if header else tuple(map(str, range(1, len(first) + 1)))
        if separator is None and len(first) == 1 and (other := next((s for s in ";\t|," if s in first[0]), None)):
            word = "tab" if other == "\t" else other
            raise UsageError(f"{file}: one column, {first[0][:60]!r}; for another separator give separator={word}")
        if twice := sorted(name for name in set(self.columns) if name and self.columns.count(name) > 1):
            raise UsageError(f"{file}: row 1: two columns are called {twice[0][:40]!r}")

    def numeric(self) -> tuple[str, ...]:
        """Return the columns whose first cell is a number; one without a name counts rows in most files."""
        _, cells = next(self._data())
        return tuple(name for name, cell in zip(self.columns, cells, strict=False) if name and _is_number(cell))

    def rows(self, wanted: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the line and the cells of each row. Raises UsageError naming one with too few cells or too many."""
        places = [self.columns.index(name) for name in wanted]
        for number, cells in self._data():
            if len(cells) != len(self.columns):
                raise UsageError(
                    f"{self.name}: row {number}: has {len(cells)} column{'s' * (len(cells) != 1)}, "
                    f"not {len(self.columns)}: {listed(self.columns)}"
                )
            yield number, tuple(cells[place] for place in places)

    def _data(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the records below the header. Raises UsageError if there is none."""
        records = self._records()
        if self._header:
            next(records, None)
        first = next(records, None)
        if first is None:
            raise UsageError(f"{self.name}: has no rows below its header")
        yield first
        yield from records

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells. A field beyond the csv module's limit (131,072 characters) ends it: a stray quote."""
        reader = csv.reader(lines(self._file), delimiter=self._separator, strict=True)
        number = 1
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise UsageError(f"{self.name}: row {number}: {error}; is a quote open or out of place?") from error
            if cells is None:
                return
            if cells:
                yield number, cells
            number = reader.line_num + 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


class CsvSource(TableSource):
    """Data source `csv`."""

    scheme, endings = "csv", (".csv", ".tsv")
    describes = (
        "your own table: csv:PATH, a file or a folder with train.csv …; text=COL or features=COL,…, and label=COL"
    )
    options: tuple[str, ...] = (*OPTIONS, "separator", "header")

    def table(self, file: Path, options: Mapping[str, Scalar]) -> TableFile:
        return CsvTable(file, _separator(options.get("separator")), header=_header(options.get("header")))


def _separator(value: Scalar) -> str | None:
    if value is None:
        return None
    word = _NAMED.get(str(value), str(value))
    if len(word) != 1 or word in '"\r\n':
        raise UsageError(f"data csv: separator={value}: one character, or {', '.join(_NAMED)}")
    return word


def _header(value: Scalar) -> bool:
    return True if value is None else bool(AXES["pin_memory"].parse(value, "data csv: header"))  # true or false


PLUGIN: DataSource = CsvSource()
