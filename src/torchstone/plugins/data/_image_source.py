"""A data source of images: the layouts it knows, tried one after the other, and what is there where none fits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data import _image_parquet
from torchstone.plugins.data._image_found import Found
from torchstone.plugins.data._named_files import is_folder
from torchstone.plugins.protocols import DataSource, Samples

_ARCHIVES = (".gz", ".tgz", ".tar", ".zip", ".xz", ".bz2", ".7z")
_ON_ERROR = ("stop", "skip")
_OF_PARQUET = ("column", "label")
_MOST_SHOWN = 8

Layout = Callable[[Path, Mapping[str, Scalar]], Found | None]


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
        return self._found(path, options).card()

    def samples(self, path: str, view: View) -> Samples:
        from torchstone.plugins.data._images import Pictures

        return Pictures(self._found(path, view.options), view)

    def _found(self, path: str, options: Mapping[str, Scalar]) -> Found:
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
                    if layout is not _image_parquet.find:
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
        elif root.suffix.lower() == _image_parquet.ENDING:
            yield root, _image_parquet.find
        elif root.suffix.lower() in _ARCHIVES:
            raise UsageError(f"{root}: an archive; unpack it and give the unpacked folder: {self._name}:PATH")
        else:
            raise UsageError(f"{root}: a file, not a folder; give the folder: {self._name}:PATH")


def _refuse_untaught(root: Path, found: Found) -> None:
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
