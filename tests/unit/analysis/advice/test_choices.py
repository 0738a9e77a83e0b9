"""Choices among measured Cases: fastest, most efficient, recommended, and what nothing beats."""

from torchstone.analysis.advice.choices import best_efficiency, choose, pareto, recommended, same_within
from torchstone.analysis.advice.in_rounds import marks
from torchstone.core.schema.answer import Choice
from torchstone.core.schema.estimate import Estimate


def choice(name, rate, memory, share=None, half=0.01, trials=3):
    ends = (rate * (1 - half), rate * (1 + half)) if trials > 1 else (None, None)
    return Choice(
        name, {"batch_size": len(name)}, trials, rate, memory * 1e9, share, efficiency=rate / memory,
        throughput_low=ends[0], throughput_high=ends[1],
    )  # fmt: skip


def test_the_seeds_own_table():
    """S2's table: the most items/s for each GB among those within 95 % of the top, not its batch of 64."""
    table = [(64, 895.5, 0.72), (512, 2728.1, 3.85), (1024, 3563.8, 7.45), (2048, 4096.7, 14.25), (4096, 4447.8, 27.85)]
    choices = [choice(str(batch), rate, memory, memory / 80) for batch, rate, memory in table]
    chosen = choose(choices)
    assert chosen is not None
    assert [chosen.highest_throughput.case_id, chosen.recommended.case_id] == ["4096", "4096"]
    assert chosen.best_efficiency is not None
    assert chosen.best_efficiency.case_id == "4096", "2048 has 92 % of the top"
    assert [c.case_id for c in chosen.front] == ["64", "512", "1024", "2048", "4096"]
    assert chosen.same == ()


def test_a_difference_within_the_intervals_is_not_announced_and_the_smaller_memory_is_taken():
    near, top = choice("near", 99.0, 1.0, 0.1, half=0.03), choice("top", 100.0, 2.0, 0.2, half=0.03)
    chosen = choose([near, top])
    assert chosen is not None
    assert chosen.highest_throughput is top
    assert chosen.recommended is near
    ((same, within),) = chosen.same
    assert same is near
    assert 0.01 < within < 0.05
    apart = choose([choice("near", 99.0, 1.0, 0.1, half=0.001), choice("top", 100.0, 2.0, 0.2, half=0.001)])
    assert apart is not None
    assert apart.recommended.case_id == "top"
    assert apart.same == ()


def test_noise_does_not_buy_much_speed_for_memory():
    slow, top = choice("slow", 80.0, 1.0, 0.1, half=0.5), choice("top", 100.0, 2.0, 0.2, half=0.5)
    assert same_within(slow, top) is not None
    assert recommended([slow, top]) is top, "the same as far as is known, but a fifth slower as measured"


def test_what_is_safe_wins_over_what_is_fast():
    tight, safe = choice("tight", 100.0, 9.5, 0.95), choice("safe", 90.0, 5.0, 0.5)
    assert recommended([tight, safe]) is safe
    unknown = [choice("a", 100.0, 9.5), choice("b", 90.0, 5.0)]
    assert recommended(unknown) is unknown[0], "where nothing is known to be safe, the fastest"


def test_one_trial_has_no_interval_and_values_decide():
    one, other = choice("one", 100.0, 2.0, 0.2, trials=1), choice("other", 99.9, 1.0, 0.1, trials=1)
    assert same_within(one, other) is None
    assert recommended([one, other]) is one


def test_what_was_not_measured_is_not_chosen():
    blank = Choice("blank", {}, 0)
    assert choose([blank, choice("a", 1.0, 1.0)]) is None
    assert best_efficiency([blank]) is None
    assert pareto([blank]) == ()


def estimate(value, half=0.01, trials=3):
    return Estimate(value, value * (1 - half), value * (1 + half), 0.95, "items/s", "", trials, 10)


def test_marks():
    column = [estimate(100.0), None, estimate(99.9), estimate(50.0)]
    assert marks(column, higher=True) == ["*", "", "=", ""]
    assert marks(column, higher=False) == ["", "", "", "*"]
    assert marks([estimate(1.0), None], higher=True) == ["", ""], "one is no best"
    single = [estimate(2.0, trials=1), estimate(2.0, trials=1), estimate(1.0, trials=1)]
    assert marks(single, higher=True) == ["*", "=", ""]
