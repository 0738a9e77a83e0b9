"""The options that say what to measure; they override the recipe or file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.cli._parsing import words_of
from torchstone.cli._procedure_options import Typed, add_procedure, with_procedure
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import AXES, Scalar, axis_values
from torchstone.core.schema.case import Task, model_name
from torchstone.core.schema.condition import Condition, parse

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest


def of_families(workloads: Sequence[WorkloadRequest], texts: Sequence[str] | None) -> tuple[WorkloadRequest, ...]:
    """Return those of the families named; all, if none is. Raises UsageError for a family that none of them is of."""
    from torchstone.plugins.model_choice import card_of

    words = words_of(texts)
    if not words:
        return tuple(workloads)
    families = [card_of(one.model, one.options).family or "custom" for one in workloads]
    for word in words:
        if word not in families:
            raise unknown("model family here", word, set(families))
    return tuple(one for one, family in zip(workloads, families, strict=True) if family in words)


# Flags of their own for the axes that everybody varies; every axis, these too, can be given by --axis. All of them
# go to one list, in the order typed: it is the order of the table's columns.
_SHORT = {axis.flag: name for name, axis in AXES.items() if axis.flag is not None}


class WorkloadTyped(Typed, frozen=True):
    """Of the options that say what to measure. `axes`: (flag, text) in the order typed."""

    recipe: str | None = None
    config: str | None = None
    model: str | None = None
    data: str | None = None
    data_option: list[str] | None = None
    split: str | None = None
    limit: int | None = None
    option: list[str] | None = None
    axes: list[tuple[str, str]] | None = None
    task: str | None = None
    model_families: list[str] | None = None
    mixed_precision: bool = False
    exclude: list[str] | None = None
    first: list[str] | None = None


_A_RECIPE = "a recipe (torchstone list recipes), or a .yaml, .json or .toml file (default: demo)"


def add_workload(parser: argparse.ArgumentParser, recipe: str | None = _A_RECIPE) -> argparse._ArgumentGroup:
    """Add what is measured: a recipe or flags; return their group. `recipe`: its help; None: the command has sides."""
    what = parser.add_argument_group("what to measure")
    if recipe is not None:
        what.add_argument("recipe", nargs="?", help=recipe)
    what.add_argument("--config", metavar="FILE", help="the same as giving the file as RECIPE")
    what.add_argument("--model", help="hf:NAME, timm:NAME, builtin:NAME (or NAME@FILE), hf:FOLDER, py:FILE.py:FUNCTION")
    what.add_argument(
        "--data",
        "--data-path",
        help="SOURCE or SOURCE:PATH (torchstone list data): synthetic, images:FOLDER, csv:FILE, …",
    )
    what.add_argument(
        "--data-option", action="append", metavar="NAME=VALUE", help="option of the data, e.g. label=stars of csv:FILE"
    )
    what.add_argument("--split", metavar="S", help="train, validation or test (default: by the task)")
    what.add_argument("--limit", type=int, metavar="N", help="use at most N items of the data (default: all)")
    what.add_argument(
        "--option", action="append", metavar="NAME=VALUE", help="option of the model, e.g. weights=pretrained"
    )
    what.add_argument(
        "--axis", dest="axes", action=_Axis, metavar="NAME=V1,V2", help="values of an axis (torchstone list axes)"
    )
    for flag, axis in _SHORT.items():
        same = f"the same as --axis {axis}=…, written 1,2,4 or 1 2 4"
        what.add_argument(flag, dest="axes", action=_Axis, nargs="+", metavar="V", help=same)
    what.add_argument(
        "--device",
        "--hardware",
        nargs="+",
        metavar="D",
        help="auto, cpu, cuda, cuda:1, GPU-… or MIG-… (a UUID), rocm, mps, xpu; several: one after the other",
    )
    what.add_argument(
        "--settings", choices=("device", "torch"), help="defaults of unset options: device (tuned for it), or PyTorch's"
    )
    return what


def add_choice(what: argparse._ArgumentGroup) -> None:
    """Add what is chosen of it: a task, families, axes without what is excluded."""
    what.add_argument(
        "--task", help="infer, train, generate, load, loadgen or call; with a recipe: only its workloads of this task"
    )
    families = "embedding, text_generation, vision, audio, multimodal"
    what.add_argument("--model-families", nargs="+", metavar="F", help=f"only these families: {families}")
    what.add_argument("--mixed-precision", action="store_true", help="the same as --axis precision=fp32,bf16")
    what.add_argument(
        "--exclude",
        action="append",
        metavar="COND",
        help="skip cases that match all conditions: 'batch_size>=1024,precision=fp32', 'num_workers!=0|4'",
    )


def add_run_options(parser: argparse.ArgumentParser, *, sides: bool = False) -> None:
    """Add what to measure (recipe or flags) and how (the Procedure)."""
    what = add_workload(parser, None if sides else _A_RECIPE)
    add_choice(what)
    if not sides:
        what.add_argument("--first", action="append", metavar="COND", help="run matching cases first in each round")
    add_procedure(parser, sides=sides)


class _Axis(argparse.Action):
    """Keeps (flag, text) of --axis and of the flags that stand for one axis, in the order typed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add what was typed."""
        text = values if isinstance(values, str) else ",".join(values)
        namespace.axes = [*(namespace.axes or ()), (option_string, text)]


def asked(options: argparse.Namespace, recipe: str | None = None) -> RunRequest:
    """Return the request that recipe and flags make together. Raises UsageError.

    `recipe`: where the command names it in another way.
    """
    from torchstone.config.recipe_files import load_request
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest

    typed = WorkloadTyped.of(options)
    recipe = recipe or typed.recipe
    if recipe is not None and recipe.startswith("py:") and typed.model is None:  # a function, as it is
        typed = msgspec.structs.replace(typed, model=recipe, task=typed.task or Task.CALL)
        recipe = None
    word = recipe or typed.config
    if recipe and typed.config:
        raise UsageError("give a recipe or --config FILE, not both")
    if word is None and typed.model is None:
        named = any(flag == "--axis" for flag, _ in typed.axes or ())
        given = typed.task or typed.data or named or typed.option or data_options_of(typed)
        if given and not typed.model_families:
            raise UsageError("nothing to measure: name a recipe (torchstone list recipes), a file or a --model")
        word = "families" if typed.model_families else "demo"
    axes = axes_of(typed)
    if word is not None:
        request = load_request(word, typed.model)
        workloads = _filtered(of_families(request.workloads, typed.model_families), typed, axes, request.fit.data)
        request = msgspec.structs.replace(request, workloads=workloads)
    else:
        assert typed.model is not None
        own = WorkloadRequest(
            typed.task or "infer", typed.model, typed.data, _options(typed), axes, data_options_of(typed)
        )
        workloads = of_families((own,), typed.model_families)
        request = RunRequest(name=model_name(typed.model), workloads=workloads)
    return with_procedure(_with_conditions(request, typed), options)


def _with_conditions(request: RunRequest, typed: WorkloadTyped) -> RunRequest:
    """Add the conditions of the flags to the file's; those of --first go before them."""
    exclude = _conditions(request, "--exclude", typed.exclude)
    first = _conditions(request, "--first", typed.first)
    return msgspec.structs.replace(request, exclude=(*request.exclude, *exclude), first=(*first, *request.first))


