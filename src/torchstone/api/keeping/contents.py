"""Finds what modules and optimizers hold, and keeps their containers: names, lists, hooks, states, classes."""

from __future__ import annotations

import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Undo = Callable[[], object]

_ATOMS = (str, bytes, bool, int, float, complex, type(None), type)


def reached(roots: Iterable[Any], known: Iterable[Any] = ()) -> Iterator[Any]:
    """Yield each module, optimizer, container, tensor and source of random numbers that is reached and not `known`.

    The way goes through modules, optimizers and the containers of Python. Other objects, such as a trainer or a logger
    that a module refers to, are not entered: they hold threads, files and processes that nobody could put back.
    """
    import torch

    waiting = list(roots)
    seen = {id(one): one for one in known}  # the objects too, so that they live: an id is one's own only so long
    while waiting:
        one = waiting.pop()
        if isinstance(one, _ATOMS) or id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, torch.nn.Module):
            # A scripted module has its tensors and its parts outside of its attributes.
            waiting += (vars(one), *one.parameters(recurse=False), *one.buffers(recurse=False), *one.children())
        elif is_optimizer(one):
            waiting.append(vars(one))
        elif isinstance(one, torch.Tensor):
            waiting += (vars(one), one._backward_hooks, one._post_accumulate_grad_hooks)
        elif isinstance(one, dict):
            waiting += (*one.keys(), *one.values())
        elif isinstance(one, list | tuple | set | frozenset | deque):
            waiting += one
        elif random_undo(one) is None:
            continue
        yield one


def is_optimizer(one: Any) -> bool:
    """Say whether it is an optimizer of torch, or one of the user's own that only looks like it."""
    import torch

    alike = hasattr(one, "param_groups") and hasattr(one, "step") and hasattr(one, "__dict__")
    return isinstance(one, torch.optim.Optimizer) or (alike and not isinstance(one, type))


def undo_of(one: Any) -> Undo | None:
    """Return what puts a container, a module's class and mode, or a source of random numbers back; None: nothing can.

    A container that is as it was is left alone. Subclasses are filled by the methods of their base: their own may do
    more than store.
    """
    import torch

    if isinstance(one, torch.nn.Module):
        kind, training = type(one), one.training
        return lambda: _be(one, kind, training)
    if isinstance(one, dict):
        items = list(one.items())
        return lambda: None if _same_items(one, items) else _refill(one, items)
    if isinstance(one, list | deque):
        parts = list(one)
        return lambda: None if _same(one, parts) else _fill(one, one.extend, parts)
    if isinstance(one, set):
        members = set(one)
        return lambda: None if one == members else _fill(one, one.update, members)
    return random_undo(one)


def random_undo(one: Any) -> Undo | None:
    """Return what puts a source of random numbers back (of torch, Python or numpy); None for anything else."""
    import torch

    if isinstance(one, torch.Generator):
        state = one.get_state()
        return lambda: one.set_state(state)
    if isinstance(one, random.Random):
        drawn = one.getstate()
        return lambda: one.setstate(drawn)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(one, numpy.random.Generator):
        bits = one.bit_generator.state
        return lambda: setattr(one.bit_generator, "state", bits)
    if numpy is not None and isinstance(one, numpy.random.RandomState):
        legacy = one.get_state()
        return lambda: one.set_state(legacy)
    return None


def _be(module: Any, kind: type, training: bool) -> None:
    if type(module) is not kind:  # one of torch's lazy modules has become an ordinary one
        module.__class__ = kind
    if module.training != training:
        module.training = training


def _fill(one: Any, add: Callable[[Any], None], parts: Iterable[Any]) -> None:
    one.clear()
    add(parts)


def _refill(one: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
    base: Any = OrderedDict if isinstance(one, OrderedDict) else dict
    base.clear(one)
    for key, value in items:
        base.__setitem__(one, key, value)


def _same_items(one: dict[Any, Any], items: list[tuple[Any, Any]]) -> bool:
    return len(one) == len(items) and all(
        k is key and v is value for (k, v), (key, value) in zip(one.items(), items, strict=True)
    )


def _same(one: Iterable[Any], parts: list[Any]) -> bool:
    now = list(one)
    return len(now) == len(parts) and all(a is b for a, b in zip(now, parts, strict=True))
