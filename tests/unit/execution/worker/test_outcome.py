"""What a trial raised, as its Outcome."""

import errno
import re
import resource
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.trial import Reason, Status
from torchstone.execution.worker.outcome import ended_by


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
        (OSError(errno.ENOMEM, "Cannot allocate memory"), Status.OUT_OF_MEMORY),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            Status.OUT_OF_MEMORY,
        ),
        (Unsupported("no"), Status.UNSUPPORTED),
        (KeyboardInterrupt(), Status.INTERRUPTED),
        (SystemExit(3), Status.CRASHED),
        (ValueError("wrong\nshape"), Status.CRASHED),
    ],
)
def test_statuses(error, status):
    assert raised(error).outcome.status == status


WORKSPACE = [
    "GET was unable to find an engine to execute this computation",
    "FIND was unable to find an engine to execute this computation after trying 6 plans.",
    "Unable to find a valid cuDNN algorithm to run convolution",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "CUDA error: HIPBLAS_STATUS_NOT_INITIALIZED when calling `hipblasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when calling `cusolverDnCreate(handle)`",
    "CUDA error: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES when calling `cusparseCreate(handle)`",
    "cuFFT error: CUFFT_INTERNAL_ERROR",
    "miopenStatusInternalError",
    "miopenStatusUnknownError",
    "Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
]


def a_card_with(free, *, initialised=True):
    """A torch whose device has so many bytes free of 1,000 MB; None: it answers no more."""

    def mem_get_info():
        if free is None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return free, 1_000_000_000

    return SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: initialised, mem_get_info=mem_get_info))


@pytest.mark.parametrize("said", WORKSPACE)
def test_a_workspace_that_is_refused_where_nothing_is_free_is_a_lack_of_memory(monkeypatch, said):
    for free, status in ((19_000_000, Status.OUT_OF_MEMORY), (21_000_000, Status.CRASHED), (None, Status.CRASHED)):
        monkeypatch.setitem(sys.modules, "torch", a_card_with(free))
        assert raised(RuntimeError(said)).outcome.status == status, free
    monkeypatch.setitem(sys.modules, "torch", a_card_with(0, initialised=False))
    assert raised(RuntimeError(said)).outcome.status == Status.CRASHED, "a trial on the CPU"


def test_how_little_was_free_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", a_card_with(3_000_000))
    message = str(raised(RuntimeError(WORKSPACE[0])).outcome.message)
    assert "to execute this computation (2.86 MiB of the device's 954 MiB were free) at " in message


@pytest.mark.parametrize("said", ["cuFFT error: CUFFT_ALLOC_FAILED", "rocblas_status_memory_error"])
def test_a_library_that_names_memory_is_believed_whatever_is_free(monkeypatch, said):
    monkeypatch.setitem(sys.modules, "torch", a_card_with(900_000_000))
    assert raised(RuntimeError(said)).outcome.status == Status.OUT_OF_MEMORY


def test_other_errors_on_a_full_device_are_what_they_are(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", a_card_with(0))
    assert raised(RuntimeError("CUDA error: device-side assert triggered")).outcome.status == Status.CRASHED
    assert raised(ValueError("unable to find an engine")).outcome.status == Status.CRASHED


def test_the_message_is_one_line_with_the_kind_of_the_error_and_the_users_own_line():
    here = rf" at {Path(__file__).name}:\d+ in raised"
    told = {
        ValueError("wrong\nshape"): "ValueError: wrong",
        AssertionError(): "AssertionError",
        SystemExit(3): "SystemExit: exit code 3",
        SystemExit(): "SystemExit: exit code 0",
        SystemExit("bye"): "SystemExit: exit code 1: bye",
    }
    for error, said in told.items():
        assert re.fullmatch(re.escape(said) + here, str(raised(error).outcome.message))


def test_what_the_users_function_raised_is_told_by_its_own_line():
    def fault():
        try:
            raise KeyError("x")
        except KeyError as error:
            raise UsageError("py:mine.py:load raised KeyError: 'x'\n  mine.py:3 in load: …") from error

    with pytest.raises(UsageError) as caught:
        fault()
    ended = ended_by(caught.value)
    assert str(ended.outcome.message).startswith("py:mine.py:load raised KeyError: 'x' at test_outcome.py:")
    assert ended.outcome.traceback == "  mine.py:3 in load: …"
    assert ended.mistake == "py:mine.py:load raised KeyError: 'x'\n  mine.py:3 in load: …"


def test_memory_that_ends_in_the_users_function_is_nobodys_mistake():
    try:
        raise UsageError("py:mine.py:load raised OSError") from OSError(errno.ENOMEM, "Cannot allocate memory")
    except UsageError as error:
        ended = ended_by(error)
    assert ended.outcome.status == Status.OUT_OF_MEMORY
    assert ended.outcome.message == "OSError: [Errno 12] Cannot allocate memory"
    assert ended.mistake is None


def test_a_thread_too_many_is_a_matter_of_memory_only_under_a_limit(monkeypatch):
    error = RuntimeError("can't start new thread")
    for limit, status in ((1 << 30, Status.OUT_OF_MEMORY), (resource.RLIM_INFINITY, Status.CRASHED)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert raised(error).outcome.status == status


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("CUDA error: unspecified launch failure", True),
        ("Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)", True),
        ("NVML: GPU is lost", True),
        ("the device cuda:0 is no longer available", True),
        ("Xid 79: GPU has fallen off the bus", True),
        ("device lost: no cuda device: torch sees no device", True),
        ("CUDA error: device-side assert triggered", False),
        ("maxid out of range", False),
    ],
)
def test_a_lost_device_is_named(said, lost):
    outcome = raised(RuntimeError(said)).outcome
    assert outcome.status == Status.CRASHED
    assert (outcome.reason == Reason.DEVICE_LOST) is lost
    assert outcome.message.startswith(f"the device was lost: RuntimeError: {said}") is lost


