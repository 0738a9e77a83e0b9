"""What is measured and how: the options, and the request that they make with a recipe, a file or a program."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.cli._parsing import split_words
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import AXES, Scalar, axis_values
from torchstone.core.schema.case import Task, model_name
from torchstone.core.schema.procedure import DISTURBED, HEAPS
from torchstone.core.schema.request import Condition, WorkloadRequest, parse
from torchstone.core.units import duration_s, share
from torchstone.plugins import registry

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.run.planned_run import ProgramRequest


# ── what to measure ─────────────────────────────────────────────────────────────────────────────────────────

# Flags of their own for the axes that everybody varies; every axis, these too, can be given by --axis. All of them
# go to one list, in the order typed: it is the order of the table's columns.
_SHORT = {axis.flag: name for name, axis in AXES.items() if axis.flag is not None}


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


def request_from(options: argparse.Namespace, recipe: str | None = None) -> RunRequest:
    """Return the request that recipe and flags make together. Raises UsageError.

    `recipe`: where the command names it in another way.
    """
    from torchstone.config.recipe_files import load_request
    from torchstone.config.run_file import RunRequest

    typed = vars(options).get  # None for an option that the command has not
    recipe, model, task = recipe or typed("recipe"), typed("model"), typed("task")
    families = typed("model_families")
    if recipe is not None and recipe.startswith("py:") and model is None:  # a function, as it is
        recipe, model, task = None, recipe, task or Task.CALL
    word = recipe or typed("config")
    if recipe and typed("config"):
        raise UsageError("give a recipe or --config FILE, not both")
    if word is None and model is None:
        named = any(flag == "--axis" for flag, _ in typed("axes") or ())
        given = task or typed("data") or named or typed("option") or data_options_from(options)
        if given and not families:
            raise UsageError("nothing to measure: name a recipe (torchstone list recipes), a file or a --model")
        word = "families" if families else "demo"
    axes = axes_from(options)
    if word is not None:
        request = load_request(word, model)
        workloads = _override(_of_families(request.workloads, families), options, axes, request.fit.data)
        request = msgspec.structs.replace(request, workloads=workloads)
    else:
        assert model is not None
        own = WorkloadRequest(
            task or "infer",
            model,
            typed("data"),
            _model_options(options),
            axes,
            data_options_from(options),
        )
        request = RunRequest(name=model_name(model), workloads=_of_families((own,), families))
    # The conditions of the flags are added to those of the file; those of --first go before them.
    exclude = (*request.exclude, *_conditions(request, "--exclude", typed("exclude")))
    first = (*_conditions(request, "--first", typed("first")), *request.first)
    return with_procedure(msgspec.structs.replace(request, exclude=exclude, first=first), options)


def _of_families(workloads: Sequence[WorkloadRequest], texts: Sequence[str] | None) -> tuple[WorkloadRequest, ...]:
    """Return those of the families named; all, if none is. Raises UsageError for a family that none of them is of."""
    from torchstone.plugins.choices import card_of

    words = split_words(texts)
    if not words:
        return tuple(workloads)
    families = [card_of(one.model, one.options).family or "custom" for one in workloads]
    for word in words:
        if word not in families:
            raise unknown("model family here", word, set(families))
    return tuple(one for one, family in zip(workloads, families, strict=True) if family in words)


def _conditions(request: RunRequest, flag: str, texts: Sequence[str] | None) -> list[Condition]:
    """Parse the conditions of a flag: each must speak of axes that one workload at least has."""
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


def _override(
    workloads: Sequence[WorkloadRequest],
    options: argparse.Namespace,
    axes: Mapping[str, tuple[Scalar, ...]],
    usual: str | None,
) -> tuple[WorkloadRequest, ...]:
    """Apply flags to a recipe's workloads: an axis goes to those whose task and model have it, one of them at least."""
    from torchstone.plugins.choices import takes

    task = vars(options).get("task")
    if task == Task.LOADGEN:
        from torchstone.config.run_file import as_loads

        workloads = as_loads(workloads)
    chosen = [w for w in workloads if task in (None, w.task)]
    if task is not None and not chosen:
        raise unknown("task of this recipe", task, {w.task for w in workloads})
    # The options first: with the recipe's weights alone the model may not even be here.
    chosen = [msgspec.structs.replace(w, options={**w.options, **_model_options(options)}) for w in chosen]
    for axis in axes:
        if not any(takes(w.task, w.model, w.options, axis) for w in chosen):
            raise UsageError(f"axis {axis} does not apply to {', '.join(sorted({w.task for w in chosen}))}")
    return tuple(
        msgspec.structs.replace(
            w,
            axes={**w.axes, **{name: axes[name] for name in axes if takes(w.task, w.model, w.options, name)}},
            data=_data(w.data, vars(options).get("data"), usual),
            data_options={**w.data_options, **data_options_from(options)},
        )
        for w in chosen
    )


