"""A PostgreSQL of the tests' own, from Debian's packages: data in a temporary folder, a port on this machine only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
_PORTS = range(25432, 25448)  # below those that a system gives to clients
OWNER, READER, WRITER = "ts", "ana", "ben"
PASSWORDS = {OWNER: "owner-secret-1", READER: "reader-secret-2", WRITER: "writer-secret-3"}


def why_not() -> str:
    """Return why no server can be started here; "" where one can."""
    if not _BINARIES:
        return "NO PostgreSQL on this machine: the team store is NOT tested (apt-get install postgresql)"
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        return "PostgreSQL does not run as root, and there is no runuser: the team store is NOT tested"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "NO psycopg: the team store is NOT tested (pip install 'torchstone[postgres]')"
    return ""


class Server:
    """A server. Passwords are asked for on every connection (scram-sha-256)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self._claim = folder, 0, -1
        self._user = ("runuser", "-u", "postgres", "--") if os.geteuid() == 0 else ()
        if self._user:
            shutil.chown(folder, "postgres")
        secret = folder / "pw"
        secret.write_text(PASSWORDS[OWNER])
        secret.chmod(0o644)
        self._run("initdb", "-D", str(folder / "data"), "-A", "scram-sha-256", "-U", OWNER, f"--pwfile={secret}",
                  "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")  # fmt: skip
        for self.port in random.sample(_PORTS, len(_PORTS)):
            with contextlib.suppress(subprocess.CalledProcessError, BlockingIOError):
                self._claim_port()
                self.start()
                return
        raise RuntimeError(f"no server could be started on {_PORTS}: {(folder / 'log').read_text()[-500:]}")

    def _claim_port(self) -> None:
        """Lock the port: it stays this server's while it is down for a test, whatever other workers start."""
        if self._claim >= 0:
            os.close(self._claim)
        self._claim = os.open(f"/tmp/torchstone-pg-{self.port}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def start(self, wait_s: float = 30.0) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -k {self.folder} -h 127.0.0.1 -c shared_buffers=64MB -c max_connections=60"
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-o", options, "-w",
                  "-t", str(int(wait_s)), "start")  # fmt: skip

    def kill(self) -> None:
        """Kill all of it at once (SIGQUIT: without a checkpoint, as after a power cut)."""
        pid = self._pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGQUIT)
        give_up = time.monotonic() + 20.0
        while _lives(pid) and time.monotonic() < give_up:
            time.sleep(0.02)

    def end(self) -> None:
        """Stop it, and wait until it is gone."""
        with contextlib.suppress(subprocess.CalledProcessError):  # it is down already
            self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        os.close(self._claim)

    def url(self, database: str = "postgres", user: str = OWNER) -> str:
        """Return a URL without a password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def secret_url(self, database: str, user: str = OWNER) -> str:
        """Return a URL with the password, as TORCHSTONE_STORE may have it."""
        return f"postgresql://{user}:{PASSWORDS[user]}@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the owner."""
        import psycopg

        with psycopg.connect(self.secret_url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, name: str) -> str:
        """Make an empty database; return its name."""
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql(f"CREATE DATABASE {name}")
        return name

    def _run(self, program: str, *words: str) -> None:
        command = [*self._user, str(_BINARIES[-1] / program), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)

    def _pid(self) -> int | None:
        try:
            return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError):
            return None


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@contextlib.contextmanager
def postgresql() -> Iterator[Server]:
    """Run a server until the block ends. Skips the test, with the reason, where there is none."""
    if reason := why_not():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="torchstone-pg-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        server = Server(folder)
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
