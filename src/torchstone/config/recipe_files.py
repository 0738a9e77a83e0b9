"""Recipes: run files that come with torchstone, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError, unknown

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest

_FOLDER = Path(__file__).parent / "recipes"
_FILES = (".yaml", ".yml", ".json", ".toml")


def recipe_names() -> list[tuple[str, str]]:
    """Return (name, one line) of each recipe, sorted: only first lines are read, and no YAML parser is loaded."""
    found = []
    for entry in _FOLDER.iterdir():
        if entry.name.endswith(".yaml"):
            with entry.open(encoding="utf-8") as file:
                about = file.readline().partition("about:")[2].strip()
            found.append((entry.name.removesuffix(".yaml"), about))
    return sorted(found)


def is_recipe(word: str) -> bool:
    """Say whether a word is the name of a recipe or the path of a run file."""
    return Path(word).suffix.lower() in _FILES or word in dict(recipe_names())


def recipe_text(name: str) -> str:
    """Return the file of a recipe. Raises UsageError for one that does not come with torchstone."""
    return _recipe(name).read_text(encoding="utf-8")


def load_request(word: str | Path, model: str | None = None) -> RunRequest:
    """Return the request of a recipe by name, or of a file by its path. Its name is the recipe's or file's by default.

    `model`: of a file that names none, or in place of a recipe's one. Raises UsageError for an unknown recipe, a file
    that is not there, and whatever is wrong in it.
    """
    import msgspec

    from torchstone.config.run_file import read_request
    from torchstone.config.source import read_file
    from torchstone.core.schema.run import RequestSource

    path = _file(word)
    is_recipe = path.parent == _FOLDER
    request = read_request(read_file(path), None if is_recipe else model)
    if is_recipe and model is not None:
        request = _with_model(request, model, path.stem)
    request = msgspec.structs.replace(request, source=RequestSource(str(word), _digest(path)))
    return request if request.name is not None else msgspec.structs.replace(request, name=path.stem)


def _with_model(request: RunRequest, model: str, name: str) -> RunRequest:
    """Return a recipe with another model in place of its one. Raises UsageError where it names several."""
    import msgspec

    named = list(dict.fromkeys(one.model for one in request.workloads))
    if len(named) > 1:
        raise UsageError(
            f"--model {model} takes the place of a recipe's one model, and {name} names {', '.join(named)}; "
            "leave out the recipe or --model"
        )
    workloads = tuple(msgspec.structs.replace(one, model=model) for one in request.workloads)
    return msgspec.structs.replace(request, workloads=workloads)


def recipe_digest(word: str | Path) -> str:
    """Return the SHA-256 of a recipe's or file's text as it is now. Raises UsageError if it is not there."""
    path = _file(word)
    try:
        return _digest(path)
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None


def _file(word: str | Path) -> Path:
    path = Path(word)
    if path.suffix == ".py":
        raise UsageError(
            f"{word} is a Python file: --task train --model py:{word}:FUNCTION "
            f"measures the model that a function of it returns, py:{word}:FUNCTION the function itself"
        )
    if path.suffix.lower() in _FILES or "/" in str(word):
        return path
    return _recipe(str(word))


def _recipe(name: str) -> Path:
    names = [known for known, _ in recipe_names()]
    if name not in names:
        raise unknown("recipe", name, names)
    return _FOLDER / f"{name}.yaml"


def _digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