def axes_from(options: argparse.Namespace) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of each axis that the flags name, in the order typed. Raises UsageError."""
    texts: dict[str, list[str]] = {}
    for flag, text in vars(options).get("axes") or ():
        name, equals, values = (_SHORT[flag], "=", text) if flag in _SHORT else text.partition("=")
        if not equals or not values:
            raise UsageError(f"--axis {text}: write NAME=VALUE or NAME=V1,V2, for example batch_size=1,8")
        texts.setdefault(name.strip(), []).extend(split_words([values]))
    if vars(options).get("mixed_precision"):
        texts.setdefault("precision", ["fp32", "bf16"])
    return {name: axis_values(name, words) for name, words in texts.items()}


def _data(recipes: str | None, word: str | None, usual: str | None) -> str | None:
    """Return the data: the recipe's, or that of --data, the `word`.

    A bare path whose name does not say its source is read by the source `usual`, or the recipe's.
    """
    from torchstone.plugins.choices import with_source

    scheme = usual or (recipes or "").partition(":")[0]
    if word is None:
        return recipes
    folder = word == scheme and Path(word).is_dir() and _wants_a_path(scheme)  # imagenet100 in a folder of that name
    named = word.partition(":")[0] in registry.names("data") or word == "example" or with_source(word) != word
    is_path = "/" in word or Path(word).expanduser().exists()
    return f"{scheme}:{word}" if (folder or not named) and scheme and is_path else word


def _wants_a_path(scheme: str) -> bool:
    try:
        registry.load("data", scheme).card("", {})
    except UsageError:
        return True
    return False


def _model_options(options: argparse.Namespace) -> dict[str, Scalar]:
    return _pairs("--option", vars(options).get("option"), "weights=pretrained")


def data_options_from(options: argparse.Namespace) -> dict[str, Scalar]:
    """Return the options of the data that the flags give. Raises UsageError."""
    given = {name: value for name in ("split", "limit") if (value := vars(options).get(name)) is not None}
    return {**_pairs("--data-option", vars(options).get("data_option"), "label=stars"), **given}


def _pairs(flag: str, texts: Sequence[str] | None, example: str) -> dict[str, Scalar]:
    pairs = [text.partition("=") for text in texts or ()]
    for name, equals, value in pairs:
        if not name or not equals or not value:
            raise UsageError(f"{flag} {name}{equals}{value}: write NAME=VALUE, for example {example}")
    return {name: value for name, _, value in pairs}


# ── how to measure it: the Procedure ────────────────────────────────────────────────────────────────────────

_DURATIONS = ("within", "budget", "timeout", "warmup_budget", "time_limit")


def add_procedure(parser: argparse.ArgumentParser, *, sides: bool = False) -> None:
    """Add the options. `sides`: only those that apply to the interleaved sides of `ab`."""
    how = parser.add_argument_group("how to measure")
    if not sides:
        _add_of_trials(how)
    how.add_argument("--warmup", type=int, metavar="N", help="minimum number of warm-up steps (default: detected)")
    most = "0.1s" if sides else "3s"
    how.add_argument(
        "--warmup-budget", metavar="T", help=f"maximum warm-up time, apart from the --warmup steps (default {most})"
    )
    how.add_argument("--timeout", metavar="T", help="maximum time of a trial (default 10m)")
    how.add_argument("--seed", type=int, metavar="N", help="random seed of data, weights and order (default 0)")
    how.add_argument(
        "--isolation", choices=("auto", "fork", "spawn"), help="how trial processes are started (default auto)"
    )
    add_heap(how, "huge" if sides else "fixed")
    if sides:
        how.add_argument(
            "--pin-threads",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="pin the OpenMP threads of both sides, one per logical core (default)",
        )
    how.add_argument("--name", help="name of the run (default: the recipe's)")


def add_heap(how: argparse._ArgumentGroup, usual: str = "fixed") -> None:
    """Add --heap. `usual`: the default of the command."""
    meaning = f"malloc policy: fixed = keep freed memory; huge = also use huge pages (default {usual})"
    how.add_argument("--heap", choices=HEAPS, help=meaning)


def _add_of_trials(how: argparse._ArgumentGroup) -> None:
    how.add_argument(
        "--within",
        metavar="T",
        help="maximum time of the whole command (default: 30 s plus 25 s per case, and three trials of each unless "
        "other programs disturb all)",
    )
    how.add_argument(
        "--trials",
        type=int,
        metavar="N",
        help="fresh processes per case (default: as many short ones as ±target needs)",
    )
    how.add_argument(
        "--iterations",
        "--steps",
        type=int,
        metavar="N",
        help="exact number of steady steps (default: until ±target or --budget)",
    )
    how.add_argument(
        "--target",
        metavar="P",
        help="half-width of the 95 %% confidence interval of throughput to reach (default 5%%); with --trials: of one "
        "window (default 1%%)",
    )
    how.add_argument("--budget", metavar="T", help="maximum time of a window (default 5s)")
    how.add_argument(
        "--time-limit", metavar="T", help="start no trial after this time; `torchstone resume` continues the run"
    )
    how.add_argument(
        "--disturbed",
        choices=DISTURBED,
        help="trials beside which other programs were busy: replace = left out and, without --trials, measured again",
    )
    how.add_argument("--telemetry", metavar="T", help="sampling period of telemetry (default 500ms; 0: off)")
    how.add_argument("--no-phases", action="store_true", help="skip the pass that splits a step into phases")
    how.add_argument(
        "--cpu-affinity",
        metavar="CORES",
        help="keep each trial to these logical cores: device (next to the device), node:N (a NUMA node), or 0-3,8",
    )
    how.add_argument("--nvtx", action="store_true", help="emit NVTX ranges around steps and phases, for nsys")
    how.add_argument(
        "--profiling", action="store_true", help="record a torch.profiler trace of each case after its windows"
    )
    how.add_argument(
        "--quality-margin",
        metavar="P",
        help="maximum loss of accuracy of what counts as good as fp32 in eager mode (default 1%%); "
        "for --axis runtime and quantization",
    )
    how.add_argument("--no-foresight", action="store_true", help="do not skip cases predicted to run out of memory")


def _affinity(word: str | None) -> str | None:
    """Return the cores of --cpu-affinity as they are kept. Raises UsageError where this machine has no such ones."""
    if word is None:
        return None
    from torchstone.core.cores import NEAR_DEVICE, affinity_word
    from torchstone.execution.inspection import usable_cores

    kept = affinity_word(word)
    if kept != NEAR_DEVICE:  # which is asked of the device, in the trial
        usable_cores(kept, None)
    return kept


def with_procedure(request: RunRequest, options: argparse.Namespace) -> RunRequest:
    """Return the request with the procedure, name and devices that were typed. Raises UsageError for a wrong one."""
    typed = vars(options).get  # None for an option that the command has not
    target = share(typed("target"), "--target") if typed("target") is not None else None
    changes: dict[str, Any] = {
        "trials": at_least("--trials", typed("trials"), 1),
        "warmup": at_least("--warmup", typed("warmup"), 0),
        "iterations": at_least("--iterations", typed("iterations"), 1),
        "seed": at_least("--seed", typed("seed"), 0),
        "cpu_affinity": _affinity(typed("cpu_affinity")),
        "phases": False if typed("no_phases") else None,
        "foresee": False if typed("no_foresight") else None,
        "nvtx": typed("nvtx") or None,
        "profile": typed("profiling") or None,
        "target": target,
        "quality_margin": share(margin, "--quality-margin")
        if (margin := typed("quality_margin")) is not None
        else None,
        "aim": target,
        "telemetry_period_s": duration_s(typed("telemetry"), "--telemetry") if typed("telemetry") is not None else None,
        **{name: typed(name) for name in ("isolation", "disturbed", "heap", "settings")},
        **{f"{name}_s": positive_s(f"--{name.replace('_', '-')}", typed(name)) for name in _DURATIONS},
    }
    given = {name: value for name, value in changes.items() if value is not None}
    device = ",".join(_device(word) for word in split_words(typed("device")))
    return msgspec.structs.replace(
        request,
        procedure=msgspec.structs.replace(request.procedure, **given),
        name=typed("name") or request.name,
        device=device or request.device,
        absent_ok=request.absent_ok and not device,
    )


def positive_s(flag: str, text: str | None) -> float | None:
    """Return the duration that a flag gives, in seconds; None where it was not given. Raises UsageError."""
    if text is None:
        return None
    if (seconds := duration_s(text, flag)) <= 0.0:
        raise UsageError(f"{flag} {text}: must be more than 0 s")
    return seconds


def _device(word: str) -> str:
    from torchstone.config.run_file import device_fault

    if (fault := device_fault(word)) is not None:
        raise UsageError(f"--device {fault}")
    return word


def at_least(flag: str, value: int | None, least: int) -> int | None:
    """Return the count that a flag gives; None where it was not given. Raises UsageError for one that is too small."""
    if value is not None and value < least:
        raise UsageError(f"{flag} {value} is too small: {least} or more")
    return value


# ── a program behind -- ─────────────────────────────────────────────────────────────────────────────────────

_STEPS = ("auto", "optimizer", "backward", "forward")
_NONE_OF_ITS = (
    "recipe",
    "config",
    "model",
    "data",
    "data_option",
    "task",
    "option",
    "limit",
    "split",
    "exclude",
    "first",
    "heap",
    "pin_threads",
    "case",
    "apply",
    "isolation",
    "settings",
)


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the options of a program behind --."""
    how = parser.add_argument_group("a program, written behind --")
    how.add_argument(
        "--step",
        choices=_STEPS,
        default="auto",
        help="with what a step ends (default: an optimizer's step; without one, a backward pass; else a forward pass "
        "without gradients)",
    )
    parser.set_defaults(program=None)
    how.add_argument("--item", default="sample", help="what a row of a batch is called (default: sample)")
    how.add_argument(
        "--in-place",
        action="store_true",
        help="run it where it is (default: in a work folder that looks like this one, so that its files stay apart)",
    )
    how.add_argument("--let-finish", action="store_true", help="let it go on to its own end after its window")


