"""What a template does before it forks: the environment it imports in, and the question without which it never does."""

import ast
import json
import os
import socket
from types import SimpleNamespace

import pytest
from stub_driver import python

from torchstone.execution.worker import template
from torchstone.plugins import registry

CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"


@pytest.mark.parametrize(("users", "during"), [(None, "1"), ("0", "0")])
def test_while_it_imports_torch_counts_devices_by_nvml_unless_the_user_says_otherwise(monkeypatch, users, during):
    seen = []
    plugin = SimpleNamespace(preload=lambda *_: seen.append(os.environ.get(CHECK)))
    monkeypatch.setattr(registry, "load", lambda family, name: plugin)
    monkeypatch.setattr(registry, "usable", lambda family: [("train", plugin)])
    monkeypatch.delenv(CHECK, raising=False)
    if users is not None:
        monkeypatch.setenv(CHECK, users)
    assert template._import_for(["hf:bert", "builtin:mlp"]).reason() is None
    assert seen == [during] * 3
    assert os.environ.get(CHECK) == users, "trials have the environment of their user"


def test_where_a_driver_was_initialised_nothing_is_forked_and_the_controller_is_told_why(monkeypatch):
    ours, theirs = socket.socketpair()
    end, given = os.pipe()
    socket.send_fds(ours, [b'{"ask":"inspect"}\n'], [given])
    os.close(given)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("this child could not use the device"))
    living: set[int] = set()
    assert template._fork_for_request(theirs, living, SimpleNamespace(reason=lambda: "an import asked"))  # type: ignore[arg-type]
    assert json.loads(ours.recv(4096)) == {"unforkable": "an import asked"}
    assert os.read(end, 1) == b"", "the line to the trial that is not there is closed"
    assert not living
    for one in (ours, theirs):
        one.close()
    os.close(end)


ASKING = """
import collections, torch
from torchstone.execution.worker import template

asked = collections.Counter()


def listen(module, name):
    real = getattr(module, name)

    def noting(*args, **named):
        asked[f"{module.__name__}.{name}"] += 1
        return real(*args, **named)

    setattr(module, name, noting)


for module, names in {
    torch.cuda: ("init", "_lazy_init", "is_available", "device_count", "current_device", "get_device_properties"),
    torch._C: ("_get_accelerator",),  # get_device_module() without an argument, which asks the driver (pytorch#190708)
    torch.xpu: ("is_available",),
}.items():
    for name in names:
        listen(module, name)
print(template._import_for(["builtin:cnn", "hf:bert", "hf:gpt2", "hf:vit-base"]).reason(), dict(asked))
"""


def test_our_own_preloads_ask_no_cuda_device_and_transformers_asks_for_intels():
    said = python(ASKING, dict(os.environ)).strip()
    reason, _, asked = said.partition(" ")
    assert reason == "None"
    assert set(ast.literal_eval(asked)) <= {"torch.xpu.is_available"}
