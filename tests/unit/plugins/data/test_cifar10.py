"""The pickles of CIFAR-10 are read, and whatever else a pickle can ask for is refused before it has an effect."""

import os
import pickle
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from torchstone.core.errors import UsageError
from torchstone.plugins.data import cifar10
from torchstone.plugins.data.cifar10 import Array, loads, read


def by_python_2(shape: tuple[int, int], raw: bytes) -> bytes:
    """A batch, instruction by instruction as the official files have it: protocol 2, written by Python 2."""
    rows, columns = (n.to_bytes(2, "little") for n in shape)
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05(K\x06K\x09e"
        b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\tU\x01b\x87q\nRq\x0b"
        b"(K\x01M" + rows + b"M" + columns + b"\x86q\x0ccnumpy\ndtype\nq\rU\x02u1K\x00K\x01\x87q\x0eRq\x0f"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
        b"U\tfilenamesq\x10]q\x11(U\x05a.pngq\x12U\x05b.pngq\x13eu."
    )


def test_an_official_batch() -> None:
    raw = bytes(range(256)) * 2
    found = loads(by_python_2((2, 256), raw), "it")
    assert found[b"labels"] == [6, 9]
    assert found[b"filenames"] == [b"a.png", b"b.png"]
    data = found[b"data"]
    assert isinstance(data, Array)
    assert (data.shape, data.kind, data.fortran, data.data) == ((2, 256), "u1", False, raw)
    assert pickle.loads(by_python_2((2, 256), raw), encoding="bytes")[b"data"].tobytes() == raw  # Python agrees


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("kind", ["u1", "i8", "f4", "?"])
def test_what_numpy_and_python_3_write(protocol: int, kind: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(kind)
    content = {b"data": array, "turned": np.asfortranarray(array), "n": [1, -2.5, None]}
    found = loads(pickle.dumps(content, protocol), "it")
    assert found["n"] == [1, -2.5, None]
    for name, order in ((b"data", "C"), ("turned", "F")):
        one = found[name]
        assert (one.shape, one.kind, one.fortran) == ((2, 3), array.dtype.str[1:], order == "F")
        flat = np.frombuffer(one.data, array.dtype)
        assert np.array_equal(flat.reshape(2, 3) if order == "C" else flat.reshape(3, 2).T, array)


class Evil:
    """What touches a file when Python's reader reads it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.file}",)


class Stated:
    """An empty object whose state holds something."""

    def __init__(self, state: object) -> None:
        self.state = state

    def __reduce__(self) -> tuple[object, ...]:
        return object, (), {"state": self.state}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("inside", ["alone", "in a dictionary", "in an array", "after an array", "as a state"])
def test_nothing_is_run(tmp_path: Path, protocol: int, inside: str) -> None:
    flag = tmp_path / "run"
    evil = Evil(flag)
    thing = {
        "alone": evil, "in a dictionary": {b"data": [1, (evil,)]}, "in an array": np.array([evil], dtype=object),
        "after an array": [np.zeros(3, "u1"), evil], "as a state": Stated(evil),
    }[inside]  # fmt: skip
    file = tmp_path / "data_batch_1"
    file.write_bytes(pickle.dumps(thing, protocol))
    with pytest.raises(UsageError, match=r"data_batch_1: refused: this pickle .*; nothing was executed") as refused:
        read(file)
    assert "\n" not in str(refused.value)
    assert not flag.exists()
    if inside == "alone":
        assert f"asks for {os.system.__module__}.system" in str(refused.value)
        pickle.loads(file.read_bytes())
        assert flag.exists()  # it is a real attack


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tS'b'\ntR"
TYPE = b"cnumpy\ndtype\n(S'u1'\ntR(K\x03S'|'\nNNNI-1\nI-1\nI0\ntb"


def filled(shape: bytes, raw: bytes = b"S'a'\n", kind: bytes = TYPE) -> bytes:
    return RECONSTRUCT + b"(K\x01" + shape + kind + b"I00\n" + raw + b"tb."


ATTACKS: dict[str, tuple[bytes, str]] = {
    "eval of Python 2": (b"c__builtin__\neval\n(S'1/0'\ntR.", "asks for __builtin__.eval"),
    "eval of Python 3": (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031/0\x85R.", "asks for builtins.eval"),
    "a module's import": (b"cthis\nd\n.", "asks for this.d"),
    "an instance": (b"(S'true'\nios\nsystem\n.", "uses the instruction INST"),
    "an object": (b"(cos\nsystem\nS'true'\no.", "asks for os.system"),
    "an object of numpy's": (b"(cnumpy\ndtype\nS'u1'\no.", "uses the instruction OBJ"),
    "a new object": (b"cnumpy\nndarray\n(K\x09t\x81.", "uses the instruction NEWOBJ"),
    "a registered one": (b"\x82\x01.", "uses the instruction EXT1"),
    "a persistent id": (b"Pid\n.", "uses the instruction PERSID"),
    "a binary one": (b"K\x01Q.", "uses the instruction BINPERSID"),
    "a buffer beside it": (b"\x97.", "uses the instruction NEXT_BUFFER"),
    "no instruction": (b"\xff.", "uses the instruction 0xff"),
    "a call of a class": (b"cnumpy\nndarray\n(I99999999999\ntR.", "calls numpy.ndarray"),
    "a call of a text": (b"S'a'\n(tR.", "calls bytes"),
    "another class": (RECONSTRUCT.replace(b"ndarray", b"dtype") + b".", "calls numpy's _reconstruct"),
    "another encoding": (b"c_codecs\nencode\n(Vabc\nVrot13\ntR.", "calls _codecs.encode"),
    "a state of a name": (b"cnumpy\ndtype\n(dS'x'\nK\x01sb.", "sets the state of numpy.dtype"),
    "a state of a list": (b"]}b.", "sets the state of list"),
    "objects": (b"cnumpy\ndtype\n(S'O8'\ntR.", "contains an array of type 'O8'"),
    "records": (b"cnumpy\ndtype\n(S'V8'\ntR.", "contains an array of type 'V8'"),
    "fields": (TYPE[:22] + b"(K\x03S'|'\nN(S'a'\nt(dNNNtb.", "contains an array of records"),
    "the other byte order": (TYPE[:22] + b"(K\x03S'>'\nNNNtb.", "of another byte order"),
    "a huge shape": (filled(b"(I1099511627776\nt"), "an array of shape (1099511627776,) and type u1 with 1 bytes"),
    "a negative shape": (filled(b"(I-1\nI-1\nt"), "without a valid shape"),
    "many dimensions": (filled(b"(" + b"K\x01" * 33 + b"t"), "without a valid shape"),
    "a list of objects": (filled(b"(K\x01t", b"(lK\x01a"), "sets the state of Array"),
    "numpy's scalar": (pickle.dumps(np.float64(1.0), 2), ".scalar"),
    "protocol 5": (pickle.dumps(np.zeros(2), 5), "asks for numpy._core.numeric._frombuffer"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_by_what_they_want(name: str) -> None:
    content, says = ATTACKS[name]
    with pytest.raises(UsageError, match=r"^it: refused: this pickle ") as refused:
        loads(content, "it")
    assert says in str(refused.value)


def test_there_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "MOST_INSTRUCTIONS", 1000)
    assert loads(b"](" + b"K\x01" * 996 + b"e.", "it") == [1] * 996
    with pytest.raises(UsageError, match="has more than 1000 instructions"):
        loads(b"](" + b"K\x01" * 997 + b"e.", "it")


def test_a_refusal_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        assert loads(b"\x80\x02K\x01r\xff\xff\xff\xff.", "it") == 1  # Python's own would make room for 8 billion memos
        huge = filled(b"(I1099511627776\nt"), b"T\xff\xff\xff\x7f", b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f."
        for content in huge:
            with pytest.raises(UsageError):
                loads(content, "it")
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


TORN = [b"", b".", b"\x80\x02", b"hello", b"K\x01", b"]}]s.", b"U\x05ab", b"\x80\x09K\x01."]


@pytest.mark.parametrize("content", TORN)
def test_torn_ones_are_named(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"^it: (not a pickle of arrays, or damaged|refused)"):
        loads(content, "it")


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "absent")
    (tmp_path / "large").write_bytes(b"K\x01.")
    monkeypatch.setattr(cifar10, "LARGEST_BYTES", 2)
    with pytest.raises(UsageError, match="3 bytes, more than the limit of 2"):
        read(tmp_path / "large")


def test_whatever_bytes_are_changed_it_ends_with_one_line() -> None:
    dice = random.Random(0)
    sound = [by_python_2((2, 8), bytes(16)), pickle.dumps({"data": np.zeros((2, 8), "u1"), "labels": [1, 2]}, 4)]
    for turn in range(4000):
        content = bytearray(sound[turn % 2])
        for _ in range(dice.randint(1, 4)):
            content[dice.randrange(len(content))] = dice.randrange(256)
        try:
            loads(bytes(content), "it")
        except UsageError as fault:
            assert str(fault).startswith("it: ")  # noqa: PT017  most of them end so, and some are still sound
