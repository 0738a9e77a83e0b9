"""The controller's side of `machine peaks`, with processes that answer, refuse, die and hang."""

import os

import pytest
from build import peaks_of

from torchstone.cli import machine_command as asking
from torchstone.core.errors import MissingError, TorchstoneError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import Ended, Entered, Live, PeaksMeasured, PeaksRequest
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.controller.observer import Silent
from torchstone.storage import stored_peaks as cache


class Answering:
    """A launcher whose one process says what it is told to, and then ends, or hangs."""

    def __init__(self, *events, ending=None, hangs=False):
        self._rounds, self._ending = [list(events)] if events else [], ending
        self._read, write = os.pipe()
        if not hangs:
            os.close(write)
        self.asked = []
        self.killed = False
        self.pid = 0

    def start(self, request):
        self.asked.append(request)
        return self

    def fileno(self):
        return self._read

    def events(self):
        return self._rounds.pop(0) if self._rounds else None

    def kill(self):
        self.killed = True

    def ending(self):
        return self._ending


def ask(launcher, tmp_path, budget_s=1.0):
    return asking.current_peaks(launcher, Placement("cpu"), tmp_path, Silent(), budget_s)


def test_what_was_measured_is_kept(tmp_path):
    launcher = Answering(Live(), Entered("memory", 0.0), PeaksMeasured(peaks_of()), Ended(Outcome(Status.OK)))
    assert ask(launcher, tmp_path, 3.0) == peaks_of()
    assert launcher.asked == [PeaksRequest(Placement("cpu"), 3.0, str(tmp_path))]
    assert len(list(cache.folder().iterdir())) == 1


def test_a_device_that_cannot_be_opened_is_missing(tmp_path):
    with pytest.raises(MissingError, match="cpu: no such device"):
        ask(Answering(Ended(Outcome(Status.UNSUPPORTED, "no such device"))), tmp_path)


def test_a_process_that_fails_or_dies_says_how(tmp_path):
    with pytest.raises(TorchstoneError, match="could not be measured: RuntimeError"):
        ask(Answering(Ended(Outcome(Status.CRASHED, "RuntimeError: no"))), tmp_path)
    with pytest.raises(TorchstoneError, match="killed by SIGKILL"):
        ask(Answering(Live(), ending="killed by SIGKILL"), tmp_path)


def test_a_process_that_hangs_is_ended(tmp_path):
    launcher = Answering(hangs=True)
    with pytest.raises(TorchstoneError, match="no answer within"):
        ask(launcher, tmp_path, 0.005)
    assert launcher.killed
    assert not cache.folder().exists()
