"""One step of a default case, timed as other tools time it, until a given moment of the machine's monotonic clock.

python default_step.py bare|torch STEP END_S        prints {"seconds": …, "low": …, "high": …} of one step
                                                    (END_S "+5": 5 s after the step is built)
python default_step.py ten STEP 0                   does ten steps, for who times the process
DEFAULT_STEP=STEP python default_step.py --copy-env …    pyperf's own command line, which starts processes like this one
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # steps.py


def distilbert() -> Callable[[], None]:
    """Return the step of `run distilbert --task infer --axis batch_size=1`: 1 × 128 tokens, nothing masked."""
    from steps import distilbert as made

    one = made(1)
    tensors = one.model.example
    return lambda: one.bare_step(tensors)  # type: ignore[arg-type]


def cnn() -> Callable[[], None]:
    """Return the step of `run --task train --model builtin:cnn`: one image of 32 pixels, AdamW's fused kernels.

    `run` says that it takes those (setting_fused); without them a step takes twice as long.
    """
    import torch

    from torchstone.plugins.models.builtin.nets import SmallConvNet

    module = SmallConvNet()
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-5, fused=True)
    images, labels = torch.randn(1, 3, 32, 32), torch.randint(0, 10, (1,))

    def step() -> None:
        torch.nn.functional.cross_entropy(module(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


STEPS: dict[str, Callable[[], Callable[[], None]]] = {"distilbert": distilbert, "cnn": cnn}


def bare(step: Callable[[], None], end_s: float) -> dict[str, float | None]:
    """Time step after step; the median with the interval that takes steps for independent, the mean."""
    from torchstone.core.stats.quantile import bounds

    laps_s: list[float] = []
    clock = time.perf_counter
    for _ in range(10):
        step()
    while time.monotonic() < end_s or len(laps_s) < 10:
        begin_s = clock()
        step()
        laps_s.append(clock() - begin_s)
    low, high = bounds(laps_s, 0.5)
    return {"seconds": statistics.median(laps_s), "low": low, "high": high, "mean": statistics.fmean(laps_s)}


def ten(step: Callable[[], None], _end_s: float) -> dict[str, float | None]:
    """Do ten steps, and time nothing."""
    for _ in range(10):
        step()
    return {}


def by_torch(step: Callable[[], None], end_s: float) -> dict[str, float | None]:
    """Time it by torch.utils.benchmark with as many threads as torch has; the median ± half its IQR."""
    import torch
    from torch.utils.benchmark import Timer

    timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
    found = timer.blocked_autorange(min_run_time=max(0.2, end_s - time.monotonic()))
    if len(found.times) < 2:  # one block has no quartiles: it prints a number without any
        return {"seconds": found.median, "low": None, "high": None}
    half_s = found.iqr / 2.0
    return {"seconds": found.median, "low": found.median - half_s, "high": found.median + half_s}


def main() -> None:
    if sys.argv[1].startswith("--"):
        import pyperf  # type: ignore[import-not-found]

        pyperf.Runner().bench_func("step", STEPS[os.environ["DEFAULT_STEP"]]())
        return
    tool, name, end_s = sys.argv[1:]
    step = STEPS[name]()
    ends_s = float(end_s) + (time.monotonic() if end_s.startswith("+") else 0.0)
    print(json.dumps({"bare": bare, "ten": ten, "torch": by_torch}[tool](step, ends_s)))


if __name__ == "__main__":
    main()
