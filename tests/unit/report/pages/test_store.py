import shutil
import threading
import time

import pytest
from stored import a_stored_run, case, machine, store

from torchstone.report.pages import store as module
from torchstone.report.pages.store import GoneError, Store
from torchstone.storage.catalogue import Wanted, run_lines


def write(folder, number):
    store(folder, [a_stored_run(number, [(case(), 100.0)], machine(), trials=1)])


def seen(kept):
    with kept.reading() as connection:
        return len(run_lines(connection, Wanted()))


def soon(is_so):
    """Wait 4 s at most until it is so; return whether it is."""
    for _ in range(400):
        if is_so():
            return True
        time.sleep(0.01)
    return False


def test_between_two_looks_it_rests_unless_it_is_hurried(tmp_path):
    write(tmp_path, 0)
    with Store(tmp_path) as kept:
        kept.freshen(hurry=True)
        assert seen(kept) == 1
        write(tmp_path, 1)
        kept.freshen()
        assert seen(kept) == 1
        kept.freshen(hurry=True)
        assert seen(kept) == 2


def test_it_looks_only_when_it_is_asked_and_once_for_all_who_ask(tmp_path, monkeypatch):
    looks = []

    def look(*_):
        looks.append(1)
        return ()

    monkeypatch.setattr(module, "sync", look)
    monkeypatch.setattr(module, "_LEAST_S", 0.05)
    with Store(tmp_path) as kept:
        assert soon(lambda: len(looks) == 1)
        time.sleep(0.2)
        assert len(looks) == 1
        kept._rests_until_s = time.monotonic() + 10.0
        for _ in range(5):
            kept.freshen()
        assert soon(lambda: len(looks) == 2)
        time.sleep(0.2)
        assert len(looks) <= 3


def test_a_look_that_began_before_a_record_was_written_does_not_count(tmp_path, monkeypatch):
    began, may_end = threading.Event(), threading.Event()
    looks = []

    def slow(*_):
        looks.append(1)
        began.set()
        may_end.wait(5.0)
        return ()

    monkeypatch.setattr(module, "sync", slow)
    with Store(tmp_path) as kept:
        assert began.wait(5.0)
        threading.Timer(0.1, may_end.set).start()
        kept.freshen(hurry=True)
        assert len(looks) == 2


def test_a_long_look_is_said(tmp_path, monkeypatch):
    began, may_end = threading.Event(), threading.Event()

    def slow(*_):
        began.set()
        may_end.wait(5.0)
        return ()

    monkeypatch.setattr(module, "sync", slow)
    with Store(tmp_path) as kept:
        assert began.wait(5.0)
        assert not kept.is_behind
        monkeypatch.setattr(module, "_LONG_S", 0.0)
        assert soon(lambda: kept.is_behind)
        may_end.set()
        assert soon(lambda: not kept.is_behind)


def test_a_look_that_fails_is_said_and_the_next_may_succeed(tmp_path, monkeypatch):
    faults = [OSError("the disk is gone")]

    def faulty(*_):
        if faults:
            raise faults.pop()
        return ()

    monkeypatch.setattr(module, "sync", faulty)
    with Store(tmp_path) as kept:
        assert soon(lambda: kept.fault == "OSError: the disk is gone")
        kept.freshen(hurry=True)
        assert kept.fault is None


def test_a_folder_that_goes_is_not_made_again(tmp_path):
    folder = tmp_path / "store"
    write(folder, 0)
    with Store(folder) as kept:
        kept.freshen(hurry=True)
        shutil.rmtree(folder)
        kept.freshen(hurry=True)
        with pytest.raises(GoneError, match="is not there any more"), kept.reading():
            pass
        assert not folder.exists()
        assert kept.fault is None
