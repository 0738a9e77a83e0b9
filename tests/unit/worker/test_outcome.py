"""What a trial raised, as its Outcome."""

import pytest
import torch

from torchstone.errors import Unsupported, UsageError
from torchstone.terms.trial import Status
from torchstone.worker.outcome import ended_by


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return ended_by(caught)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"), Status.OUT_OF_MEMORY),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
            Status.OUT_OF_MEMORY,
        ),
        (RuntimeError("MPS backend out of memory (MPS allocated: 18 GB)"), Status.OUT_OF_MEMORY),
        (MemoryError(), Status.OUT_OF_MEMORY),
        (Unsupported("no"), Status.UNSUPPORTED),
        (KeyboardInterrupt(), Status.INTERRUPTED),
        (SystemExit(3), Status.CRASHED),
        (ValueError("wrong\nshape"), Status.CRASHED),
    ],
)
def test_statuses(error, status):
    assert raised(error).outcome.status == status


def test_the_message_is_one_line_with_the_kind_of_the_error():
    assert raised(ValueError("wrong\nshape")).outcome.message == "ValueError: wrong"
    assert raised(SystemExit(3)).outcome.message == "SystemExit: 3"


def test_the_users_mistake_is_told_to_the_user():
    assert raised(UsageError("say this")).mistake == "say this"
    wrapped = (
        "Caught UsageError in DataLoader worker process 0.\nOriginal Traceback …\ntorchstone.errors.UsageError: bad.png"
    )
    assert raised(UsageError(wrapped)).mistake == "bad.png"


def test_a_real_allocation_that_does_not_fit():
    with pytest.raises(RuntimeError) as fault:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert ended_by(fault.value).outcome.status == Status.OUT_OF_MEMORY
