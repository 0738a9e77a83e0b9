"""`hub:NAME`: text or images of Hugging Face's hub, by the `datasets` library, where it is installed.

NAME is owner/name on the hub (fetched, or from the cache), or a folder: one that `save_to_disk` wrote, or one of files
that `load_dataset` reads. Only folders have been tried with the real library; nothing was ever fetched from the hub,
which cannot be reached from where this was written.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import SPLITS, DataCard, View
from torchstone.plugins.data._named_files import ImageSet, split_of
from torchstone.plugins.data._table import (
    Item,
    Sentences,
    Splits,
    Tally,
    names_of,
    refuse_without_tokenizers,
    splits_of,
    table_card,
    with_classes,
)
from torchstone.plugins.protocols import DataSource, Samples

_HIDDEN = {-1, None}  # labels of a test set that are kept back
_SAMPLED = 64  # rows that stand for a data set's contents
_ROWS_AT_ONCE = 1024

Sets = Mapping[str | None, Any]  # the splits, each a datasets.Dataset; None: data in one piece
Columns = Mapping[str, str]  # which column is the text or the image, and which the label


def open_sets(name: str, config: str | None, *, offline: bool) -> Sets:
    """Return the splits of a data set, or all of it under None.

    `offline`: from the cache alone, as a trial does it: what it needs was fetched when the run was planned. Raises
    MissingError where it is neither cached nor reachable, UsageError for whatever else the library says.
    """
    import datasets

    if int(datasets.__version__.partition(".")[0]) < 4:  # those before run code that comes with the data
        raise MissingError(f"data hub: datasets {datasets.__version__} is too old: pip install 'torchstone[hub]'")
    if offline:
        _stay_offline()
    place = Path(name).expanduser()
    try:
        if any((place / file).is_file() for file in ("dataset_dict.json", "state.json")):
            found = datasets.load_from_disk(str(place))
        else:
            found = datasets.load_dataset(str(place) if place.is_dir() else name, config)
    except ConnectionError as error:
        raise MissingError(f"data hub: {name} is not in the cache, and not downloadable: {_line(error)}") from error
    except Exception as error:  # it raises of its own, of pyarrow's and of the builders' kinds
        raise UsageError(f"data hub: {name}: {type(error).__name__}: {_line(error)}") from error
    if not isinstance(found, Mapping):
        return {None: found}
    by_split = {split: found[word] for word in found if (split := split_of(word)) is not None}
    if not by_split:
        raise UsageError(f"data hub: {name}: its splits are {', '.join(found)}: no train, validation or test")
    return {split: by_split[split] for split in SPLITS if split in by_split}


def _stay_offline() -> None:
    """Set what HF_HUB_OFFLINE would have set when the libraries were imported, which may be long ago."""
    import datasets
    import huggingface_hub.constants

    datasets.config.HF_HUB_OFFLINE = True
    huggingface_hub.constants.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def columns(name: str, sets: Sets, options: Mapping[str, Scalar]) -> Columns:
    """Return the columns that the options name, and where they leave it open the only one of images, text, classes.

    Raises UsageError listing the columns and their types where there are several, or none.
    """
    import datasets

    features = next(iter(sets.values())).features
    said = {key: str(options[key]) for key in ("text", "image", "label") if options.get(key) is not None}
    have = names_of([f"{column} ({getattr(f, 'dtype', type(f).__name__)})" for column, f in features.items()])
    if {"text", "image"} <= set(said):
        raise UsageError(f"data hub: {name}: text={said['text']} and image={said['image']}: give only one of them")
    for column in said.values():
        if column not in features:
            raise UsageError(f"data hub: {name}: has no column {column!r}; it has: {have}")
    if not {"text", "image"} & set(said):
        images = [column for column, f in features.items() if isinstance(f, datasets.Image)]
        texts = [column for column, f in features.items() if getattr(f, "dtype", None) in ("string", "large_string")]
        kind, found = ("image", images) if images else ("text", texts)
        if len(found) != 1:
            raise UsageError(f"data hub: {name}: give text=COLUMN or image=COLUMN; it has: {have}")
        said[kind] = found[0]
    classes = [column for column, f in features.items() if isinstance(f, datasets.ClassLabel)]
    if "label" not in said and len(classes) == 1:
        said["label"] = classes[0]
    return said


def class_names(sets: Sets, label: str | None) -> tuple[str, ...]:
    """Return the names of the classes, where the data set has them."""
    feature = None if label is None else next(iter(sets.values())).features[label]
    return tuple(getattr(feature, "names", None) or ())


class HubTable:
    """One split as a table. A column of labels that are all kept back is not among its columns."""

    def __init__(self, name: str, split: str | None, data: Any, label: str | None) -> None:
        self.name = f"hub:{name}" + (f" ({split})" if split is not None else "")
        self._data = data
        hidden = label is not None and all(cells[0] in _HIDDEN for _, cells in self.rows((label,)))
        self.columns = tuple(column for column in data.column_names if not (hidden and column == label))

    def numeric(self) -> tuple[str, ...]:
        """Return no column: text is named, or found by its type."""
        return ()

    def rows(self, wanted: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the number of each row, from 1, and its cells of these columns."""
        number = 0
        for batch in self._data.select_columns(list(wanted)).iter(_ROWS_AT_ONCE):
            for cells in zip(*(batch[column] for column in wanted), strict=True):
                number += 1
                yield number, cells
        if number == 0:
            raise UsageError(f"{self.name}: has no rows")


