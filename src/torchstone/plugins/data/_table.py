"""A table of any form, by a short description: which column is the text, or which are the features, and the label."""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import DataCard, View
from torchstone.plugins.data._named_files import LARGEST_TABLE_BYTES, files_digest, files_of, lines, size_of
from torchstone.plugins.protocols import DataSource, Samples

# What the rows of any data come down to: a value, and perhaps a class. What a card says of them, and their numbers.
#
# The first split (training, where there is one) decides which classes there are: what only a later one has is refused.

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


def table_card(kind: str, splits: Splits, sha256: str, names: Sequence[str] = ()) -> DataCard:
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


def with_classes(splits: Splits, view: View, names: Sequence[str] = ()) -> Iterator[tuple[Any, int | None]]:
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


def rows_of_files(read: Callable[[Path], Iterator[Item]], files: Sequence[Path]) -> Iterator[Item]:
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


_HEADINGS = ("label", "labels", "class", "target", "sentiment", "y")
_INDEXED = ["index", "sentence"]  # how GLUE heads a test set, whose labels it keeps to itself


def rows(file: Path) -> Iterator[Item]:
    """Yield the rows of a UTF-8 file of sentence<TAB>label; a heading (label, class, …) is skipped.

    A file headed index<TAB>sentence has no labels. Raises UsageError naming the file, and the row, if it is no such
    file, or if a row has other than two columns, no text, or a label that is not a whole number from 0.
    """
    form, count = "sentence<TAB>label", 0
    for number, line in enumerate(lines(file), 1):
        at, cells = f"{file}: row {number}", [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
        if number == 1 and cells == _INDEXED:
            form = "index<TAB>sentence"
            continue
        if len(cells) != 2:
            raise UsageError(f"{at}: has {len(cells)} column{'s' * (len(cells) != 1)}, not 2; write {form}")
        if number == 1 and cells[1].lower() in _HEADINGS:
            continue
        count += 1
        if form == "sentence<TAB>label":
            sentence, label = cells[0], _label(at, cells[1])
        else:
            sentence, label = cells[1], None
            if not (cells[0].isascii() and cells[0].isdigit()):
                raise UsageError(f"{at}: the index {cells[0][:40]!r} is not a whole number")
        if not sentence:
            raise UsageError(f"{at}: has no text")
        yield Item(at, sentence, label)
    if not count:
        raise UsageError(f"{file}: has no rows; each is {form}")


def _label(at: str, label: str) -> int:
    digits = label.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise UsageError(f"{at}: the label {label[:40]!r} is not a whole number")
    value = int(label)
    if not 0 <= value <= LARGEST_LABEL:
        raise UsageError(f"{at}: the label {value} is {'negative' if value < 0 else 'too large'}; classes count from 0")
    return value


_VOCABULARY = 30_522  # BERT's, where the model does not say
_PADDING = ("[PAD]", "<pad>", "<|padding|>")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TRAINED_ON = 20_000  # sentences; more of them change little and take long
_MOST_LETTERS = 2_000  # distinct characters that get a token of their own, the most frequent first


def refuse_without_tokenizers(scheme: str) -> None:
    """Raise MissingError if the library that makes tokens of text is not installed."""
    if find_spec("tokenizers") is None:
        raise MissingError(f"data {scheme}: needs tokenizers: pip install 'torchstone[models]'")


class Sentences:
    """Items of `input_ids` and `attention_mask`, int64, and `labels` if the sentences have them.

    Padded and cut to `sequence_length`. `tokenizer`: the view's (the model's own), or one trained on these sentences.
    """

    def __init__(self, labelled: Iterable[tuple[str, int | None]], view: View) -> None:
        rows = list(labelled)
        self._sentences = [sentence for sentence, _ in rows]
        self._labels = [label for _, label in rows]
        self._length = int(view.configuration.get("sequence_length") or 128)
        self.tokenizer = view.tokenizer
        if self.tokenizer is None:
            self.tokenizer = trained(self._sentences, view.input.vocabulary or _VOCABULARY)
        if not callable(self.tokenizer):
            self.tokenizer = _with_length(self.tokenizer, self._length)

    def __len__(self) -> int:
        return len(self._sentences)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        ids, mask = self._encode(self._sentences[index])
        item = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
        label = self._labels[index]
        if label is not None:
            item["labels"] = torch.tensor(label)
        return item

    def _encode(self, sentence: str) -> tuple[list[int], list[int]]:
        if callable(self.tokenizer):
            found = self.tokenizer(sentence, truncation=True, padding="max_length", max_length=self._length)
            return list(found["input_ids"]), list(found["attention_mask"])
        encoded = self.tokenizer.encode(sentence)
        return list(encoded.ids), list(encoded.attention_mask)


def _with_length(tokenizer: Any, length: int) -> Any:
    """Return a copy of a `tokenizers.Tokenizer` that pads and cuts to `length`: the one given may be of another."""
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.to_str())
    token = (tokenizer.padding or {}).get("pad_token")
    token = token or next((word for word in _PADDING if tokenizer.token_to_id(word) is not None), _PADDING[0])
    copy.enable_truncation(length)
    copy.enable_padding(pad_id=tokenizer.token_to_id(token) or 0, pad_token=token, length=length)
    return copy


