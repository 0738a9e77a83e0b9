"""The order and the time of a job's comparisons, with comparisons that say what a test wants."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ci_results import FASTER, OPEN, SAME, SLOWER, a_comparison
from fakes import FakeClock

from torchstone.analysis.ci import ab_command
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.ci import State
from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.storage.ci_folder import read_ci_result
from torchstone.workflows.ab.live_comparison import SideError
from torchstone.workflows.ab.sides import SideRequest
from torchstone.workflows.ci.measuring import CiMeasurement, CiRequest, benchmarks, of_program
from torchstone.workflows.run.planned_run import ProgramRequest

BENCH = "task: train\nmodel: builtin:mlp\naxes: {batch_size: [4, 8]}\n"


def git(folder, *words):
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "bench.yaml").write_text(BENCH)
    for number in (1, 2):
        (folder / "net.py").write_text(f"def load():\n    return {number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", str(number))
    monkeypatch.chdir(folder)
    return folder


class Comparing:
    """Comparisons that take a third of the time they are given, and find what comes next."""

    def __init__(self, *found: Any, share: float = 0.3) -> None:
        self.found, self.share = list(found), share
        self.clock = FakeClock()
        self.sides: list[tuple[SideRequest, SideRequest]] = []
        self.rules: list[Rules] = []

    def __call__(self, sides: tuple[SideRequest, SideRequest], rules: Rules, folder: Path) -> Run:
        self.sides.append(sides)
        self.rules.append(rules)
        self.clock.now_s += self.share * rules.budget_s
        found: Any = self.found.pop(0) if self.found else SAME
        if isinstance(found, Exception):
            raise found
        ratio, more = found if isinstance(found[-1], dict) else (found, {})
        commits = [str(side.revision) for side in sides]
        return a_comparison(ratio, run_id=f"run-{len(self.rules)}", base=commits[0], head=commits[1], **more)


@pytest.fixture
def measure(repository, tmp_path):
    folder = tmp_path / "result"
    base, head = git(repository, "rev-parse", "HEAD~1", "HEAD").split()

    def carried_out(
        comparing: Callable[..., Run], files: tuple[str, ...] = ("bench.yaml",), found=None, **changes: Any
    ):
        said: list[str] = []
        asked = CiRequest(**{"base": base, "head": head, "within_s": 600.0, **changes})
        clock = comparing.clock if isinstance(comparing, Comparing) else FakeClock()
        job = CiMeasurement(asked, found or benchmarks(files), folder, said.append, compare=comparing, clock=clock)
        result = job.carry_out(repository)
        assert read_ci_result(folder)[0] == result, "the file has it"
        return result, said

    return carried_out


def test_each_benchmark_is_compared_once_and_then_the_base_with_itself(measure, repository):
    comparing = Comparing(SAME, SLOWER, SAME)
    result, said = measure(comparing)
    assert [one.state for one in result.benchmarks] == [State.MEASURED] * 2
    assert [one.run_id for one in result.benchmarks] == ["run-1", "run-2"]
    assert result.control.run_id == "run-3"
    commits = [tuple(side.revision for side in sides) for sides in comparing.sides]
    assert commits == [(result.base, result.head)] * 2 + [(result.base, result.base)]
    for a, b in comparing.sides:
        assert a.folder != b.folder or a.revision == b.revision
        assert a.request == b.request
        assert not Path(str(a.folder)).exists(), "the work trees are gone"
    assert said[1].startswith("bench/batch_size=8 (2 of 2): slower")
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_command_is_one_benchmark_with_the_data_that_git_does_not_track(measure, repository):
    (repository / "data.txt").write_text("data")
    there: list[bool] = []

    class Looking(Comparing):
        def __call__(self, sides: tuple[SideRequest, SideRequest], rules: Rules, folder: Path) -> Run:
            there.extend((Path(str(side.folder)) / "data.txt").exists() for side in sides)
            return super().__call__(sides, rules, folder)

    program = ProgramRequest(("python", "train.py", "--lr", "1"), {}, Procedure(isolation="program"), step="backward")
    one = of_program(program)
    assert (one.name, one.words) == ("train.py", ("--step", "backward", "--", "python", "train.py", "--lr", "1"))
    comparing = Looking(SLOWER, SAME)
    result, _ = measure(comparing, found=[one])
    assert [(one.name, one.state) for one in result.benchmarks] == [("train.py", State.MEASURED)]
    assert [side.program for sides in comparing.sides for side in sides] == [program] * 4
    assert there == [True] * 4, "base and change, and the base twice for the control"
    command = ab_command(result.benchmarks[0], msgspec.structs.replace(result, margin=0.05))
    assert command[4:] == ("--step", "backward", "--margin", "5%", "--", "python", "train.py", "--lr", "1")


def test_false_alarms_are_shared_by_all_tests(measure):
    comparing = Comparing()
    measure(comparing, false_alarms=0.06, margin=0.03)
    assert [rules.false_alarms for rules in comparing.rules] == [pytest.approx(0.06 / 6)] * 3
    assert {rules.margin for rules in comparing.rules} == {0.03}


def test_time_that_is_left_over_goes_to_the_next(measure):
    comparing = Comparing(share=0.1)
    measure(comparing)
    first, second, control = (rules.budget_s for rules in comparing.rules)
    assert first == pytest.approx(0.7 * 600 / 3)
    assert second == pytest.approx((420 - 14) / 2)
    assert control == pytest.approx(420 - 14 - 20.3)


def test_what_is_undecided_is_measured_again_within_the_budget(measure):
    more = {"trials_to_settle": 12}
    comparing = Comparing((OPEN, more), SAME, SAME, FASTER)
    result, said = measure(comparing)
    assert len(comparing.rules) == 4
    assert result.benchmarks[0].run_id == "run-4"
    assert result.benchmarks[0].earlier == ("run-1",)
    assert comparing.rules[3].budget_s > comparing.rules[0].budget_s
    assert said[-1].startswith("bench/batch_size=4 (again): faster")


def test_what_the_budget_does_not_decide_is_left_undecided(measure):
    comparing = Comparing((OPEN, {"trials_to_settle": 900}), (OPEN, {}), SAME)
    result, _ = measure(comparing)
    assert len(comparing.rules) == 3
    assert [one.earlier for one in result.benchmarks] == [(), ()]


def test_what_cannot_exceed_the_limit_any_more_is_not_measured_again(measure):
    comparing = Comparing((OPEN, {"trials_to_settle": 12}), SAME, SAME)
    measure(comparing, limit=0.10)
    assert len(comparing.rules) == 3


@pytest.mark.parametrize(
    ("side", "state"),
    [
        ("{base} (base)", State.NO_BASELINE),
        ("{head} (head)", State.FAILED),
        (None, State.FAILED),
    ],
)
def test_a_side_that_fails_is_told_apart_and_the_others_are_measured(measure, repository, side, state):
    base, head = git(repository, "rev-parse", "HEAD~1", "HEAD").split()
    fault = TorchstoneError("something else")
    if side is not None:
        fault = SideError(side.format(base=base[:9], head=head[:9]), UsageError("no module named net"))
    comparing = Comparing(fault, SLOWER, SAME)
    result, _ = measure(comparing)
    assert [one.state for one in result.benchmarks] == [state, State.MEASURED]
    assert result.benchmarks[0].why == str(fault)


def test_a_model_that_only_the_change_has_is_no_baseline(measure, repository):
    (repository / "new.py").write_text("def load():\n    return 3\n")
    git(repository, "add", "new.py")
    git(repository, "commit", "-q", "-m", "new")
    (repository / "new.yaml").write_text("task: train\nmodel: py:new.py:load\n")
    head = git(repository, "rev-parse", "HEAD").strip()
    comparing = Comparing()
    result, _ = measure(comparing, files=("new.yaml", "bench.yaml"), head=head)
    assert [one.state for one in result.benchmarks] == [State.NO_BASELINE, State.MEASURED, State.MEASURED]
    assert str(result.benchmarks[0].why).startswith("py:new.py: unknown file 'new.py'")
    assert "torchstone-ab" not in str(result.benchmarks[0].why), "a work tree that is gone by now"
    assert comparing.sides[-1][0].request == benchmarks(("bench.yaml",))[0].request, "the control is what the base has"
    assert result.control.words == ("--config", "bench.yaml", "--axis", "batch_size=4")


def test_what_had_no_time_for_enough_pairs_is_measured_again_in_twice_the_time(measure):
    comparing = Comparing((None, {"why": "only 2 of the 6 pairs"}), SAME, SAME, SLOWER, share=0.1)
    result, _ = measure(comparing)
    assert len(comparing.rules) == 4
    assert comparing.rules[3].budget_s >= 2.0 * comparing.rules[0].budget_s
    assert result.benchmarks[0].earlier == ("run-1",)


def test_where_the_base_has_no_benchmark_there_is_no_control(measure, repository):
    (repository / "new.py").write_text("def load():\n    return 3\n")
    git(repository, "add", "new.py")
    git(repository, "commit", "-q", "-m", "new")
    (repository / "new.yaml").write_text("task: train\nmodel: py:new.py:load\n")
    comparing = Comparing()
    result, _ = measure(comparing, files=("new.yaml",), head=git(repository, "rev-parse", "HEAD").strip())
    assert comparing.rules == []
    assert result.control is None


def test_a_model_that_the_change_removed_is_a_failure(measure, repository):
    (repository / "old.yaml").write_text("task: train\nmodel: py:gone.py:load\n")
    result, _ = measure(Comparing(), files=("old.yaml",))
    assert result.benchmarks[0].state is State.FAILED


def test_without_a_base_nothing_is_measured(measure):
    comparing = Comparing()
    result, _ = measure(comparing, base=None, why_no_base="origin/main: gone")
    assert comparing.rules == []
    assert result.control is None
    assert {one.state for one in result.benchmarks} == {State.NO_BASELINE}
    assert {one.why for one in result.benchmarks} == {"origin/main: gone"}


def test_a_folder_that_the_base_lacks_is_no_baseline(repository, tmp_path):
    base = git(repository, "rev-parse", "HEAD").strip()
    inside = repository / "sub"
    inside.mkdir()
    (inside / "x.txt").write_text("x")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "sub")
    head = git(repository, "rev-parse", "HEAD").strip()
    job = CiMeasurement(CiRequest(base, head, 60.0), benchmarks(["bench.yaml"]), tmp_path / "r", compare=Comparing())
    result = job.carry_out(inside)
    assert {one.state for one in result.benchmarks} == {State.NO_BASELINE}
    assert "has no folder sub" in str(result.benchmarks[0].why)
    with pytest.raises(UsageError, match="has no folder sub"):
        CiMeasurement(CiRequest(head, base, 60.0), benchmarks(["bench.yaml"]), tmp_path / "r").carry_out(inside)


def test_a_job_that_is_cut_off_keeps_what_it_has(repository, tmp_path):
    base, head = git(repository, "rev-parse", "HEAD~1", "HEAD").split()
    comparing = Comparing(SAME, KeyboardInterrupt())

    def interrupted(sides: tuple[SideRequest, SideRequest], rules: Rules, folder: Path) -> Run:
        if len(comparing.rules) == 1:
            raise KeyboardInterrupt
        return comparing(sides, rules, folder)

    job = CiMeasurement(CiRequest(base, head, 60.0), benchmarks(["bench.yaml"]), tmp_path / "r", compare=interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.carry_out(repository)
    result, _ = read_ci_result(tmp_path / "r")
    assert [one.state for one in result.benchmarks] == [State.MEASURED, State.PLANNED]
