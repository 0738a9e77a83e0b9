"""The same by torch.utils.benchmark: `python torch_benchmark.py SECONDS`."""

from __future__ import annotations

import json
import sys

import torch
from bert6 import THREADS, load  # type: ignore[import-not-found,unused-ignore]
from torch.utils.benchmark import Timer


def main(seconds: float) -> None:
    """Measure and print {"median_s": …}."""
    module, example = load()

    def step() -> None:
        with torch.inference_mode():
            module(**example)

    # Its own default is one thread, whatever torch is set to.
    found = Timer("step()", globals={"step": step}, num_threads=THREADS).blocked_autorange(min_run_time=seconds)
    print(json.dumps({"median_s": found.median, "steps": len(found.times) * found.number_per_run}))


if __name__ == "__main__":
    main(float(sys.argv[1]))
