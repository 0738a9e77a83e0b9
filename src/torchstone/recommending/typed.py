"""The command that measures what is not known yet, as it would be typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from torchstone.store.measured import Measured
from torchstone.terms.axis import AXES, Scalar

TRIALS = 5
_OF_A_FUNCTION = "argument_"  # of a user's own function, as models/py.py records them
_FLAG = {"batch_size": "--batch-sizes", "sequence_length": "--sequence-lengths", "learning_rate": "--learning-rates",
         "optimizer": "--optimizers"}  # fmt: skip


def run_command(
    one: Measured, vary: Mapping[str, Sequence[Scalar]], *, device: str | None = None, trials: int = TRIALS
) -> str:
    """Return the `torchstone run` that measures this workload over the values of these axes, all else as it was."""
    workload, placement = one.case.workload, one.case.placement
    words = ["torchstone", "run", "--task", str(workload.task), "--model", workload.model]
    words += [word for option in _options(workload.fixed) for word in ("--option", option)]
    if workload.data not in ("synthetic", "example"):
        words += ["--data", workload.data]
    for name, value in workload.data_options.items():
        words += (
            ["--data-option", f"{name}={_word(value)}"]
            if name not in ("split", "limit")
            else [f"--{name}", _word(value)]
        )
    words += ["--device", device or str(placement)]
    fixed = {
        name: [value] for name, value in one.case.configuration.items()
        if name not in vary and name in AXES and value != AXES[name].default
    }  # fmt: skip
    for name, values in {**vary, **fixed}.items():
        listed = ",".join(map(_word, values))
        words += [_FLAG[name], listed] if name in _FLAG else ["--axis", f"{name}={listed}"]
    return shlex.join([*words, "--trials", str(trials)])


def _options(fixed: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield the options of a model that its identity tells."""
    if fixed.get("weights") == "pretrained":
        yield "weights=pretrained"
    if "classes" in fixed:
        yield f"classes={fixed['classes']}"
    for name, value in fixed.items():
        if name.startswith(_OF_A_FUNCTION):
            yield f"{name.removeprefix(_OF_A_FUNCTION)}={_word(value)}"


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
