"""What to type to take the settings that helped."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from torchstone.config.cli_flags import of_data, workload_flags
from torchstone.config.recipe_files import load_request
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.axis import AXES, LOADER_AXES, Scalar, scalar_word
from torchstone.core.schema.case import Case
from torchstone.core.schema.diagnosis import WhatIf
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.plan import sketch
from torchstone.plugins.model_choice import SHAPES

_OF_A_PROCEDURE = ("seed", "isolation", "heap", "settings")  # what decides what is computed, and how fast


def command_for(case: Case, what_if: WhatIf, source: str | None, procedure: Procedure) -> str:
    """Return the `torchstone run` of this very Case with these settings. `source`: the recipe or file it came from.

    A recipe may ask for several cases and be overruled by flags: what the Case has is said beside it.
    """
    named = _as_recipe(source, case) if source is not None else None
    words, axes = named or (workload_flags(case.workload), ())
    words = ["torchstone", "run", *words, "--device", str(case.placement)]
    for axis, value in {**_said(case, {*axes, *what_if.settings}), **what_if.settings}.items():
        words += ["--axis", f"{axis}={scalar_word(value)}"]
    usual = Procedure()
    how = {name: getattr(procedure, name) for name in _OF_A_PROCEDURE}
    how = {name: value for name, value in how.items() if value not in (None, getattr(usual, name))}
    for name, value in {**how, **({"heap": what_if.heap} if what_if.heap is not None else {})}.items():
        words += [f"--{name}", scalar_word(value)]
    return shlex.join(words)


def _as_recipe(source: str, case: Case) -> tuple[list[str], Collection[str]] | None:
    """Return the words that name the recipe, and the axes that it names.

    None where it does not ask for this workload (any more), or, of its task, for others as well.
    """
    work = case.workload
    try:
        request = load_request(source)
        ours = [one for one in request.workloads if one.task == work.task]
        if len(ours) != 1 or sketch(ours[0]).workload != work:
            return None
    except TorchstoneError:  # it is gone, or edited so that it cannot be read: flags do without it
        return None
    return [source, *(["--task", str(work.task)] if len(request.workloads) > 1 else [])], ours[0].axes


def _said(case: Case, named: Collection[str]) -> dict[str, Scalar]:
    """Return the settings that do not go without saying: `named` ones have another value otherwise.

    A model brings its own sizes of an input, and data a loader, the user's own with settings of its own.
    """
    by_data = of_data(case)
    said = {
        axis: value for axis, value in case.configuration.items()
        if axis in AXES and (axis in named or axis in SHAPES or axis in by_data or value != AXES[axis].default)
    }  # fmt: skip
    if "feed" in case.configuration and not said.keys().isdisjoint(LOADER_AXES):
        said["feed"] = case.configuration["feed"]
    return said
