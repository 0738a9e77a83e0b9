"""Tables and sentences: any table as CSV or Parquet, sentences with labels as TSV, and SST-2."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.model import DataCard, View
from torchstone.plugins.data._named_files import files_digest, files_of, is_folder, lines
from torchstone.plugins.data._table import (
    OPTIONS,
    Item,
    ParquetTable,
    Sentences,
    Splits,
    TableFile,
    TableSource,
    names_of,
    refuse_without_pyarrow,
    refuse_without_tokenizers,
    rows,
    rows_of_files,
    table_card,
    with_classes,
)
from torchstone.plugins.protocols import DataSource, Samples

# ── csv ──────────────────────────────────────────────────────────────────────────────────────────────────────

# `csv:PATH`: a table as text, with any separator: sentences or numbers, and a label, from the columns you name.

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
                    f"not {len(self.columns)}: {names_of(self.columns)}"
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


# ── parquet ──────────────────────────────────────────────────────────────────────────────────────────────────

# `parquet:PATH`: a table in columns: sentences or numbers, and a label, from the columns you name.


class ParquetSource(TableSource):
    """Data source `parquet`."""

    scheme, endings = "parquet", (".parquet", ".pq")
    describes = "your own table: parquet:PATH, a file or a folder of them; text=COL or features=COL,…, and label=COL"

    def table(self, file: Path, options: Mapping[str, Scalar]) -> TableFile:
        return ParquetTable(file)

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_pyarrow(self.scheme)
        return super().card(path, options)


# ── tsv ──────────────────────────────────────────────────────────────────────────────────────────────────────

# `tsv:PATH`: sentences with labels, tokenized as they are read by the model's tokenizer, or one made for the text.


class Tsv(DataSource):
    """Data source `tsv`."""

    describes = "your own sentences: tsv:PATH, a row is sentence<TAB>label; a file, or a folder with train.tsv, dev.tsv"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_tokenizers("tsv")
        files = files_of("tsv", path, (".tsv",))
        return table_card("text", _splits(path), files_digest([file for part in files.values() for file in part]))

    def samples(self, path: str, view: View) -> Samples:
        return Sentences(with_classes(_splits(path), view), view)


def _splits(path: str) -> Splits:
    return {split: partial(rows_of_files, rows, files) for split, files in files_of("tsv", path, (".tsv",)).items()}


# ── sst2 ─────────────────────────────────────────────────────────────────────────────────────────────────────

# `sst2:PATH`: the Stanford Sentiment Treebank in two classes, as GLUE, the hub or others hand it out.
#
# Socher et al., EMNLP 2013; as a task of GLUE: Wang et al., ICLR 2019.

NAMES = ("negative", "positive")
_HIDDEN = -1  # the label of every row of the hub's test set
_ENDINGS = (".tsv", ".parquet")


class Sst2(DataSource):
    """Data source `sst2`. Splits train, validation (dev.tsv) and test; GLUE's test set has no labels."""

    describes = "SST-2: sst2:PATH, a folder of GLUE's .tsv files, of sentence<TAB>label files, or of the hub's parquet"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_tokenizers("sst2")
        files = _sst2_files(path)
        every = [file for part in files.values() for file in part]
        if any(file.suffix.lower() == ".parquet" for file in every):
            refuse_without_pyarrow("sst2")
        return table_card("text", _sst2_splits(files), files_digest(every), NAMES)

    def samples(self, path: str, view: View) -> Samples:
        return Sentences(with_classes(_sst2_splits(_sst2_files(path)), view, NAMES), view)


def _sst2_files(path: str) -> Mapping[str | None, Sequence[Path]]:
    """Return the files of each split. Raises UsageError where a folder holds the set twice, as text and as parquet."""
    place = Path(path).expanduser()
    if path and is_folder(place):
        endings = {e.suffix.lower() for e in place.iterdir()} & set(_ENDINGS)
        if len(endings) > 1:
            raise UsageError(f"{place}: has .tsv and .parquet files; move those of one kind to another folder")
    return files_of("sst2", path, _ENDINGS)


def _sst2_splits(files: Mapping[str | None, Sequence[Path]]) -> Splits:
    return {split: partial(rows_of_files, _sst2_rows, part) for split, part in files.items()}


def _sst2_rows(file: Path) -> Iterator[Item]:
    return _parquet_rows(file) if file.suffix.lower() == ".parquet" else rows(file)


def _parquet_rows(file: Path) -> Iterator[Item]:
    """Yield the rows of a file with the columns sentence and label. Raises UsageError naming the first wrong row."""
    table = ParquetTable(file)
    for name in ("sentence", "label"):
        if name not in table.columns:
            raise UsageError(f"{file}: has no column {name}; it has: {', '.join(table.columns)[:200]}")
    for number, (sentence, label) in table.rows(("sentence", "label")):
        at = f"{file}: row {number}"
        if not isinstance(sentence, str) or not sentence.strip():
            raise UsageError(f"{at}: has no text in sentence")
        if not isinstance(label, int) or isinstance(label, bool) or label < _HIDDEN:
            raise UsageError(f"{at}: the label {str(label)[:40]!r} is neither a class nor -1, which stands for none")
        yield Item(at, sentence.strip(), None if label == _HIDDEN else label)


PLUGINS: Mapping[str, DataSource] = {
    "csv": CsvSource(),
    "parquet": ParquetSource(),
    "tsv": Tsv(),
    "sst2": Sst2(),
}