def program_request(options: argparse.Namespace, words: tuple[str, ...] | None = None) -> ProgramRequest:
    """Return what was typed; `words`: of the command, where there are two.

    Raises UsageError for options that are none of a program.
    """
    from torchstone.config.run_file import RunRequest
    from torchstone.workflows.run.planned_run import ProgramRequest

    if not options.program:
        raise UsageError("nothing behind --: write the command as you type it, for example -- python train.py")
    if given := [
        name.upper() if name == "recipe" else f"--{name.replace('_', '-')}"
        for name in _NONE_OF_ITS
        if getattr(options, name, None)
    ]:
        raise UsageError(f"{', '.join(given)}: not for a program; what it does is in its own command behind --")
    how = with_procedure(RunRequest(workloads=()), options)
    procedure = msgspec.structs.replace(
        how.procedure,
        isolation="program",
        heap="default",
        settings="torch",
        count_flops=False,
        phases=False,
        in_place=options.in_place,
        let_finish=options.let_finish,
    )
    return ProgramRequest(
        words or options.program, _program_axes(options), procedure, how.name, how.device, options.item, options.step
    )


def _program_axes(options: argparse.Namespace) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of each axis. One that torchstone does not know is the program's own."""
    axes: dict[str, tuple[Scalar, ...]] = {}
    for flag, text in getattr(options, "axes", None) or ():
        name, equals, values = text.partition("=")
        if flag != "--axis":
            name, values = flag.strip("-").replace("-", "_").removesuffix("s"), text
        elif not equals or not values:
            raise UsageError(f"--axis {text}: write NAME=VALUE or NAME=V1,V2, for example batch_size=1,8")
        axes[name.strip()] = program_values(name.strip(), values)
    return axes


def program_values(name: str, text: str) -> tuple[Scalar, ...]:
    """Return the values of an axis as they were typed, with commas between; its words are the program's own.

    Raises UsageError for a word where torchstone knows the axis as a number.
    """
    words = split_words([text])
    numbers = name in AXES and AXES[name].kind in ("int", "float")
    return axis_values(name, words) if numbers else tuple(map(_scalar, words))


def _scalar(word: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