def _conditions(request: RunRequest, flag: str, texts: Sequence[str] | None) -> list[Condition]:
    """Parse the conditions of a flag: each must speak of axes that one workload at least has."""
    from torchstone.plugins import registry

    there = [registry.load("engines", w.task).axes for w in request.workloads if w.task in registry.names("engines")]
    found = []
    for text in texts or ():
        try:
            condition = parse(text)
        except UsageError as fault:
            raise UsageError(f"{flag} {fault}") from None
        if there and not any({c.axis for c in condition.comparisons} <= set(axes) for axes in there):
            tasks = ", ".join(sorted({w.task for w in request.workloads}))
            raise UsageError(f"{flag} {text}: no workload has all of these axes (task {tasks})")
        found.append(condition)
    return found


def _filtered(
    workloads: Sequence[Any], typed: WorkloadTyped, axes: Mapping[str, Sequence[Scalar]], usual: str | None
) -> tuple[Any, ...]:
    """Apply flags to a recipe's workloads: an axis goes to those whose task and model have it, one of them at least."""
    from torchstone.plugins.model_choice import takes

    if typed.task == Task.LOADGEN:
        from torchstone.config.run_file import as_loads

        workloads = as_loads(workloads)
    chosen = [w for w in workloads if typed.task in (None, w.task)]
    if typed.task is not None and not chosen:
        raise unknown("task of this recipe", typed.task, {w.task for w in workloads})
    # The options first: with the recipe's weights alone the model may not even be here.
    kept = [msgspec.structs.replace(w, options={**w.options, **_options(typed)}) for w in chosen]
    for axis in axes:
        if not any(takes(w.task, w.model, w.options, axis) for w in kept):
            raise UsageError(f"axis {axis} does not apply to {', '.join(sorted({w.task for w in kept}))}")
    changed = []
    for w in kept:
        own = {name: values for name, values in axes.items() if takes(w.task, w.model, w.options, name)}
        asked = msgspec.structs.replace(
            w,
            axes={**w.axes, **own},
            data=_data(w, typed, usual),
            data_options={**w.data_options, **data_options_of(typed)},
        )
        changed.append(asked)
    return tuple(changed)


