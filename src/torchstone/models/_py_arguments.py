"""The arguments of a `py:` function, read from its source; and the name by which a trial finds a function at hand."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.errors import UsageError, unknown
from torchstone.models import _py_source
from torchstone.models._py_source import Target
from torchstone.terms.axis import Scalar

DEVICE = "device"  # an argument that need not be given: torchstone moves the model, and says "cpu"


def check_arguments(name: str, target: Target, given: Mapping[str, Scalar]) -> None:
    """Raise UsageError where a function does not take these arguments, or wants more.

    One that is not written out in its own file (imported, made by another, compiled) is found out when it is called.
    """
    found = _definition(target)
    if found is None:
        return
    spec = found.args
    by_place = [*spec.posonlyargs, *spec.args]
    takes = [argument.arg for argument in (*by_place, *spec.kwonlyargs)]
    required = [a.arg for a in by_place[: len(by_place) - len(spec.defaults)]]
    required += [a.arg for a, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is None]
    if spec.posonlyargs:
        raise UsageError(f"py:{name}: {target.function} takes arguments by place only; take the `/` out")
    for argument in given:
        if argument not in takes and spec.kwarg is None:
            raise unknown(f"option of py:{name}", argument, takes)
    missing = [argument for argument in required if argument not in given and argument != DEVICE]
    if missing:
        words = " ".join(f"--option {argument}=…" for argument in missing)
        raise UsageError(f"py:{name}: {target.function} needs {', '.join(missing)}: {words}")


def completed(function: Any, given: Mapping[str, Scalar]) -> dict[str, Any]:
    """Return the arguments to call a function with: those given, and the CPU for an argument called `device`."""
    import inspect

    import torch

    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # something of C: it says itself what it lacks
        return dict(given)
    wanted = DEVICE in parameters and DEVICE not in given and parameters[DEVICE].default is inspect.Parameter.empty
    return {**given, **({DEVICE: torch.device("cpu")} if wanted else {})}


def spelled(function: Any) -> str:
    """Return `path.py:function` or `package.module:function` for a function at hand: a trial must import it anew.

    Raises UsageError with the reason if that cannot be done.
    """
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None or module is None or not callable(function):
        raise UsageError(f"{function!r} is no function of a file; give a function, defined with def at a file's top")
    again = "each trial is a fresh process that imports it: define it with def at a file's top"
    if "<lambda>" in name:
        raise UsageError(f"the loader is a lambda, which has no name to import; {again}")
    if "." in name:
        inside = name.replace(".<locals>", "").rpartition(".")[0]
        raise UsageError(f"{name.rpartition('.')[2]} is defined inside {inside}, where nobody can import it; {again}")
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" and file is None:
        raise UsageError(
            f"{name} was typed into a notebook or an interactive session; {again}. Or measure in this process: "
            "torchstone.measure, torchstone.Diagnostics"
        )
    by_file = file is not None and (module == "__main__" or "." not in module)
    word = f"{Path(str(file)).resolve()}:{name}" if by_file else f"{module}:{name}"
    _py_source.find(word)
    return word


def _definition(target: Target) -> ast.FunctionDef | None:
    file = _py_source.file_of(target)
    if file is None:
        return None
    tops: Sequence[ast.stmt] = ast.parse(file.read_bytes()).body  # `find` has read it before
    found = [node for node in tops if isinstance(node, ast.FunctionDef) and node.name == target.function]
    plain = [node for node in found if not node.decorator_list]  # a decorator may change what it takes
    return plain[-1] if found and len(plain) == len(found) else None
