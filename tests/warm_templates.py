"""Templates forked from a process that has imported torch already: a new interpreter imports for two seconds of a core.

What a template does is its own code all the same: it imports what its models need, says that it is ready, and forks
trials. Only how it comes to be is the tests' affair. It is started as users' are where its environment differs in
anything that is read when a process starts, where a folder of its modules could hide ours, and wherever `FOLDER` is not
set: so are all of tests/faults and tests/contract, and the flows that look for processes by their environment.

`serve SOCKET`: be the process that forks them. Other words: be `python -m torchstone` with them.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

FOLDER = "WARM_TEMPLATES"  # of their sockets
TORCHSTONE = (sys.executable, __file__)  # in place of python -m torchstone
_WORKER = "torchstone.execution.worker"
# What may differ: each is looked at when it is needed, and by nothing before that.
_ANY = (
    FOLDER, "COLUMNS", "GITHUB_", "HOME", "LINES", "OLDPWD", "PATH", "PWD", "PYTEST_", "PYTHONPATH", "PY_COLORS",
    "SLURM", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TORCHSTONE_", "USERPROFILE",
)  # fmt: skip
_OURS = ("torch", "numpy", "torchstone", "sitecustomize.py", "usercustomize.py")
_SOURCES = Path(__file__).parents[1] / "src"
_PATIENCE_S = 30.0


class Popen(subprocess.Popen):  # type: ignore[type-arg]  # of bytes or text
    """As subprocess.Popen, but for a template."""

    def __new__(cls, command: Any = (), *_: Any, **how: Any) -> Self:
        """Ask for a fork where that would be the same."""
        if isinstance(command, list) and command[1:4] == ["-m", _WORKER, "template"] and "env" in how:
            found: Any = _forked(command[4:], how["env"], how["cwd"])
            if found is not None:
                return found  # what Fork needs of one
        return super().__new__(cls)


class _Forked:
    """The end of a template that is no child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor: int | None = None
        with suppress(ProcessLookupError):
            self._descriptor = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; nobody asks for its status."""
        if self._descriptor is not None:
            if not select.select([self._descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a template", timeout or 0.0)
            os.close(self._descriptor)
            self._descriptor = None
        return 0

    def kill(self) -> None:
        """End it."""
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


def _key(environment: Mapping[str, str]) -> str:
    fixed = sorted((name, value) for name, value in environment.items() if not name.startswith(_ANY))
    return hashlib.sha256(json.dumps(fixed).encode()).hexdigest()[:16]


def _modules(environment: Mapping[str, str]) -> list[str]:
    return [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one]


def _forked(words: Sequence[str], environment: Mapping[str, str], cwd: Path | None) -> _Forked | None:
    at = Path(environment.get(FOLDER, os.devnull), _key(environment))
    folder = Path(cwd or Path.cwd()).absolute()
    until_s = time.monotonic() + _PATIENCE_S
    while _awaited(at).exists() and not at.exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    others = {folder, *map(Path, _modules(environment))} - {_SOURCES}
    if not at.exists() or any((one / name).exists() for one in others for name in _OURS):
        return None
    descriptor, *preload = words
    message = {"cwd": str(folder), "environment": dict(environment), "preload": preload}
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_PATIENCE_S)
        line.connect(str(at))
        socket.send_fds(line, [json.dumps(message).encode() + b"\n"], [int(descriptor), 1, 2])
        return _Forked(int(line.makefile().readline()))


def _awaited(at: Path) -> Path:
    """Return the file that says that somebody will serve there."""
    return at.with_suffix(".awaited")


@contextmanager
def serving(folder: Path, environments: Sequence[Mapping[str, str]]) -> Iterator[Path]:
    """Have a process for each of these environments of templates; their sockets are in the folder."""
    with ExitStack() as living:
        for environment in environments:
            at = folder / _key(environment)
            _awaited(at).touch()
            process = subprocess.Popen(
                [sys.executable, __file__, "serve", str(at)], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, env=dict(environment),
            )  # fmt: skip
            living.enter_context(process)
            living.callback(process.kill)  # where that cannot be done, the end of its stdin ends it
        yield folder


@contextmanager
def used(folder: Path) -> Iterator[None]:
    """Have this process, and each `TORCHSTONE` that it starts, ask those who serve in this folder."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER, str(folder))
        patch.setattr(subprocess, "Popen", Popen)
        yield


def _serve(path: Path) -> None:
    import torchstone.execution.worker.__main__  # before torch, which may bind the main thread
    import torchstone.plugins.models.builtin.nets  # noqa: F401  imports it
    from torchstone.plugins import registry

    modules = [one for one in sys.path[1:] if one not in _modules(os.environ)]
    for _, engine in registry.usable("engines"):
        engine.preload()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen()
        Path(f"{path}.new").rename(path)
        while True:
            if 0 in select.select([0, listener.fileno()], [], [])[0]:
                return
            line, _ = listener.accept()
            data, descriptors, _, _ = socket.recv_fds(line, 1 << 20, 3)
            while not data.endswith(b"\n"):
                data += line.recv(1 << 20)
            pid = os.fork()
            if pid == 0:
                listener.close()
                line.close()
                _be_template(json.loads(data), descriptors, modules)
            line.sendall(b"%d\n" % pid)
            line.close()
            for one in descriptors:
                os.close(one)


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):  # there is none left
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _be_template(message: Any, descriptors: Sequence[int], modules: Sequence[str]) -> None:
    from torchstone.execution.worker.__main__ import main
    from torchstone.plugins import registry

    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        control, *printed = descriptors
        for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *printed)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(message["cwd"])
        os.environ.clear()
        os.environ.update(message["environment"])
        tempfile.tempdir = None
        sys.path[:] = [message["cwd"], *_modules(os.environ), *modules]
        for cached in vars(registry).values():
            getattr(cached, "cache_clear", int)()  # other plug-ins may be installed there
        main(["template", str(control), *message["preload"]])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as with python -m
    if sys.argv[1:2] == ["serve"]:
        _serve(Path(sys.argv[2]))
    else:
        subprocess.Popen = Popen  # type: ignore[assignment,misc]
        runpy.run_module("torchstone", run_name="__main__", alter_sys=True)
