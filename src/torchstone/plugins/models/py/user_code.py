"""Runs the user's function, and reports its errors with the user's own lines."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import os
import shlex
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torchstone.core.errors import TorchstoneError, Unsupported, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.models.py.arguments import SCRIPT_ARGUMENTS, check_call, completed
from torchstone.plugins.models.py.function_source import Target, file_of, own_places, package_of

_OWN_FOLDER = str(Path(__file__).resolve().parents[3])
_INTERPRETER = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_MISSING = object()
_running = 0  # how many of the user's functions are being imported or called just now


def call(name: str, target: Target, arguments: Mapping[str, Scalar], script: str = "") -> Any:
    """Import the user's module, call the function with these arguments, and return what it returns.

    Meanwhile sys.argv is that of a script started with the words of `script`: many a module parses it. Raises
    UsageError with the user's own lines if it raises; running out of memory is the trial's outcome and passes.
    """
    before = sys.argv
    sys.argv = [str(file_of(target) or target.module), *shlex.split(script)]
    try:
        return _called(name, target, arguments)
    finally:
        sys.argv = before


def _called(name: str, target: Target, arguments: Mapping[str, Scalar]) -> Any:
    module = _guarded(name, lambda: _imported(target))
    function = _guarded(name, lambda: getattr(module, target.function, _MISSING))  # a module may have a __getattr__
    if function is _MISSING:
        where = f"in {getattr(module, '__file__', None) or module.__name__}"
        raise UsageError(f"py:{name}: {unknown('function', target.function, _functions(module))} ({where})")
    if not callable(function):
        raise UsageError(f"py:{name}: {target.function} is {type(function).__name__}, not a function")
    check_call(name, function, arguments)
    return _guarded(name, lambda: function(**completed(function, arguments)))


def _functions(module: ModuleType) -> list[str]:
    """Return the public names of a module that can be called and are no classes: its own, or all if none is its own."""
    found = {name: getattr(module, name, None) for name in dir(module) if not name.startswith("_")}
    found = {name: value for name, value in found.items() if callable(value) and not isinstance(value, type)}
    made = {name: getattr(value, "func", value) for name, value in found.items()}  # of a partial what it calls
    own = [name for name, value in made.items() if getattr(value, "__module__", None) == module.__name__]
    return own or list(found)


def _imported(target: Target) -> ModuleType:
    if target.file is None:
        for place in reversed(own_places()):
            _on_path(place)
        return importlib.import_module(str(target.module))
    file = target.file.resolve()
    root, name = package_of(file)
    if root != file.parent and not _taken(name, root):
        _on_path(str(root))
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))  # last: a module of a package may be called `types`
        return importlib.import_module(name)
    if (beside := file.parent / "src").is_dir():
        _on_path(str(beside))
    _on_path(str(file.parent))
    return _alone(file)


def _taken(name: str, root: Path) -> bool:
    """Say whether the package of that name is another one here, which torchstone has imported already."""
    package = name.partition(".")[0]
    there = sys.modules.get(package)
    places = [str(Path(place).resolve()) for place in getattr(there, "__path__", ())]
    return there is not None and str(root / package) not in places


def _alone(file: Path) -> ModuleType:
    # A name of its own: a user's file called `torch.py` or `data.py` must not stand in for another module.
    name = f"_torchstone_model_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _on_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def loading() -> bool:
    """Say whether a function of the user's is being imported or called: a benchmark begun there would never end."""
    return _running > 0


def _guarded(name: str, work: Callable[[], Any]) -> Any:
    global _running
    _running += 1
    try:
        return work()
    except (TorchstoneError, Unsupported):
        raise
    except (Exception, SystemExit) as error:
        if _out_of_memory(error):
            raise
        raise UsageError(f"py:{name} raised {_summary(error)}{_hint(error)}{own_lines(error)}") from error
    finally:
        _running -= 1


def _out_of_memory(error: BaseException) -> bool:
    names = (type(error).__name__, str(error))
    return isinstance(error, MemoryError) or names[0] == "OutOfMemoryError" or "DefaultCPUAllocator" in names[1]


def _hint(error: BaseException) -> str:
    parses = any(frame.filename == argparse.__file__ for frame in traceback.extract_tb(error.__traceback__))
    words = f"--option {SCRIPT_ARGUMENTS}='--lr 0.1'"
    return f": it parses the arguments of a script, which are given by {words}" if parses else ""


def _summary(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def own_lines(error: BaseException) -> str:
    """Return the user's frames, `file:line in function: code`, each on a line of its own; empty if none is theirs."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        return f"\n  {error.filename}:{error.lineno}: {(error.text or '').strip()}"
    own = [f for f in frames if not f.filename.startswith((_OWN_FOLDER, "<")) and "site-packages" not in f.filename]
    own = [f for f in own if not f.filename.startswith(_INTERPRETER)]
    return "".join(f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in own)
