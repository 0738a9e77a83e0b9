"""Who uses the CPU beside us, and waiting until they leave it."""

from __future__ import annotations

import os
from typing import Any

from torchstone.execution.controller.busy_machine import (
    LOOK_S,
    ProcessTime,
    busiest,
    cores_of_others,
    snapshot,
    wait_for_quiet,
)

TICKS = os.sysconf("SC_CLK_TCK")


def a_process(folder, pid, name, parent, ticks):
    (folder / str(pid)).mkdir()
    fields = " ".join(["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0", *["0"] * 10])
    (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {fields}\n")


def test_a_snapshot_reads_names_with_spaces_and_brackets(tmp_path):
    a_process(tmp_path, 7, "a b) c", 1, 5 * TICKS)
    (tmp_path / "8").mkdir()  # it has just ended
    assert snapshot(tmp_path) == {7: ProcessTime("a b) c", 1, 5.0)}
    assert snapshot(tmp_path / "none") == {}


def test_the_busiest_are_named_by_what_they_used_since_and_ours_are_left_out():
    me = os.getpid()
    before = {me: ProcessTime("torchstone", 1, 3.0), 50: ProcessTime("make", 1, 9.0), 60: ProcessTime("idle", 1, 1.0)}
    after = {
        **before, me: ProcessTime("torchstone", 1, 9.0), 50: ProcessTime("make", 1, 10.0),
        70: ProcessTime("trial", me, 8.0), 71: ProcessTime("loader", 70, 8.0), 72: ProcessTime("cc1", 50, 2.0),
    }  # fmt: skip
    assert busiest(before, after, 2.0) == (("cc1", 1.0), ("make", 0.5))
    assert cores_of_others(before, after, 2.0) == 1.5


def test_what_an_ended_process_used_before_is_not_counted_again_at_its_parent():
    """A server whose worker of 90 s CPU time ends: its parent has these 90 s from then on."""
    before = {50: ProcessTime("postgres", 1, 10.0), 51: ProcessTime("postgres", 50, 90.0)}
    after = {50: ProcessTime("postgres", 1, 100.5)}
    assert busiest(before, after, 1.0) == (("postgres", 0.5),)
    assert cores_of_others(before, after, 1.0) == 0.5
    nobody_waited = {50: ProcessTime("postgres", 1, 10.5)}
    assert cores_of_others(before, nobody_waited, 1.0) == 0.0


def waited(*busy, longest_s=10.0):
    """Wait beside a program that is busy in each look for which `busy` says so."""
    now, spent = [0.0], [0.0]
    told: list[Any] = []
    looks = iter([False, *busy])

    def look():
        spent[0] += LOOK_S if next(looks, False) else 0.0
        return {1: ProcessTime("backup", 0, spent[0])}

    def sleep(seconds):
        now[0] += seconds

    took_s = wait_for_quiet(longest_s, told.append, lambda: now[0], sleep, look)
    return round(took_s / LOOK_S), told


def test_a_quiet_machine_costs_one_look_and_says_nothing():
    assert waited() == (1, [])


def test_it_waits_until_the_others_have_gone_and_says_once_for_whom():
    looks, told = waited(True, True, True, False)
    assert looks == 4
    assert told == [(("backup", 1.0),)]


def test_it_does_not_wait_for_ever():
    looks, _ = waited(*[True] * 1000, longest_s=2.0)
    assert 2.0 <= looks * LOOK_S <= 2.0 + LOOK_S
