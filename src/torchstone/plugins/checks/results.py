"""Are the results right: losses, outputs and fingerprints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from torchstone.core.figures import figures, loss_curve, raw
from torchstone.core.fingerprints import furthest
from torchstone.core.messages import Value, Values
from torchstone.core.quality import is_as_good, quality_of_trials
from torchstone.core.schema.axis import AXES, VARIANT_AXES, variant_name
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.quality import QualityVerdict
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.convergence import has_diverged, spikes
from torchstone.plugins.checks._cases import setting, sound, trials_by_case
from torchstone.plugins.protocols import check

# ── losses ──────────────────────────────────────────────────────────────────────────────────────────────────

Curves = Sequence[Sequence[float]]
_CLAIMED = ("loss_first", "loss_last", "loss_min", "loss_max", "loss_mean")


@check("a training loss that became NaN or infinite")
def nan_loss(run: Run) -> Iterator[Finding]:
    """Fire on any kept loss, or loss that another tool tells, that is NaN or infinite."""
    for case_id, case, trials in trials_by_case(run):
        losses = [_losses(t) for t in trials]  # of trials that ended well and of diverged ones
        lost = [values for values in losses if not all(map(math.isfinite, values))]
        if lost:
            values: Values = {"trials": len(lost), "of": sum(map(bool, losses))}
            cure, more = _cure(case, run)
            # No loss that was kept is a number; those of the warm-up may have been.
            never = not any(map(math.isfinite, itertools.chain(*lost)))
            remedies = ("never_a_number", *cure) if never else cure or ("check_labels",)
            yield Finding("nan_loss", Severity.ERROR, case_id, {**values, **more}, remedies=remedies)


def _losses(trial: Trial) -> list[float]:
    said = trial.facts.claimed
    return [*raw(trial, "loss"), *(said[name] for name in _CLAIMED if name in said)]


def _cure(case: Case, run: Run) -> tuple[tuple[str, ...], Values]:
    if case.configuration.get("precision") == "fp16":
        return ("wider_range",), {"precision": setting(run, "precision", "bf16")}
    rate = case.configuration.get("learning_rate")
    if isinstance(rate, int | float) and rate > 0:
        return ("lower_rate",), {"rate": setting(run, "learning_rate", f"{rate / 10:g}"), "rate_before": f"{rate:g}"}
    return (), {}


@check("a training loss that left its lowest level and did not come back")
def loss_diverged(run: Run) -> Iterator[Finding]:
    """Fire where the loss of more than half of the trials diverged: one that flips by rounding alone is no rule."""
    for case_id, case, losses in _curves(run):
        lost = [one for one in losses if has_diverged(one)]
        if len(lost) > len(losses) / 2:
            remedies, more = _steadier(case, run)
            values: Values = {
                "trials": len(lost),
                "of": len(losses),
                "lowest": min(lost[0]),
                "last": lost[0][-1],
                **more,
            }
            yield Finding("loss_diverged", Severity.WARNING, case_id, values, remedies=remedies)


@check("single training losses far outside the noise around them")
def loss_spikes(run: Run) -> Iterator[Finding]:
    """Fire where the losses of more than half of the trials have spikes. Timings are as good as any: it only tells.

    A loss that diverged has its own finding.
    """
    for case_id, case, losses in _curves(run):
        found = [spikes(one) for one in losses if not has_diverged(one)]
        leaping = [steps for steps in found if steps]
        if len(leaping) > len(losses) / 2:
            remedies, more = _steadier(case, run)
            values: Values = {
                "spikes": max(map(len, leaping)),
                "steps": max(map(len, losses)),
                "first": min(steps[0] for steps in leaping) + 1,
                **more,
            }
            yield Finding("loss_spikes", Severity.INFO, case_id, values, remedies=remedies)


def _curves(run: Run) -> Iterator[tuple[str, Case, Curves]]:
    """Yield (case_id, Case, the losses of each of its sound trials) for each Case that has losses."""
    for case_id, case, trials in sound(run):
        if found := [curve for trial in trials if (curve := loss_curve(trial))]:
            yield case_id, case, found


def _steadier(case: Case, run: Run) -> tuple[tuple[str, ...], Values]:
    """Return what to change, the likeliest cure first; what the Case does already is left out."""
    configuration = case.configuration
    cures: list[str] = []
    values: Values = {}
    if configuration.get("precision") == "fp16":
        cures.append("wider_range")
        values["precision"] = setting(run, "precision", "bf16")
    rate, clip = configuration.get("learning_rate"), configuration.get("grad_clip")
    if isinstance(rate, int | float) and rate > 0.0:
        steady = _lower_and_steady(case, run, rate)
        cures.append("lower_rate" if steady is None else "stable_rate")
        values["rate"] = setting(run, "learning_rate", f"{rate / 10.0 if steady is None else steady:g}")
        values["rate_before"] = f"{rate:g}"
    if isinstance(clip, int | float):
        cures.append("tighter_clip" if clip else "clip")
        values["clip"] = setting(run, "grad_clip", f"{clip / 4.0:g}" if clip else 1)
        values["clip_before"] = f"{clip:g}"
    return (*cures, "rate_warmup"), values


def _lower_and_steady(case: Case, run: Run, rate: float) -> float | None:
    """Return the highest lower learning rate of a Case that is equal but for it, and whose losses came back."""
    rates = []
    for _, other, losses in _curves(run):
        lower = other.configuration.get("learning_rate")
        if isinstance(lower, int | float) and lower < rate and _rest(other) == _rest(case):
            rates += [lower] if not any(map(has_diverged, losses)) else []
    return max(rates, default=None)


def _rest(case: Case) -> tuple[object, ...]:
    others = sorted((name, value) for name, value in case.configuration.items() if name != "learning_rate")
    return (case.workload.canonical(), str(case.placement), others)


# ── outputs ─────────────────────────────────────────────────────────────────────────────────────────────────


@check("trials of one case that computed different results")
def fingerprint_moved(run: Run) -> Iterator[Finding]:
    """Fire where fingerprints differ from the first trial's of the same seed, with the two values furthest apart.

    The seed is the procedure's, but for a program: it has its own, or none, and then no two trials have the same.
    """
    for case_id, _, trials in sound(run):
        far, seed = None, 0
        for own_seed, (first, *others) in _prints_by_seed(trials, run.head.procedure.seed).items():
            for entries in filter(None, (furthest(first, other) for other in others)):
                if far is None or entries.difference > far.difference:
                    far, seed = entries, own_seed
        if far is not None and far.differ:
            values: Values = {"one": far.one, "other": far.other, "seed": seed}
            yield Finding("fingerprint_moved", Severity.WARNING, case_id, values)


def _prints_by_seed(trials: Sequence[Trial], seed: int) -> dict[int, list[tuple[float, ...]]]:
    found: dict[int, list[tuple[float, ...]]] = {}
    for trial in trials:
        if own := raw(trial, "fingerprint"):
            found.setdefault(seed if trial.facts.seed is None else trial.facts.seed, []).append(own)
    return found


@check("an inference output that is NaN or infinite")
def nan_output(run: Run) -> Iterator[Finding]:
    """Fire on fingerprints of an inference that are NaN, or infinite: mean and deviation of its first output.

    One NaN among the numbers makes the mean one, an error. An infinite mean without NaN may be meant: what a model
    masks out it often sets to minus infinity.
    """
    for case_id, case, trials in sound(run):
        if case.workload.task != Task.INFER:
            continue
        prints = [print_ for trial in trials if (print_ := raw(trial, "fingerprint"))]
        lost = sum(math.isnan(print_[0]) for print_ in prints)
        infinite = sum(math.isinf(print_[0]) for print_ in prints)
        half = case.configuration.get("precision") == "fp16"
        values: Values = {"trials": lost or infinite, "of": len(prints), "precision": setting(run, "precision", "bf16")}
        remedy = "wider_range" if half else "check_model"
        if lost:
            yield Finding("nan_output", Severity.ERROR, case_id, values, remedies=(remedy,))
        elif infinite:
            remedies = ("unless_masked", remedy)
            yield Finding("nan_output", Severity.WARNING, case_id, values, "infinite", remedies)


_SAME = 1e-9
_STEPS = 6  # losses; a resident feed repeats 4 batches
_OWN = ("example", "loader")  # data of the user's own may be one item, repeated


@check("outputs that do not depend on the input, or losses that never change")
def constant_output(run: Run) -> Iterator[Finding]:
    """Fire on fingerprints of outputs that are all one number, or the same for every batch, and on a constant loss."""
    same = dict(_same_for_every_batch(run))
    for case_id, case, trials in sound(run):
        found = next((seen for trial in trials if (seen := _constant(case, trial)) is not None), None)
        if found is None and case_id in same:
            found = ("batches", same[case_id])
        if found is not None:
            yield Finding("constant_output", Severity.WARNING, case_id, found[1], found[0])


def _constant(case: Case, trial: Trial) -> tuple[str, Mapping[str, Value]] | None:
    print_ = raw(trial, "fingerprint")
    if case.workload.task == Task.INFER and len(print_) == 2 and not case.workload.data.startswith(_OWN):
        size = case.configuration.get("batch_size")
        if print_[1] == 0.0 and isinstance(size, int) and size > 1:
            return "items", {"value": print_[0], "items": size}
    losses = raw(trial, "loss")
    learns = case.workload.task == Task.TRAIN and case.configuration.get("learning_rate") != 0.0
    if learns and len(losses) >= _STEPS and len(set(losses)) == 1 and math.isfinite(losses[0]):
        return "loss", {"value": losses[0], "steps": len(losses)}
    return None


def _same_for_every_batch(run: Run) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Yield the Cases of which batches of other sizes, with other items, have the same mean and deviation."""
    alike: dict[tuple[object, ...], list[tuple[int, tuple[float, ...], str]]] = {}
    for case_id, case, trials in sound(run):
        size, print_ = case.configuration.get("batch_size"), raw(trials[0], "fingerprint")
        if case.workload.task != Task.INFER or not isinstance(size, int) or len(print_) != 2:
            continue
        if not case.workload.data.startswith(_OWN):
            rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k != "batch_size"))
            alike.setdefault((str(case.workload.canonical()), str(case.placement), rest), []).append(
                (size, print_, case_id)
            )
    for found in alike.values():
        first = found[0][1]
        if len(found) > 1 and all(_equal(first, print_) for _, print_, _ in found[1:]):
            told: Values = {"sizes": tuple(str(size) for size, _, _ in found[:4]), "value": first[0]}
            yield from ((case_id, told) for _, _, case_id in found)


