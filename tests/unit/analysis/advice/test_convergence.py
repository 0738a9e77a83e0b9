"""Trainings beside each other: the best learning rate, optimizers, precision; and what a sweep comes to."""

import math
import random
from pathlib import Path

import msgspec
import pytest
from build import a_sweep
from learning import ITEMS, falling, of_losses, rising

from torchstone.analysis.advice.convergence import convergence
from torchstone.analysis.advice.insights import performance_summary
from torchstone.analysis.advice.trainings import alike_but_for, compared, curves_of, read_curves
from torchstone.analysis.summary import summarize
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.codec import encode
from torchstone.core.stats.convergence import Behaviour, Sameness
from torchstone.plugins import registry
from torchstone.storage.query import entry_of


def summary(run):
    return summarize(entry_of(run, Path("x")))


def read(trainings, **settings):
    run = of_losses(trainings, **settings)
    return convergence(summary(run), curves_of(run))


RATES = [
    ({"learning_rate": 1e-5}, falling(slope=-0.001, seed=7)),
    ({"learning_rate": 1e-3}, falling(slope=-0.02)),
    ({"learning_rate": 3e-3}, [loss * (1.0 + 0.02 * (-1) ** n) for n, loss in enumerate(falling(slope=-0.02))]),
    ({"learning_rate": 1.0}, rising()),
]


def test_each_training_has_its_rate_its_end_and_what_it_did():
    (found,) = read(RATES)
    slow, good, _, lost = found.trainings
    assert (found.model, found.device, found.batch_size, found.horizon_items) == ("net:cnn", "cpu", ITEMS, 100 * ITEMS)
    assert good.rate_per_step is not None
    assert good.rate_per_step.value == pytest.approx(-0.02, abs=0.001)
    assert good.rate_per_1000_items is not None
    assert good.rate_per_1000_items.value == pytest.approx(1000 / ITEMS * good.rate_per_step.value)
    assert good.loss_end is not None
    assert good.loss_end.value == pytest.approx(2.3 * math.exp(-0.02 * 95), rel=0.05)
    assert [one.behaviour for one in found.trainings[1:]] == [Behaviour.FALLING, Behaviour.FALLING, Behaviour.DIVERGED]
    assert found.target_loss is not None
    assert slow.items_to_target is not None
    assert good.items_to_target is not None
    assert good.items_to_target < slow.items_to_target
    assert good.time_to_target_s == pytest.approx(good.items_to_target / ITEMS * 0.0101, rel=0.02)
    assert lost.items_to_target is None


def test_the_best_learning_rate_and_what_is_as_good():
    ((rates,),) = [one.learning_rates for one in read(RATES)]
    assert rates.tried == (1e-5, 1e-3, 3e-3, 1.0)
    assert rates.best in {1e-3, 3e-3}
    assert rates.as_good == tuple({1e-3, 3e-3} - {rates.best})
    assert rates.unsteady == (1.0,)
    assert rates.try_next is None


def ended_at(level, steps=42, noise=0.02, seed=0):
    """Losses that fall to a level, whose steps resemble each other so much that they count as few."""
    chance = random.Random(seed)
    wave = [0.0]
    for _ in range(steps - 1):
        wave.append(0.9 * wave[-1] + chance.gauss(0.0, noise))
    return [level + (2.3 - level) * math.exp(-0.3 * step) + wave[step] for step in range(steps)]


def test_s3_43_losses_that_do_not_meet_are_better_and_worse_however_few_steps_there_are():
    ((rates,),) = [one.learning_rates for one in read([
        ({"learning_rate": 1e-3}, ended_at(0.84)), ({"learning_rate": 1e-4}, ended_at(2.0, seed=1)),
    ])]  # fmt: skip
    assert (rates.best, rates.as_good, rates.cannot_tell) == (1e-3, (), ())


@pytest.mark.parametrize(("steps", "more"), [(14, 56), (400, None)])
def test_s3_43_what_is_not_known_is_not_called_as_good(steps, more):
    noisy = [
        ({"learning_rate": rate}, falling(steps, slope=-0.05 if steps < 40 else -0.002, noise=0.1, seed=seed))
        for seed, rate in enumerate((1e-3, 3e-3))
    ]
    ((rates,),) = [one.learning_rates for one in read(noisy)]
    assert rates.best in {1e-3, 3e-3}
    assert (rates.as_good, rates.cannot_tell) == ((), tuple({1e-3, 3e-3} - {rates.best}))
    assert rates.more_steps == more


