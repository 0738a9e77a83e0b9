"""Seed S2's workflow: bench, settings into configs/default.yaml, one epoch; workers alone, a quick look, why slow."""

import json
import re

import pytest
from acceptance.feature_rows import row_of
from ruamel.yaml import YAML
from seed2_files import DEFAULT, PRINTED, laid_out

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bench(desk):
    laid_out(desk.folder, items=4000)
    return desk


@pytest.fixture(scope="module")
def tuned(bench):
    return bench.claimed("S2-46").document


def parsed(path):
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def spec_of(bench, document):
    """What a tune was for, as its record says."""
    first, _, _ = (bench.folder / document["record"]).read_text(encoding="utf-8").partition("\n")
    return json.loads(first)["tune"]


def test_s2_46_the_first_benchmark_tries_what_file_and_flags_name_and_answers(bench, tuned):
    now = parsed(PRINTED / "s2_preset_80gb_large.yaml")["data"]
    axes = spec_of(bench, tuned)["axes"]
    assert axes["batch_size"] == [64, 128, 256]
    assert axes["num_workers"] == sorted({0, 2, now["num_workers"]}), "what is named, and what the config has now"
    answer = tuned["answer"]
    assert answer["points"] == 3 * 3
    assert {case["configuration"]["batch_size"] for case in tuned["cases"]} <= {64, 128, 256}
    for block in ("highest_throughput", "best_efficiency", "recommended"):
        assert answer[block]["throughput"] > 0


def test_s2_46_and_39_the_best_settings_stand_in_the_config_and_its_comments_too(bench, tuned):
    settings = tuned["answer"]["settings"]
    written = parsed(bench.folder / DEFAULT)
    assert written["data"]["batch_size"] == settings["batch_size"]
    assert written["data"]["num_workers"] == settings["num_workers"]
    assert written["training"]["use_amp"] is False, "all was measured with --axis precision=fp32"
    before = (PRINTED / "s2_preset_80gb_large.yaml").read_text(encoding="utf-8")
    after = (bench.folder / DEFAULT).read_text(encoding="utf-8")
    backup = bench.folder / f"{DEFAULT}.bak"
    assert backup.read_text(encoding="utf-8") == before if after != before else not backup.exists()
    assert re.findall("#.*", after) == re.findall("#.*", before)


def test_s2_40_and_41_the_effective_batch_and_so_the_learning_rate_stay(bench, tuned):
    written = parsed(bench.folder / DEFAULT)
    batch = written["data"]["batch_size"]
    assert batch * written["training"]["gradient_accumulation_steps"] == 1024
    assert written["training"]["learning_rate"] == 0.00015
    for case in tuned["cases"]:
        here = case["configuration"]
        if "grad_accumulation" in here and case["workload"]["task"] == "train":
            assert here["batch_size"] * here["grad_accumulation"] == 1024


def test_s2_40_without_an_effective_batch_the_rate_follows_by_the_square_root(bench):
    answer = bench.claimed("S2-40").document["answer"]
    batch = answer["settings"]["batch_size"]
    assert answer["settings"]["learning_rate"] == pytest.approx(0.001 * (batch / 64) ** 0.5, rel=0.01)


def test_s2_50_one_epoch_with_what_the_tune_wrote(bench, tuned):
    told = " ".join(bench.claimed("S2-50").out.split())
    assert re.search(rf"predicted .* an epoch of 3,200 items by tune {tuned['run_id']}; item for item", told), told
    trained = bench.type("torchstone show latest --json").document["cases"][0]["configuration"]
    settings = tuned["answer"]["settings"]
    assert {axis: trained[axis] for axis in settings} == settings, "the file says all of it"


def test_s2_47_nothing_but_workers_varies(bench):
    done = bench.claimed("S2-47").document
    replicates = [case for case in done["cases"] if any(t["purpose"] == "replicate" for t in case["trials"])]
    assert {case["configuration"]["batch_size"] for case in replicates} == {64}
    assert set(done["answer"]["settings"]) >= {"num_workers"}
    assert set(done["answer"]["recommended"]["point"]) == {"num_workers"}


def test_s2_48_a_quick_look_takes_five_steps_of_each(bench):
    done = bench.claimed("S2-48").document
    assert [case["configuration"]["batch_size"] for case in done["cases"]] == [16, 32, 64]
    assert {case["estimates"]["steps"]["value"] for case in done["cases"]} == {5}


def test_s2_48_a_quick_tune_has_short_windows_and_few_probes(bench):
    quick = bench.type(row_of("S2-48").typed[0]).document
    assert (quick["procedure"]["budget_s"], quick["procedure"]["warmup_budget_s"]) == (0.8, 0.4)
    assert spec_of(bench, quick)["most_probes"] == 10
    assert quick["answer"]["probes"] <= 10
    figures = [trial["figures"]["values"] for case in quick["cases"] for trial in case["trials"]]
    assert max(one.get("total_time_s", 0.0) for one in figures) < 1.6, "a window ends with the step past its 0.8 s"


def test_s2_07_the_printed_file_runs_as_it_is_but_for_what_this_machine_is_too_small_for(bench):
    done = bench.claimed("S2-07").document
    assert len(done["cases"]) == 6 * 1 * 2 * 2
    assert {c["configuration"]["batch_size"] for c in done["cases"]} == {1, 2, 4, 8, 16, 32}
    measured = [c for c in done["cases"] if not c["configuration"]["pin_memory"]]
    assert {c["estimates"]["steps"]["value"] for c in measured} == {10}, "steps_per_test"
    others = [t["outcome"] for c in done["cases"] if c not in measured for t in c["trials"]]
    assert all("pinning needs an accelerator" in outcome["message"] for outcome in others), "told, and the rest goes on"


def test_s2_27_and_45_a_loader_that_is_waited_for_is_named_and_its_remedy_measured(bench):
    document = bench.claimed("S2-45").document
    first = document["answer"]["causes"][0]
    assert first["kind"] == "I/O"
    assert [one["id"] for one in first["usual"]] == ["slow_disk", "few_workers", "costly_preprocessing"]
    assert any(re.search(r"data is \d\d % of the step", one["text"]) for one in first["evidence"])
    (data,) = [one["values"] for one in first["evidence"] if one["id"].startswith(("data_share", "phase_share"))]
    assert 0.1 < data["share"] < 1.0
    words = " ".join(remedy["text"] for remedy in first["remedies"])
    for remedy in ("num_workers=2,4,8,12,16", "a faster disk (SSD)", "less preprocessing", "a faster CPU"):
        assert remedy in words
    tried = [one for one in document["answer"]["tried"] if "num_workers" in one["what_if"]["settings"]]
    assert max(one["gain"]["value"] for one in tried if one["gain"] is not None) > 1.1


def test_s2_30_an_optimizer_that_takes_a_fifth_of_the_step_is_told(bench):
    told = " ".join(bench.claimed("S2-30").out.split())
    assert re.search(r"note: optimizer is \d\d % of the step \([\d.]+ m?s\), usually a small share", told), told
    assert "Causes: small batch, AdamW. Try: a larger batch; grad_accumulation: fewer updates" in told
    assert "fused=on" in told
