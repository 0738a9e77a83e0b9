"""The rules of a diagnosis: what is observed in a record and a cause are decided by one threshold, and are one."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from build import a_sweep
from evidences import CARD, SETTINGS, an_evidence

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.causes import causes_of, phase_causes
from torchstone.analysis.advice.curves import curve_of, read_memory, speed_up
from torchstone.analysis.advice.feeding import FeedPace
from torchstone.analysis.advice.rules import Evidence, Setting, recorded_step
from torchstone.analysis.summary import summarize
from torchstone.core.messages import NOT_COMPARED
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.diagnosis import Cause
from torchstone.core.schema.facts import Facts
from torchstone.report.diagnosis_messages import IN_CODE, MESSAGES, text
from torchstone.storage.query import entry_of
from torchstone.workflows.diagnose.measured_diagnosis import three_questions

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
    """What the phases of the same step say."""
    return [cause.id for cause in phase_causes(evidence(name))]


def caused(name: str) -> list[str]:
    return [cause.id for cause in causes_of(evidence(name))]


def changed(monkeypatch, name: str, least: float) -> None:
    monkeypatch.setattr(rules, name, msgspec.structs.replace(RULES[name], least=least))


@pytest.mark.parametrize("name", PHASES)
def test_a_threshold_that_is_changed_moves_the_observation_and_the_cause(monkeypatch, name):
    assert CAUSES[name] in observed(name)
    assert CAUSES[name] in caused(name)
    changed(monkeypatch, name, 0.5)
    assert CAUSES[name] not in observed(name)
    assert CAUSES[name] not in caused(name)


def test_the_questions_of_a_slow_training_are_answered_by_the_same_thresholds(monkeypatch):
    phases_s = {"data": 0.15, "forward": 0.4, "backward": 0.45}
    answers = lambda: [one.values["answer"] for one in three_questions(phases_s, 0.6)]
    assert answers() == [True, True, True]
    changed(monkeypatch, "LOADER", 0.5)
    changed(monkeypatch, "COMPUTING", 0.9)
    monkeypatch.setattr(rules, "UTILIZATION", (0.5, 0.95))
    assert answers() == [False, False, False]


def told(causes: Iterable[Cause]) -> dict[str, Mapping[str, Any]]:
    return {one.id: one.values for cause in causes for one in cause.evidence}


def test_the_usual_30_ms_are_told_by_both_and_moved_by_one_number(monkeypatch):
    both = lambda: [told(look(evidence("LOADER"))) for look in (causes_of, phase_causes)]
    assert not any("data_share_long" in one for one in both()), "15 % of 50 ms"
    monkeypatch.setattr(rules, "DATA_S", 0.005)
    assert [one["data_share_long"]["usual_s"] for one in both()] == [0.005, 0.005]


def test_the_usual_70_percent_are_told_by_both_and_moved_by_one_number(monkeypatch):
    busy = an_evidence(TRAINING, {"forward": 0.4, "backward": 0.6}, figures={"device_utilization": 0.6}, look=None)
    both = lambda: [told(look(busy)).get("idle") for look in (causes_of, phase_causes)]
    assert both() == [{"share": 0.6, "usual": 0.7}] * 2
    monkeypatch.setattr(rules, "UTILIZATION", (0.5, 0.95))
    assert both() == [None, None]


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
def test_observation_and_cause_are_one(name):
    found = [next(one for one in look(evidence(name)) if one.id == CAUSES[name]) for look in (causes_of, phase_causes)]
    assert found[0] == found[1]


def test_full_memory_is_told_by_the_rule(monkeypatch):
    cases = [({**SETTINGS, "batch_size": 7600}, 0.1)]
    run = summarize(entry_of(a_sweep(cases), Path()))
    (told,) = read_memory(run.cases[0], run)
    assert told.remedies == rules.FULL_MEMORY.remedies(recorded_step(run, run.cases[0]).circumstances)
    changed(monkeypatch, "FULL_MEMORY", 0.99)
    assert "likely_to_run_out" not in [one.id for one in read_memory(run.cases[0], run)[0].seen]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_each_text_once_and_nothing_that_is_set_already(name):
    rule = RULES[name]
    open_ones = Setting({**TRAINING, "num_workers": 0}, 16, accelerator=True, trains=True)
    remedies = [one.id for one in rule.remedies(open_ones)]
    assert remedies
    assert len(set(remedies)) == len(remedies)
    assert rule.causes(open_ones)
    taken: dict[str, Scalar] = {
        "num_workers": 16, "pin_memory": True, "precision": "bf16", "compile": "reduce-overhead", "fused": "on",
        "gradient_checkpointing": True, "channels_last": "on",
    }  # fmt: skip
    done = Setting({**TRAINING, **taken}, 16, accelerator=True, trains=True)
    set_already = {"num_workers", "pin_memory", "bf16", "compile", "cuda_graphs", "fused", "gradient_checkpointing",
                   "channels_last"}  # fmt: skip
    assert not set_already & {one.id for one in rule.remedies(done)}


def test_every_message_has_its_id_in_the_source_and_every_id_its_message():
    sources = [
        path for path in (SOURCE / "analysis", SOURCE / "workflows", SOURCE / "core") for path in path.rglob("*.py")
    ]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    made = set(re.findall(r'"([\w.]+)"', code))
    patterns = {f"paced_by_{pace}" for pace in FeedPace} | {
        f"bound_{what}" for what in ("loader", "transfer", "communication")
    }
    assert sorted(MESSAGES.keys() - made - patterns) == []
    named = set(re.findall(r'(?:Statement|Remedy|Check)\(\s*"(\w+)"', code))
    assert len(named) > 100
    assert sorted(named - MESSAGES.keys() - NOT_COMPARED.keys()) == []
    assert IN_CODE.keys() <= MESSAGES.keys()
    every = Setting({**TRAINING, "num_workers": 0}, 2, accelerator=True, trains=True)
    assert {one.id for rule in RULES.values() for one in rule.causes(every)} <= MESSAGES.keys()


@pytest.mark.parametrize(
    ("changes", "known", "workers"),
    [
        ({"num_workers": 0}, {"cores": 4}, (2, 4)),
        ({"num_workers": 4}, {"cores": 4}, None),
        ({"num_workers": 4}, {"cores": 4, "loader_computes": False}, (8, 12, 16)),
        ({"num_workers": 4}, {"cores": 4, "loader_computes": True}, None),
        ({"num_workers": 4}, {}, (8, 12, 16)),
        ({"num_workers": "many"}, {}, None),
        ({"num_workers": None}, {}, "more_workers"),
        ({}, {"facts": Facts(own_fixed=("num_workers",))}, "own_workers"),
    ],
)
def test_as_many_workers_as_may_help_by_what_is_known_of_the_loader(changes, known, workers):
    found = rules.more_workers(Setting({**TRAINING, **changes}, **known))
    assert [one.values.get("workers", one.id) for one in found] == ([] if workers is None else [workers])


@pytest.mark.parametrize(
    ("native", "present", "told"),
    [
        (None, "fp32", ["bf16"]), (("fp32",), "fp32", []),
        (("fp32", "tf32", "bf16"), "tf32", ["bf16"]),
        (("fp32", "tf32", "bf16"), "fp32", ["bf16", "tf32"]), (("fp32", "bf16"), "bf16", []),
    ],
)  # fmt: skip
def test_a_narrower_format_is_advised_where_the_device_is_made_for_it_or_that_is_not_known(native, present, told):
    found = rules.narrower(Setting({"precision": present}, native=native))
    assert [one.id for one in found] == told


def test_a_batch_that_is_known_is_named():
    assert rules.FIXED_COST.remedies(Setting({}), batch=64)[0].values == {"batch_size": 64}
    assert rules.FIXED_COST.remedies(Setting({}))[0] == rules.LARGER_BATCH


def test_a_curve_says_how_many_times_as_fast_each_batch_is():
    cases = [({**SETTINGS, "batch_size": size}, 0.01 + 1e-4 * size) for size in (8, 32, 128)]
    run = summarize(entry_of(a_sweep(cases), Path()))
    curve = curve_of(run.cases[0], run.cases, run.machine)
    assert curve is not None
    assert text(speed_up(curve, "image")) == ("speed-up over batch_size 8 (741 images/s): 32: 3.3×, 128: 7.6×")
