"""One test of one fact that many things owe: it names every thing that breaks it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def over(name: str, things: Iterable[Any], label: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    """Make one test of a test of one thing, its argument `name`; `things` may be pairs of a label and a thing.

    It fails with the labels of all things that fail, and is skipped where every one is.
    """
    labelled = [one if isinstance(one, tuple) and len(one) == 2 else (label(one), one) for one in things]
    assert labelled, "a test over nothing cannot fail"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**others: Any) -> None:
            faults: list[tuple[str, BaseException]] = []
            skipped: list[str] = []
            for text, thing in labelled:
                try:
                    test(**others, **{name: thing})
                except pytest.skip.Exception as why:
                    skipped.append(str(why))
                except (Exception, pytest.fail.Exception) as fault:
                    faults.append((text, fault))
            if faults:
                told = "\n".join(f"{text}: {type(fault).__name__}: {fault}" for text, fault in faults)
                raise AssertionError(f"{len(faults)} of {len(labelled)}:\n{told}") from faults[0][1]
            if len(skipped) == len(labelled):
                pytest.skip(skipped[0])

        run.__dict__.update(test.__dict__)  # marks
        signature = inspect.signature(test)
        kept = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate
