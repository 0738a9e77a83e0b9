"""A program that runs already, as fakes: stacks of its threads, what py-spy writes of it, and folders of /proc."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.program.attached import Frame, Process, Spent, Target, Thread, Watched

ROOT = "/env/lib/python3.11/site-packages/torch"
LINES = {
    10: "for x in loader:", 11: "y = model(x)", 12: "loss.backward()", 13: "optimizer.step()", 14: "print(loss.item())",
    15: "x = make_batch()", 16: "y = model(x.cuda())",
    17: "table = torch.tensor([[float(cell) for cell in row] for row in csv.reader(file)])",
    18: "sum += float(loss)", 40: "return decode(self.files[i])",
}  # fmt: skip


def frame(name: str, file: str, line: int = 1) -> Frame:
    """A call within torch."""
    return Frame(name, f"{ROOT}/{file}", line)


def own(line: int, name: str = "main") -> Frame:
    """A line of the user's script."""
    return Frame(name, "/home/me/train.py", line)


WAITING = (own(10), frame("_BaseDataLoaderIter.__next__", "utils/data/dataloader.py"))
FORWARD = (own(11), frame("Module._call_impl", "nn/modules/module.py"), frame("Linear.forward", "nn/modules/linear.py"))
BACKWARD = (own(12), frame("Tensor.backward", "_tensor.py"), frame("backward", "autograd/__init__.py"))
UPDATE = (own(13), frame("wrapper", "optim/optimizer.py"), frame("_single_tensor_adam", "optim/adam.py"))
ASKING = (own(14),)
BY_HAND = (own(15), own(40, "make_batch"))
COPYING = (own(16),)
READING, CONVERTING = (own(17),), (own(18),)
LOADING = (
    *WAITING, frame("_worker_loop", "utils/data/_utils/worker.py"), frame("fetch", "utils/data/_utils/fetch.py"),
    own(40, "__getitem__"),
)  # fmt: skip
IDLE_WORKER = (*WAITING, frame("_worker_loop", "utils/data/_utils/worker.py"))


def code(frame: Frame) -> str:
    """The text of a line."""
    return LINES.get(frame.line, "")


def mixed(shares: Mapping[Any, int], of: int = 300) -> tuple[tuple[Frame, ...], ...]:
    """Stacks in turn, so many of a hundred each."""
    hundred = [tuple(stack) for stack, count in shares.items() for _ in range(count)]
    assert len(hundred) == 100
    return tuple(hundred[(37 * number) % 100] for number in range(of))


def a_target(device: str = "cpu") -> Target:
    """The program."""
    info = DeviceInfo(device, device, "", 0, device)
    return Target(Process(42, ("python", "train.py", "--lr", "1"), ROOT), info, "2.9.0", 1000, "7")


def seen(
    shares: Mapping[Any, int], loads: Mapping[Any, int] | None = None, busy: float = 1.0,
    loader_busy: float = 1.0, **changes: Any,
) -> Watched:  # fmt: skip
    """Thirty seconds of it, with a process that loads where its stacks are given."""
    threads = [Thread(42, 42, mixed(shares)), Thread(42, 43, ((frame("_feed", "utils/feeding.py"),),) * 300)]
    processes = {42: a_target().process}
    spent = {42: Spent({42: 30.0 * busy, 43: 0.0}, 0.0, {42: 0.0, 43: 0.0})}
    if loads is not None:
        threads.append(Thread(50, 50, mixed(loads)))
        processes[50] = Process(50, ("python", "train.py"), ROOT)
        spent[50] = Spent({50: 30.0 * loader_busy}, 0.0, {50: 0.0})
    return Watched(**{
        "elapsed_s": 30.0, "threads": tuple(threads), "spent": spent, "processes": processes, "cost_s": 0.3,
        "others_cores": 0.1, **changes,
    })  # fmt: skip


def speedscope(threads: Mapping[str, Sequence[Sequence[Frame]]]) -> str:
    """What py-spy writes."""
    frames = sorted({one for stacks in threads.values() for stack in stacks for one in stack}, key=repr)
    return json.dumps({
        "profiles": [
            {"type": "sampled", "name": name, "samples": [[frames.index(one) for one in stack] for stack in stacks]}
            for name, stacks in threads.items()
        ],
        "shared": {"frames": [{"name": one.name, "file": one.file, "line": one.line, "col": None} for one in frames]},
    })  # fmt: skip


def a_process(
    proc: Path,
    pid: int,
    parent: int = 1,
    maps: Sequence[str] = (),
    command: str = "python train.py",
    **environment: str,
) -> None:
    """A folder of /proc."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a ) name) S {parent} " + "0 " * 17 + "77 0 0\n")
    lines = [f"7f00-7f10 r-xp 0000 08:01 {number} {file}" for number, file in enumerate(maps)]
    (folder / "maps").write_text("\n".join([*lines, "7f20-7f30 rw-p 0000 00:00 0"]))
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in command.split(" ")) + b"\0")
    (folder / "environ").write_bytes(b"\0".join(f"{name}={value}".encode() for name, value in environment.items()))