def test_an_exception_in_a_loaders_process_is_told_as_it_was_there():
    text = (
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "/lib/site-packages/torch/utils/data/worker.py", line 9, in _worker_loop\n    data = fetch()\n'
        '  File "/home/me/rows.py", line 31, in __getitem__\n    raise ValueError("bad row")\n'
        "ValueError: bad row\nsecond line\n"
    )
    outcome = raised(ValueError(text)).outcome
    assert outcome.message == "ValueError: bad row, in a DataLoader worker, at rows.py:31 in __getitem__"
    assert '"/home/me/rows.py", line 31' in outcome.traceback
    assert outcome.reason == Reason.IN_LOADER


def test_the_end_of_a_loaders_process_is_told_with_its_signal():
    error = RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly")
    error.__cause__ = RuntimeError("DataLoader worker (pid 7) is killed by signal: Segmentation fault. ")
    assert "Segmentation fault" in str(raised(error).outcome.message)


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


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ([-11], "DataLoader worker (pid 7) is killed by signal: Segmentation fault."),
        ([0, -9], "DataLoader worker (pid 8) is killed by signal: Killed."),
        ([3], "DataLoader worker (pid 7) exited with code 3"),
        ([None], "DataLoader worker (pid(s) 7) exited unexpectedly"),
    ],
)
def test_a_loader_whose_end_torch_did_not_see_is_asked_for_it(codes, says):
    def try_get_data():
        failed_workers = [SimpleNamespace(pid=7 + n, exitcode=code) for n, code in enumerate(codes)]
        assert failed_workers
        raise RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly") from TimeoutError()

    try:
        try_get_data()
    except RuntimeError as error:
        outcome = ended_by(error).outcome
    assert (outcome.message or "").startswith(f"RuntimeError: {says}")
    assert outcome.reason == (Reason.LOADER_KILLED if "Killed" in says else Reason.IN_LOADER)


@pytest.mark.parametrize(
    "said",
    [
        "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.1]:1",
        "NCCL error in: ncclRemoteError: A call failed possibly due to a network error",
        "[../gloo/transport/tcp/pair.cc:446] Connection reset by peer",
        "Broken pipe", "failed to recv, got 0 bytes",
    ],
)  # fmt: skip
def test_that_another_rank_has_gone_is_no_reason_of_its_own(said):
    assert raised(RuntimeError(said)).outcome.reason == Reason.PEER_GONE
    assert raised(RuntimeError("shapes differ")).outcome.reason is None


def test_a_long_line_ends_with_a_sentence():
    """As an H200 told it on 2026-11-27."""
    line = (
        "CUDA out of memory. Tried to allocate 79.69 GiB. GPU 0 has a total capacity of 139.80 GiB of which 58.38 GiB "
        "is free. Process 771 has 518.00 MiB memory in use. Process 842 has 80.39 GiB memory in use. Including "
        "non-PyTorch memory, this process has 524.00 MiB memory in use. Of the allocated memory 5.00 MiB is allocated "
        "by PyTorch, and 1024.00 KiB is reserved by PyTorch but unallocated."
    )
    outcome = ended_by(torch.OutOfMemoryError(line)).outcome
    assert outcome.status == Status.OUT_OF_MEMORY
    assert outcome.message is not None
    assert outcome.message.endswith("this process has 524.00 MiB memory in use")
