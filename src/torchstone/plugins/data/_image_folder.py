"""Folders of images: images, class folders, or split folders (train, validation, test) of either."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import SPLITS
from torchstone.plugins.data._image_found import Files, Found
from torchstone.plugins.data._named_files import split_of

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
_NO_CLASS = "__MACOSX"  # what one system's archives leave beside the folders

Tree = Mapping[str, Sequence[str]]  # the images of each class, relative to the top; under "" those without a class


def find(root: Path, options: Mapping[str, Scalar]) -> Found:
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


def find_splits(root: Path, _options: Mapping[str, Scalar]) -> Found | None:
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


def assembled(top: str, trees: Mapping[str | None, Tree]) -> Found:
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
    return Found(splits, tuple(names), len(names) or None)


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