def text_splits(name: str, sets: Sets, columns: Columns) -> Splits:
    """Return how to read each split of a data set of text."""
    return splits_of(
        {split: [HubTable(name, split, data, columns.get("label"))] for split, data in sets.items()}, columns
    )[1]


class HubImages:
    """The images of a split as files have them: decoding is the loader's work, and is measured."""

    def __init__(self, name: str, data: Any, image: str, labels: Sequence[int] | None) -> None:
        import datasets

        self._name = name
        self._image = image
        self._data = data.select_columns([image]).cast_column(image, datasets.Image(decode=False))
        self.labels = labels

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        cell = self._data[index][self._image]
        return io.BytesIO(cell["bytes"]) if cell["bytes"] is not None else cell["path"]

    def name(self, index: int) -> str:
        """Return what a message calls an image."""
        return f"{self._name}: row {index + 1}"

    def stamps(self) -> Iterator[str]:
        """Yield how many images there are, and a digest of some of them, evenly spread."""
        yield str(len(self))
        for index in _some(len(self)):
            cell = self._data[index][self._image]
            body = cell["bytes"] if cell["bytes"] is not None else Path(str(cell["path"])).name.encode()
            yield hashlib.sha256(body).hexdigest()

    def open(self) -> HubImages:
        """Return the images themselves: the library maps its files into memory."""
        return self


def images(name: str, sets: Sets, columns: Columns) -> ImageSet:
    """Return the piles of a data set of images. Raises UsageError naming a row whose label is wrong."""
    label = columns.get("label")
    tally = Tally(class_names(sets, label))
    piles: dict[str | None, HubImages] = {}
    for split, data in sets.items():
        table = HubTable(name, split, data, label)
        labels = _labels(table, label, tally) if label is not None and label in table.columns else None
        piles[split] = HubImages(table.name, data, columns["image"], labels)
    return ImageSet(piles, tally.names, tally.classes)


def _labels(table: HubTable, label: str, tally: Tally) -> list[int]:
    items = [Item(f"{table.name}: row {number}", None, cells[0]) for number, cells in table.rows((label,))]
    tally.count(iter(items))
    tally.complete = True
    numbers = {word: number for number, word in enumerate(tally.names)}
    return [item.label if isinstance(item.label, int) else numbers[str(item.label)] for item in items]


def data_set_digest(sets: Sets, columns: Columns) -> str:
    """Return a SHA-256 of the sizes of the splits of a data set of text, and of some rows of each, evenly spread."""
    wanted = [columns[key] for key in ("text", "label") if key in columns]
    digest = hashlib.sha256()
    for split, data in sets.items():
        digest.update(f"{split}\t{len(data)}\t{','.join(wanted)}\n".encode())
        rows = data.select_columns(wanted)
        for index in _some(len(rows)):
            digest.update(repr([rows[index][column] for column in wanted]).encode())
    return digest.hexdigest()


