"""What to type to take the settings that helped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from torchstone.diagnosing.diagnosis import WhatIf, word
from torchstone.terms.axis import AXES, Scalar
from torchstone.terms.case import Case

_ARGUMENT = "argument_"


def command_for(case: Case, what_if: WhatIf, source: str | None) -> str:
    """Return the `torchstone run` of a Case with these settings. `source`: the recipe or file it came from."""
    words = ["torchstone", "run", *([source] if source is not None else _workload(case))]
    present: Mapping[str, Scalar] = {} if source is not None else _told(case)
    for axis, value in {**present, **what_if.settings}.items():
        words += ["--axis", f"{axis}={word(value)}"]
    if what_if.heap is not None:
        words += ["--heap", what_if.heap]
    return shlex.join(words)


def _workload(case: Case) -> list[str]:
    work = case.workload
    words = ["--task", str(work.task), "--model", work.model]
    if work.data not in ("example", "synthetic"):
        words += ["--data", work.data]
    for name, value in work.data_options.items():
        words += ["--data-option", f"{name}={word(value)}"]
    options = {name.removeprefix(_ARGUMENT): v for name, v in work.fixed.items() if name.startswith(_ARGUMENT)}
    if work.fixed.get("weights") == "pretrained":
        options["weights"] = "pretrained"
    for name, value in options.items():
        words += ["--option", f"{name}={word(value)}"]
    return words


def _told(case: Case) -> dict[str, Scalar]:
    """Return the settings that do not go without saying."""
    return {axis: value for axis, value in case.configuration.items() if axis in AXES and value != AXES[axis].default}
