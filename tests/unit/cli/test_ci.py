"""`torchstone ci comment` and `gate` as a job types them, against GitHub's API on the loopback."""

import json
import subprocess

import pytest
from ci_results import BASE, FASTER, HEAD, OPEN, SAME, SLOWER, STATES, hostile, measured, unchanged, written
from fake_github import TOKEN, Fault, pull_request_event, serving, workflow_run_event

from torchstone.cli import main
from torchstone.report.documents.ci import MOST_BYTES, marker

LABEL = {"labels": [{"name": "performance-accepted"}], "body": "Slower because: it is right now"}


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as found:
        environment = {
            "GITHUB_API_URL": found.address, "GITHUB_TOKEN": TOKEN, "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "octo/repo", "GITHUB_RUN_ID": "1",
        }  # fmt: skip
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "event.json").write_text(json.dumps(pull_request_event(HEAD)))
        found.pull(7, HEAD)
        yield found


@pytest.fixture
def result(tmp_path):
    def write(ratios, **changes):
        return str(written(*measured(ratios, **changes), tmp_path / "result"))

    return write


def bodies(server, number=7):
    return [one["body"] for one in server.comments[number]]


def test_the_first_comment_then_an_edit_in_place(server, result, capsys):
    assert main(["ci", "comment", result({"a": SLOWER})]) == 0
    assert "#7: created https://github.com/" in capsys.readouterr().out
    assert main(["ci", "comment", result({"a": SAME})]) == 0
    (body,) = bodies(server)
    assert body.startswith(f"{marker('default')}\n### torchstone: 0 slower, 0 faster, 1 unchanged")
    assert "edited" in capsys.readouterr().out


def test_nothing_that_was_decided_makes_no_comment_unless_asked(server, result, capsys):
    folder = result({"a": SAME, "b": OPEN})
    assert main(["ci", "comment", folder]) == 0
    assert "no comment (nothing was decided" in capsys.readouterr().out
    assert bodies(server) == []
    assert main(["ci", "comment", folder, "--always", "--key", "gpu"]) == 0
    assert bodies(server)[0].startswith(marker("gpu"))


def test_a_proven_gain_is_commented_and_a_commit_that_is_no_answer_is_not_kept(server, result, capsys):
    assert main(["ci", "comment", result({"a": FASTER, "b": SAME})]) == 0
    assert "1 benchmark is faster: a, -10.0 % time" in bodies(server)[0]
    assert main(["ci", "history", result({"a": SAME}, control=SLOWER)]) == 4
    assert "nothing to keep: the base differs from itself" in capsys.readouterr().err


