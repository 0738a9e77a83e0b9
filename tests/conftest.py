"""What every test may rely on: a store of its own, no model hub, and the data folder where it is."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["TORCHSTONE_WHEN_BUSY"] = "share"  # several tests run several torchstones at once


@pytest.fixture(autouse=True)
def _own_store(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHSTONE_OUTPUT", str(tmp_path / "outputs"))
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def outputs(tmp_path) -> Path:
    return tmp_path / "outputs"


@pytest.fixture(scope="session")
def driver_folder(tmp_path_factory) -> Path:
    """The folder of the stub libcuda and libnvidia-ml (stub_driver.py); skips where there is no compiler."""
    import stub_driver

    return stub_driver.build(tmp_path_factory.mktemp("driver"))
