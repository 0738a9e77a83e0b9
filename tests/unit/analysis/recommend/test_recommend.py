"""What is recommended, and how sure that is: winners, ties, what is left out, and what to type."""

import math
import shlex

import msgspec
import pytest
from build import a_finding
from learning import falling, of_losses
from priced import prices_of
from stored import CARD, a_stored_run, case, machine, store

from torchstone.analysis.recommend import recommend as recommending
from torchstone.analysis.recommend.candidates import criterion
from torchstone.analysis.recommend.recommend import RecommendRequest, recommend
from torchstone.cli._parsing import Parser
from torchstone.cli.run_command import add_arguments
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.facts import Facts
from torchstone.report.diagnosis_messages import text
from torchstone.report.documents.recommendation import recommendation_document
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.measured import stored_cases
from torchstone.storage.rows import KEPT

SIZES = (8, 16, 32)
PRICES = prices_of("EUR", {"H200": 4.0, "Xeon": 0.1})


def sweep(rates, *, kind="cpu", **axes):
    return [(case(kind, batch_size=size, **axes), rate) for size, rate in zip(SIZES, rates, strict=True)]


def ids(statements):
    return {one.id for one in statements}


@pytest.fixture
def told(outputs):
    """Store these runs and return what is recommended."""

    def call(*runs, **asked):
        store(outputs, runs)
        return recommend(outputs, RecommendRequest(**asked))

    return call


def test_the_fastest_settings_with_their_lead(told):
    (found,) = told(a_stored_run(1, sweep((100, 150, 200)), machine())).settings
    assert found.clear
    assert found.recommended is not None
    assert found.recommended.point == {"batch_size": 32, "precision": "fp32"}
    assert found.recommended.value == pytest.approx(200, rel=0.02)
    assert found.lead is not None
    assert found.lead.low < 200 / 150 < found.lead.high
    assert found.lead.level > 0.95, "corrected for three that were tried"
    assert [round(offer.against_best or 0, 1) for offer in found.offers] == [1.0, 0.8, 0.5]


def test_of_those_that_cannot_be_told_apart_the_leanest(told):
    run = a_stored_run(1, sweep((100, 199, 200)), machine(), noise=0.02)
    (found,) = told(run).settings
    assert not found.clear
    assert found.recommended is not None
    assert found.recommended.point["batch_size"] == 16, "it takes less memory than 32"
    assert sorted(str(o.point["batch_size"]) for o in found.offers if o.could_be) == ["16", "32"]
    assert found.to_type is not None
    assert "--batch-sizes 32,16" in found.to_type or "--batch-sizes 16,32" in found.to_type
    assert "--trials 6" in found.to_type


def test_noise_that_hides_a_large_difference_is_no_reason_to_give_it_up(told):
    (found,) = told(a_stored_run(1, sweep((100, 150, 200)), machine(), noise=0.08)).settings
    assert not found.clear
    assert found.recommended is not None
    assert found.recommended.value == max(offer.value for offer in found.offers)


def test_what_is_suspect_is_left_out_and_nothing_is_recommended_of_it_alone(told):
    cases = sweep((100, 150, 300))
    doubt = [a_finding("neighbours", Severity.WARNING, "busy", "wait", one.case_id) for one, _ in cases]
    (found,) = told(a_stored_run(1, cases, machine(), findings=doubt[2:])).settings
    assert found.recommended is not None
    assert found.recommended.point["batch_size"] == 16
    assert found.left_out == (Statement("settings_suspect", {"count": 1, "of": 3, "checks": ("neighbours",)}),)
    (all_in_doubt,) = told(a_stored_run(1, cases, machine(), findings=doubt)).settings
    assert (all_in_doubt.recommended, all_in_doubt.lead, all_in_doubt.clear) == (None, None, False)
    assert [offer.doubts for offer in all_in_doubt.offers] == [("neighbours",)] * 3, "the table is there"
    assert all_in_doubt.left_out == (Statement("settings_suspect", {"count": 3, "of": 3, "checks": ("neighbours",)}),)
    assert "--trials 10" in (all_in_doubt.to_type or "")