def test_a_best_one_at_the_end_of_the_range_asks_for_more():
    steep = [({"learning_rate": rate}, falling(slope=-rate)) for rate in (0.001, 0.01, 0.02)]
    ((largest,),) = [one.learning_rates for one in read(steep)]
    assert (largest.best, largest.as_good, largest.try_next) == (0.02, (), pytest.approx(0.06))
    shallow = [({"learning_rate": rate}, falling(slope=-1e-4 / rate)) for rate in (0.01, 0.1)]
    ((smallest,),) = [one.learning_rates for one in read(shallow)]
    assert smallest.try_next == pytest.approx(0.01 / 3)


def test_no_best_where_nothing_falls():
    flat = [({"learning_rate": rate}, falling(slope=0.0, seed=3)) for rate in (1e-6, 1e-5)]
    ((rates,),) = [one.learning_rates for one in read(flat)]
    assert rates.best is None
    assert rates.unsteady == ()


def test_of_ten_steps_nothing_is_called_flat_and_more_are_asked_for():
    few = [0.75, 0.55, 0.521, 0.504, 0.4, 0.385, 0.349, 0.286, 0.244, 0.246]
    ((rates,),) = [one.learning_rates for one in read([({"learning_rate": rate}, few) for rate in (1e-3, 5e-3)])]
    assert (rates.best, rates.more_steps) == (None, 40)


def test_a_loss_that_became_nan_is_a_training_that_broke():
    (found,) = read([RATES[1], ({"learning_rate": 10.0}, [*falling(30), *[math.nan] * 20])])
    assert found.trainings[1].behaviour == Behaviour.NOT_FINITE
    assert found.learning_rates[0].unsteady == (10.0,)
    assert found.horizon_items == 100 * ITEMS, "it does not shorten what the others saw"


def test_what_saw_more_items_is_read_over_those_that_all_saw():
    (found,) = read([({"learning_rate": 1e-3}, falling(300)), ({"learning_rate": 1e-4}, falling(100, slope=-0.005))])
    assert found.horizon_items == 100 * ITEMS
    long = found.trainings[0]
    assert long.steps == 300
    assert long.loss_end is not None
    assert long.loss_end.value == pytest.approx(2.3 * math.exp(-0.95), rel=0.05)


def test_optimizers_stand_at_their_best_learning_rate_the_lowest_loss_first():
    trainings = [
        ({"optimizer": o, "learning_rate": rate}, falling(slope=slope))
        for o, rate, slope in (
            ("sgd", 0.1, -0.01),
            ("sgd", 0.001, -0.001),
            ("adamw", 0.1, 0.0),
            ("adamw", 0.001, -0.02),
        )
    ]
    (found,) = read(trainings)
    (optimizers,) = found.optimizers
    assert optimizers.tuned
    assert [(one.optimizer, one.learning_rate) for one in optimizers.standings] == [("adamw", 0.001), ("sgd", 0.1)]
    assert optimizers.standings[1].memory_bytes == 3e8
    assert [rates.where for rates in found.learning_rates] == [{"optimizer": "sgd"}, {"optimizer": "adamw"}]
    (plain,) = read([trainings[0], trainings[2]])
    assert not plain.optimizers[0].tuned


def test_precision_its_speed_its_memory_and_the_loss_within_a_margin():
    base, wiggle = falling(), [1.0 + 0.001 * (-1) ** step for step in range(100)]
    near = [loss * by for loss, by in zip(base, wiggle, strict=True)]
    trainings = [
        ({"precision": "bf16"}, near),
        ({"precision": "fp32"}, base),
        ({"precision": "fp16"}, [1.1 * loss for loss in base]),
    ]
    ((same, other),) = [one.precisions for one in read(trainings, step_s=(0.005, 0.01, 0.02))]
    assert (same.precision, same.against, same.verdict) == ("bf16", "fp32", Sameness.EQUIVALENT)
    assert same.speed_ratio is not None
    assert same.speed_ratio.value == pytest.approx(2.0)
    assert same.speed_ratio.low is not None
    assert same.memory_ratio == pytest.approx(0.75)
    assert same.difference == pytest.approx(0.0, abs=1e-3)
    assert other.verdict == Sameness.DIFFERENT
    assert other.difference is not None
    assert other.difference > 0.03