def trained(sentences: Sequence[str], vocabulary: int) -> Any:
    """Return a WordPiece tokenizer with at most `vocabulary` tokens, the same for the same text.

    Raises ValueError if that is fewer than the special ones.
    """
    from tokenizers import models, processors, trainers

    if vocabulary <= len(_SPECIAL):
        raise ValueError(f"a vocabulary of {vocabulary} has no room beside {len(_SPECIAL)} special tokens")
    # Its thread pool does not survive the fork of a loader's processes, and says so on stderr.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = sentences[:_TRAINED_ON]
    tokenizer = _empty(models.WordPiece({}, unk_token="[UNK]"))
    room = max(0, min(_MOST_LETTERS, (vocabulary - len(_SPECIAL)) // 2))
    plain = [tokenizer.normalizer.normalize_str(sentence) for sentence in text]
    every = _letters(plain)
    letters = every[:room]
    rare = str.maketrans(dict.fromkeys(every[room:], " "))
    # The trainer numbers letters in the order of a hash map; given as special tokens, they are numbered as listed.
    first = [*_SPECIAL, *letters, *("##" + letter for letter in letters)]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=first, show_progress=False)
    tokenizer.train_from_iterator((sentence.translate(rare) for sentence in plain), trainer)
    words = {token: number for token, number in tokenizer.get_vocab().items() if number < vocabulary}
    ready = _empty(models.WordPiece(words, unk_token="[UNK]"))
    ready.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words["[CLS]"]), ("[SEP]", words["[SEP]"])]
    )
    return ready


def _empty(model: Any) -> Any:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _letters(text: Sequence[str]) -> list[str]:
    counts = Counter(letter for sentence in text for letter in sentence if not letter.isspace())
    return sorted(counts, key=lambda letter: (-counts[letter], letter))


_ROWS_AT_ONCE = 1024
_MOST_BYTES = 4 * LARGEST_TABLE_BYTES  # what the columns may grow to when they are unpacked


def refuse_without_pyarrow(scheme: str) -> None:
    """Raise MissingError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise MissingError(f"data {scheme}: needs pyarrow: pip install 'torchstone[data]'")


class ParquetTable:
    """One file. Raises UsageError naming it where it is not Parquet, is too large, or has two columns of a name."""

    def __init__(self, file: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.name = str(file)
        self._file = file
        size_of(file, LARGEST_TABLE_BYTES)
        with self._reading(), pq.ParquetFile(file) as parquet:
            schema, meta = parquet.schema_arrow, parquet.metadata
            unpacked = sum(meta.row_group(n).total_byte_size for n in range(meta.num_row_groups))
        self.columns = tuple(schema.names)
        twice = {name for name in self.columns if self.columns.count(name) > 1}
        if twice:
            raise UsageError(f"{file}: has two columns {min(twice)!r}")
        if unpacked > _MOST_BYTES:
            raise UsageError(f"{file}: {unpacked} bytes unpacked, more than the {_MOST_BYTES} that are read")
        types = pa.types
        self._numeric = tuple(f.name for f in schema if types.is_integer(f.type) or types.is_floating(f.type))

    def numeric(self) -> tuple[str, ...]:
        """Return the columns of numbers, by their type."""
        return self._numeric

    def rows(self, wanted: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the number of each row, from 1, and its cells of these columns."""
        import pyarrow.parquet as pq

        number = 0
        with self._reading(), pq.ParquetFile(self._file) as parquet:
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=list(wanted), use_threads=False):
                for cells in zip(*(batch.column(name).to_pylist() for name in wanted), strict=True):
                    number += 1
                    yield number, cells
        if number == 0:
            raise UsageError(f"{self.name}: has no rows")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{self.name}: cannot be read as Parquet: {' '.join(str(error).split())[:160]}") from error


OPTIONS = ("text", "features", "label")