def test_one_setting_alone_and_one_trial(told):
    (found,) = told(a_stored_run(1, sweep((100, 0, 0))[:1], machine())).settings
    assert found.recommended is None
    assert found.to_type is not None
    assert "--batch-sizes 8,32,128" in found.to_type
    (single,) = told(a_stored_run(1, sweep((100, 105, 110)), machine(), trials=1)).settings
    assert (single.recommended, single.clear, single.lead) == (None, False, None)
    assert single.left_out == (Statement("settings_few_trials", {"count": 3, "of": 3, "fewest": 3}),)
    assert Statement("some_one_trial") in single.cautions
    assert "--trials 10" in (single.to_type or "")


def test_figures_of_an_older_torch_are_another_programs(told):
    old = a_stored_run(1, sweep((100, 150, 400)), machine(torch="2.12.0"))
    new = a_stored_run(2, sweep((100, 250, 200)), machine(torch="2.13.0"))
    (found,) = told(old, new).settings
    assert found.recommended is not None
    assert found.recommended.point["batch_size"] == 16
    assert found.recommended.runs == (new.head.run_id,)


def test_cases_that_failed_and_memory_that_is_nearly_full_are_not_recommended(told):
    cases = sweep((100, 150, 200), kind="cuda")
    held = {cases[1][0].case_id: 0.95 * (CARD.memory_bytes or 0)}
    run = a_stored_run(1, cases, machine("cuda"), memory=held, failed=[cases[2][0].case_id])
    (found,) = told(run).settings
    assert found.left_out == (Statement("memory_nearly_full", {"share": 0.9}),)
    assert [offer.point["batch_size"] for offer in found.offers] == [8]


def test_the_hosts_memory_is_not_held_against_a_card(told):
    cases = sweep((100, 150, 200), kind="cuda")
    held = {one.case_id: 0.95 * (CARD.memory_bytes or 0) for one, _ in cases}
    run = a_stored_run(1, cases, machine("cuda"), memory=held)
    resident = [
        msgspec.structs.replace(
            trial,
            measurements=tuple(
                msgspec.structs.replace(m, metric="peak_rss_bytes") if m.metric == "peak_reserved_bytes" else m
                for m in trial.measurements
            ),
        )
        for trial in run.trials
    ]
    (found,) = told(msgspec.structs.replace(run, trials=tuple(resident))).settings
    assert "memory_nearly_full" not in ids((*found.left_out, *found.cautions))
    assert {offer.memory_bytes for offer in found.offers} == {None}


def test_where_all_that_was_measured_nearly_fills_the_memory_that_is_told_and_not_called_left_out(told):
    cases = sweep((100, 150, 200), kind="cuda")
    held = {one.case_id: 0.95 * (CARD.memory_bytes or 0) for one, _ in cases}
    (found,) = told(a_stored_run(1, cases, machine("cuda"), memory=held)).settings
    assert found.recommended is not None
    assert found.left_out == ()
    assert found.cautions[0] == Statement("only_setting", {"why": (Statement("memory_nearly_full", {"share": 0.9}),)})


def test_a_rate_below_0_that_another_tool_claims_is_none(told):
    run = a_stored_run(1, sweep((100, 150, 200)), machine())
    first = run.head.plan.cases[0].case_id
    claimed = [
        msgspec.structs.replace(trial, measurements=(), facts=Facts("train", claimed={"throughput": -5.0}))
        if trial.case_id == first else trial
        for trial in run.trials
    ]  # fmt: skip
    (found,) = told(msgspec.structs.replace(run, trials=tuple(claimed))).settings
    assert [offer.point["batch_size"] for offer in found.offers] == [32, 16]


