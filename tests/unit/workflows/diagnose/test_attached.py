"""`torchstone attach`: from samples of stacks to the causes of every diagnosis, with lines and intervals."""

import json

import msgspec
import pytest
from attached import (
    ASKING,
    BACKWARD,
    BY_HAND,
    CONVERTING,
    COPYING,
    FORWARD,
    IDLE_WORKER,
    LOADING,
    READING,
    UPDATE,
    WAITING,
    a_target,
    code,
    frame,
    own,
    seen,
)

from torchstone.cli import main
from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.diagnosis import ProcessRole
from torchstone.core.schema.metric import BACKWARD as BACKWARD_PASS
from torchstone.core.schema.metric import DATA, OPTIMIZER, REST
from torchstone.core.schema.metric import FORWARD as FORWARD_PASS
from torchstone.workflows.diagnose import attached_diagnosis
from torchstone.workflows.diagnose.attached_diagnosis import _case, diagnosis_of, looked, phase_of, script_of

SOUND = {FORWARD: 40, BACKWARD: 50, UPDATE: 10}


def diagnosed_of(watched, device="cpu"):
    target = a_target(device)
    found = looked(watched, target, code)
    return diagnosis_of("run", _case(target, found), watched, found, target, code)


@pytest.mark.parametrize(
    ("stack", "phase"),
    [(WAITING, DATA), (FORWARD, FORWARD_PASS), (BACKWARD, BACKWARD_PASS), (UPDATE, OPTIMIZER), (ASKING, REST),
     ((*WAITING, own(40), *FORWARD), DATA), ((*BACKWARD, *FORWARD), BACKWARD_PASS),
     ((*UPDATE, *FORWARD), FORWARD_PASS), ((*UPDATE, *BACKWARD), BACKWARD_PASS),
     ((own(1), frame("step", "optim/lr_scheduler.py")), REST), ((), REST)],
    ids=["data", "forward", "backward", "optimizer", "own", "a model in a loader", "recomputed in backward",
         "forward in a closure", "backward in a closure", "a schedule", "nothing"],
)  # fmt: skip
def test_the_phase_of_a_stack(stack, phase):
    assert phase_of(stack) == phase


