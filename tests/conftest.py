"""What every test may rely on: a store of its own, no model hub, and the data folder where it is."""

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import hypothesis
import pytest

from torchstone.core.charts import drawing

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["TORCHSTONE_WHEN_BUSY"] = "share"  # several tests run several torchstones at once
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: tests of Ctrl-C need it
    signal.signal(signal.SIGINT, signal.default_int_handler)
# On a busy machine an example may take any time: that is no finding of a test about values.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")


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


@pytest.fixture(scope="session")
def templates(tmp_path_factory) -> Iterator[Path]:
    """The sockets of what templates are forked from: as `run` and `ab` start them, and with one thread."""
    from warm_templates import serving

    from torchstone.plugins.launchers._process import environment

    usual = environment("fixed")
    others = (environment("huge", pin_threads=True), {**usual, "OMP_NUM_THREADS": "1"})
    with serving(tmp_path_factory.mktemp("t"), [usual, *others]) as folder:
        yield folder


@pytest.fixture(scope="module")
def warm(request, templates) -> Iterator[None]:
    """Fork templates instead of starting them (warm_templates.py), but for a module that says COLD = True."""
    from warm_templates import used

    with nullcontext() if getattr(request.module, "COLD", False) else used(templates):
        yield


@pytest.fixture(scope="session", autouse=True)
def _drawn_once(tmp_path_factory) -> Iterator[None]:
    """Each picture is drawn once for all tests and workers: the same ones are in many formats and many tests.

    No process of its own draws them. That a picture drawn twice, or elsewhere, is the same is tested with the functions
    themselves (unit/core/charts/test_drawing.py).
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "drawings"
    folder.mkdir(exist_ok=True)
    svg_of, pixels = drawing._drawn, drawing._pixels
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_drawn", lambda spec: kept(folder, spec, lambda: svg_of(spec).encode()).decode())
        patch.setattr(drawing, "drawing_elsewhere", nullcontext)
        patch.setattr(drawing, "_pixels", lambda svg: kept(folder, svg.encode(), lambda: pixels(svg)))
        yield


def kept(folder: Path, asked: bytes, draw: Callable[[], bytes]) -> bytes:
    """Return what was drawn of this text by any worker, or draw it."""
    file = folder / hashlib.sha256(asked).hexdigest()
    if file.exists():
        return file.read_bytes()
    drawn = draw()
    own = file.with_suffix(f".{os.getpid()}")
    own.write_bytes(drawn)
    own.replace(file)
    return drawn
