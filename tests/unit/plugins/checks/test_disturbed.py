"""neighbours, steal, throttled, other_processes, drift: did anything but the case decide the times?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.figures import figures
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Disturbance, Disturber, Series, Trial
from torchstone.plugins import registry

TEN_STEPS_S = [0.25] * 10


def look(check: str, run: Run) -> list[Finding]:
    return list(registry.load("checks", check).look(run))


def disturbed(**per_s: float) -> Trial:
    at_s = tuple(map(float, range(12)))
    series = [Series(metric, "test", at_s, tuple(rate * t for t in at_s)) for metric, rate in per_s.items()]
    return a_trial(TEN_STEPS_S, series=series)


def gauged(metric: str, *values: float) -> Trial:
    return a_trial(TEN_STEPS_S, series=[Series(metric, "test", tuple(map(float, range(len(values)))), values)])


def test_neighbours_says_how_much() -> None:
    beside, alone = disturbed(host_busy_s=2.5, process_cpu_s=1.75), disturbed(host_busy_s=1, process_cpu_s=1)
    (found,) = look("neighbours", a_run([beside, alone]))
    assert found.severity == Severity.WARNING
    assert "up to 0.75 CPU cores in 1 of 2 trials" in found.message
    assert not look("neighbours", a_run([disturbed(host_busy_s=2.1, process_cpu_s=2.0)]))
    assert not look("neighbours", a_run())


QUIET = Disturbance(disturbed=False, share=0.0, cores=0.02)
BESIDE = Disturbance(True, 1.0, (Disturber.PROCESSES,), cores=0.75, processes=(("make", 0.5), ("cc1", 0.25)))


def judged(*found: Disturbance) -> Run:
    return a_run([a_trial(TEN_STEPS_S, trial_id=f"t{n}", number=n, disturbance=one) for n, one in enumerate(found)])


def test_neighbours_of_trials_that_are_left_out_are_information() -> None:
    (found,) = look("neighbours", judged(QUIET, BESIDE, QUIET, QUIET))
    assert found.severity == Severity.INFO
    assert found.message == "1 of 4 trials left out: other programs (make, cc1) used up to 0.75 CPU cores"
    assert not look("neighbours", judged(QUIET, QUIET, QUIET))


@pytest.mark.parametrize("trials", [(QUIET, QUIET, BESIDE), (*[QUIET] * 3, *[BESIDE] * 4), (BESIDE,)])
def test_neighbours_of_trials_that_had_to_be_kept_make_the_case_suspect(trials: tuple[Disturbance, ...]) -> None:
    (found,) = look("neighbours", judged(*trials))
    assert found.severity == Severity.WARNING
    counted = f"{trials.count(BESIDE)} of {len(trials)} trials"
    assert f"used up to 0.75 CPU cores in {counted}: this is the figure of a busy machine" in found.message


@pytest.mark.parametrize(
    ("cause", "said"), [(Disturber.QUOTA, "CPU quota"), (Disturber.STOPPED, "a signal stopped the trial")]
)
def test_neighbours_tells_what_else_held_trials_up(cause: Disturber, said: str) -> None:
    (found,) = look("neighbours", judged(*[Disturbance(True, 1.0, (cause,), cores=0.0)] * 3))
    assert (found.severity, said in found.message) == (Severity.WARNING, True)


@pytest.mark.parametrize(
    "cause", [Disturber.STEAL, Disturber.SWAP, Disturber.DEVICE_SHARED, Disturber.DEVICE_THROTTLED]
)
def test_neighbours_leaves_to_the_other_checks_what_is_theirs(cause: Disturber) -> None:
    assert not look("neighbours", judged(*[Disturbance(True, 1.0, (cause,), cores=0.0)] * 3))


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        ("neighbours", {"host_busy_s": 2.5, "process_cpu_s": 1.75}, {"host_busy_s": 1.0, "process_cpu_s": 1.0}),
        ("steal", {"host_steal_s": 0.24}, {"host_steal_s": 0.1}),
    ],
)
def test_of_many_short_trials_a_tenth_may_meet_a_busy_moment(
    check: str, bad: Mapping[str, float], good: Mapping[str, float]
) -> None:
    assert not look(check, a_run([disturbed(**bad)] * 2 + [disturbed(**good)] * 18))
    assert "in 3 of 20 trials" in look(check, a_run([disturbed(**bad)] * 3 + [disturbed(**good)] * 17))[0].message


@pytest.mark.parametrize("check", ["other_processes", "throttled"])
def test_of_many_short_trials_on_a_device_too(check: str) -> None:
    gauge = f"device_{check}"
    quiet, beside = gauged(gauge, 0, 0, 0, 0, 0), gauged(gauge, 0, 0, 1, 0, 0)
    assert not look(check, a_run([beside] * 2 + [quiet] * 18))
    assert "3 of 20 trials" in look(check, a_run([beside] * 3 + [quiet] * 17))[0].message


def test_steal_counts_all_cores() -> None:
    assert "3.0 %" in look("steal", a_run([disturbed(host_steal_s=0.24)]))[0].message
    assert not look("steal", a_run([disturbed(host_steal_s=0.1)]))


def test_throttled_is_read_inside_the_windows() -> None:
    assert "33 %" in look("throttled", a_run([gauged("device_throttled", 0, 0, 1, 0, 0)]))[0].message
    assert not look("throttled", a_run([gauged("device_throttled", 1, 1, 0, 0, 0)]))


def test_other_processes_names_another_device() -> None:
    cards = tuple(DeviceInfo("cuda", "cuda", "nvidia", i, "a card") for i in range(2))
    case = a_case(placement=Placement("cuda", 0))
    trial = gauged("device_other_processes", 0, 0, 1, 0, 0)
    trial = a_trial(TEN_STEPS_S, series=trial.series, case_id=case.case_id)
    found = look("other_processes", a_run([trial], cases=[case], machine=a_machine(devices=cards)))
    assert "1 other process used cuda:0" in found[0].message
    assert "--device cuda:1" in found[0].advice
    assert not look("other_processes", a_run([gauged("device_other_processes", 3, 3, 0, 0, 0)]))


def test_drift_fires_on_a_slope_and_not_on_noise() -> None:
    rising = [0.01 * (1 + 0.002 * i) for i in range(100)]
    found = look("drift", a_run([a_trial(rising)] * 3))
    assert "18 % slower" in found[0].message
    assert "--warmup" in look("drift", a_run([a_trial(rising[::-1])] * 3))[0].advice
    assert not look("drift", a_run([a_trial(rising), a_trial(rising), a_trial(rising[::-1])]))
    assert not look("drift", a_run())
    rng = random.Random(9)
    noisy = [[a * b * 100 for a, b in zip(rising, noise(rng, 0.02), strict=False)] for _ in range(3)]
    assert look("drift", a_run([a_trial(steps) for steps in noisy]))


@pytest.mark.parametrize(("rises", "fires"), [((0.12, 0.02, 0.07), False), ((0.08, 0.06, 0.07), True)])
def test_drift_is_what_trials_have_in_common(rises: tuple[float, ...], fires: bool) -> None:
    """Of one sign three are in one case of four by chance."""
    trials = [a_trial([0.01 * (1 + rise * i / 99) for i in range(100)]) for rise in rises]
    assert bool(look("drift", a_run(trials))) is fires


def test_drift_is_seldom_seen_in_noise_that_resembles_its_neighbours() -> None:
    rng = random.Random(5)
    fired = sum(bool(look("drift", a_run([a_trial(noise(rng)) for _ in range(3)]))) for _ in range(60))
    assert fired <= 3


def test_drift_fires_where_trials_become_faster_one_after_the_other() -> None:
    def of(paces: Sequence[float]) -> list[str]:
        return [f.message for f in look("drift", a_run([a_trial([pace] * 20) for pace in paces]))]

    faster = [0.341, 0.335, 0.33, 0.31, 0.29, 0.28, 0.27, 0.266, 0.264]
    assert of(faster) == ["from the first trial to the last, steps became 26 % faster"]
    assert of(faster[::-1])[0].endswith("slower")
    assert not of(faster[:5]), "too few"
    assert not of([1.0 + 0.01 * pace for pace in faster]), "under 1 %"
    rng = random.Random(7)
    assert sum(bool(of([rng.lognormvariate(0.0, 0.1) for _ in range(8)])) for _ in range(300)) <= 6


def noise(rng: random.Random, sd: float = 0.13) -> list[float]:
    state, steps = 0.0, []
    for _ in range(120):
        state = 0.7 * state + rng.gauss(0.0, sd * (1 - 0.7**2) ** 0.5)
        steps.append(0.01 * 2.718281828**state)
    return steps


def test_advice_is_in_the_words_in_which_it_was_asked_for() -> None:
    rising = [0.01 * (1 + 0.002 * i) for i in range(100)]
    asked = {
        "--budget 20s": Procedure(), "--iterations 200": Procedure(iterations=50),
        "--epochs 8": Procedure(epochs=2, fit=Fit()), "--steps 400": Procedure(epochs=1, iterations=100, fit=Fit()),
    }  # fmt: skip
    for words, procedure in asked.items():
        drifting = a_run([a_trial(rising)] * 3, procedure=procedure)
        hot = a_run([gauged("device_throttled", 0, 0, 1, 0, 0)], procedure=procedure)
        assert look("drift", drifting)[0].advice.endswith(words)
        assert look("throttled", hot)[0].advice.endswith(words)


def test_a_training_is_not_told_to_take_options_that_it_has_not() -> None:
    training = Procedure(epochs=2, fit=Fit())
    falling = [0.01 * (1 + 0.002 * i) for i in range(100)][::-1]
    assert "--warmup" not in look("drift", a_run([a_trial(falling)] * 3, procedure=training))[0].advice
    stolen = disturbed(host_steal_s=0.24)
    assert "--trials" not in look("steal", a_run([stolen], procedure=training))[0].advice
    assert "--trials 6" in look("steal", a_run([stolen]))[0].advice


def test_trials_that_are_no_forks_are_told_once_with_what_did_it():
    about: dict[str, Scalar] = {
        "driver": "CUDA driver",
        "asked": "cuDeviceGetCount",
        "returned": 0,
        "step": "hf:bert",
        "module": "kernels",
    }
    why = Statement("initialised.import", about)
    trials = [a_trial(trial_id=f"t{n}", number=n, facts={"not_forked": why} if n else {}) for n in range(3)]
    (finding,) = registry.load("checks", "not_forked").look(a_run(trials))
    assert finding.severity == Severity.INFO
    assert finding.subject == "run"
    assert (finding.reason, finding.values) == ("initialised.import", {"trials": 2, "of": 3, **about})
    assert "by the preload of hf:bert, at `import kernels`" in finding.message


def held(throttled: tuple[float, ...], capped: tuple[float, ...] | None) -> Trial:
    told = {"device_throttled": throttled, **({"device_power_capped": capped} if capped is not None else {})}
    series = [Series(metric, "nvml", tuple(map(float, range(5))), values) for metric, values in told.items()]
    return a_trial(TEN_STEPS_S, series=series)


@pytest.mark.parametrize(
    ("throttled", "capped", "severity", "said"),
    [
        ((0, 0, 1, 1, 1), (0, 0, 1, 1, 1), Severity.INFO, "ran at its power limit"),
        ((0, 0, 1, 1, 1), (0, 0, 1, 0, 1), Severity.WARNING, "up to 33 % of the readings"),
        ((0, 0, 1, 1, 1), None, Severity.WARNING, "temperature or power"),
    ],
)
def test_a_card_at_its_power_limit_is_as_it_should_be(throttled, capped, severity, said):
    (found,) = look("throttled", a_run([held(throttled, capped)] * 3))
    assert found.severity == severity
    assert said in found.message


def counted(seconds: float, tick_s: float | None, source: str = "nvml") -> Trial:
    at_s = (0.0, 2.0, 2.0 + seconds, 60.0)
    facts = {} if tick_s is None else {"energy_tick_s": tick_s}
    series = [Series("device_energy_j", source, at_s, tuple(100.0 * t for t in at_s))]
    return a_trial([seconds / 10] * 10, series=series, facts=facts)


@pytest.mark.parametrize(
    ("trial", "fires"),
    [
        (counted(0.6, 0.1), True), (counted(2.1, 0.1), False), (counted(0.6, 0.02), False), (counted(0.6, None), True),
        (counted(0.6, None, "amd_smi"), False), (a_trial(TEN_STEPS_S), False),
    ],
)  # fmt: skip
def test_windows_that_are_too_short_for_the_energy_counter_are_told(trial, fires):
    found = look("energy_ticks", a_run([trial] * 3))
    assert bool(found) is fires
    assert not fires or "updated at most 6 times in the windows of 3 of 3 trials" in found[0].message
    values = figures(trial).values
    assert ("energy_per_item_j" in values) is (not fires and bool(trial.series))
    steps = look("energy_ticks", a_run([counted(0.6, 0.1)] * 3, procedure=Procedure(iterations=50)))
    assert "--iterations 200" in steps[0].advice


def test_other_processes_are_those_just_before_and_after_the_windows_where_none_were_counted_inside() -> None:
    def around(*counts: float) -> Trial:
        series = [Series("device_other_processes", "nvml", (0.0, 1.5, 5.0, 9.0), counts)]
        return a_trial(TEN_STEPS_S, series=series)  # from 2.0 to 4.5 s

    assert look("other_processes", a_run([around(0, 1, 0, 0)]))
    assert look("other_processes", a_run([around(0, 0, 1, 0)]))
    assert not look("other_processes", a_run([around(2, 0, 0, 2)]))


def inferring(axes: Mapping[str, Scalar], threads: int, cores: float, seconds: float = 2.5) -> tuple[Case, list[Trial]]:
    case = a_case({"threads": 0, "num_workers": 0, **axes}, task=Task.INFER)
    at_s = tuple(map(float, range(12)))
    used = Series("process_cpu_s", "test", at_s, tuple(cores * t for t in at_s))
    steps, facts = [seconds / 10] * 10, {"threads_in_effect": threads}
    ids = (f"{case.case_id}.{number}" for number in range(3))
    return case, [a_trial(steps, series=[used], facts=facts, case_id=case.case_id, trial_id=one) for one in ids]


def beyond(*taken: tuple[Case, list[Trial]], procedure: Procedure | None = None) -> list[Finding]:
    trials = [trial for _, trials in taken for trial in trials]
    return look("beyond_threads", a_run(trials, cases=[case for case, _ in taken], procedure=procedure))


EAGER_ON_TWO = inferring({"runtime": "eager"}, 2, 1.9)


@pytest.mark.parametrize(
    ("axes", "in_effect", "cores", "threads"),
    [
        ({"threads": 1}, 1, 2.0, 1),
        ({"threads": 1}, 2, 1.5, 1),
        ({"runtime": "onnxruntime", "quantization": "int8-dynamic"}, 4, 3.0, 2),
        ({"runtime": "onnxruntime", "num_workers": 2, "feed": "resident"}, 4, 4.5, 4),
    ],
)
def test_more_cores_than_threads_or_than_other_runtimes_is_found(axes, in_effect, cores, threads) -> None:
    taken = inferring(axes, in_effect, cores)
    (found,) = beyond(EAGER_ON_TWO, taken)
    name = "onnxruntime int8-dynamic" if "quantization" in axes else axes.get("runtime", "eager")
    assert (found.subject, found.severity) == (taken[0].case_id, Severity.WARNING)
    assert found.values == {"runtime": name, "cores": cores, "threads": threads, "trials": 3, "of": 3}


@pytest.mark.parametrize(
    "taken",
    [
        inferring({"threads": 1}, 1, 1.2),
        inferring({"runtime": "onnxruntime"}, 2, 2.0),
        inferring({"threads": 1}, 1, 2.0, seconds=0.5),
        inferring({"threads": 1, "num_workers": 2, "feed": "loader"}, 1, 3.0),
    ],
)
def test_what_its_threads_loaders_and_clock_explain_is_not(taken: tuple[Case, list[Trial]]) -> None:
    assert not beyond(EAGER_ON_TWO, taken)


def test_of_the_users_own_process_and_of_one_trial_among_three_nothing_is_told() -> None:
    case, trials = inferring({"threads": 1}, 1, 2.0)
    assert not beyond((case, trials), procedure=Procedure(isolation="inline"))
    _, quiet = inferring({"threads": 1}, 1, 1.0)
    assert not beyond((case, [trials[0], *quiet[1:]]))
