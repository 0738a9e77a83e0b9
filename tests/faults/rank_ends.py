"""The user's model file of test_ranks.py: ways in which one of two ranks ends, or does not."""

import os
import resource
import signal
import time

import torch

SICK_RANK = "1"


class Sick(torch.nn.Module):
    """A small model whose forward pass does something to one rank, from its third step on."""

    def __init__(self, end):
        super().__init__()
        self.layer, self.end, self.steps = torch.nn.Linear(8, 2), end, 0

    def forward(self, rows):
        self.steps += 1
        if os.environ.get("RANK") == SICK_RANK and self.steps == 3:
            self.end()
        return self.layer(rows)


def loss(module, batch):
    return module(batch["rows"]).square().mean()


def _with(end):
    return Sick(end), {"rows": torch.ones(4, 8)}, loss


def load_kill():
    return _with(lambda: os.kill(os.getpid(), signal.SIGKILL))


def load_hang():
    def hang():
        while True:
            time.sleep(1.0)  # line of hang

    return _with(hang)


def load_memory():
    def fill():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
        torch.ones(1 << 32)  # line of memory

    return _with(fill)


def load_raise():
    def fail():
        raise ValueError("too many rows")  # line of raise

    return _with(fail)


def load_segfault():
    import ctypes

    return _with(lambda: ctypes.string_at(0))


def load_nan():
    sick, example, _ = _with(lambda: None)

    def lost(module, batch):
        found = module(batch["rows"]).square().mean()
        return found * float("nan") if os.environ.get("RANK") == SICK_RANK and module.steps >= 6 else found

    return sick, example, lost


def load_leave():
    return _with(lambda: os._exit(0))


def load_interrupt():
    return _with(lambda: os.kill(os.getpid(), signal.SIGINT))


def load_stop():
    return _with(lambda: os.kill(os.getpid(), signal.SIGSTOP))


def load_well():
    return _with(lambda: None)