def test_a_precision_whose_loss_is_worse_is_left_out_however_fast(told):
    base = falling()
    trainings = [
        ({"precision": "fp32", "learning_rate": 1e-3}, base),
        ({"precision": "bf16", "learning_rate": 1e-3}, [1.1 * loss for loss in base]),
        ({"precision": "fp32", "learning_rate": 1e-4}, falling(slope=-0.001, seed=7)),
        ({"precision": "fp32", "learning_rate": 1e-3, "optimizer": "sgd"}, [1.5 * loss for loss in base]),
    ]
    (found,) = told(of_losses(trainings, step_s=(0.02, 0.01, 0.02, 0.005))).settings
    assert found.recommended is not None
    assert (found.clear, found.lead) == (True, None), "fp32 with adamw is all that is left"
    assert [offer.point["precision"] for offer in found.offers] == ["fp32"]
    worse = {one.id: one.values for one in found.left_out}
    assert worse["precision_worse"]["precision"] == "bf16"
    assert (worse["optimizer_worse"]["optimizer"], worse["optimizer_worse"]["best"]) == ("sgd", "adamw")
    assert found.learning is not None
    assert found.learning.best == 0.001
    assert found.learning.tried == (0.0001, 0.001)


def test_the_commands_train_with_the_learning_rate_that_is_recommended(told):
    base = falling()
    trainings: list[tuple[dict[str, object], list[float]]] = [
        ({"learning_rate": 1e-4}, base),
        ({"learning_rate": 1e-2}, falling(slope=-0.001, seed=7)),
        ({"learning_rate": 1e-4, "optimizer": "sgd"}, falling(slope=-0.001, seed=8)),
    ]
    answer = told(of_losses(trainings, step_s=(0.01, 0.03, 0.01), trials=1))
    (found,), (hardware,) = answer.settings, answer.hardware
    assert found.learning is not None
    assert found.learning.best == 1e-4
    assert found.to_type is not None
    assert hardware.to_type is not None
    for typed in (found.to_type, hardware.to_type):
        words = shlex.split(typed)
        assert words[words.index("--learning-rates") + 1] == "0.0001"
    assert "sgd" not in found.to_type, "it trains worse"
    shown = " ".join(terminal(recommendation_document(answer), 200).split())
    assert "trials with every learning_rate count together, as it changes no speed" in shown


def test_what_varied_is_named_even_where_its_default_is_the_best(told):
    run = a_stored_run(1, [(case(optimizer=word), rate) for word, rate in (("adamw", 300), ("sgd", 100))], machine())
    shown = " ".join(terminal(recommendation_document(told(run)), 200).split())
    assert ", data synthetic: optimizer adamw, batch_size 8, precision fp32" in shown


def test_a_precision_that_trains_as_well_is_recommended_and_one_not_compared_is_told(told):
    base = falling()
    near = [loss * (1.0 + 0.001 * (-1) ** step) for step, loss in enumerate(base)]
    trainings = [({"precision": "fp32"}, base), ({"precision": "bf16"}, near)]
    (found,) = told(of_losses(trainings, step_s=(0.02, 0.01))).settings
    assert found.recommended is not None
    assert found.recommended.point["precision"] == "bf16"
    assert "loss_not_compared" not in ids(found.cautions)
    (unknown,) = told(
        a_stored_run(9, [(case(precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 200))], machine()),
        model="hf:bert",
    ).settings
    assert Statement("loss_not_compared", {"axis": "precision", "value": "bf16"}) in unknown.cautions