def test_a_precision_that_breaks_is_different_and_a_short_one_is_unclear():
    nan = ({"precision": "fp16"}, [*falling(50), math.nan])
    ((broken,),) = [one.precisions for one in read([({"precision": "fp32"}, falling()), nan])]
    assert (broken.verdict, broken.difference) == (Sameness.DIFFERENT, None)
    short = [({"precision": word}, falling(20)) for word in ("fp32", "bf16")]
    ((unclear,),) = [one.precisions for one in read(short)]
    assert (unclear.verdict, unclear.difference) == (Sameness.UNCLEAR, None)


def test_batch_sizes_are_kept_apart_and_a_sweep_of_speed_alone_is_not_read():
    trainings = [({"batch_size": size, "learning_rate": rate}, falling()) for size in (8, 16) for rate in (1e-3, 1e-4)]
    assert [one.batch_size for one in read(trainings)] == [8, 16]
    speed = summary(a_sweep([({"batch_size": size}, 0.01) for size in (8, 16)]))
    assert compared(speed) == []
    assert read_curves(speed) == {}, "and its record, which is not there, is not looked for"


def test_what_the_losses_cannot_say_is_said():
    pair = [({"feed": "resident", "learning_rate": rate}, falling()) for rate in (1e-3, 1e-4)]
    assert read(pair)[0].notes == (Statement("resident_data"), Statement("one_seed"))


def test_probes_of_a_search_do_not_stand_beside_replicates_and_all_of_it_is_json():
    run = of_losses(RATES)
    assert len(curves_of(run)[run.head.plan.cases[0].case_id]) == 3
    assert b'"best":0.00' in encode({"convergence": convergence(summary(run), curves_of(run))})


def test_s3_36_to_41_a_sweep_in_a_few_numbers():
    trainings = [
        ({"batch_size": size, "precision": word, "learning_rate": rate}, falling(slope=-10 * rate))
        for size, word, rate in ((8, "fp32", 0.001), (8, "bf16", 0.002), (16, "fp32", 0.001))
    ]
    (found,) = performance_summary(summary(of_losses(trainings, step_s=(0.01, 0.02, 0.03), trials=1)))
    assert (found.model, found.device, found.cases) == ("net:cnn", "cpu", 3)
    time, speed, loss = found.training_time, found.throughput, found.loss_convergence
    assert time is not None
    assert (time.min, time.max, time.mean) == pytest.approx((0.01, 0.03, 0.02))
    assert time.by_batch_size == pytest.approx({"8": 0.015, "16": 0.03})
    assert time.by_mixed_precision == pytest.approx({"full_precision": 0.02, "mixed_precision": 0.02})
    assert time.by_optimizer == pytest.approx({"adamw": 0.02})
    assert speed is not None
    assert (speed.min, speed.max) == pytest.approx((ITEMS / 0.03, ITEMS / 0.01))
    assert loss is not None
    assert (loss.min, loss.max) == pytest.approx((-0.02, -0.01), abs=1e-3)
    assert loss.by_learning_rate == pytest.approx({"0.001": -0.01, "0.002": -0.02}, abs=1e-3)


def test_a_training_that_diverged_has_no_rate_in_the_summary():
    run = of_losses([({"learning_rate": 0.001}, falling()), ({"learning_rate": 1.0}, rising())])
    findings = tuple(registry.load("checks", "loss_diverged").look(run))
    assert len(findings) == 1
    (found,) = performance_summary(summary(msgspec.structs.replace(run, findings=findings)))
    assert found.loss_convergence is not None
    assert found.loss_convergence.max == found.loss_convergence.min == pytest.approx(-0.01, abs=1e-3)
    assert found.loss_convergence.by_learning_rate == pytest.approx({"0.001": -0.01}, abs=1e-3)


def test_a_summary_without_losses_has_none():
    (found,) = performance_summary(summary(a_sweep([({"batch_size": 8}, 0.01)])))
    assert found.loss_convergence is None
    assert performance_summary(msgspec.structs.replace(summary(a_sweep([({"batch_size": 8}, 0.01)])), cases=())) == ()


def test_trainings_that_differ_in_no_learning_rate_are_not_compared_by_it():
    """As in a record with a case that lacks the axis beside others that have all the same."""
    (found,) = read(RATES)
    alike = [msgspec.structs.replace(one, point={"threads": 2}) for one in found.trainings]
    assert alike_but_for(("learning_rate",), alike) == []
    assert alike_but_for(("learning_rate",), []) == []
