"""An accelerator beside the CPU: how many times as fast, how sure that is, and what holds it back."""

from pathlib import Path

import msgspec
import pytest
from stored import a_stored_run, case, machine

from torchstone.analysis.advice.devices import contrasts_with_cpu
from torchstone.analysis.advice.insights import readings
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.schema.estimate import Estimate
from torchstone.report.diagnosis_messages import seen_text
from torchstone.report.documents.run import device_parts, note_parts
from torchstone.storage.query import entry_of


def measured(*rates, noise=0.001, trials=3, **axes) -> RunSummary:
    """A run of batch sizes 8, 32, … on both devices: (items/s on the CPU, on the card) of each."""
    cases = [
        (case(kind, batch_size=8 * 4**n, **axes), rate)
        for n, pair in enumerate(rates) for kind, rate in zip(("cpu", "cuda"), pair, strict=True)
    ]  # fmt: skip
    run = a_stored_run(0, cases, machine("cuda"), noise=noise, trials=trials)
    return summarize(entry_of(run, Path()))


def with_phases(run, **shares):
    """The same run, its steps cut into phases."""
    phases = {f"phase_{name}_s": Estimate(share, None, None, 0.95, "s", "mean", 3, 3) for name, share in shares.items()}
    cases = [msgspec.structs.replace(one, estimates={**one.estimates, **phases}) for one in run.cases]
    return msgspec.structs.replace(run, cases=tuple(cases))


def told(run):
    (one,) = contrasts_with_cpu(run.cases)
    return one.advice


def test_s4_61_how_many_times_as_fast_at_each_batch_size_with_its_interval():
    run = measured((100.0, 200.0), (150.0, 900.0))
    (one,) = contrasts_with_cpu(run.cases)
    first, second = (
        seen_text(one.advice).removeprefix("cuda:0 beside the CPU: ").split(" times as fast at batch_size ")[:2]
    )
    value, low, high = first.replace("[", "").replace("]", "").replace(",", "").split()
    assert float(low) <= float(value) <= float(high)
    assert float(value) == pytest.approx(2.0, rel=0.01)
    assert float(second.split()[1]) == pytest.approx(6.0, rel=0.01)
    assert (one.advice.causes, one.advice.remedies) == ((), ())
    assert one.case.configuration["batch_size"] == 32


def test_s4_61_an_accelerator_that_gains_little_is_told_with_remedies():
    found = told(measured((100.0, 120.0), (200.0, 240.0), pin_memory=False))
    assert seen_text(found).endswith("; little for an accelerator")
    assert [one.id for one in found.causes] == ["too_small_for_it", "transfers_waited_for"]
    remedies = [one.id for one in found.remedies]
    assert {"pin_memory", "more_workers", "cuda_graphs"} <= set(remedies)
    assert remedies[-1] == "use_cpu"


def test_what_is_set_already_is_not_advised():
    found = told(measured((100.0, 120.0), pin_memory=True, compile="reduce-overhead"))
    remedies = {one.id for one in found.remedies}
    assert "more_workers" in remedies
    assert not remedies & {"pin_memory", "cuda_graphs"}


@pytest.mark.parametrize(("copied", "blamed"), [(0.4, True), (0.02, False)])
def test_transfers_are_blamed_where_the_measured_step_has_them(copied, blamed):
    found = told(with_phases(measured((100.0, 120.0)), transfer=copied, forward=1.0 - copied))
    assert f"; transfer is {100 * copied:.0f} % of its step at batch_size 8" in seen_text(found)
    assert ("transfers_waited_for" in [one.id for one in found.causes]) == blamed
    assert ("more_workers" in [one.id for one in found.remedies]) == blamed


def test_what_the_trials_do_not_show_is_not_told_as_a_number():
    found = told(measured((100.0, 130.0), noise=0.6, trials=2))
    assert "not known how many times as fast at batch_size 8" in seen_text(found)
    assert found.remedies == (), "nothing is known to be little"


def test_one_trial_has_a_ratio_without_an_interval():
    assert seen_text(told(measured((100.0, 400.0), noise=0.0, trials=1))) == (
        "cuda:0 beside the CPU: 4 times as fast at batch_size 8"
    )


def test_where_a_batch_size_comes_twice_the_fastest_counts_and_what_has_none_is_passed_over():
    rates = {("cpu", 0): 100.0, ("cpu", 2): 50.0, ("cuda", 0): 300.0, ("cuda", 2): 400.0}
    cases = [(case(kind, num_workers=n), rate) for (kind, n), rate in rates.items()]
    run = summarize(entry_of(a_stored_run(0, cases, machine("cuda"), noise=0.0), Path()))
    without = msgspec.structs.replace(run.cases[0], configuration={"rounds": 5})
    one, aside = contrasts_with_cpu([*run.cases, without])
    assert seen_text(one.advice).startswith("cuda:0 beside the CPU: 4.00 ")
    assert "num_workers 2, on the CPU 0 (batch_size 8); at equal settings: 8.00 " in seen_text(aside.advice)


def test_without_the_cpu_or_a_size_in_common_there_is_no_ratio():
    run = measured((100.0, 200.0), (100.0, 200.0))
    by_place = {(str(one.placement), one.configuration["batch_size"]): one for one in run.cases}
    assert contrasts_with_cpu([by_place["cuda:0", 8]]) == []
    (one,) = contrasts_with_cpu([by_place["cuda:0", 8], by_place["cpu", 32]])
    assert seen_text(one.advice) == "cuda:0 and the CPU have no batch size in common that both measured"


def test_notes_of_a_run_on_both_devices_say_of_which_they_speak():
    notes = [note.text for note in note_parts(measured((100.0, 300.0), (150.0, 900.0), (155.0, 2000.0)))]
    assert any(note.startswith("train bert on cpu: speed-up over batch_size 8 (100") for note in notes)
    assert any(note.startswith("train bert on cuda:0: speed-up over batch_size 8 (300") for note in notes)


def test_a_run_on_both_devices_says_so_below_its_tables_and_in_its_json():
    run = measured((100.0, 120.0))
    assert any(note.text.startswith("train bert: cuda:0 beside the CPU: ") for note in device_parts(run))
    (said,) = [one for one in readings(run).advice if one.about == "device"]
    assert said.case_id == run.cases[1].case_id
    assert said.seen[0].id == "beside_the_cpu"