@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING])
def test_a_precision_that_is_not_shown_to_be_as_good_is_not_recommended_however_fast(told, severity):
    answering = [(case(task="infer", precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 200))]
    fp32, bf16 = (one.case_id for one, _ in answering)
    unproven = Finding("runtime_differs", severity, bf16, {"runtime": "eager bf16", "error": 4e-3})
    card = [(case("cuda", task="infer"), 300)]
    others = a_stored_run(2, card, machine("cuda", host="gpubox"))
    found = told(a_stored_run(1, answering, machine(), findings=[unproven]), others)
    settings = next(one for one in found.settings if one.device == "Intel Xeon")
    assert [offer.case_ids for offer in settings.offers] == [(fp32,)]
    assert settings.recommended is None or settings.recommended.case_ids == (fp32,)
    (left_out,) = (one for one in settings.left_out if one.id == "quality_not_shown")
    assert left_out.values["variant"] == "eager bf16"
    assert left_out.values["rate"] == pytest.approx(200, rel=0.02)
    (hardware,) = found.hardware
    assert [offer.point["precision"] for offer in hardware.models[0].offers] == ["fp32", "fp32"]
    (shown,) = told(a_stored_run(3, answering, machine()), model="hf:bert").settings[:1]
    assert shown.recommended is not None
    assert shown.recommended.case_ids == (bf16,), "another run of the same showed it"


def test_of_two_precisions_neither_of_which_is_shown_to_be_as_good_none_is_recommended(told):
    answering = [(case(task="infer", precision=word), rate) for word, rate in (("fp16", 100), ("bf16", 200))]
    unproven = [Finding("runtime_differs", Severity.INFO, one.case_id, {}) for one, _ in answering]
    (found,) = told(a_stored_run(1, answering, machine(), findings=unproven)).settings
    assert found.recommended is None
    assert {one.values["variant"] for one in found.left_out} == {"eager fp16", "eager bf16"}


def test_a_precision_that_was_not_for_choice_is_recommended_as_it_is(told):
    answering = sweep((100, 150, 200), precision="bf16", task="infer")
    unproven = [Finding("runtime_differs", Severity.INFO, one.case_id, {}) for one, _ in answering]
    (found,) = told(a_stored_run(1, answering, machine(), findings=unproven)).settings
    assert found.recommended is not None
    assert found.recommended.point == {"batch_size": 32, "precision": "bf16"}


def both(number=1, *, cpu=(100, 150, 200), cuda=(1000, 2000, 3000), **about):
    return (
        a_stored_run(number, sweep(cpu, **about), machine(host="desk")),
        a_stored_run(number + 1, sweep(cuda, kind="cuda", **about), machine("cuda", host="gpubox")),
    )


def test_hardware_at_each_ones_best_and_at_equal_settings(told):
    (found,) = told(*both()).hardware
    assert (found.family, found.task, found.recommended, found.clear) == ("embedding", "train", "NVIDIA H200", True)
    assert found.lead is not None
    assert found.lead.low < 15 < found.lead.high
    assert found.lead.level == pytest.approx(1 - 0.05 / 5), "six settings of two devices were tried"
    (model,) = found.models
    assert [offer.device for offer in model.offers] == ["NVIDIA H200", "Intel Xeon"]
    alike = {r.point["batch_size"]: r.ratios["Intel Xeon"] for r in model.relative}
    assert alike == pytest.approx({8: 0.1, 16: 0.075, 32: 0.0667}, rel=0.05)


def test_settings_that_differ_between_the_devices_are_told_with_the_ratio_at_equal_ones(told):
    def of(kind, rates):
        return [(case(kind, batch_size=size, precision=precision), rate) for (size, precision), rate in rates.items()]

    cpu = of("cpu", {(8, "fp32"): 100, (32, "fp32"): 90})
    found = told(
        a_stored_run(1, cpu, machine(host="desk")),
        a_stored_run(2, of("cuda", {(32, "fp32"): 900, (32, "bf16"): 2000}), machine("cuda", host="gpubox")),
    )
    (block,) = found.hardware
    (said,) = [text(one) for one in block.cautions if one.id == "best_settings_differ"]
    assert said == (
        "the best settings differ between the devices (batch_size 8 on Intel Xeon, 32 on NVIDIA H200; "
        "precision fp32 on Intel Xeon, bf16 on NVIDIA H200): part of the difference is due to them"
    )
    shown = terminal(recommendation_document(found), 300, every=True)
    assert f"note: {said}\n" in shown
    assert "at equal settings (batch_size 32, precision fp32): " in shown, "the only ones that both ran"
    assert "NVIDIA H200 1×" in shown