def _equal(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= _SAME * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True))


_WIDE, _NARROW = "fp32", ("bf16", "fp16")


@check("a precision setting without effect")
def setting_without_effect(run: Run) -> Iterator[Finding]:
    """Fire where Cases that differ in precision alone, fp32 and a half format, have fingerprints equal to the bit.

    bf16 keeps 8 bits of a product's factors and fp16 11: results agree to a few digits, and never to all.
    """
    wide: dict[tuple[object, ...], tuple[float, ...]] = {}
    key: tuple[object, ...]
    narrow: list[tuple[tuple[object, ...], str, tuple[float, ...], str]] = []
    for case_id, case, trials in sound(run):
        if case.workload.task == Task.GENERATE:
            continue  # its fingerprint is of tokens, and the likeliest token is often the same in every format
        precision, print_ = str(case.configuration.get("precision")), raw(trials[0], "fingerprint")
        rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k != "precision"))
        key = (str(case.workload.canonical()), str(case.placement), rest)
        if precision == _WIDE:
            wide[key] = print_
        elif precision in _NARROW:
            narrow.append((key, precision, print_, case_id))
    for key, precision, print_, case_id in narrow:
        if len(set(print_)) > 1 and wide.get(key) == print_:
            yield Finding("setting_without_effect", Severity.WARNING, case_id, {"precision": precision})


@check("a runtime, a precision or a format of fewer bits that is not shown to be as good as eager mode in fp32")
def runtime_differs(run: Run) -> Iterator[Finding]:
    """Fire where outputs are further from eager mode's than equal programs' are, unless that is shown to do no harm.

    Of a precision that torch itself offers it only tells where nothing was shown.
    """
    for case_id, case, trials in sound(run):
        quality = quality_of_trials(trials, run.head.procedure.quality_margin)
        if quality is None or is_as_good(quality):
            continue
        found = [figures(trial).values for trial in trials]
        worst = max(found, key=lambda values: values.get("relative_output_error", 0.0))
        own = all(case.configuration.get(axis, AXES[axis].default) == AXES[axis].default for axis in VARIANT_AXES)
        open_ = own and quality.verdict == QualityVerdict.UNDECIDED
        values: Values = {
            "runtime": variant_name(case.configuration),
            "error": worst.get("relative_output_error"),
            "agreement": worst.get("top1_agreement"),
        }
        yield Finding("runtime_differs", Severity.INFO if open_ else Severity.WARNING, case_id, values)
