"""The loop a careful person writes: 11 steps of warm-up, then SECONDS of steps. `python bare.py SECONDS`."""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch
from bert6 import THREADS, load  # type: ignore[import-not-found,unused-ignore]


def main(seconds: float) -> None:
    """Measure and print {"median_s": …}."""
    torch.set_num_threads(THREADS)
    module, example = load()
    laps_s: list[float] = []
    clock = time.perf_counter
    with torch.inference_mode():
        for _ in range(11):
            module(**example)
        end_s = clock() + seconds
        while clock() < end_s:
            begin_s = clock()
            module(**example)
            laps_s.append(clock() - begin_s)
    print(json.dumps({"median_s": statistics.median(laps_s), "steps": len(laps_s)}))


if __name__ == "__main__":
    main(float(sys.argv[1]))