def test_devices_at_equal_settings_anyway_have_no_such_line(told):
    (block,) = told(*both()).hardware
    assert "best_settings_differ" not in ids(block.cautions)


def test_hardware_over_several_models_counts_those_that_all_devices_ran(told):
    other = both(3, cpu=(10, 20, 30), cuda=(30, 60, 90), model="hf:roberta")
    (found,) = told(*both(), *other, a_stored_run(7, sweep((1, 1, 9), model="hf:lonely"), machine())).hardware
    assert [one.models for one in found.standings] == [2, 2]
    against = found.standings[1].against_best
    assert against.value == pytest.approx(1 / math.sqrt(15 * 3), rel=0.05)
    assert (against.low or 9.0) < against.value < (against.high or 0.0)
    assert found.lead is not None
    assert found.lead.value == pytest.approx(1.0 / against.value), "one ratio, turned round"


def test_models_of_no_family_and_of_family_custom_are_one_block(told):
    lonely = a_stored_run(7, sweep((1, 1, 9), model="py:net.py:load", family=None), machine())
    found = told(*both(family="custom"), lonely).hardware
    assert [(one.family, one.task) for one in found] == [("custom", "train")]
    assert {one.family for one in told(family="custom").hardware} == {"custom"}


def test_machines_under_one_name_of_a_device_are_told(told):
    runs = [a_stored_run(n, sweep((100, 150, 200)), machine(host=host)) for n, host in enumerate("ab")]
    (found,) = told(*runs).settings
    assert Statement("one_name", {"device": "Intel Xeon", "count": 2, "hosts": ("a", "b")}) in found.cautions


def test_ranks_that_share_a_cpu_are_paid_as_one_machine(told):
    alone, both_ranks = case("cpu", batch_size=8, world_size=1), case("cpu", batch_size=8, world_size=2)
    both_ranks = msgspec.structs.replace(both_ranks, placement=Placement("cpu", count=2))
    run = a_stored_run(1, [(alone, 100), (both_ranks, 150)], machine())
    (found,) = told(run, by="price", prices=PRICES).settings
    assert found.recommended is not None
    assert found.recommended.point["world_size"] == 2
    assert found.recommended.value == pytest.approx(150 * 3600 / 0.1, rel=0.02)


def test_hardware_by_price_and_by_memory(told):
    by_price = told(*both(), by="price", prices=PRICES)
    (found,) = by_price.hardware
    assert found.recommended == "Intel Xeon", "a fifteenth of the speed for a fortieth of the price"
    assert found.models[0].offers[0].unit == "images/EUR"
    assert found.models[0].offers[0].value == pytest.approx(200 * 3600 / 0.1, rel=0.02)
    assert told(by="price", prices=prices_of("EUR", {"H200": 4.0})).unpriced == ("Intel Xeon",)
    (lean,) = told(by="memory").hardware
    assert {offer.point["batch_size"] for offer in lean.models[0].offers} == {32}, "the smallest batch does not win"
    settings = told(by="memory").settings
    assert [one.recommended.point["batch_size"] for one in settings if one.recommended is not None] == [32, 32]
    assert settings[0].left_out == (Statement("far_from_top", {"count": 2, "share": 0.05}),)


def test_devices_that_cannot_be_told_apart_the_cheaper_one(told):
    runs = both(cpu=(100, 150, 200), cuda=(100, 150, 200))
    (found,) = told(*runs, prices=PRICES).hardware
    assert not found.clear
    assert [one.could_be for one in found.standings] == [True, True]
    assert found.recommended == "Intel Xeon"
    assert {one.device: one.price_per_hour for one in found.standings} == {"Intel Xeon": 0.1, "NVIDIA H200": 4.0}
    assert found.to_type is not None
    assert "--trials 6" in found.to_type


