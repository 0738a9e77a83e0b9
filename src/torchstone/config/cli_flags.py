"""A workload as it would be typed: the flags that ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import Case, Workload
from torchstone.plugins.choices import has_end

_OF_A_FUNCTION = "argument_"  # of a user's own function, as plugins/models/py records them
_OWN_FLAG = ("split", "limit")  # of the data's options


def workload_flags(workload: Workload) -> list[str]:
    """Return the words after `torchstone run` that ask for this workload: task, model, data, and their options."""
    words = ["--task", str(workload.task), "--model", workload.model]
    words += [part for option in _options(workload.fixed) for part in ("--option", option)]
    if workload.data not in ("synthetic", "example"):
        words += ["--data", workload.data]
    for name, value in workload.data_options.items():
        own = name in _OWN_FLAG
        words += [f"--{name}", scalar_word(value)] if own else ["--data-option", f"{name}={scalar_word(value)}"]
    return words


def of_data(case: Case) -> tuple[str, ...]:
    """Return the axes whose value the data decide where nobody names it (plan.settled): they have no one default."""
    settings, data = case.configuration, case.workload.data
    if data != "example":
        return ("feed",) if has_end(data) else ()
    if settings.get("feed") == "resident":
        return ("batch_size", "feed")
    with_workers = ("prefetch_factor",) if settings.get("num_workers") else ()
    pinned = ("pin_memory",) if case.placement.device != "cpu" else ()
    return ("batch_size", "num_workers", *with_workers, *pinned)


def _options(fixed: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield the options of a model that its identity tells."""
    if fixed.get("weights") == "pretrained":
        yield "weights=pretrained"
    if "classes" in fixed:
        yield f"classes={fixed['classes']}"
    for name, value in fixed.items():
        if name.startswith(_OF_A_FUNCTION):
            yield f"{name.removeprefix(_OF_A_FUNCTION)}={scalar_word(value)}"
