"""Finds the file and the function of `py:` without running a line of the user's code.

The text of a file is the fast way, and says no only where nothing in it could make a name that it does not show. Else
what the import has counts: the rehearsal in the worker finds out (user_code.py).
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError, unknown

_LARGEST_FILE_BYTES = 10 << 20
# What makes names that the text does not show, where it is a name of the text itself.
_MAKERS = frozenset(
    {"globals", "locals", "vars", "exec", "eval", "setattr", "__dict__", "__getattr__", "modules", "f_globals", "*"}
)


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
    is_path = place.endswith(".py") or os.sep in place or "/" in place or place in (os.curdir, os.pardir)
    file = _file(place) if is_path else module_file(place)
    if file is None:  # a compiled module says nothing of its functions before it is imported
        if not function:
            raise UsageError(f"py:{name}: name the function: py:{place}:function")
        return Target(None, place, function)
    text = read(file)
    if not function:
        raise UsageError(f"py:{name}: name the function: py:{place}:{next(iter(text.functions), 'function')}")
    if not text.binds(function):
        raise UsageError(f"py:{name}: {unknown('function', function, text.functions)} (in {file})")
    if (line := text.trains_at) is not None:
        guard = "if __name__ == '__main__':"
        raise UsageError(f"{file}:{line}: trains as soon as it is imported; put that below `{guard}`, or in a function")
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


def read(file: Path) -> Text:
    """Read a file's text. Raises UsageError where it is no Python."""
    try:
        data = file.read_bytes() if file.stat().st_size <= _LARGEST_FILE_BYTES else None
        tree = ast.parse(data, str(file)) if data is not None else None
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: {error.msg}: {(error.text or '').strip()[:80]}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: cannot be read as Python: {error}") from error
    if tree is None:
        raise UsageError(f"{file}: larger than {_LARGEST_FILE_BYTES} bytes; not a hand-written file")
    return Text(tree)


class Text:
    """What the text of a file says of the names in it."""

    def __init__(self, tree: ast.Module) -> None:
        self._tops = [node for node in _statements(tree.body) if isinstance(node, ast.FunctionDef)]
        self._words: Counter[str] = Counter()
        self._bound: Counter[str] = Counter()
        for node in ast.walk(tree):
            self._bound.update(_binds(node))
            self._words.update(_says(node))
        self._makes_more = bool(_MAKERS & (self._bound.keys() | self._words.keys()))
        self.trains_at = _trains_at(tree)

    @property
    def functions(self) -> list[str]:
        """The public functions at the file's top."""
        return [node.name for node in self._tops if not node.name.startswith("_")]

    def binds(self, name: str) -> bool:
        """Say whether the file may have that name, once it is imported."""
        return name in self._bound or name in self._words or self._makes_more

    def definition(self, name: str) -> ast.FunctionDef | None:
        """Return the function that the name is, where the text shows that it can be nothing else."""
        found = [node for node in self._tops if node.name == name]
        plain = len(found) == self._bound[name] == 1 and not found[0].decorator_list  # which may change what it takes
        return found[0] if plain and name not in self._words and not self._makes_more else None


def _trains_at(tree: ast.Module) -> int | None:
    """Return the line of a training that the import would do: each trial imports the file, and would wait for it."""
    train = {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and _goes_back(n)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or _guards(node):
            continue
        called = getattr(getattr(node, "value", None), "func", None)
        if _goes_back(node) or (isinstance(called, ast.Name) and called.id in train):
            return node.lineno
    return None


def _guards(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _goes_back(node: ast.AST) -> bool:
    """Say whether there is a loop in which `backward` is called."""
    loops = (n for n in ast.walk(node) if isinstance(n, ast.For | ast.While))
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for loop in loops for n in ast.walk(loop))


def _binds(node: ast.AST) -> list[str]:
    """Return the names that a statement or expression binds, at the top of the file or not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.Name):
        return [node.id] if isinstance(node.ctx, ast.Store) else []
    if isinstance(node, ast.MatchAs | ast.MatchStar):
        return [node.name] if node.name is not None else []
    return node.names if isinstance(node, ast.Global) else []


def _says(node: ast.AST) -> list[str]:
    """Return the word that a name, an attribute or a string of the text is: `setattr(module, "load", …)` says load."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in _MAKERS:
        return [node.id]
    if isinstance(node, ast.Attribute) and node.attr in _MAKERS:
        return [node.attr]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            handlers = node.handlers if isinstance(node, ast.Try) else []
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            yield from _statements([*inner, *(s for h in handlers for s in h.body)])
