"""The user's model file of test_matrix.py: each way to end, for real, at the largest batch of a sweep.

`py:` is told to call `load_<name>`. An end happens in the model's forward, or, where it is the loader's, in the process
that takes a row for such a batch. The comments are what the tests look for.
"""

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import torch
from torch.utils import data

BAD_BATCH = 12  # the largest: for a smaller one that lacks memory, larger ones would rightly be skipped
GROUP = "TORCHSTONE_TEST_GROUP"  # names a memory control group with a limit
_MANY_BYTES = 1 << 30


def segfault():
    ctypes.string_at(0)  # line of segfault


def segfault_beside_a_loader():
    assert active_children(), "no process of the loader is alive"
    ctypes.string_at(0)  # line of segfault_beside_a_loader


def abort():
    os.abort()  # line of abort


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def sys_exit():
    sys.exit(7)  # line of sys_exit


def os_exit():
    os._exit(9)


def os_exit_0():
    os._exit(0)


def exception():
    raise ValueError("too many rows")  # line of exception


def hang():
    while True:
        time.sleep(1.0)  # line of hang


def out_of_torchs_memory():
    _limit()
    torch.ones(_MANY_BYTES)  # line of out_of_torchs_memory


def out_of_pythons_memory():
    _limit()
    _fill()  # line of out_of_pythons_memory


def out_of_threads():
    _limit()
    threading.stack_size(_MANY_BYTES)
    threading.Thread(target=time.sleep, args=(1.0,)).start()  # line of out_of_threads


def out_of_the_hosts_memory():
    _enter_group()
    _fill()


def lose_the_device():
    raise RuntimeError("CUDA error: unspecified launch failure\nCompile with …")  # line of lose_the_device


def nan():
    return float("nan")


def kill_the_loader():
    for child in active_children():
        child.kill()
    time.sleep(10.0)  # torch's handler of the child's end raises in here


def loader_raises():
    raise KeyError("no such row")  # line of loader_raises


def loader_exits():
    os._exit(3)


def _fill():
    return bytearray(b"x" * _MANY_BYTES)  # touched: the kernel must find it


def _limit():
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (64 << 20),) * 2)


def _enter_group():
    Path(os.environ[GROUP], "cgroup.procs").write_text(str(os.getpid()))


class Model(torch.nn.Module):
    def __init__(self, end):
        super().__init__()
        self.end = end
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, rows):
        factor = self.end() if len(rows) == BAD_BATCH else None
        return self.linear(rows) * (factor or 1.0)


class Rows(torch.Tensor):
    """Rows that end the process of a loader that takes them for a bad batch."""

    end: Callable[[], object]

    def __getitem__(self, index):
        worker = data.get_worker_info()
        rows: Any = worker.dataset if worker is not None else ()
        if len(rows) == 4 * BAD_BATCH:  # an ExampleRows of four batches
            self.end()
        return self.as_subclass(torch.Tensor)[index]


def _loss(answers, targets):
    return ((answers - targets) ** 2).mean()


def _load(end):
    return Model(end), (torch.ones(1, 4), torch.zeros(1, 1)), _loss


def _load_rows(end):
    rows: Rows = torch.ones(1, 4).as_subclass(Rows)
    rows.end = end
    return Model(None), (rows, torch.zeros(1, 1)), _loss


load_segfault = partial(_load, segfault)
load_segfault_beside_a_loader = partial(_load, segfault_beside_a_loader)
load_abort = partial(_load, abort)
load_kill = partial(_load, kill)
load_sys_exit = partial(_load, sys_exit)
load_os_exit = partial(_load, os_exit)
load_os_exit_0 = partial(_load, os_exit_0)
load_exception = partial(_load, exception)
load_hang = partial(_load, hang)
load_out_of_torchs_memory = partial(_load, out_of_torchs_memory)
load_out_of_pythons_memory = partial(_load, out_of_pythons_memory)
load_out_of_threads = partial(_load, out_of_threads)
load_out_of_the_hosts_memory = partial(_load, out_of_the_hosts_memory)
load_lose_the_device = partial(_load, lose_the_device)
load_nan = partial(_load, nan)
load_kill_the_loader = partial(_load, kill_the_loader)
load_loader_raises = partial(_load_rows, loader_raises)
load_loader_exits = partial(_load_rows, loader_exits)
load_loader_segfault = partial(_load_rows, segfault)
load_loader_out_of_the_hosts_memory = partial(_load_rows, out_of_the_hosts_memory)
