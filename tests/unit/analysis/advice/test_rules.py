"""The rules of a diagnosis: an observation and a cause are decided by one threshold, and say one text."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from build import a_sweep
from evidences import CARD, SETTINGS, an_evidence

from torchstone.analysis.advice import batch_curve, rules, usual
from torchstone.analysis.advice.curves import curve_of, read_memory, setting_of
from torchstone.analysis.advice.phases import advise
from torchstone.analysis.advice.questions import three_questions
from torchstone.analysis.advice.setting import Setting
from torchstone.analysis.summary import summarize
from torchstone.core.figures import PHASE
from torchstone.core.schema.axis import Scalar
from torchstone.storage.query import entry_of
from torchstone.workflows.diagnose.evidence import Evidence
from torchstone.workflows.diagnose.ranking import causes_of

SOURCE = Path(rules.__file__).parents[2]
RULES = {name: rule for name, rule in vars(rules).items() if isinstance(rule, rules.Rule)}
TRAINING: dict[str, Any] = {
    **SETTINGS, "feed": "loader", "num_workers": 4, "fused": "off", "channels_last": "off", "compile": "off",
}  # fmt: skip
PHASES = {
    "LOADER": {"data": 0.15, "forward": 0.4, "backward": 0.45},
    "TRANSFER": {"transfer": 0.15, "forward": 0.4, "backward": 0.45},
    "OPTIMIZER": {"optimizer": 0.25, "forward": 0.35, "backward": 0.40},
}
CAUSES = {"LOADER": "loader", "TRANSFER": "transfer", "OPTIMIZER": "optimizer"}


def evidence(name: str) -> Evidence:
    facts = {"threads_in_effect": 2, "fused_optimizer": False}
    return an_evidence(TRAINING, PHASES[name], device=CARD, facts=facts, look=None, larger=None, small_s=None)


def observed(name: str) -> list[str]:
    """What the phases of the same step say, with what is known beside them."""
    found = evidence(name)
    phases_s = {phase: found.figures[f"{PHASE}{phase}_s"] for phase in PHASES[name]}
    return [one.seen for one in advise(phases_s, found.known)]


def caused(name: str) -> list[str]:
    return [cause.id for cause in causes_of(evidence(name))]


def changed(monkeypatch, name: str, least: float) -> None:
    monkeypatch.setattr(rules, name, msgspec.structs.replace(RULES[name], least=least))


@pytest.mark.parametrize("name", PHASES)
def test_a_threshold_that_is_changed_moves_the_observation_and_the_cause(monkeypatch, name):
    phase = next(iter(PHASES[name]))
    assert any(seen.startswith(f"{phase} is ") for seen in observed(name))
    assert CAUSES[name] in caused(name)
    changed(monkeypatch, name, 0.5)
    assert not any(seen.startswith(f"{phase} is ") for seen in observed(name))
    assert CAUSES[name] not in caused(name)


def test_the_questions_of_a_slow_training_are_answered_by_the_same_thresholds(monkeypatch):
    phases_s = {"data": 0.15, "forward": 0.4, "backward": 0.45}
    loads, idles, computes = three_questions(phases_s, 0.6)
    assert (loads.partition("? ")[2][:3], idles.partition("? ")[2][:3], computes.partition("? ")[2][:3]) == (
        "yes", "yes", "yes",
    )  # fmt: skip
    changed(monkeypatch, "LOADER", 0.5)
    changed(monkeypatch, "COMPUTING", 0.9)
    monkeypatch.setattr(usual, "UTILIZATION", (0.5, 0.95))
    assert [answer.partition("? ")[2].partition(",")[0] for answer in three_questions(phases_s, 0.6)] == ["no"] * 3


def test_the_usual_30_ms_are_told_by_both_and_moved_by_one_number(monkeypatch):
    assert "more than the usual 30 ms" not in " ".join(observed("LOADER")), "15 % of 50 ms"
    monkeypatch.setattr(usual, "DATA_S", 0.005)
    first = causes_of(evidence("LOADER"))
    told = " ".join(line for cause in first for line in cause.evidence)
    assert "more than the usual 5.0 ms" in told
    assert "more than the usual 5.0 ms" in " ".join(observed("LOADER"))


def test_the_usual_70_percent_are_told_by_both_and_moved_by_one_number(monkeypatch):
    busy = an_evidence(TRAINING, {"forward": 0.4, "backward": 0.6}, figures={"device_utilization": 0.6}, look=None)

    def both() -> tuple[str, str]:
        seen = " ".join(one.seen for one in advise({"forward": 0.4, "backward": 0.6}, busy.known))
        return seen, " ".join(line for cause in causes_of(busy) for line in cause.evidence)

    assert all("in use 60 % of the time, less than the usual 70 %" in told for told in both())
    monkeypatch.setattr(usual, "UTILIZATION", (0.5, 0.95))
    assert not any("less than the usual" in told for told in both())


def test_a_small_batch_is_one_by_the_same_share_of_its_fixed_cost(monkeypatch):
    """A step of 10 ms and 0.1 ms an item: at batch 128, 44 % of it is fixed."""
    small = an_evidence({"batch_size": 128}, larger=(512, 0.0612), small_s=0.0228, figures={"throughput": 128 / 0.0228})
    cases = [({**SETTINGS, "batch_size": size}, 0.01 + 1e-4 * size) for size in (128, 512, 2048)]
    run = summarize(entry_of(a_sweep(cases), Path()))

    def low() -> bool:
        curve = curve_of(run.cases[0], run.cases, run.machine)
        assert curve is not None
        return curve.low

    def caused() -> bool:
        return "small_batch" in [cause.id for cause in causes_of(small)]

    assert low()
    assert caused()
    changed(monkeypatch, "FIXED_COST", 0.6)
    assert not low()
    assert not caused()


@pytest.mark.parametrize("name", PHASES)
def test_observation_and_cause_advise_the_same_in_the_same_words(name):
    found = evidence(name)
    cause = next(one for one in causes_of(found) if one.id == CAUSES[name])
    phases_s = {phase: found.figures[f"{PHASE}{phase}_s"] for phase in PHASES[name]}
    phase = next(iter(PHASES[name]))
    observation = next(one for one in advise(phases_s, found.known) if one.seen.startswith(f"{phase} is "))
    assert observation.remedies == tuple(remedy.text for remedy in cause.remedies)
    assert observation.causes == cause.usual


def test_full_memory_is_told_in_the_words_of_the_rule(monkeypatch):
    cases = [({**SETTINGS, "batch_size": 7600}, 0.1)]
    run = summarize(entry_of(a_sweep(cases), Path()))
    (told,) = read_memory(run.cases[0], run)
    assert told.remedies == rules.texts(rules.FULL_MEMORY, setting_of(run.cases[0], run.machine))
    changed(monkeypatch, "FULL_MEMORY", 0.99)
    assert "likely to run out" not in read_memory(run.cases[0], run)[0].seen


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_each_text_once_and_nothing_that_is_set_already(name):
    rule = RULES[name]
    open_ones = Setting({**TRAINING, "num_workers": 0}, 16, accelerator=True, trains=True)
    texts = rules.texts(rule, open_ones)
    assert texts
    assert len(set(texts)) == len(texts)
    assert list(rule.usual(open_ones))
    taken: dict[str, Scalar] = {
        "num_workers": 16, "pin_memory": True, "precision": "bf16", "compile": "reduce-overhead", "fused": "on",
        "gradient_checkpointing": True, "channels_last": "on",
    }  # fmt: skip
    done = Setting({**TRAINING, **taken}, 16, accelerator=True, trains=True)
    set_already = re.compile("num_workers=|pin_memory|precision=|compile=|fused=|gradient_checkpointing|channels_last")
    assert not [text for text in rules.texts(rule, done) if set_already.search(text)]


def test_a_text_of_a_rule_stands_in_no_other_file():
    every = Setting({**TRAINING, "num_workers": 0}, 2, accelerator=True, trains=True)
    texts = {one.text for rule in RULES.values() for one in rule.remedies(every)} - {rules.LARGER_BATCH.text}
    fixed = {text for text in texts if not text.startswith("num_workers=")}
    assert len(fixed) > 15
    others = [path for path in SOURCE.rglob("*.py") if path != Path(rules.__file__)]
    told = "\n".join(path.read_text(encoding="utf-8") for path in others)
    assert [text for text in sorted(fixed) if f'"{text}' in told] == []


@pytest.mark.parametrize(
    ("changes", "known", "workers"),
    [
        ({"num_workers": 0}, {"cores": 4}, "num_workers=2,4"),
        ({"num_workers": 4}, {"cores": 4}, None),
        ({"num_workers": 4}, {"cores": 4, "loader_computes": False}, "num_workers=8,12,16"),
        ({"num_workers": 4}, {"cores": 4, "loader_computes": True}, None),
        ({"num_workers": 4}, {}, "num_workers=8,12,16"),
        ({"num_workers": "many"}, {}, None),
        ({"num_workers": None}, {}, "more num_workers"),
        ({}, {"facts": {"own_fixed": "num_workers (a list)"}}, "processes that load: return the Dataset"),
    ],
)
def test_as_many_workers_as_may_help_by_what_is_known_of_the_loader(changes, known, workers):
    found = [one.text for one in rules.more_workers(Setting({**TRAINING, **changes}, **known))]
    assert [text[: len(workers or "")] for text in found] == ([] if workers is None else [workers])


@pytest.mark.parametrize(
    ("native", "present", "told"),
    [
        (None, "fp32", ["precision=bf16"]), (("fp32",), "fp32", []),
        (("fp32", "tf32", "bf16"), "tf32", ["precision=bf16"]),
        (("fp32", "tf32", "bf16"), "fp32", ["precision=bf16", "precision=tf32"]), (("fp32", "bf16"), "bf16", []),
    ],
)  # fmt: skip
def test_a_narrower_format_is_advised_where_the_device_is_made_for_it_or_that_is_not_known(native, present, told):
    found = rules.narrower(Setting({"precision": present}, native=native))
    assert [one.text for one in found] == told


def test_a_batch_that_is_known_is_named():
    assert rules.texts(rules.FIXED_COST, Setting({}), batch=64)[0] == "batch_size=64"
    assert rules.texts(rules.FIXED_COST, Setting({}))[0] == "a larger batch"


def test_a_curve_says_how_many_times_as_fast_each_batch_is():
    cases = [({**SETTINGS, "batch_size": size}, 0.01 + 1e-4 * size) for size in (8, 32, 128)]
    run = summarize(entry_of(a_sweep(cases), Path()))
    curve = curve_of(run.cases[0], run.cases, run.machine)
    assert curve is not None
    assert batch_curve.speed_up(curve, "image") == ("speed-up over batch_size 8 (741 images/s): 32: 3.3×, 128: 7.6×")
