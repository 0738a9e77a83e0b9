"""The arguments of a `py:` function, read from its source; and the name by which a trial finds a function at hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.models.py.function_source import Target, file_of, find, read

_AGAIN = "each trial is a fresh process that imports it: define it with def at a file's top"
SCRIPT_ARGUMENTS = "script_arguments"  # an option that is no argument of the function: the words of sys.argv
DEVICE = "device"  # an argument that need not be given: torchstone moves the model, and says "cpu"


def check_arguments(name: str, target: Target, given: Mapping[str, Scalar]) -> None:
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
        f"py:{name}", target.function, given, takes=[argument.arg for argument in (*by_place, *spec.kwonlyargs)],
        required=required, by_place_only=bool(spec.posonlyargs), any_name=spec.kwarg is not None,
    )  # fmt: skip


def check_call(name: str, function: Any, given: Mapping[str, Scalar]) -> None:
    """Raise UsageError as `check_arguments` does, for what the import has: a function, a partial, a callable object."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # something of C: it says itself what it lacks
        return
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    _refuse(
        f"py:{name}", name.rpartition(":")[2], given, takes=[p.name for p in named],
        required=[p.name for p in named if p.default is p.empty],
        by_place_only=any(p.kind is p.POSITIONAL_ONLY for p in named),
        any_name=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )  # fmt: skip


def _refuse(
    where: str, function: str, given: Mapping[str, Scalar], *, takes: Sequence[str], required: Sequence[str],
    by_place_only: bool, any_name: bool,
) -> None:  # fmt: skip
    if by_place_only:
        raise UsageError(f"{where}: {function} takes arguments by place only; take the `/` out")
    for argument in given:
        if argument not in takes and not any_name:
            raise unknown(f"option of {where}", argument, takes)
    missing = [argument for argument in required if argument not in given and argument != DEVICE]
    if missing:
        words = " ".join(f"--option {argument}=…" for argument in missing)
        raise UsageError(f"{where}: {function} needs {', '.join(missing)}: {words}")


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
    word = f"{Path(str(file)).resolve()}:{name}" if by_file else f"{module}:{name}"
    find(word)
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
        return f"the loader is a lambda, which has no name to import; {_AGAIN}"
    inside = name.replace(".<locals>", "").rpartition(".")[0]
    if not inside:
        return f"{name} is not in {function.__module__}, where it says it is; {_AGAIN}"
    return f"{name.rpartition('.')[2]} is defined inside {inside}, where nobody can import it; {_AGAIN}"