class TableSource(DataSource):
    """A data source of files that are tables of one format. What a format has of its own is in its plug-in."""

    scheme: str
    endings: tuple[str, ...]
    options: tuple[str, ...] = OPTIONS

    def table(self, file: Path, options: Mapping[str, Scalar]) -> TableFile:
        """Open one file. Raises UsageError naming it where it is no such table."""
        raise NotImplementedError

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        """Read everything and return its card."""
        files = files_of(self.scheme, path, self.endings)
        kind, splits = self._read(files, options)
        if kind == "text":
            refuse_without_tokenizers(self.scheme)
        return table_card(kind, splits, files_digest([file for part in files.values() for file in part]))

    def samples(self, path: str, view: View) -> Samples:
        kind, splits = self._read(files_of(self.scheme, path, self.endings), view.options)
        found = with_classes(splits, view)
        return Sentences(found, view) if kind == "text" else FeatureRows(found, view, path)

    def _read(self, files: Mapping[str | None, Sequence[Path]], options: Mapping[str, Scalar]) -> tuple[str, Splits]:
        tables = {split: [self.table(file, options) for file in part] for split, part in files.items()}
        return splits_of(tables, options)


class FeatureRows:
    """Items of `features`, float32, frames × width, and `labels` if the rows have them.

    A row of as many columns as the model is wide is one frame; of several times as many, a sequence, frame after
    frame, cut to `sequence_length`. None is padded: the rows of a table are all of one length.
    """

    def __init__(self, labelled: Iterable[tuple[Sequence[float], int | None]], view: View, where: str) -> None:
        import torch

        numbers, self._labels = array("f"), list[int | None]()
        for row, label in labelled:
            numbers.extend(row)
            self._labels.append(label)
        columns = len(numbers) // len(self._labels)
        width = view.input.width or columns
        if columns % width:
            raise UsageError(f"{where}: {columns} columns of features, but the model takes {width} values a frame")
        length = int(view.configuration.get("sequence_length") or columns // width)
        values = torch.frombuffer(numbers, dtype=torch.float32).view(len(self._labels), columns // width, width)
        self._values = values[:, :length].contiguous()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        item = {"features": self._values[index]}
        label = self._labels[index]
        if label is not None:
            item["labels"] = torch.tensor(label)
        return item


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


class ColumnChoice(msgspec.Struct, frozen=True):
    """Which columns are taken: `text` or `features`, and the label's."""

    text: str | None
    features: tuple[str, ...]
    label: str | None

    @property
    def kind(self) -> str:
        """The kind of InputSpec that it makes."""
        return "features" if self.text is None else "text"


def choose_columns(table: TableFile, options: Mapping[str, Scalar]) -> ColumnChoice:
    """Return the columns that the options name; without text and features, all columns of numbers but the label.

    Raises UsageError naming the columns there are.
    """
    text, label = (None if options.get(name) is None else str(options[name]) for name in ("text", "label"))
    features = tuple(word.strip() for word in str(options.get("features") or "").split(",") if word.strip())
    if text is not None and features:
        raise UsageError(f"{table.name}: text={text} and features={','.join(features)}: give only one of them")
    for name in (text, label, *features):
        if name is not None and name not in table.columns:
            raise UsageError(f"{table.name}: has no column {name!r}; it has: {names_of(table.columns)}")
    if label is not None and label in (text, *features):
        raise UsageError(f"{table.name}: label={label} is also an input of the model; remove it from the inputs")
    if text is None and not features:
        features = tuple(name for name in table.numeric() if name != label)
        if not features:
            raise UsageError(f"{table.name}: give text=COLUMN or features=COLUMN,…; it has: {names_of(table.columns)}")
    return ColumnChoice(text, features, label)


def names_of(columns: Sequence[str]) -> str:
    """Return the names of columns for a message: not a thousand of them."""
    shown = ", ".join(name[:40] for name in columns[:20])
    return f"{shown}, … ({len(columns)} columns)" if len(columns) > 20 else shown


def splits_of(tables: Mapping[str | None, Sequence[TableFile]], options: Mapping[str, Scalar]) -> tuple[str, Splits]:
    """Return the kind of data, and how to read each split. The first file decides which columns are taken.

    A test set without the label's column, beside one with it, has no labels. Raises UsageError where others lack one.
    """
    first = next(iter(tables.values()))[0]
    choice = choose_columns(first, options)
    choices = {}
    for split, files in tables.items():
        bare = split == "test" and choice.label is not None and not any(choice.label in file.columns for file in files)
        choices[split] = ColumnChoice(choice.text, choice.features, None) if bare and files[0] is not first else choice
        for file in files:
            for name in (choice.text, choices[split].label, *choice.features):
                if name is not None and name not in file.columns:
                    raise UsageError(
                        f"{file.name}: has no column {name!r}, which {first.name} has; it has: {names_of(file.columns)}"
                    )
    return choice.kind, {split: partial(_read, files, choices[split]) for split, files in tables.items()}


def _read(files: Sequence[TableFile], choice: ColumnChoice) -> Iterator[Item]:
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