def _some(count: int) -> range:
    return range(0, count, max(1, count // _SAMPLED))


# The card of a data set of the hub, found in a process of its own: `datasets` may import torch, and run for long.
#
# python -m torchstone.plugins.data.hub NAME OPTIONS, the options as JSON, writes an CardAnswer as JSON in the last
# line.


class CardAnswer(msgspec.Struct):
    """A card, or why there is none: the request is wrong, or the machine lacks something."""

    card: DataCard | None = None
    wrong: str = ""
    missing: str = ""


def ask_hub(name: str, options: Mapping[str, Scalar]) -> DataCard:
    """Return the card, from another process. Raises UsageError or MissingError as it says."""
    words = [name, msgspec.json.encode(dict(options)).decode()]
    # -P: a file called datasets.py in the working folder must not be taken for the library. Progress of a download goes
    # to the user's stderr; what the libraries tell of each of six attempts, half a minute long, does not.
    command = [sys.executable, "-P", "-m", __name__, *words]
    quiet = {"HF_HUB_VERBOSITY": "error", "DATASETS_VERBOSITY": "error", **os.environ}
    import subprocess

    done = subprocess.run(command, stdout=subprocess.PIPE, env=quiet, check=False)
    try:
        answer = msgspec.json.decode(done.stdout.rstrip(b"\n").rpartition(b"\n")[2], type=CardAnswer)
    except msgspec.DecodeError as error:
        raise UsageError(f"data hub: {name}: reading it ended with exit code {done.returncode}") from error
    if answer.missing:
        raise MissingError(answer.missing)
    if answer.card is None:
        raise UsageError(answer.wrong)
    return answer.card


def main(words: Sequence[str]) -> None:
    """Find the card of words[0] with the options of words[1], and write the CardAnswer."""
    name, options = words[0], msgspec.json.decode(words[1], type=dict[str, Scalar])
    try:
        answer = CardAnswer(_card(name, options))
    except MissingError as fault:
        answer = CardAnswer(missing=str(fault))
    except UsageError as fault:
        answer = CardAnswer(wrong=str(fault))
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(answer) + b"\n")


def _card(name: str, options: Mapping[str, Scalar]) -> DataCard:
    config = options.get("config")
    sets = open_sets(name, None if config is None else str(config), offline=False)
    said = columns(name, sets, options)
    if "image" in said:
        return images(name, sets, said).card()
    names = class_names(sets, said.get("label"))
    return table_card("text", text_splits(name, sets, said), data_set_digest(sets, said), names)


_ON_ERROR = ("stop", "skip")


class Hub(DataSource):
    """Data source `hub`. The card comes from another process, which fetches what is not in the cache."""

    describes = "Hugging Face data sets: hub:OWNER/NAME or hub:FOLDER; text=COL or image=COL, label=COL, config=NAME"
    options: tuple[str, ...] = ("config", "text", "image", "label", "on_error")

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if not path:
            raise UsageError("data hub: name the data set: hub:stanfordnlp/sst2")
        if options.get("on_error", "stop") not in _ON_ERROR:
            raise UsageError(f"data hub: on_error: {unknown('word', str(options['on_error']), _ON_ERROR)}")
        if find_spec("datasets") is None:
            raise MissingError("data hub: needs datasets: pip install 'torchstone[hub]'")
        card = ask_hub(path, options)
        if card.kind == "text":
            refuse_without_tokenizers("hub")
        return card

    def samples(self, path: str, view: View) -> Samples:
        config = view.options.get("config")
        sets = open_sets(path, None if config is None else str(config), offline=True)
        said = columns(path, sets, view.options)
        if "image" in said:
            from torchstone.plugins.data._images import ImageSamples

            return ImageSamples(images(path, sets, said), view)
        names = class_names(sets, said.get("label"))
        return Sentences(with_classes(text_splits(path, sets, said), view, names), view)


PLUGIN: DataSource = Hub()

if __name__ == "__main__":
    main(sys.argv[1:])
