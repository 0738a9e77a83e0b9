"""Which import it was that initialised a driver, with modules that do so and a driver that is a list."""

import importlib
import sys

import pytest

from torchstone.execution.worker import preload_watch
from torchstone.execution.worker.preload_watch import PreloadWatch

ASKED: list[str] = []
DRIVER = "the driver was initialised"


def ask():
    return DRIVER if ASKED else None


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Return a function that writes modules and puts them on the path; `TOUCH` in a text initialises the driver."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(preload_watch, "never_forks", lambda: None)
    ASKED.clear()

    def write(**texts):
        for name, text in texts.items():
            touch = "import sys\nsys.modules['watched_driver'].append(__name__)\n"
            (tmp_path / f"{name}.py").write_text(text.replace("TOUCH", touch))
        importlib.invalidate_caches()

    monkeypatch.setitem(sys.modules, "watched_driver", ASKED)
    yield write
    for name in [name for name in sys.modules if name.startswith("seen_")]:
        del sys.modules[name]


def test_the_import_that_asked_is_named(modules):
    modules(seen_a="import seen_b\nimport seen_c", seen_b="", seen_c="TOUCH", seen_d="")
    with PreloadWatch(ask) as watch:
        watch.begins("hf:first")
        watch.begins("hf:second")
        importlib.import_module("seen_a")
        importlib.import_module("seen_d")
        watch.begins("task train")
    assert watch.reason() == f"{DRIVER} by the preload of hf:second, at `import seen_c`"


def test_a_preload_that_asked_without_an_import_is_named(modules):
    with PreloadWatch(ask) as watch:
        watch.begins("tower:small")
        ASKED.append("itself")
        watch.begins("task train")
    assert watch.reason() == f"{DRIVER} by the preload of tower:small"


def test_what_asked_before_or_after_everything_is_told_apart(modules):
    with PreloadWatch(ask) as watch:
        watch.begins("hf:bert")
    assert watch.reason() is None
    ASKED.append("a thread")
    assert "after everything was preloaded" in str(watch.reason())
    with PreloadWatch(ask) as watch:
        watch.begins("hf:bert")
    assert "before anything was preloaded" in str(watch.reason())


def test_it_finds_no_module_and_is_gone_afterwards(modules):
    modules(seen_a="VALUE = 7")
    before = list(sys.meta_path)
    with pytest.raises(ModuleNotFoundError, match="seen_nothing"), PreloadWatch(ask) as watch:
        assert importlib.import_module("seen_a").VALUE == 7
        watch.begins("hf:bert")
        importlib.import_module("seen_nothing")
    assert sys.meta_path == before


def test_a_build_that_never_forks_says_so(modules, monkeypatch):
    monkeypatch.setattr(preload_watch, "never_forks", lambda: "built for Intel GPUs")
    with PreloadWatch(ask) as watch:
        watch.begins("hf:bert")
    assert watch.reason() == "built for Intel GPUs"