def axes_of(typed: WorkloadTyped) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of each axis that the flags name, in the order typed. Raises UsageError."""
    texts: dict[str, list[str]] = {}
    for flag, text in typed.axes or ():
        name, equals, values = (_SHORT[flag], "=", text) if flag in _SHORT else text.partition("=")
        if not equals or not values:
            raise UsageError(f"--axis {text}: write NAME=VALUE or NAME=V1,V2, for example batch_size=1,8")
        texts.setdefault(name.strip(), []).extend(words_of([values]))
    if typed.mixed_precision:
        texts.setdefault("precision", ["fp32", "bf16"])
    return {name: axis_values(name, words) for name, words in texts.items()}


def _data(workload: Any, typed: WorkloadTyped, usual: str | None) -> str | None:
    """Return the data: the recipe's, or that of --data.

    A bare path whose name tells no source is read by the source `usual`, or the recipe's.
    """
    from pathlib import Path

    from torchstone.plugins import registry
    from torchstone.plugins.data_choice import with_source

    word, scheme = typed.data, usual or (workload.data or "").partition(":")[0]
    if word is None:
        return str(workload.data) if workload.data is not None else None
    folder = word == scheme and Path(word).is_dir() and _wants_a_path(scheme)  # imagenet100 in a folder of that name
    told = word.partition(":")[0] in registry.names("data") or word == "example" or with_source(word) != word
    bare = folder or not told
    is_path = "/" in word or Path(word).expanduser().exists()
    return f"{scheme}:{word}" if bare and scheme and is_path else str(word)


def _wants_a_path(scheme: str) -> bool:
    from torchstone.plugins import registry

    try:
        registry.load("data", scheme).card("", {})
    except UsageError:
        return True
    return False


def _options(typed: WorkloadTyped) -> dict[str, Scalar]:
    return _pairs("--option", typed.option, "weights=pretrained")


def data_options_of(typed: WorkloadTyped) -> dict[str, Scalar]:
    """Return the options of the data that the flags give. Raises UsageError."""
    everybodys = {"split": typed.split, "limit": typed.limit}
    given = {name: value for name, value in everybodys.items() if value is not None}
    return {**_pairs("--data-option", typed.data_option, "label=stars"), **given}


def _pairs(flag: str, texts: Sequence[str] | None, example: str) -> dict[str, Scalar]:
    pairs = [text.partition("=") for text in texts or ()]
    for name, equals, value in pairs:
        if not name or not equals or not value:
            raise UsageError(f"{flag} {name}{equals}{value}: write NAME=VALUE, for example {example}")
    return {name: value for name, _, value in pairs}
