"""Records that are valid by the schema and strange by content: made from the types of the schema, by hypothesis.

A sound record of some kind is changed in a few places. A place is found by walking down the term at random: there is
afterwards another value of the type that the schema has for it, or a part is left out, doubled or moved.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
from build import a_case, a_run, a_sweep, a_trial, a_tune_spec, compared
from charted import over_ranks
from clean import a_clean_run
from hypothesis import strategies as st
from learning import falling, of_losses, rising
from loads import a_search
from results import a_tuned_run

from torchstone.core.schema.axis import AXES
from torchstone.core.schema.comparison import Comparison, Judgement, Rules, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import RAW
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import IMPORTED, SCHEMA, Run

# Words that mean something somewhere, and others.
WORDS = (*AXES, *RAW, "", "cpu", "cuda", "steps", "throughput", "latency", "forward", "loss", "auto", "fp32", "bf16",
         "x" * 300, "\x1b[31m<script>", "a|b\n# c", "../../x", "가나다", "nan", "1e999", "2026-11-21T10:00:00Z",
         "9999-99-99",
         "latest", "run", "hf:bert", "done", "interrupted")  # fmt: skip
NUMBERS = (0.0, -1.0, 1e-300, 1e-9, 0.5, 1.0, 3.0, 1e6, 1e18, 1e39, 1e300, float("nan"), float("inf"), float("-inf"))
WHOLE = (0, 1, -1, 2, 3, 16, 64, 10**6, 2**31, 2**63, 10**30, 10**400)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type of the schema."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values_of, inner))
    if origin is tuple:
        return st.lists(values_of(inner[0]), max_size=3).map(tuple)
    if origin is not None:  # Mapping
        return st.dictionaries(values_of(inner[0]), values_of(inner[1]), max_size=3)
    if kind in (Any, types.NoneType, None):
        return st.none()
    if kind is msgspec.UnsetType:
        return st.just(msgspec.UNSET)
    if issubclass(kind, msgspec.Struct):
        return st.deferred(lambda: _structs_of(kind))  # whose fields may be of its own kind again
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    return {
        str: st.sampled_from(WORDS), bool: st.booleans(), float: st.sampled_from(NUMBERS), int: st.sampled_from(WHOLE)
    }[kind]  # fmt: skip


def _structs_of(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    fields = {name: values_of(hints[name]) for name in kind.__struct_fields__}
    return st.fixed_dictionaries(fields).map(lambda found: kind(**found))


def changed(draw: Callable[..., Any], value: Any, kind: Any) -> Any:
    """The value with one place in it changed."""
    if isinstance(value, msgspec.Struct) and value.__struct_fields__:
        hints = typing.get_type_hints(type(value))
        name = draw(st.sampled_from(value.__struct_fields__))
        return msgspec.structs.replace(value, **{name: changed(draw, getattr(value, name), hints[name])})
    if isinstance(value, tuple) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        how = draw(st.sampled_from(("inside", "inside", "inside", "without", "twice", "turned", "alone")))
        inner = typing.get_args(_without_none(kind))[0]
        return {
            "inside": lambda: (*value[:at], changed(draw, value[at], inner), *value[at + 1 :]),
            "without": lambda: value[:at] + value[at + 1 :], "twice": lambda: (*value, value[at]),
            "turned": lambda: value[::-1], "alone": lambda: value[at : at + 1],
        }[how]()  # fmt: skip
    if isinstance(value, Mapping) and value and draw(st.integers(0, 4)):
        names, inner = list(value), typing.get_args(_without_none(kind))
        name = draw(st.sampled_from(names))
        left = {one: value[one] for one in names if one != name}
        how = draw(st.sampled_from(("inside", "inside", "without", "renamed")))
        if how == "without":
            return left
        if how == "renamed":
            return {**left, draw(values_of(inner[0])): value[name]}
        return {**value, name: draw(values_of(inner[1]))}
    return draw(values_of(kind))


def _without_none(kind: Any) -> Any:
    absent = (types.NoneType, msgspec.UnsetType)
    return next((one for one in typing.get_args(kind) if one not in absent), kind) if _is_union(kind) else kind


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def renamed(run: Run, before: Sequence[str]) -> Run:
    """The run with the ids of its changed Cases where the former ones stood."""
    now = [case.case_id for case in run.head.plan.cases]
    ids = dict(zip(before, now, strict=False)) if len(before) == len(now) else {}
    text = msgspec.json.encode((run.trials, run.findings, run.answer))
    for old, new in ids.items():
        text = text.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
    return run if not ids else _put_back(run, ids)


def _put_back(run: Run, ids: Mapping[str, str]) -> Run:
    def walked(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return ids.get(value, value)
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(
                value, **{name: walked(getattr(value, name)) for name in value.__struct_fields__}
            )
        return (
            tuple(map(walked, value))
            if isinstance(value, tuple) and value and not isinstance(value[0], float)
            else value
        )

    return msgspec.structs.replace(
        run, trials=walked(run.trials), findings=walked(run.findings), answer=walked(run.answer),
    )  # fmt: skip


def an_ab_run() -> Run:
    """A live comparison of two precisions, with its comparison."""
    cases = (a_case({"precision": "fp32"}), a_case({"precision": "bf16"}))
    a, b = (Side(label, "", one.case_id) for label, one in zip("AB", cases, strict=True))
    trials = [
        a_trial(case_id=one.case_id, trial_id=f"t{side}{n}", number=n, order=n, facts={"side": side})
        for n in range(3) for side, one in zip("AB", cases, strict=True)
    ]  # fmt: skip
    ratio = Estimate(0.6, 0.55, 0.65, 0.99, "ratio", "pairs", 10, 100)
    run = compared(a_run(trials, cases=cases), Comparison(a, b, "step_time_mean", ratio, Judgement.BETTER, 0.02))
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, ab=Rules()))


def a_claiming_run() -> Run:
    """What another tool measured: steps, and claims beside them."""
    claims = {"claimed_throughput": 1500.0, "claimed_latency_per_batch_p50_s": 0.01, "claimed_energy_j": 30.0}
    trials = [
        a_trial(trial_id=f"t{n}", number=n, order=n, facts={"imported_from": "a tool", "task": "train", **claims})
        for n in range(3)
    ]
    return a_run(trials, procedure=Procedure(isolation=IMPORTED))


def a_tune() -> Run:
    """A tune, with what it looked for and its answer."""
    run = a_tuned_run()
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, tune=a_tune_spec()))


SOUND: Mapping[str, Callable[[], Run]] = {
    "plain": a_run,
    "clean": lambda: a_clean_run(1),
    "sweep": lambda: a_sweep([({"batch_size": size}, 0.01 * size) for size in (8, 16, 32)]),
    "losses": lambda: of_losses(
        [({"learning_rate": 1e-3}, falling()), ({"learning_rate": 1e-2}, falling(slope=-0.02)),
         ({"learning_rate": 1.0}, rising())], trials=2,
    ),
    "tune": a_tune,
    "ab": an_ab_run,
    "load": a_search,
    "claims": a_claiming_run,
    "ranks": over_ranks,
}  # fmt: skip


@st.composite
def strange_runs(draw: Callable[..., Any], kinds: Sequence[str] = tuple(SOUND)) -> Run:
    """A run of one of these kinds, changed in one to four places."""
    run = SOUND[draw(st.sampled_from(kinds))]()
    for _ in range(draw(st.integers(1, 4))):
        before = [case.case_id for case in run.head.plan.cases]
        name = draw(st.sampled_from(("head", "head", "trials", "trials", "findings", "end", "answer")))
        hints = typing.get_type_hints(Run)
        run = msgspec.structs.replace(run, **{name: changed(draw, getattr(run, name), hints[name])})
        run = renamed(run, before)
    head = msgspec.structs.replace(run.head, schema=SCHEMA, run_id="20261121-100000-abcd")
    return msgspec.structs.replace(run, head=head)
