"""Names of arguments that documents give which people come from: a call with one says what it is called here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def called_elsewhere(**present: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: a call with one of these arguments raises TypeError with its present name."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **named: P.kwargs) -> R:
            if former := [name for name in named if name in present]:
                said = ", ".join(f"{name} is {present[name]}" for name in former)
                raise TypeError(f"{function.__qualname__}(): {said} now")
            return function(*args, **named)

        return called

    return decorated
