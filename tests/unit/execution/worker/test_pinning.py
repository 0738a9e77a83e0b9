"""Threads bound to a core each, looked at in processes of their own: what a library binds, and what is left free."""

import json
import os
import subprocess
import sys

import pytest

from torchstone.plugins.launchers._process import environment

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="needs Linux and two cores")

LOOK = """
import json, multiprocessing, os, sys
import msgspec
from torchstone.execution.worker.pinning import OURS, Pinning, Seats

def masks():
    return [sorted(os.sched_getaffinity(int(thread))) for thread in sorted(os.listdir("/proc/self/task"), key=int)]

def child(send):
    send.send(masks())

def of_child(kind, pinning):
    context = multiprocessing.get_context(kind)
    hear, send = context.Pipe()
    process = context.Process(target=child, args=(send,), daemon=True)
    process.start()
    found = hear.recv()
    process.join()
    return found

if __name__ == "__main__":
    import torch
    told = {"imported": masks()}
    pinning = Pinning(wanted=WANTED)
    told["building"] = masks()[0]
    pinning.bind()
    torch.set_num_threads(2)
    x = torch.randn(600, 600)
    x @ x
    told["bound"], told["facts"] = masks(), msgspec.to_builtins(pinning.facts())
    told["forked"] = of_child("fork", pinning)
    process = multiprocessing.get_context("spawn").Process(target=input, daemon=True)
    process.start()
    pinning.free([process.pid])
    told["spawned"] = sorted(os.sched_getaffinity(process.pid))
    process.kill()
    seats = Seats(bound=pinning.bound)
    cores = sorted(OURS)[:2]
    for drawn in (cores[::-1], cores, cores[:1]):
        seats.move(drawn)
        told.setdefault("moved", []).append(masks())
    print(json.dumps(told))
"""


def look(tmp_path, *, asked: bool, wanted: bool):
    program = tmp_path / "look.py"
    program.write_text(LOOK.replace("WANTED", str(wanted)))
    how = dict(environment("default", pin_threads=asked))
    done = subprocess.run([sys.executable, program], env=how, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def nobody_binds(monkeypatch):
    for name in ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


def test_a_team_of_two_has_a_core_each_and_all_else_has_every_core(tmp_path):
    told = look(tmp_path, asked=True, wanted=True)
    if len(told["imported"][0]) != 1:
        pytest.skip("this torch has an OpenMP that binds nothing")
    assert told["building"] == CORES
    alone = [mask for mask in told["bound"] if len(mask) == 1]
    assert len({mask[0] for mask in alone}) == 2
    assert told["facts"] == {"threads_pinned": 2}
    assert all(mask == CORES for mask in told["forked"])
    assert told["spawned"] == CORES


def test_threads_bound_apart_are_moved_apart(tmp_path):
    told = look(tmp_path, asked=True, wanted=True)
    if len(told["imported"][0]) != 1:
        pytest.skip("this torch has an OpenMP that binds nothing")
    main = [moved[0] for moved in told["moved"]]
    assert main == [[CORES[1]], [CORES[0]], [CORES[0]]]
    assert all({mask[0] for mask in moved if len(mask) == 1} == set(CORES[:2]) for moved in told["moved"][:2])
    assert {mask[0] for mask in told["moved"][2]} == {CORES[0]}


def test_where_nobody_asks_nothing_is_bound_and_where_it_did_not_work_it_is_told(tmp_path):
    told = look(tmp_path, asked=False, wanted=False)
    assert all(mask == CORES for mask in told["bound"])
    assert told["facts"] == {}
    assert told["moved"][0][0] == CORES[:2]
    assert look(tmp_path, asked=False, wanted=True)["facts"] == {"threads_pinned": 0}