def test_one_device_alone_says_what_to_type_elsewhere(told):
    (found,) = told(a_stored_run(1, sweep((100, 150, 200)), machine())).hardware
    assert found.recommended is None
    assert found.to_type is not None
    assert shlex.split(found.to_type)[:6] == ["torchstone", "run", "--task", "train", "--model", "hf:bert"]


def test_what_is_to_be_typed_can_be(told):
    run = both()[1]
    (found,) = told(msgspec.structs.replace(run, trials=run.trials[:3])).settings
    assert found.to_type is not None
    parser = Parser(prog="torchstone run")
    add_arguments(parser)
    options = parser.parse_args(shlex.split(found.to_type)[2:])
    assert options.model == "hf:bert"
    assert options.device == ["cuda:0"]


def test_what_is_not_stored_names_what_is(told):
    runs = both()
    for asked, said in (
        ({"family": "vison"}, "unknown family 'vison'"),
        ({"model": "gpt"}, "Known: hf:bert"),
        ({"task": "trian"}, "Did you mean 'train'"),
        ({"task": "infer"}, "no case of task infer is stored"),
        ({"by": "price"}, "--prices FILE"),
    ):
        with pytest.raises(UsageError, match=said):
            told(*runs, **asked)


def test_an_empty_store_and_one_without_a_case_that_ended_well(told):
    empty = told()
    assert (empty.runs, empty.readings, empty.hardware, empty.settings) == (0, 0, (), ())
    cases = sweep((100, 150, 200))
    failed = told(a_stored_run(1, cases, machine(), failed=[one.case_id for one, _ in cases]))
    assert (failed.runs, failed.readings) == (1, 0)


def test_energy_counts_items_a_joule(outputs):
    store(outputs, both())
    one = stored_cases(outputs, ("throughput",)).measured[0]
    by = criterion("energy")
    assert by.of(msgspec.structs.replace(one, figures={"energy_per_item_j": [0.25, None, 0.5]})) == [4.0, None, 2.0]
    assert by.of(msgspec.structs.replace(one, figures={"throughput": [3.0]})) == []
    assert by.unit(one) == "images/J"


def test_nothing_is_recommended_on_top_of_trials_that_differ_too_much(told):
    (found,) = told(a_stored_run(1, sweep((100, 150, 200)), machine(), noise=0.6)).settings
    assert found.recommended is None
    assert not found.clear
    assert "--trials 10" in (found.to_type or "")


@pytest.mark.parametrize("by", ["speed", "energy", "memory", "price"])
def test_what_is_kept_of_each_run_recommends_the_same_as_all_trials_read(outputs, monkeypatch, by):
    """Over two hosts, a card, two versions of torch, what is in doubt, failed, or fills the memory."""
    runs = []
    for number in range(12):
        kind, torch = ("cpu", "cuda")[number % 2], ("2.12.0", "2.13.0")[number // 6]
        cases = sweep((100, 150 + number, 200), kind=kind)
        doubt = [a_finding("neighbours", Severity.WARNING, "busy", "wait", cases[number % 3][0].case_id)]
        held = {cases[2][0].case_id: 0.95 * (CARD.memory_bytes or 0)} if number == 7 else None
        runs.append(a_stored_run(
            number, cases, machine(kind, f"desk{number % 3}", torch), trials=2 + number % 4, memory=held,
            findings=doubt if number % 5 == 0 else [], failed=[cases[0][0].case_id] if number == 4 else [],
        ))  # fmt: skip
    store(outputs, runs)
    asked = RecommendRequest(by=by, prices=PRICES if by == "price" else None)
    by_run = recommend(outputs, asked)
    monkeypatch.setattr(recommending, "measured_kept", lambda place: stored_cases(place, KEPT))
    assert encode(recommend(outputs, asked)) == encode(by_run)
    assert by_run.readings == 35
    assert bool(by_run.settings) == (by != "energy"), "nothing measured energy here"