PASSES = {FORWARD: 20, BACKWARD: 20}
COMPUTES = seen({WAITING: 60, **PASSES}, {LOADING: 90, IDLE_WORKER: 10})
WAITS = seen({WAITING: 60, **PASSES}, {LOADING: 100}, loader_busy=0.05)
PLANTED = {  # what is seen, the cause, the first line of it
    "loader computes": (COMPUTES, "loader_computes", 40),
    "loader waits": (WAITS, "loader_waits", 40),
    "loads by itself": (seen({(*WAITING, own(40)): 60, **PASSES}), "loader_computes", 40),
    "asks": (seen({ASKING: 40, FORWARD: 30, BACKWARD: 30}), "waits", 14),
    "by hand": (seen({BY_HAND: 60, **PASSES}), "outside", 40),
    "reads a table": (seen({READING: 60, **PASSES}), "outside", 17),
    "update": (seen({UPDATE: 60, **PASSES}), "optimizer", None),
    "neighbours": (seen(SOUND, others_cores=64.0), "neighbours", None),
    "sound": (seen(SOUND), "computing", 11),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_comes_first_with_its_line(name):
    watched, cause, line = PLANTED[name]
    found = diagnosed_of(watched)
    first = found.causes[0]
    assert first.id == cause
    if line is not None:
        assert first.where[0].line == line
        assert first.where[0].file.endswith("train.py")
    told = [one.values for one in first.evidence if one.id == "share_over_windows"]
    assert [one["windows"] for one in told] == ([] if cause == "neighbours" else [10])
    for one in told:
        assert one["low"] <= one["share"] <= one["high"]
        assert one["share"] == pytest.approx(first.share if cause != "computing" else 0.9, abs=0.02)
    assert {one.id for one in first.evidence} & {"phase_of_step", "others_busy", "lines_share", "loader_busy"}
    assert found.step_s is found.throughput is None


def test_a_number_made_of_a_tensor_is_waited_for_on_a_device_alone():
    watched = seen({CONVERTING: 40, FORWARD: 30, BACKWARD: 30})
    assert diagnosed_of(watched).causes[0].id == "outside"
    assert diagnosed_of(watched, "cuda").causes[0].id == "waits"


def test_a_comprehension_is_part_of_its_line():
    (line,) = (
        one
        for one in diagnosed_of(seen({READING: 30, (own(17), own(17, "<listcomp>")): 30, FORWARD: 40})).attached.lines
        if one.line == 17
    )
    assert line.share == pytest.approx(0.6, abs=0.02)


def test_a_program_of_which_nothing_was_seen_is_said_to_do_no_step():
    with pytest.raises(
        TorchstoneError, match=r"^no step of process 42 was seen in 30 s; attach while it trains, or longer \(--for\)$"
    ):
        diagnosed_of(seen({(): 100}))


def test_a_call_that_has_no_frame_of_torch_yet_is_its_pass():
    found = diagnosed_of(seen({(own(12),): 30, (own(13),): 30, FORWARD: 40}))
    assert {line.phase for line in found.attached.lines} == {BACKWARD_PASS, OPTIMIZER, FORWARD_PASS}


def test_the_remedy_follows_what_is_seen():
    waits = diagnosed_of(WAITS).causes[0]
    assert "faster_disk" not in [one.id for one in waits.remedies], "it reads nothing"
    reading = WAITS
    spent = {**reading.spent, 50: msgspec.structs.replace(reading.spent[50], read_bytes=5e6)}
    reads = diagnosed_of(msgspec.structs.replace(reading, spent=spent)).causes[0]
    assert "faster_disk" in [one.id for one in reads.remedies]
    update = diagnosed_of(PLANTED["update"][0]).causes[0]
    assert update.title.id == "update_not_fused"
    assert "fused" in [one.id for one in update.remedies]


def test_a_loader_that_waits_for_a_core_does_not_wait_for_its_source():
    watched = seen({(*WAITING, own(40)): 60, **PASSES}, busy=0.5)
    spent = {42: msgspec.structs.replace(watched.spent[42], queued_s={42: 15.0, 43: 0.0})}
    assert {one.id for one in diagnosed_of(watched).causes} >= {"loader_waits"}
    queued = {one.id for one in diagnosed_of(msgspec.structs.replace(watched, spent=spent)).causes}
    assert "loader_computes" in queued
    assert "loader_waits" not in queued


def test_a_loader_that_sleeps_on_a_machine_where_all_wait_for_cores_waits_for_its_source():
    watched = seen({(*WAITING, own(40)): 60, **PASSES}, busy=0.15)
    spent = {42: msgspec.structs.replace(watched.spent[42], queued_s={42: 18.0, 43: 0.0})}
    found = {one.id for one in diagnosed_of(msgspec.structs.replace(watched, spent=spent)).causes}
    assert "loader_waits" in found, "it is asleep 0.25 of the time, which is only in loading"
    assert "loader_computes" not in found


def test_a_copy_to_the_device_is_one_only_where_there_is_a_device():
    watched = seen({COPYING: 40, FORWARD: 30, BACKWARD: 30})
    found = diagnosed_of(watched, "cuda").causes[0]
    assert (found.id, found.where[0].line, found.remedies[0].id) == ("transfer", 16, "pinned_copies")
    assert diagnosed_of(watched).causes[0].id == "outside"


@pytest.mark.parametrize(("utilization", "cause"), [(0.97, "computing"), (0.2, "waits"), (None, "waits")])
def test_what_the_host_does_while_the_device_computes_costs_nothing(utilization, cause):
    watched = seen({ASKING: 60, FORWARD: 20, BACKWARD: 20}, utilization=utilization)
    found = diagnosed_of(watched, "cuda").causes
    assert found[0].id == cause
    assert sum(one.share for one in found if one.id == "waits") <= 1.0 - (utilization or 0.0) + 1e-9


def test_processes_lines_and_the_cost_are_kept():
    found = diagnosed_of(COMPUTES)
    kept = found.attached
    assert kept is not None
    assert [(one.pid, one.role) for one in kept.processes] == [(42, ProcessRole.TRAINING), (50, ProcessRole.LOADER)]
    assert (kept.samples, kept.cost_s, kept.paused_s) == (300, 0.3, 0.0)
    assert [(one.line, one.phase) for one in kept.lines[:1]] == [(10, DATA)]
    assert [(one.line, one.phase, one.share) for one in kept.loader_lines] == [(40, DATA, 1.0)]
    assert kept.lines[0].low < 0.6 < kept.lines[0].high
    assert found.case.configuration == {"num_workers": 1}


def test_ranks_are_pooled():
    one = seen(SOUND)
    other = [msgspec.structs.replace(thread, pid=44, tid=44) for thread in seen({WAITING: 100}).threads[:1]]
    process = msgspec.structs.replace(one.processes[42], pid=44, rank=1)
    both = msgspec.structs.replace(one, threads=(*one.threads, *other), processes={**one.processes, 44: process})
    kept = diagnosed_of(both).attached
    assert kept is not None
    assert [(each.role, each.rank) for each in kept.processes] == [
        (ProcessRole.TRAINING, None),
        (ProcessRole.TRAINING, 1),
    ]
    assert kept.samples == 600


@pytest.mark.parametrize(
    ("watched", "said"),
    [(seen({BY_HAND: 100}), "was seen in 30 s: most of the time it was at /home/me/train.py:40"),
     (seen(SOUND, threads=(), ended=True), "has ended after 30 s"),
     (seen(SOUND, threads=(msgspec.structs.replace(COMPUTES.threads[0], stacks=(FORWARD,) * 9),)), "too few samples")],
    ids=["no step", "ended", "too short"],
)  # fmt: skip
def test_why_there_is_no_answer_is_one_line(watched, said):
    with pytest.raises(TorchstoneError) as fault:
        looked(watched, a_target(), code)
    assert said in str(fault.value)
    assert str(fault.value).isprintable()


def test_a_program_is_called_like_its_script():
    assert script_of(("python", "-u", "/home/me/train.py", "--x")) == "train.py"
    assert script_of(("/usr/bin/torchrun",)) == "torchrun"
    assert script_of(()) == "program"


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def at_work(monkeypatch, tmp_path):
    """Be where a program runs, which is a fake."""
    monkeypatch.chdir(tmp_path)
    for name, found in (
        ("py_spy", lambda: "py-spy"), ("find_process", lambda _: a_target()), ("Code", lambda _: code),
        ("watch", lambda *_: COMPUTES),
    ):  # fmt: skip
        monkeypatch.setattr(attached_diagnosis, name, found)


def test_it_is_printed_recorded_and_shown_again(at_work, capfd, tmp_path):
    assert main(["attach", "42"]) == 0
    printed = capfd.readouterr()
    assert "looking at process 42 for 30 s" in printed.err
    assert main(["show"]) == 0
    again = capfd.readouterr().out
    for told in (printed.out, again):
        assert "train.py:40" in told
        assert "py-spy took 0.3 s" in told
        assert "not taken" not in told, "there are no trials to tell"
    assert main(["show", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)["answer"]
    assert answer["causes"][0]["id"] == "loader_computes"
    assert answer["attached"]["samples"] == 300
    assert list((tmp_path / "outputs/diagnostics").glob("*/*.md"))


def test_json_alone_is_on_stdout(at_work, capfd):
    assert main(["attach", "42", "--json", "--quiet"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["answer"]["attached"]["pid"] == 42
    assert printed.err == ""


@pytest.mark.parametrize(
    ("words", "code_", "said"),
    [(["42", "--for", "90s"], 2, "at most 60s"), (["forty"], 2, "invalid int"), ([], 2, "PID"),
     (["42", "--for", "0s"], 2, "more than 0")],
)  # fmt: skip
def test_mistakes_are_one_line(at_work, words, code_, said, capfd):
    assert main(["attach", *words]) == code_
    told = capfd.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(("fault", "code_"), [(UsageError, 2), (MissingError, 3), (TorchstoneError, 1)])
def test_exit_codes_are_those_of_every_command(at_work, monkeypatch, fault, code_, capfd):
    def find(_):
        raise fault("so it is")

    monkeypatch.setattr(attached_diagnosis, "find_process", find)
    assert main(["attach", "42"]) == code_
    assert capfd.readouterr().err == "torchstone: so it is\n"