def test_a_fork_s_comment_comes_from_the_event_of_the_other_job(server, result, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_run")
    (tmp_path / "event.json").write_text(json.dumps(workflow_run_event(HEAD)))
    server.pull(9, HEAD, of="stranger:feature")
    assert main(["ci", "comment", result({"a": SLOWER}), "--check"]) == 0
    assert len(bodies(server, 9)) == 1
    assert bodies(server, 7) == []
    assert [(one["conclusion"], one["head_sha"]) for one in server.checks] == [("failure", HEAD)]
    assert "1 slower" in (tmp_path / "summary.md").read_text()


def test_an_artifact_of_another_commit_is_not_used(server, result, capsys):
    folder = result({"a": SLOWER}, head="9" * 40)
    assert main(["ci", "comment", folder]) == 2
    assert "is of commit 999999999, but the job is about 0f1e2d3c4" in capsys.readouterr().err
    assert server.asked == []


def test_a_pull_request_that_has_moved_on_is_not_commented(server, result, capsys):
    server.pulls[0]["head"]["sha"] = BASE
    assert main(["ci", "comment", result({"a": SLOWER})]) == 0
    assert "as its newest commit: no comment" in capsys.readouterr().out
    assert bodies(server) == []


def test_a_missing_baseline_is_commented_and_never_green(server, result, capsys):
    folder = result({}, base=None, why_no_base="origin/main: no commit in common", others=STATES_NEW)
    assert main(["ci", "comment", folder, "--check"]) == 0
    assert "1 without a baseline — not all were compared" in bodies(server)[0].split("\n")[1]
    assert server.checks[0]["conclusion"] == "neutral"
    assert main(["ci", "gate", folder]) == 4
    assert main(["ci", "gate", folder, "--allow-no-baseline"]) == 0
    assert "No baseline for 1 of 1" in capsys.readouterr().out


STATES_NEW = STATES["failed, cut off"]().result.benchmarks[-1:]


def test_a_comment_of_200_hostile_cases_is_taken(server, result):
    name = hostile().changes[0].name
    folder = result({f"{name} {'x' * 60} {n}": (SLOWER, SAME)[n % 2] for n in range(200)})
    assert main(["ci", "comment", folder]) == 0
    (body,) = bodies(server)
    assert len(body.encode()) <= MOST_BYTES
    assert "[All results](https://github.com/octo/repo/actions/runs/1)" in body or "more rows" not in body


@pytest.mark.parametrize(
    ("status", "said"), [(403, "permissions"), (404, "no such thing"), (401, "token is not valid")]
)
def test_a_refusal_ends_with_its_own_code_and_never_shows_the_token(server, result, capsys, status, said):
    server.faults.append(Fault(status))
    assert main(["ci", "comment", result({"a": SLOWER})]) == 4
    error = capsys.readouterr().err
    assert said in error
    assert TOKEN not in error
    assert len(error.splitlines()) == 1


def test_the_gate_fails_for_what_is_proven_and_a_label_with_a_reason_opens_it(server, result, capsys):
    folder = result({"a": SLOWER, **unchanged(2)})
    assert main(["ci", "gate", folder]) == 1
    assert "1 benchmark is slower by more than 2 %: a, +4.1 %" in capsys.readouterr().out
    assert main(["ci", "gate", folder, "--fail-on", "worse:10%"]) == 0
    server.pulls[0].update(LABEL)
    assert main(["ci", "gate", folder]) == 0
    assert "Accepted: it is right now" in capsys.readouterr().out
    server.pulls[0]["body"] = "no reason"
    assert main(["ci", "gate", folder]) == 1
    assert main(["ci", "comment", folder]) == 0
    assert "performance-accepted has no reason" in bodies(server)[0]


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GITHUB_EVENT_PATH"])
def test_the_gate_works_outside_of_a_job(server, result, monkeypatch, name):
    monkeypatch.delenv(name)
    assert main(["ci", "gate", result({"a": SLOWER})]) == 1
    assert server.asked == []


def test_the_gate_says_of_which_commits_its_answer_is(server, result, capsys):
    main(["ci", "gate", result({"a": SAME})])
    assert capsys.readouterr().out.splitlines()[-1] == f"of {HEAD[:9]} against {BASE[:9]}"
    main(["ci", "gate", result({"a": FASTER}, more={"results": (2.5, 2.1)})])
    assert (
        "Not the same computation: a. First that differs: loss 2.10000, of the base 2.50000." in capsys.readouterr().out
    )


@pytest.fixture
def repository(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    (tmp_path / "own" / "bench.yaml").write_text("task: train\nmodel: builtin:mlp\n")
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    for words in (("init", "-q"), ("add", "."), (*own, "commit", "-qm", "one")):
        subprocess.run(["git", *words], check=True)
    return tmp_path / "own"


def test_a_base_that_there_is_not_and_files_in_no_commit_are_told(repository, capsys):
    (repository / "bench.yaml").write_text("task: infer\nmodel: builtin:mlp\n")
    assert main(["ci", "measure", "bench.yaml", "--base", "mian", "--output", "found"]) == 0
    told = capsys.readouterr()
    assert "mian is no branch, tag or commit of this repository" in told.out, "the clone is whole"
    assert "uncommitted changes of 1 file are not measured, only commits" in told.err


def test_the_gate_of_what_failed_has_its_own_code(result):
    assert main(["ci", "gate", result({"a": SAME}, others=STATES_NEW)]) == 4
    assert main(["ci", "gate", result({"a": SAME, "b": OPEN})]) == 0


def test_a_dry_run_prints_the_text_and_sends_nothing(server, result, capsys):
    assert main(["ci", "comment", result({"a": OPEN}), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(marker("default"))
    assert server.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("comment", "gone"), "torchstone ci measure writes it"),
        (("comment", "DIR", "--fail-on", "worse"), "write worse:5%"),
        (("gate", "DIR", "--fail-on", "worse:1%"), "below the margin of 2%; needs --margin 1%"),
        (("measure", "bench.yaml", "--base", "x", "--within", "5s"), "2 comparisons need --within 30s"),
        (("measure", "bench.yaml", "--base", "x", "--fail-on", "worse:1%"), "below the margin of 2%"),
        (("comment", "DIR", "--price-per-hour", "-1"), "write a price"),
        (("comment", "DIR", "--key", "a b"), "--key"),
        (("comment", "DIR", "--event-name", "push"), "about no pull request"),
        (("gate", "gone"), "torchstone ci measure writes it"),
        (("history", "DIR", "--branch", "-x"), "--branch"),
        (("measure", "bench.yaml"), "--base origin/main"),
        (("measured",), "measure"),
        ((), "required"),
    ],
)
def test_a_mistake_is_one_line_and_sends_nothing(server, result, tmp_path, monkeypatch, capsys, words, said):
    folder = result({"a": SLOWER})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.yaml").write_text("task: train\nmodel: builtin:mlp\n")
    assert main(["ci", *(folder if word == "DIR" else word for word in words)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert server.asked == []


def test_a_token_that_is_none_is_not_shown(server, result, monkeypatch, capsys):
    for token in ("", "two words", "line\nline"):
        monkeypatch.setenv("GITHUB_TOKEN", token)
        assert main(["ci", "comment", result({"a": SLOWER})]) == 2
        error = capsys.readouterr().err
        assert "set GITHUB_TOKEN" in error
        assert not token or token not in error


@pytest.mark.parametrize(
    ("words", "said"),
    [(("gate", "--", "python", "x.py"), "ci gate takes no command"),
     (("measure", "--base", "main"), "what to measure"),
     (("measure", "bench.yaml", "--base", "main", "--", "python", "x.py"), "bench.yaml: not with a command"),
     (("measure", "--base", "main", "--", "python", "x.py", "--lr", "{lr}"), "{lr} has no values"),
     (("measure", "--base", "main", "--"), "nothing behind --")],
)  # fmt: skip
def test_what_cannot_be_a_command_of_ci_is_one_line(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["ci", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
