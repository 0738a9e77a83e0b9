"""Recipes: run files that come with torchstone, found by name."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import msgspec

from torchstone.config.reading import read_file
from torchstone.config.request import RunRequest, read_request
from torchstone.errors import unknown

_FILES = (".yaml", ".yml", ".json", ".toml")


def recipe_names() -> list[tuple[str, str]]:
    """Return (name, one line) of each recipe, sorted: only first lines are read, and no YAML parser is loaded."""
    found = []
    for entry in files("torchstone").joinpath("recipes").iterdir():
        if entry.name.endswith(".yaml"):
            with entry.open(encoding="utf-8") as file:
                about = file.readline().partition("about:")[2].strip()
            found.append((entry.name.removesuffix(".yaml"), about))
    return sorted(found)


def load_request(word: str | Path) -> RunRequest:
    """Return the request of a recipe by name, or of a file by its path. Its name is the recipe's or file's by default.

    Raises UsageError for an unknown recipe, a file that is not there, and whatever is wrong in it.
    """
    path = Path(word)
    if path.suffix.lower() in _FILES or "/" in str(word):
        return _named(read_request(read_file(path)), path.stem)
    names = [name for name, _ in recipe_names()]
    if str(word) not in names:
        raise unknown("recipe", str(word), names)
    with as_file(files("torchstone").joinpath("recipes", f"{word}.yaml")) as recipe:
        return _named(read_request(read_file(recipe)), str(word))


def _named(request: RunRequest, name: str) -> RunRequest:
    return request if request.name is not None else msgspec.structs.replace(request, name=name)
