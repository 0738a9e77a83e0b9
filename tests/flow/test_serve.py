"""torchstone serve through the real command line: its socket, its token, and how it ends."""

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from served import served
from stored import a_stored_run, case, machine, store

from torchstone.cli import main

pytest.importorskip("uvicorn", reason="serve needs uvicorn (pip install 'torchstone[serve]')")

TOKEN = "a-token-of-some-length"


@pytest.fixture
def folder(outputs):
    store(outputs, [a_stored_run(number, [(case(), 100.0)], machine(), name=f"night-{number}") for number in range(3)])
    return outputs


def asked(address, path=None, **headers):
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request("GET", path or f"{parts.path}?{parts.query}", headers=headers)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply, body


def test_it_serves_this_machine_alone_and_ends_at_ctrl_c(folder):
    with served(folder) as found:
        assert found.address.startswith("http://127.0.0.1:")
        assert "token" not in found.address
        reply, page = asked(found.address, "/runs")
        assert reply.status == 200
        assert "night-2" in page
        assert reply.getheader("content-security-policy", "").startswith("default-src 'none'")
        assert reply.getheader("server") is None
        assert asked(found.address, "/runs", Host="evil.example")[0].status == 400


@pytest.mark.parametrize(("words", "language"), [((), "ko"), (("--lang", "en"), "en")])
def test_its_language_is_that_of_the_environment_or_of_a_flag(folder, monkeypatch, words, language):
    monkeypatch.setenv("TORCHSTONE_LANG", "ko")
    with served(folder, *words) as found:
        _, page = asked(found.address, "/runs")
        assert f'<html lang="{language}">' in page
        assert ("<h1>실행</h1>" in page) == (language == "ko")


def test_it_ends_at_sigterm_too(folder):
    with served(folder) as found:
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(timeout=20) == 0


def test_another_address_needs_the_token_that_is_printed(folder):
    with served(folder, "--host", "0.0.0.0") as found:
        port, token = urlsplit(found.address).port, urlsplit(found.address).query.partition("=")[2]
        here = f"http://127.0.0.1:{port}"
        assert len(token) >= 32
        assert asked(here, "/runs")[0].status == 401
        assert asked(here, "/runs?token=wrong")[0].status == 401
        reply, _ = asked(here, f"/runs?token={token}")
        cookie = reply.getheader("set-cookie", "")
        assert (reply.status, reply.getheader("location")) == (303, "/runs")
        assert "HttpOnly; SameSite=Strict" in cookie
        assert asked(here, "/runs", Cookie=cookie.partition(";")[0])[0].status == 200


def test_a_token_of_a_file_is_not_printed(folder, tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with served(folder, "--token-file", str(file)) as found:
        assert "token" not in found.address
        assert asked(found.address, "/runs")[0].status == 401
        assert asked(found.address, f"/runs?token={TOKEN}")[0].status == 303


def test_half_sent_requests_shut_nobody_out_and_are_closed(folder):
    with served(folder) as found, contextlib.ExitStack() as stack:
        where = urlsplit(found.address)
        half = [stack.enter_context(socket.create_connection((where.hostname, where.port))) for _ in range(100)]
        for one in half:
            one.sendall(b"GET /runs HTTP/1.1\r\nHost: ")
        assert asked(found.address, "/runs")[0].status == 200
        half[0].settimeout(20.0)
        assert half[0].recv(1) == b""


def test_two_hundred_at_once_are_all_answered(folder):
    with served(folder) as found, ThreadPoolExecutor(200) as pool:
        assert set(pool.map(lambda _: asked(found.address, "/runs")[0].status, range(200))) == {200}


def test_a_port_in_use(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"torchstone: port {port} is in use: choose another, such as --port {port + 1}\n"


@pytest.mark.parametrize(("words", "said"), [
    (["--port", "70000"], "--port 70000: 0 (any free one) to 65535"),
    (["--host", "192.0.2.1"], "--host 192.0.2.1 is no address of this machine"),
    (["--token-file", "nothing"], "--token-file nothing cannot be read"),
    (["--token-file", "short"], "the token has 5 characters, 16 or more are needed: openssl rand -hex 24 > short"),
    (["--token-file", "/dev/zero"], "--token-file /dev/zero: more than 4096 bytes"),
    (["--host", ""], "--host is empty: name an address"),
    (["--output-dir", "nothing"], "no folder nothing: name one with --output-dir, or make a first run"),
    (["--output-dir", "short"], "--output-dir short is a file; name a folder"),
])  # fmt: skip
def test_wrong_requests(folder, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("short")
    assert main(["serve", *words]) == 2
    found = capsys.readouterr().err
    assert said in found
    assert found.count("\n") == 1


def test_without_its_libraries_it_says_what_to_install(folder):
    code = (
        "import sys; sys.modules['uvicorn'] = None; from torchstone.cli import main; "
        f"raise SystemExit(main(['serve', '--output-dir', {str(folder)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "torchstone: serve needs starlette, jinja2 and uvicorn: pip install 'torchstone[serve]'\n"
