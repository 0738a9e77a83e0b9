"""A data source of images: the layouts it knows, tried one after the other, and what is there where none fits."""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from io import SEEK_END, BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import SPLITS, DataCard, View
from torchstone.plugins.data._named_files import Files, ImageSet, entries, files_of, is_folder, split_of
from torchstone.plugins.data._table import refuse_without_pyarrow
from torchstone.plugins.protocols import DataSource, Samples

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
_NO_CLASS = "__MACOSX"  # what one system's archives leave beside the folders

Tree = Mapping[str, Sequence[str]]  # the images of each class, relative to the top; under "" those without a class


def find_folder(root: Path, options: Mapping[str, Scalar]) -> ImageSet:
    """Return what a folder has: splits if it has split folders, else all in one piece.

    Raises UsageError naming the folder if it has no images, or images beside class folders; and as `assembled` does.
    """
    found = find_splits(root, options)
    if found is not None:
        return found
    whole = tree(str(root), "")
    if not any(whole.values()):
        raise UsageError(f"{root}: {_nothing(root)}")
    return assembled(str(root), {None: whole})


def find_splits(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return what the split folders in a folder have, or None if it has no such folders."""
    top = str(root)
    splits = _split_folders(top)
    if not splits:
        return None
    trees: dict[str | None, Tree] = {split: tree(top, folder) for split, folder in splits.items()}
    for split, folder in splits.items():
        if not any(trees[split].values()):
            raise UsageError(f"{root / folder}: {_nothing(root / folder)}")
    return assembled(top, trees)


def contents(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of the images and of the folders in a folder, each sorted; hidden ones are left out."""
    images, folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name == _NO_CLASS:
                    continue
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.name.lower().endswith(ENDINGS):
                    images.append(entry.name)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from error
    return sorted(images), sorted(folders)


def tree(top: str, folder: str) -> Tree:
    """Return the images of each class folder in a folder of `top`, or under "" those in the folder itself."""
    here = f"{folder}/" if folder else ""
    images, folders = contents(f"{top}/{folder}")
    classes = {name: [f"{here}{name}/{image}" for image in contents(f"{top}/{here}{name}")[0]] for name in folders}
    if not images:
        return classes
    full = next((name for name, files in classes.items() if files), None)
    if full is not None:
        raise UsageError(
            f"{top}/{folder}".rstrip("/") + f": has {len(images)} images beside class folders ({full}, …); "
            "move them into one"
        )
    return {"": [here + image for image in images]}


def assembled(top: str, trees: Mapping[str | None, Tree]) -> ImageSet:
    """Return the splits with their classes numbered in the order of names: those of train, where there is a train.

    Raises UsageError naming a class folder without an image, of which nothing can be learnt, and a class that is
    tested but not trained on.
    """
    taught = trees.get("train", trees.get(None))
    if taught is None:
        names = sorted({name for one in trees.values() for name, files in one.items() if name and files})
    else:
        names = sorted(filter(None, taught))
        empty = next((name for name in names if not taught[name]), None)
        if empty is not None:
            where = "in train " if "train" in trees else ""
            raise UsageError(
                f"{top}: class folder {empty!r} {where}has no image ({', '.join(ENDINGS)}), so that class "
                "cannot be learned; add images or remove the folder"
            )
    numbers = {name: number for number, name in enumerate(names)}
    splits: dict[str | None, Files] = {}
    for split, one in trees.items():
        unseen = next((name for name, files in one.items() if name and files and name not in numbers), None)
        if unseen is not None:
            raise UsageError(
                f"{top}: {split} has images of class {unseen!r}, but train has none; remove them, or add some to train"
            )
        in_order = sorted(one)
        labels = [numbers[name] for name in in_order for _ in one[name]] if "" not in one else None
        splits[split] = Files(top, [file for name in in_order for file in one[name]], labels)
    return ImageSet(splits, tuple(names), len(names) or None)


def _split_folders(top: str) -> dict[str, str]:
    """Return the folder of each split; none where the words of splits are names of classes (bus, car, train)."""
    images, folders = contents(top)
    named: dict[str, list[str]] = {}
    for folder in folders:
        split = split_of(folder)
        if split is not None:
            named.setdefault(split, []).append(folder)
    every = [folder for several in named.values() for folder in several]
    alone = not images and len(every) == len(folders)
    if not alone and not any(contents(f"{top}/{folder}")[1] for folder in every):
        return {}
    for several in named.values():
        if len(several) > 1:
            raise UsageError(f"{top}: has both {several[0]} and {several[1]}; remove one of them")
    return {split: named[split][0] for split in SPLITS if split in named}


def _nothing(folder: Path) -> str:
    inside = list(folder.iterdir())
    if not inside:
        return "an empty folder"
    for inner in contents(str(folder))[1]:
        if any(contents(f"{folder}/{inner}/{one}")[0] for one in contents(f"{folder}/{inner}")[1]):
            return f"has no images, but {inner} in it has class folders: name {folder / inner}"
    return f"has no images ({', '.join(ENDINGS)}), neither in it nor in its folders"


UNKNOWN = -1  # the label of every row where a test set keeps its labels to itself
_MOST_ROWS = 100_000_000
_MOST_GROUPS = 8  # row groups held where not all of them fit into memory
_IMAGES = ("image", "img")  # the usual names, the likelier first
_LABELS = ("label", "labels", "class", "target")
_OPEN: WeakValueDictionary[tuple[tuple[Path, str], ...], ParquetImages] = WeakValueDictionary()


class Shard:
    """One file. `labels`: as they are written, UNKNOWN where there is no such column; `names`: of numbers, if it says.

    Raises UsageError naming the file where it cannot be read, has no rows, or not the columns that were asked for.
    """

    def __init__(self, file: Path, options: Mapping[str, Scalar]) -> None:
        import pyarrow.parquet as pq

        self.file = file
        with image_errors(file), pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            self.rows = int(parquet.metadata.num_rows)
            if not 0 < self.rows <= _MOST_ROWS:
                raise UsageError(f"{file}: has {self.rows or 'no'} rows" + ", too many" * (self.rows > _MOST_ROWS))
            self.column = _image_column(file, schema, options.get("column"))
            label = _label_column(file, schema, options.get("label"), self.column)
            self.names = _class_names(schema.metadata, label)
            column = parquet.read([label], use_threads=False).column(0) if label is not None else None
            self.labels: list[Any] = column.to_pylist() if column is not None else [UNKNOWN] * self.rows


def _image_column(file: Path, schema: Any, asked: Scalar) -> str:
    there = [field.name for field in schema if _holds_images(field.type)]
    what = "of images (binary, or a struct with bytes)"
    if asked is not None and asked not in there:
        raise UsageError(f"{file}: column={asked} is no column {what}{_has(schema)}")
    if not there:
        raise UsageError(f"{file}: has no column {what}{_has(schema)}")
    return str(asked) if asked is not None else next((name for name in _IMAGES if name in there), there[0])


def _label_column(file: Path, schema: Any, asked: Scalar, image: str) -> str | None:
    import pyarrow as pa

    if asked is not None and asked not in schema.names:
        raise UsageError(f"{file}: has no column {asked}{_has(schema)}")
    name = str(asked) if asked is not None else next((n for n in _LABELS if n in schema.names and n != image), None)
    if name is not None:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise UsageError(f"{file}: the column {name} contains {kind}, not classes; give their column: label=NAME")
    return name


def _holds_images(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(kind.field(n).name == "bytes" and _holds_images(kind.field(n).type) for n in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _has(schema: Any) -> str:
    return f"; it has: {', '.join(f'{field.name} ({field.type})' for field in schema)[:200]}"


def _class_names(metadata: Mapping[bytes, bytes] | None, label: str | None) -> tuple[str, ...]:
    """Return the names that the hub's own note in the file gives to the numbers of a label column."""
    try:
        note = msgspec.json.decode((metadata or {}).get(b"huggingface", b"{}"))
        names = note["info"]["features"][label]["names"]
    except (msgspec.DecodeError, KeyError, TypeError):  # no such note, or one of another form: then they have no names
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


class ParquetImages:
    """The encoded images of all rows of some files: (file, column) each, in that order.

    Held if they take at most half of the memory that is free: outside Python's heap, where the processes of a loader
    share them. Else a row in no particular order costs the reading of its row group.
    """

    def __init__(self, columns: Sequence[tuple[Path, str]]) -> None:
        import psutil
        import pyarrow.parquet as pq

        self._groups: list[tuple[Path, str, int]] = []
        self._starts: list[int] = []
        self._held: dict[int, Any] = {}
        row = size = 0
        for file, column in columns:
            with image_errors(file), pq.ParquetFile(file) as parquet:
                for number in range(parquet.metadata.num_row_groups):
                    group = parquet.metadata.row_group(number)
                    self._groups.append((file, column, number))
                    self._starts.append(row)
                    row, size = row + group.num_rows, size + group.total_byte_size
        fits = size <= psutil.virtual_memory().available / 2
        self._most = len(self._groups) if fits else _MOST_GROUPS
        for number in range(len(self._groups) if fits else 0):
            self._group(number)

    def __getitem__(self, index: int) -> BytesIO:
        number = bisect_right(self._starts, index) - 1
        value = self._group(number)[index - self._starts[number]].as_py()
        if value is None:
            raise ValueError("its row has no bytes: the image is missing or outside the file")
        return BytesIO(value)

    def _group(self, number: int) -> Any:
        if number not in self._held:
            if len(self._held) >= self._most:
                del self._held[next(iter(self._held))]
            self._held[number] = _read(*self._groups[number])
        return self._held[number]


def open_images(columns: Sequence[tuple[Path, str]]) -> ParquetImages:
    """Return the images of these columns: a training looks at the same ones twice, and holds them once."""
    found = _OPEN.get(tuple(columns))
    if found is None:
        found = _OPEN[tuple(columns)] = ParquetImages(columns)
    return found


def _read(file: Path, column: str, group: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with image_errors(file), pq.ParquetFile(file) as parquet:
        images = parquet.read_row_group(group, [column], use_threads=False).column(0)
    return pc.struct_field(images, "bytes") if pa.types.is_struct(images.type) else images


@contextmanager
def image_errors(file: Path) -> Iterator[None]:
    """Turn what pyarrow raises for a file that is torn, or none of its own, into one line about it."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{file}: cannot be read as parquet: {' '.join(str(error).split())[:160]}") from error


# Parquet files of images, as the Hugging Face hub has them: a column of encoded images, and one of labels.
#
# An image is `bytes`, or a struct with `bytes`; a label is a number or a text.

ENDING = ".parquet"
_END_BYTES = 1 << 16


def find_parquet(root: Path, options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return what parquet files have: one file, or the files of a folder, of its `data`, or of its split folders.

    None if there are no such files. Raises UsageError naming file, column or row where they are not what they should
    be, MissingError without pyarrow.
    """
    files = _files(root)
    if files is None:
        return None
    refuse_without_pyarrow("images")
    return _numbered({split: ParquetRows([Shard(file, options) for file in part]) for split, part in files.items()})


def _files(root: Path) -> Mapping[str | None, Sequence[Path]] | None:
    if not root.is_dir():
        return {None: [root]} if root.suffix.lower() == ENDING else None
    for place in (root, root / "data"):
        if place.is_dir() and _has_some(place):
            return files_of("images", str(place), (ENDING,))
    found: dict[str, list[Path]] = {}
    for folder in sorted(folder for folder in root.iterdir() if folder.is_dir()):
        split = split_of(folder.name)
        if split is not None and _has_some(folder):
            found.setdefault(split, []).extend(entries(folder, (ENDING,)))
    return {split: found[split] for split in SPLITS if split in found} or None


def _has_some(folder: Path) -> bool:
    with os.scandir(folder) as inside:  # a tenth of the time of iterdir for a million images
        return any(entry.name.lower().endswith(ENDING) and not entry.name.startswith(".") for entry in inside)


class ParquetRows:
    """The images of the rows of some files. `labels`: numbered once those of all splits are known."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards
        self.labels: Sequence[int] | None = None
        self._ends = list(accumulate(shard.rows for shard in shards))

    def __len__(self) -> int:
        return self._ends[-1]

    def name(self, index: int) -> str:
        """Return the file, and the row in it, from 1."""
        number = bisect_right(self._ends, index)
        shard = self.shards[number]
        return f"{shard.file}: row {index - self._ends[number] + shard.rows + 1}"

    def stamps(self) -> Iterator[str]:
        """Yield names, sizes and a digest of the ends, where a file says where everything in it lies."""
        for shard in self.shards:
            with shard.file.open("rb") as stream:
                size = stream.seek(0, SEEK_END)
                stream.seek(max(0, size - _END_BYTES))
                yield f"{shard.file.name}\t{size}\t{sha256(stream.read()).hexdigest()}"

    def open(self) -> ParquetImages:
        """Return the encoded images."""
        return open_images([(shard.file, shard.column) for shard in self.shards])


def _numbered(splits: Mapping[str | None, ParquetRows]) -> ImageSet:
    """Number the classes: texts in their order, those of train where there is a train; numbers as they are."""
    shards = [shard for pile in splits.values() for shard in pile.shards]
    taught = splits["train"].shards if "train" in splits else shards
    texts = {label for shard in taught for label in shard.labels if isinstance(label, str)}
    names = tuple(sorted(texts)) if texts else next((shard.names for shard in shards if shard.names), ())
    numbers = {name: number for number, name in enumerate(names)}
    highest = -1
    for pile in splits.values():
        if any(label != UNKNOWN for shard in pile.shards for label in shard.labels):
            pile.labels = [number for shard in pile.shards for number in _numbers_of(shard, numbers)]
            highest = max(highest, *set(pile.labels))
    return ImageSet(splits, names, len(names) or highest + 1 or None)


def _numbers_of(shard: Shard, numbers: Mapping[str, int]) -> list[int]:
    known: dict[Any, int] = {}
    for row, label in enumerate(shard.labels, 1):
        if label not in known:
            known[label] = _number(label, f"{shard.file}: row {row}", numbers)
    return [known[label] for label in shard.labels]


def _number(label: Any, at: str, numbers: Mapping[str, int]) -> int:
    if isinstance(label, str):
        if label not in numbers:
            raise UsageError(f"{at}: class {label[:40]!r} is none of those in train: {', '.join(numbers)[:200]}")
        return numbers[label]
    if not isinstance(label, int):
        raise UsageError(f"{at}: the label {str(label)[:40]!r} is not a class")
    if label < 0 or (numbers and label >= len(numbers)):
        known = f"there are {len(numbers)} classes, 0 to {len(numbers) - 1}" if numbers else "classes count from 0"
        raise UsageError(f"{at}: the label {label} is out of range: {known}")
    return label


_ARCHIVES = (".gz", ".tgz", ".tar", ".zip", ".xz", ".bz2", ".7z")
_ON_ERROR = ("stop", "skip")
_OF_PARQUET = ("column", "label")
_MOST_SHOWN = 8

Layout = Callable[[Path, Mapping[str, Scalar]], ImageSet | None]


class ImageSource(DataSource):
    """Data source `name`. `layouts`: what each looks for, in words, and what finds it (None: it is not there).

    `inner`: the folder that its archive unpacks to; its parent may be named too.
    """

    options: tuple[str, ...] = ("on_error", *_OF_PARQUET)

    def __init__(self, name: str, describes: str, layouts: Mapping[str, Layout], inner: str | None = None) -> None:
        self.describes = describes
        self._name = name
        self._layouts = layouts
        self._inner = inner

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if find_spec("PIL") is None:
            raise MissingError(f"data {self._name}: needs Pillow: pip install pillow")
        asked = options.get("on_error", "stop")
        if asked not in _ON_ERROR:
            raise UsageError(f"data {self._name}: on_error: {unknown('word', str(asked), _ON_ERROR)}")
        return self._search(path, options).card()

    def samples(self, path: str, view: View) -> Samples:
        from torchstone.plugins.data._images import ImageSamples

        return ImageSamples(self._search(path, view.options), view)

    def _search(self, path: str, options: Mapping[str, Scalar]) -> ImageSet:
        wanted = ", or ".join(self._layouts)
        if not path:
            raise UsageError(
                f"data {self._name}: name the folder: {self._name}:PATH (with a recipe: --data PATH), with {wanted}"
            )
        root = Path(path).expanduser()
        try:
            for place, layout in self._candidates(root):
                found = layout(place, options)
                if found is not None:
                    if layout is not find_parquet:
                        _refuse_columns(self._name, place, options)
                    _refuse_untaught(place, found)
                    return found
            raise UsageError(
                f"{root}: looked for {wanted}; found {_inside(root)}; name the folder that has it: {self._name}:PATH"
            )
        except OSError as error:
            raise UsageError(f"{error.filename or root}: cannot be read: {error.strerror}") from error

    def _candidates(self, root: Path) -> Iterator[tuple[Path, Layout]]:
        """Yield where to look, and for what. Raises UsageError for a path that is not there, and for an odd file."""
        if is_folder(root):
            inner = (root / self._inner,) if self._inner and (root / self._inner).is_dir() else ()
            yield from itertools.product((root, *inner), self._layouts.values())
        elif root.suffix.lower() == ENDING:
            yield root, find_parquet
        elif root.suffix.lower() in _ARCHIVES:
            raise UsageError(f"{root}: an archive; unpack it and give the unpacked folder: {self._name}:PATH")
        else:
            raise UsageError(f"{root}: a file, not a folder; give the folder: {self._name}:PATH")


def _refuse_untaught(root: Path, found: ImageSet) -> None:
    """Raise UsageError naming a class that a held-out split has and train has not."""
    train: Any = found.splits.get("train")
    if train is None or train.labels is None:
        return
    taught = set(train.labels)
    for split, pile in found.splits.items():
        unseen = sorted(set(pile.labels or ()) - taught)
        if unseen:
            name = repr(found.labels[unseen[0]]) if found.labels else unseen[0]
            raise UsageError(f"{root}: {split} has images of class {name}, and train has none to learn it from")


def _refuse_columns(name: str, root: Path, options: Mapping[str, Scalar]) -> None:
    for option in _OF_PARQUET:
        if option in options:
            raise UsageError(f"data {name}: {option}={options[option]} names a column, and {root} has no parquet files")


def _inside(root: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in root.iterdir())
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more if names else "an empty folder"
