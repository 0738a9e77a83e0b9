"""Each process takes a thread per core by default: two of them share the cores and wait for each other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence


def wrong(command: Sequence[str], processes: int) -> list[str]:
    """Run the command so many times at once, each with all threads; return what each printed."""
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return [one.communicate()[0] for one in running]


def right(command: Sequence[str], processes: int, threads: int) -> list[str]:
    """The same with a share of the threads each. `threads`: of one process alone, torch.get_num_threads()."""
    share = str(max(1, threads // processes))
    own = {**os.environ, "OMP_NUM_THREADS": share, "MKL_NUM_THREADS": share}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) for _ in range(processes)]
    return [one.communicate()[0] for one in running]
