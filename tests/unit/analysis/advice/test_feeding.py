"""Who waits for whom, from rates that are known."""

import pytest

from torchstone.analysis.advice.feeding import FeedPace, feeding
from torchstone.report.diagnosis_messages import texts


def test_a_slow_loader_starves_the_device():
    told = feeding(950.0, 3100.0)
    assert texts(told.seen, "; ") == (
        "the loader delivers 950 items/s, the device processes 3,100: the device waits 69 % of the step"
    )
    assert (told.pace, told.possible) == (FeedPace.LOADER, 950.0)
    assert told.wait_share == pytest.approx(1 - 950 / 3100)


def test_a_slow_device_is_not_helped_by_workers():
    told = feeding(3100.0, 950.0, whole=945.0, wait_share=0.03, workers=4)
    assert told.pace == FeedPace.DEVICE
    assert texts(told.seen, "; ").endswith("the loader is 3.3 times as fast as it must be; more workers gain nothing")
    assert told.wait_share == pytest.approx(1 - 945 / 950), "the host may wait for data while its device works"


@pytest.mark.parametrize("device", [960.0, 1000.0, 1040.0])
def test_equals_keep_pace(device):
    told = feeding(1000.0, device, workers=2)
    assert told.pace == FeedPace.BOTH
    assert "keep pace" in texts(told.seen, "; ")


def test_without_workers_the_times_add():
    told = feeding(300.0, 600.0, workers=0)
    assert told.pace == FeedPace.TURNS
    assert told.possible == pytest.approx(200.0)
    assert told.wait_share == pytest.approx(2 / 3)
    assert "they alternate" in texts(told.seen, "; ")
    assert "67 % of the step" in texts(told.seen, "; ")


def test_a_device_that_runs_behind_overlaps_with_a_loader_without_workers():
    told = feeding(3100.0, 950.0, whole=945.0, wait_share=0.31, workers=0)
    assert told.pace == FeedPace.DEVICE
    assert told.wait_share == pytest.approx(1 - 945 / 950)


def test_together_slower_than_either_alone_is_said():
    told = feeding(1000.0, 2000.0, whole=600.0, wait_share=0.2, workers=2)
    assert texts(told.seen, "; ").endswith("; together they reach only 600 of the 1,000 items/s that this allows")
    assert told.wait_share == 0.2, "the rest of the step is not waiting: loading and computing are in each other's way"


@pytest.mark.parametrize(("loader", "device", "missing"), [(None, 5.0, "loader"), (5.0, None, "device")])
def test_what_was_not_measured_is_not_guessed(loader, device, missing):
    told = feeding(loader, device, whole=4.0)
    assert (told.pace, told.possible, told.wait_share) == (FeedPace.UNKNOWN, None, None)
    assert f"the {missing} alone was not measured" in texts(told.seen, "; ")
