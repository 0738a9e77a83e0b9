"""The command that measures what is not known yet, as it would be typed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from torchstone.config.cli_flags import of_data, workload_flags
from torchstone.core.schema.axis import AXES, Scalar, scalar_word
from torchstone.storage.measured import MeasuredCase

TRIALS = 5
Vary = Mapping[str, Sequence[Scalar]]  # the values of axes to type


def run_command(one: MeasuredCase, vary: Vary, *, device: str | None = None, trials: int = TRIALS) -> str:
    """Return the `torchstone run` that measures this workload over the values of these axes, all else as it was."""
    words = ["torchstone", "run", *workload_flags(one.case.workload)]
    words += ["--device", device or str(one.case.placement)]
    by_data = of_data(one.case)
    fixed = {
        name: [value]
        for name, value in one.case.configuration.items()
        if name not in vary and name in AXES and (value != AXES[name].default or name in by_data)
    }
    for name, values in {**vary, **fixed}.items():
        listed = ",".join(map(scalar_word, values))
        flag = AXES[name].flag
        words += [flag, listed] if flag is not None else ["--axis", f"{name}={listed}"]
    return shlex.join([*words, "--trials", str(trials)])
