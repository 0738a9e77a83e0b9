"""Finds the file and the function of `py:` without running a line of the user's code."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import msgspec

from torchstone.errors import UsageError, unknown

_LARGEST_FILE_BYTES = 10 << 20


class Target(msgspec.Struct, frozen=True):
    """Where a function is: in a file (`module` is None), or in a module of a package."""

    file: Path | None
    module: str | None
    function: str


def find(name: str) -> Target:
    """Return what `path.py:function` or `package.module:function` means.

    Raises UsageError naming what was looked for and what there is instead: the nearest file, module or function.
    """
    place, colon, function = name.rpartition(":")
    if not colon:
        place, function = name, ""
    is_path = place.endswith(".py") or os.sep in place or "/" in place
    file = _file(place) if is_path else module_file(place)
    if file is None:  # a compiled module says nothing of its functions before it is imported
        if not function:
            raise UsageError(f"py:{name}: name the function: py:{place}:function")
        return Target(None, place, function)
    bound, callables, starred = _names_in(file)
    if not function:
        raise UsageError(f"py:{name}: name the function: py:{place}:{callables[0] if callables else 'function'}")
    if function not in bound and not starred:
        raise UsageError(f"py:{name}: {unknown('function', function, callables)} (in {file})")
    return Target(file if is_path else None, None if is_path else place, function)


def file_of(target: Target) -> Path | None:
    """Return the file that the function is in; None where its module is compiled."""
    return target.file if target.file is not None else module_file(target.module or "")


def _file(place: str) -> Path:
    file = Path(place).expanduser()
    if file.is_file():
        return file
    if file.is_dir():
        raise UsageError(f"py:{place}: a folder; name the file in it: py:{place.rstrip('/')}/model.py:load")
    beside = [p.name for p in file.parent.glob("*.py")] if file.parent.is_dir() else []
    raise UsageError(f"py:{place}: {unknown('file', file.name, beside)} (in {file.parent.absolute()})")


def own_places() -> list[str]:
    """Return where a user's packages lie: the working folder, and the `src` that many projects keep them in."""
    here = Path.cwd()
    return [str(here), *([str(here / "src")] if (here / "src").is_dir() else [])]


def package_of(file: Path) -> tuple[Path, str]:
    """Return the folder that a file is imported from, and its name there: `package.module` if it is in a package."""
    if not file.stem.isidentifier():
        return file.parent, file.stem
    names = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def module_file(module: str) -> Path | None:
    """Walk down the packages by their folders: importlib.util.find_spec would import the outer ones."""
    places: Sequence[str] | None = [*own_places(), *sys.path]
    origin: str | None = None
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        full = ".".join(parts[:n])
        spec = PathFinder.find_spec(full, places) if places is not None and all(parts) else None
        if spec is None:
            near = [p.stem for place in places or () for p in Path(place or ".").glob("*.py")] if n > 1 else _here()
            raise UsageError(f"py:{module}: {unknown('module', full, near)}")
        places, origin = spec.submodule_search_locations, spec.origin
    if origin is None:
        raise UsageError(f"py:{module}: a folder without __init__.py; name a module in it: py:{module}.module:function")
    return Path(origin) if origin.endswith(".py") else None


def _here() -> list[str]:
    places = [Path(place) for place in own_places()]
    found = [(place.glob("*.py"), place.glob("*/__init__.py")) for place in places]
    return [name for files, inits in found for name in (*(p.stem for p in files), *(p.parent.name for p in inits))]


def _names_in(file: Path) -> tuple[set[str], list[str], bool]:
    """Return the names bound at a file's top, the public functions among them, and whether `import *` adds more."""
    try:
        data = file.read_bytes() if file.stat().st_size <= _LARGEST_FILE_BYTES else None
        tree = ast.parse(data, str(file)) if data is not None else None
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: {error.msg}: {(error.text or '').strip()[:80]}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: cannot be read as Python: {error}") from error
    if tree is None:
        raise UsageError(f"{file}: larger than {_LARGEST_FILE_BYTES} bytes; this is not a file that somebody wrote")
    bound: set[str] = set()
    callables: list[str] = []
    starred = False
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
            callables += [node.name] if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") else []
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            starred = starred or any(alias.name == "*" for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound |= {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return bound, callables, starred


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            handlers = node.handlers if isinstance(node, ast.Try) else []
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            yield from _statements([*inner, *(s for h in handlers for s in h.body)])
