"""`py:path.py:function` and `py:package.module:function`: the user's own model, data, loss and optimizer.

What the function may return is written at the top of returned.py. Packages are looked for in the working folder
first, then in its `src`; a file in a package is imported as a part of it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import importlib.util
import os
import shlex
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from torchstone.core.errors import TorchstoneError, Unsupported, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import InputSpec, LoadedModel, ModelCard
from torchstone.plugins.protocols import ModelSource

# Finds the file and the function of `py:` without running a line of the user's code.
#
# The text of a file is the fast way, and says no only where nothing in it could make a name that it does not show. Else
# what the import has counts: the rehearsal in the worker finds out.

_LARGEST_FILE_BYTES = 10 << 20
# What makes names that the text does not show, where it is a name of the text itself.
_MAKERS = frozenset(
    {"globals", "locals", "vars", "exec", "eval", "setattr", "__dict__", "__getattr__", "modules", "f_globals", "*"}
)


class FunctionPlace(msgspec.Struct, frozen=True):
    """Where a function is: in a file (`module` is None), or in a module of a package."""

    file: Path | None
    module: str | None
    function: str


def find_function(name: str) -> FunctionPlace:
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
        return FunctionPlace(None, place, function)
    text = read(file)
    if not function:
        raise UsageError(f"py:{name}: name the function: py:{place}:{next(iter(text.functions), 'function')}")
    if not text.binds(function):
        raise UsageError(f"py:{name}: {unknown('function', function, text.functions)} (in {file})")
    if (line := text.trains_at) is not None:
        guard = "if __name__ == '__main__':"
        raise UsageError(f"{file}:{line}: trains as soon as it is imported; put that below `{guard}`, or in a function")
    return FunctionPlace(file if is_path else None, None if is_path else place, function)


def file_of(target: FunctionPlace) -> Path | None:
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


def read(file: Path) -> SourceText:
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
    return SourceText(tree)


class SourceText:
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


_AGAIN = "each trial is a fresh process that imports it: define it with def at a file's top"
SCRIPT_ARGUMENTS = "script_arguments"  # an option that is no argument of the function: the words of sys.argv
SAVED_ARGUMENTS = "saved_arguments"  # the same: a file of torch.save with (arguments, named arguments)
DEVICE = "device"  # an argument that need not be given: torchstone moves the model, and says "cpu"


def check_arguments(name: str, target: FunctionPlace, given: Mapping[str, Scalar]) -> None:
    """Raise UsageError where a function does not take these arguments, or wants more.

    One that is not written out in its own file (imported, made by another, compiled) is found out when it is called.
    """
    file = file_of(target)
    found = read(file).definition(target.function) if file is not None else None
    if found is None:
        return
    spec = found.args
    by_place = [*spec.posonlyargs, *spec.args]
    required = [a.arg for a in by_place[: len(by_place) - len(spec.defaults)]]
    required += [a.arg for a, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
    _refuse(
        f"py:{name}",
        target.function,
        given,
        takes=[argument.arg for argument in (*by_place, *spec.kwonlyargs)],
        required=required,
        by_place_only=bool(spec.posonlyargs),
        any_name=spec.kwarg is not None,
    )


def check_call(name: str, function: Any, given: Mapping[str, Scalar]) -> None:
    """Raise UsageError as `check_arguments` does, for what the import has: a function, a partial, a callable object."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # something of C: it says itself what it lacks
        return
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    _refuse(
        f"py:{name}",
        name.rpartition(":")[2],
        given,
        takes=[p.name for p in named],
        required=[p.name for p in named if p.default is p.empty],
        by_place_only=any(p.kind is p.POSITIONAL_ONLY for p in named),
        any_name=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def _refuse(
    where: str,
    function: str,
    given: Mapping[str, Scalar],
    *,
    takes: Sequence[str],
    required: Sequence[str],
    by_place_only: bool,
    any_name: bool,
) -> None:
    if by_place_only:
        raise UsageError(f"{where}: {function} takes arguments by place only; take the `/` out")
    for argument in given:
        if argument not in takes and not any_name:
            raise unknown(f"option of {where}", argument, takes)
    missing = [argument for argument in required if argument not in given and argument != DEVICE]
    if missing:
        words = " ".join(f"--option {argument}=…" for argument in missing)
        raise UsageError(f"{where}: {function} needs {', '.join(missing)}: {words}")


_KINDS = {"int": int, "float": float}


def as_annotated(name: str, function: Any, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return texts as the numbers that the function's annotations or defaults say they are. Raises UsageError."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return dict(given)
    found = dict(given)
    for argument, text in given.items():
        said = parameters.get(argument)
        if said is None or not isinstance(text, str):
            continue
        annotation: Any = type(said.default) if said.annotation is said.empty else said.annotation
        kind = _KINDS.get(str(getattr(annotation, "__name__", annotation)))
        if kind is not None:
            try:
                found[argument] = kind(text)
            except ValueError:
                raise UsageError(f"py:{name}: {argument}={text} is not of type {kind.__name__}") from None
    return found


def completed(function: Any, given: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return the arguments to call a function with: those given, and the CPU for an argument called `device`."""
    import torch

    return {**given, **({DEVICE: torch.device("cpu")} if _wants_device(function, (), given) else {})}


def _wants_device(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Say whether a function needs an argument `device` that it is not given."""
    import inspect

    try:
        signature = inspect.signature(function)
        given = signature.bind_partial(*arguments, **named).arguments
    except (TypeError, ValueError):  # something of C, or arguments that it does not take: it says so itself
        return False
    wanted = signature.parameters.get(DEVICE)
    return wanted is not None and DEVICE not in given and wanted.default is inspect.Parameter.empty


def called_as_is(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> LoadedModel:
    """Return a function with its arguments as a model of task `call`; an argument `device` is the trial's."""
    import torch

    if _wants_device(function, arguments, named):
        forward = lambda _module, tensors: function(*arguments, **named, device=tensors[DEVICE])
    else:
        forward = lambda _module, _tensors: function(*arguments, **named)
    return LoadedModel(torch.nn.Module(), forward, None, InputSpec("own"))


def _function(name: str, given: Mapping[str, Scalar], script: str, saved: Scalar) -> LoadedModel:
    """Import the user's function for task `call`."""
    import torch

    with _script(name, find_function(name), script) as function:
        if saved is None:
            check_call(name, function, given)
            return called_as_is(function, (), as_annotated(name, function, given))
    try:
        arguments, named = torch.load(str(saved), weights_only=True)  # no code of a file runs
    except OSError as fault:
        raise UsageError(f"py:{name}: the arguments of its calls are gone: {saved}: {fault.strerror}") from None
    return called_as_is(function, arguments, named)


def spelled(function: Any) -> str:
    """Return `path.py:function` or `package.module:function` for a function at hand: a trial must import it anew.

    Also for a partial, or an object that can be called, which has a name at the top of a file. Raises UsageError with
    the reason if that cannot be done.
    """
    found = _place_of(function) if callable(function) else None
    if found is None:
        raise UsageError(_why_not(function))
    module, name = found
    file = getattr(sys.modules[module], "__file__", None)
    if module == "__main__" and file is None:
        raise UsageError(
            f"{name} was defined in a notebook or an interactive session; {_AGAIN}. Or measure in this process: "
            "torchstone.measure, torchstone.Diagnostics"
        )
    by_file = file is not None and (module == "__main__" or "." not in module)
    word = f"{module}:{name}"
    if not by_file:
        try:
            find_function(word)
        except UsageError:  # pytest names modules by folders that are no packages
            by_file = file is not None
    if by_file:
        word = f"{Path(str(file)).resolve()}:{name}"
    find_function(word)
    return word


def _place_of(function: Any) -> tuple[str, str] | None:
    """Return the module at whose top the function is, and its name there: what it calls itself comes first."""
    inner = getattr(function, "func", None)  # of a partial
    own = getattr(function, "__qualname__", "")
    for place in (getattr(one, "__module__", None) for one in (function, inner, type(function))):
        module = sys.modules.get(str(place))
        names = vars(module) if module is not None else {}
        if names.get(own) is function:
            return str(place), own
        for name, value in names.items():
            if value is function:
                return str(place), name
    there = [name for name, value in vars(sys.modules["__main__"]).items() if value is function]
    return ("__main__", there[0]) if there else None


def _why_not(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    if name is None or not callable(function):
        return f"{function!r} is no function of a file; give a function, defined with def at a file's top"
    if "<lambda>" in name:
        return f"a lambda has no name to import; {_AGAIN}"
    inside = name.replace(".<locals>", "").rpartition(".")[0]
    if not inside:
        return f"{name} is not in {function.__module__}, where it says it is; {_AGAIN}"
    return f"{name.rpartition('.')[2]} is defined inside {inside}, where nobody can import it; {_AGAIN}"


# Known to open no device and to start no thread that would not survive a fork. The user's own modules are never
# imported here: what they do at import is theirs to decide, in the trial.
KNOWN = frozenset({"transformers", "tokenizers", "safetensors", "timm", "torchvision", "torchaudio", "numpy", "PIL"})


def import_libraries(source: Path) -> None:
    """Import what `source` names of KNOWN libraries; one that cannot be imported is the trial's to report."""
    for module, names in _named(source):
        try:
            loaded = import_module(module)
            for name in names:
                getattr(loaded, name, None)  # transformers imports a model's module when its class is asked for
        except (ImportError, RuntimeError, OSError):
            continue


def _named(source: Path) -> Iterator[tuple[str, list[str]]]:
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module.partition(".")[0] in KNOWN:
                yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((a.name, []) for a in node.names if a.name.partition(".")[0] in KNOWN)


_OWN_FOLDER = str(Path(__file__).resolve().parents[3])
_INTERPRETER = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_MISSING = object()
_running = 0  # how many of the user's functions are being imported or called just now


def call(name: str, target: FunctionPlace, arguments: Mapping[str, Scalar], script: str = "") -> Any:
    """Import the user's module, call the function with these arguments, and return what it returns.

    Meanwhile sys.argv is that of a script started with the words of `script`: many a module parses it. Raises
    UsageError with the user's own lines if it raises; running out of memory is the trial's outcome and passes.
    """
    with _script(name, target, script) as function:
        check_call(name, function, arguments)
        given = as_annotated(name, function, arguments)
        return _guarded(name, lambda: function(**completed(function, given)))


@contextmanager
def _script(name: str, target: FunctionPlace, script: str) -> Iterator[Any]:
    """Import the user's module and give the function, while sys.argv is that of a script with these words."""
    before = sys.argv
    sys.argv = [str(file_of(target) or target.module), *shlex.split(script)]
    try:
        yield _load_function(name, target)
    finally:
        sys.argv = before


def _load_function(name: str, target: FunctionPlace) -> Any:
    module = _guarded(name, lambda: _imported(target))
    function = _guarded(name, lambda: getattr(module, target.function, _MISSING))  # a module may have a __getattr__
    if function is _MISSING:
        where = f"in {getattr(module, '__file__', None) or module.__name__}"
        raise UsageError(f"py:{name}: {unknown('function', target.function, _functions(module))} ({where})")
    if not callable(function):
        raise UsageError(f"py:{name}: {target.function} is {type(function).__name__}, not a function")
    return function


def _functions(module: ModuleType) -> list[str]:
    """Return the public names of a module that can be called and are no classes: its own, or all if none is its own."""
    found = {name: getattr(module, name, None) for name in dir(module) if not name.startswith("_")}
    found = {name: value for name, value in found.items() if callable(value) and not isinstance(value, type)}
    made = {name: getattr(value, "func", value) for name, value in found.items()}  # of a partial what it calls
    own = [name for name, value in made.items() if getattr(value, "__module__", None) == module.__name__]
    return own or list(found)


def _imported(target: FunctionPlace) -> ModuleType:
    if target.file is None:
        for place in reversed(own_places()):
            _on_path(place)
        return importlib.import_module(str(target.module))
    file = target.file.resolve()
    root, name = package_of(file)
    if root != file.parent and not _is_shadowed(name, root):
        _on_path(str(root))
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))  # last: a module of a package may be called `types`
        return importlib.import_module(name)
    if (beside := file.parent / "src").is_dir():
        _on_path(str(beside))
    _on_path(str(file.parent))
    return _alone(file)


def _is_shadowed(name: str, root: Path) -> bool:
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
        raise UsageError(f"py:{name} raised {_summary(error)}{_hint(error)}{own_frames(error)}") from error
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


def own_frames(error: BaseException) -> str:
    """Return the user's frames, `file:line in function: code`, each on a line of its own; empty if none is theirs."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        return f"\n  {error.filename}:{error.lineno}: {(error.text or '').strip()}"
    own = [f for f in frames if not f.filename.startswith((_OWN_FOLDER, "<")) and "site-packages" not in f.filename]
    own = [f for f in own if not f.filename.startswith(_INTERPRETER)]
    return "".join(f"\n  {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in own)


_ARGUMENT = "argument_"  # what the user's function is called with is part of the Workload, under this and its name
_FAMILY = "family"


class Own(ModelSource):
    """Model source `py`. The function is found without running it; it runs in each trial.

    Options are its arguments; `family` is everybody's: what the model is listed as. `script_arguments` are the words
    that its module finds in sys.argv, as typed: "--lr 0.1". An argument called `device` that
    nothing is said of gets the CPU: torchstone itself moves the model.
    """

    describes = "your own model, or any function: py:path.py:function or py:package.module:function"
    saved_arguments = SAVED_ARGUMENTS

    def names(self) -> Iterable[tuple[str, str]]:
        return ()

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        target = find_function(name)
        apart = (_FAMILY, SCRIPT_ARGUMENTS, SAVED_ARGUMENTS)
        arguments = {key: value for key, value in options.items() if key not in apart}
        if SAVED_ARGUMENTS not in options:
            check_arguments(name, target, arguments)
        file = file_of(target)
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else None
        fixed: dict[str, Scalar] = {"weights": "own", "source": "py"}
        fixed.update((f"{_ARGUMENT}{key}", value) for key, value in arguments.items())
        if SCRIPT_ARGUMENTS in options:
            fixed[SCRIPT_ARGUMENTS] = _split(options[SCRIPT_ARGUMENTS])
        if SAVED_ARGUMENTS in options:
            fixed[SAVED_ARGUMENTS] = options[SAVED_ARGUMENTS]
        family = str(options.get(_FAMILY, "custom"))
        tasks = ("infer", "train", "call")
        own = InputSpec("own")
        return ModelCard("sample", own, family=family, fixed=fixed, tasks=tasks, own=True, code_sha256=digest)

    def preload(self, name: str) -> None:
        """Import the well-known libraries that the user's file names, and nothing of the user's own."""
        source = file_of(find_function(name))
        if source is not None:
            import_libraries(source)

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:

        given = {k.removeprefix(_ARGUMENT): v for k, v in workload.fixed.items() if k.startswith(_ARGUMENT)}
        script = str(workload.fixed.get(SCRIPT_ARGUMENTS, ""))
        if workload.task == Task.CALL:
            return _function(name, given, script, workload.fixed.get(SAVED_ARGUMENTS))
        model = self.adopt(call(name, find_function(name), given, script), f"py:{name}")
        if model.tokenizer is None and workload.data != "example":
            raise UsageError(
                f"py:{name}: returns no tokenizer to read {workload.data} with: leave out --data, or return "
                "(module, tokenizer, optimizer, loss)"
            )
        if model.tokenizer is not None and workload.data == "example":
            model.facts.example_tokens = 128
        return model

    def adopt(self, returned: Any, where: str) -> LoadedModel:
        """Make a model of what a user's function returned, or of what `torchstone.measure` was given."""
        from torchstone.plugins.models.py.own_data import adopted

        return adopted(where, returned)

    @staticmethod
    def callable(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> LoadedModel:
        """Return a function as what a step of task `call` is: one call with these arguments."""
        return called_as_is(function, arguments, named)

    @staticmethod
    def loading() -> bool:
        """Say whether this process is importing or calling a user's function just now."""
        return loading()

    @staticmethod
    def spelled(function: object) -> str:
        """Return `path.py:function` or `package.module:function` of a function. Raises UsageError if it has none."""
        return spelled(function)


def _split(words: Scalar) -> str:
    """Return the words of a script. Raises UsageError for a quotation mark that is not closed."""
    try:
        shlex.split(str(words))
    except ValueError as error:
        raise UsageError(f"--option {SCRIPT_ARGUMENTS}={words}: {str(error).lower()}") from error
    return str(words)


PLUGIN: ModelSource = Own()
