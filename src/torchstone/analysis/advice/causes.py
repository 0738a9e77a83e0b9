"""The causes of a slow step, each looked for in the Evidence of one Case. Shares are of the step.

A diagnosis has all of them, ranked (`causes_of`, and `ranked_causes` once remedies were measured); the notes of a run
have those that the phases of its recorded steps tell (`phase_causes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.feeding import feeding
from torchstone.analysis.advice.rules import Evidence
from torchstone.core.schema.advice import Remedy, Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.diagnosis import Cause, CauseKind, CodePlace, TriedRemedy, WhatIf
from torchstone.core.schema.metric import (
    BACKWARD,
    DATA,
    DECODE,
    FORWARD,
    OPTIMIZER,
    PREFILL,
    REST,
    TRANSFER,
    peak_memory,
)
from torchstone.core.schema.trial import HostLine, HostProfile

_REFUTED = 0.02  # of the step


def causes_of(e: Evidence) -> tuple[Cause, ...]:
    """Return the causes, the largest share of the step first. Of a step that is sound: what it consists of, last."""
    direct = (loader, transfer, threads, busy_neighbours, waits, python_loop, optimizer, thrashing, short_memory)
    found = [cause for look in direct if (cause := look(e)) is not None]
    for rest in (outside_passes, small_batch, precision, computing):  # of what the others leave
        if (cause := rest(e, found)) is not None:
            found.append(cause)
    return tuple(_possible(cause, e) for cause in sorted(found, key=lambda cause: (cause.sound, -cause.share)))


def phase_causes(e: Evidence) -> list[Cause]:
    """Return what the phases of a step and the use of its device say, the largest share first."""
    if not e.phases_s:
        return [_not_filled(e)] if e.circumstances.idles else []
    found = [loader(e), transfer(e), _update(e), _between(e)]
    if e.circumstances.idles and not _waits_for_loader(e):
        found.append(_not_filled(e))
    if e.computing >= rules.COMPUTING.least:
        found.append(_computing(e, e.computing))
    return sorted((cause for cause in found if cause is not None), key=lambda cause: -cause.share)


def ranked_causes(causes: Sequence[Cause], tried: Sequence[TriedRemedy]) -> tuple[Cause, ...]:
    """Return the causes again, with what was measured: one whose remedy gains less explains less than it seemed.

    Those that are refuted come last, even after a step that is sound.
    """
    return tuple(sorted(causes, key=lambda cause: (refuted(cause, tried), cause.sound, -_explained(cause, tried))))


def refuted(cause: Cause, tried: Sequence[TriedRemedy]) -> bool:
    """Say whether what would help, if this were the cause, was tried and does not."""
    return not cause.sound and _explained(cause, tried) < _REFUTED


def _explained(cause: Cause, tried: Sequence[TriedRemedy]) -> float:
    """Return the share of the step that a cause explains, as far as its remedies bear it out."""
    # Lines in which the time was seen take it, whatever a remedy gains: workers are none where no core is free.
    own = [one for one in tried if one.cause == cause.id and (one.what_if.ceiling or not cause.where)]
    gains = [one.gain.value if one.gain is not None else one.first_look for one in own]
    known = [gain for gain in gains if gain]
    return min(cause.share, max(0.0, 1.0 - 1.0 / max(known))) if known else cause.share


def _possible(cause: Cause, e: Evidence) -> Cause:
    """Return a cause without what-ifs that the user's own batches rule out."""
    what_ifs = tuple(one for one in cause.what_ifs if not any(map(e.fixes, one.settings)))
    return msgspec.structs.replace(cause, what_ifs=what_ifs)


def _phase(e: Evidence, name: str) -> Statement:
    known: dict[str, Scalar] = {"phase": name, "share": e.share(name)}
    time_s = e.phase_s(name)
    return (
        Statement("phase_of_step", known) if time_s is None else Statement("phase_share", {**known, "time_s": time_s})
    )


# ── the loader: it waits for its source, or it computes ──────────────────────────────────────────────────────

_MOST_WORKERS = 16
_QUEUED = 0.05  # of the time, waiting for a core: from here on it is said
_BY_LOADER_COMPUTES = {None: "loader", True: "loader_computes", False: "loader_waits"}  # None: not known
_LINES = 3
_LINE = 0.03  # of what was looked at: worth a line


def loader(e: Evidence) -> Cause | None:
    """Return the cause, or None where batches are there when they are wanted."""
    rule, known, share = rules.LOADER, e.circumstances, _loading(e)
    if e.setting("feed") not in ("loader", None) or share < rule.least:  # records of other tools do not name it
        return None
    which = _BY_LOADER_COMPUTES[known.loader_computes]
    return Cause(
        which,
        CauseKind.IO,
        Statement(which),
        share,
        tuple(_loader_evidence(e)),
        where=_places(e.loader_look, share),
        usual=rule.causes(known),
        remedies=rule.remedies(known),
        what_ifs=tuple(_loader_what_ifs(e)),
    )


def _loading(e: Evidence) -> float:
    """Return what a loader that is never waited for would save: by the device alone where that was measured."""
    rate, waited = e.figures.get("throughput"), e.figures.get("data_wait_share")
    if e.device_rate and rate:
        idle = max(0.0, 1.0 - rate / e.device_rate)
        # As `feeding` says it; and no more than the phase takes, which stands beside it.
        return min(each for each in (idle, waited, e.share(DATA) or None) if each is not None)
    return e.share(DATA)


def _waits_for_loader(e: Evidence) -> bool:
    """Say whether the loader explains that a device is not in use."""
    idle = 1.0 - (e.circumstances.utilization or 0.0)
    return e.share(DATA) >= max(rules.LOADER.least, rules.NOT_FILLED.least * idle)


def _loader_evidence(e: Evidence) -> Iterator[Statement]:
    data_s = e.phase_s(DATA)
    if data_s is not None and data_s > rules.DATA_S:
        yield Statement("data_share_long", {"share": e.share(DATA), "time_s": data_s, "usual_s": rules.DATA_S})
    elif e.share(DATA):
        yield _phase(e, DATA)
    if e.loader_rate and e.device_rate:
        waited, rate = e.figures.get("data_wait_share"), e.figures.get("throughput")
        yield from feeding(e.loader_rate, e.device_rate, rate, waited, e.workers).seen
    if (look := e.loader_look) is not None:
        known: dict[str, Scalar] = {"time_s": look.step_s, "busy": look.main_busy}
        if look.main_queued is not None and look.main_queued >= _QUEUED:
            source = max(0.0, 1.0 - look.main_busy - look.main_queued)
            yield Statement("loader_process_queued", {**known, "queued": look.main_queued, "source": source})
        elif not look.step_s:  # sampled from outside, where batches are not counted
            yield Statement("loader_busy", {"busy": look.main_busy})
        else:
            yield Statement("loader_process", known)
    if _waits_for_loader(e):
        yield from e.circumstances.idle


def _loader_what_ifs(e: Evidence) -> Iterator[WhatIf]:
    yield WhatIf({"feed": "resident"}, ceiling=True)
    now, needed = e.workers, _MOST_WORKERS
    if e.device_rate and e.loader_alone_rate:
        needed = math.ceil(1.2 * e.device_rate / e.loader_alone_rate)
    most = max(1, e.cores or 2) if e.circumstances.loader_computes else _MOST_WORKERS
    best = max(1, min(needed, most))
    tries = dict.fromkeys(n for n in (best, max(1, best // 2), min(2 * best, most)) if n > now)
    # And one a core: where items are small, handing them over costs more than further processes gain.
    a_core = min(best, e.cores or best)
    for workers in dict.fromkeys([*list(tries)[:2], *([a_core] if a_core > now else [])]):
        settings: dict[str, Scalar] = {"num_workers": workers}
        if e.accelerator and e.setting("pin_memory") is False:
            settings["pin_memory"] = True
        yield WhatIf(settings)


def _places(look: HostProfile | None, of: float) -> tuple[CodePlace, ...]:
    """Return the lines that take most of what was looked at, their shares as parts of `of` the step."""
    if look is None:
        return ()
    return tuple(_place(line, of) for line in look.lines[:_LINES] if line.share >= _LINE)


def _places_in(look: HostProfile | None, phase: str) -> tuple[CodePlace, ...]:
    """Return the lines that take most of a phase."""
    lines = [line for line in look.lines if line.phase == phase] if look is not None else []
    return tuple(_place(line) for line in lines[:_LINES] if line.share >= _LINE)


def _place(line: HostLine, times: float = 1.0) -> CodePlace:
    return CodePlace(shown_path(line.file), line.line, line.code, min(1.0, times * line.share), line.runs_per_step)


def shown_path(file: str) -> str:
    """Return a path as one would type it here: what is below the working folder from there on."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


# ── copies to the device ────────────────────────────────────────────────────────────────────────────────────


def transfer(e: Evidence) -> Cause | None:
    """Return the cause, or None where there is nothing to copy or it takes next to nothing."""
    rule, known, share = rules.TRANSFER, e.circumstances, e.share(TRANSFER)
    if not e.accelerator or share < rule.least:
        return None
    known_pageable = e.setting("pin_memory") is False
    pageable = known_pageable or bool(e.facts.pageable_copies)
    own = e.case.workload.is_program
    return Cause(
        "transfer",
        CauseKind.IO,
        Statement("transfer_pageable" if pageable else "transfer"),
        share,
        tuple(_transfer_evidence(e)),
        where=_places_in(e.look, TRANSFER) if own else (),
        usual=rule.causes(known),
        remedies=_pinned_by_hand(rule.remedies(known)) if own else rule.remedies(known),
        what_ifs=(WhatIf({"pin_memory": True}),) if known_pageable else (),
    )


def _pinned_by_hand(remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Return remedies of somebody's own program, whose copies are its own lines."""
    return Remedy("pinned_copies", axis="pin_memory"), *(one for one in remedies if one.axis != "pin_memory")


def _transfer_evidence(e: Evidence) -> Iterator[Statement]:
    yield _phase(e, TRANSFER)
    operators = e.look.operators if e.look is not None else None
    copies = e.facts.pageable_copies or (operators.pageable_copies if operators is not None else None)
    if copies:
        yield Statement("pageable_copies", {"copies": copies})
    if (waits_s := e.host_s.get(TRANSFER)) is not None:
        yield Statement("host_spends", {"time_s": waits_s})


# ── cores: too many threads, or other processes ──────────────────────────────────────────────────────────────

_SWITCHES = 5.0  # times a step that a core was taken away: worth a word
_BUSY = 0.5  # cores kept busy by others: worth a word
_ROOM = 0.25  # cores by which measured use may exceed what there is before it says anything
_MOST_WAITED = 0.95


def threads(e: Evidence) -> Cause | None:
    """Return the cause where operators have more threads than there are cores, counting a loader's processes."""
    number, cores = _threads(e), e.cores
    if e.accelerator or number is None or not cores:
        return None
    if number <= cores:  # workers beside as many threads as cores are common, and often right: the loader tells
        return None
    # At a barrier all wait for the last, and of n threads on c cores n - c have none: that much at most is lost.
    share = 1.0 - cores / number
    fewer = max(1, cores)
    return Cause(
        "threads",
        CauseKind.OVERHEAD,
        Statement("threads_share_cores", {"threads": number, "cores": cores}),
        share,
        tuple(_threads_evidence(e, number, cores)),
        remedies=(Remedy("threads", {"threads": fewer}, "threads"),),
        what_ifs=(WhatIf({"threads": fewer}),),
    )


def _threads(e: Evidence) -> int | None:
    asked, found = e.setting("threads"), e.facts.threads_in_effect
    if isinstance(found, int):
        return found
    return asked if isinstance(asked, int) and asked > 0 else None


def _threads_evidence(e: Evidence, number: int, cores: int) -> Iterator[Statement]:
    workers = e.workers if e.setting("feed") == "loader" else 0
    if workers:
        yield Statement("threads_and_workers", {"threads": number, "workers": workers, "cores": cores})
    else:
        yield Statement("threads_on_cores", {"threads": number, "cores": cores})
    if e.look is not None and e.look.involuntary_switches >= _SWITCHES:
        yield Statement("cores_taken", {"times": e.look.involuntary_switches})


def busy_neighbours(e: Evidence) -> Cause | None:
    """Return the cause where others keep so many cores busy that the step's threads cannot all run."""
    others, cores, number = e.figures.get("other_cpu_cores"), e.cores, e.facts.threads_in_effect
    if e.accelerator or others is None or not cores or not isinstance(number, int):
        return None
    wanted = min(number, cores)
    if others < _BUSY or others + wanted <= cores + _ROOM:
        return None
    # At a barrier the threads that have a core wait for those that have none. Who waits for data needs none.
    share = min(_MOST_WAITED, 1.0 - max(0.0, cores - others) / wanted) * (1.0 - e.share(DATA))
    free = max(1, int(cores - others))
    evidence = [Statement("others_busy", {"others": others, "threads": wanted})]
    if e.look is not None and e.setting("feed") != "loader":
        evidence.append(Statement("thread_had_core", {"share": e.look.main_busy}))
    return Cause(
        "neighbours",
        CauseKind.OVERHEAD,
        Statement("others_keep_cores", {"others": others, "cores": cores}),
        share,
        tuple(evidence),
        usual=(rules.OTHER_WORK,),
        remedies=(rules.END_OTHERS, Remedy("no_more_threads", axis="threads")),
        what_ifs=(WhatIf({"threads": free}),) if free < number else (),
    )


# ── the user's own code: values asked of tensors one by one, and loops in Python ─────────────────────────────

_OWN_CODE = 0.10
_LOOP = 16  # times a step that a line runs: a loop
_SMALL_S = 0.5e-3  # of a single run of a line: what it computes is no work worth a call from Python
_SURE = 1.96


def waits(e: Evidence) -> Cause | None:
    """Return the cause: values that the host asks for, each of which it waits for."""
    asking = [line for line in e.own_lines if (line.waits_per_step or 0.0) > 0.0 or line.asks]
    functions = {(line.file, line.function) for line in asking}
    lines = [one for one in e.own_lines if (one.file, one.function) in functions and (one in asking or _loops(one))]
    share = sum(line.share for line in lines)
    number = sum(line.waits_per_step or 0.0 for line in asking)
    is_counted = not any(line.asks for line in asking)
    if e.look is None or share < _OWN_CODE or (is_counted and number < 1.0):
        return None
    first = max(asking, key=lambda line: (line.waits_per_step or 0.0, line.share))
    at: dict[str, Scalar] = {"file": shown_path(first.file), "line": first.line, "waits": first.waits_per_step}
    title = Statement("waits", {"waits": number}) if is_counted else Statement("waits_at", at)
    return Cause(
        "waits",
        CauseKind.OVERHEAD,
        title,
        share,
        (
            *((Statement("line_asks", at),) if is_counted else ()),
            Statement("lines_share", {"share": share, "samples": e.look.samples}),
        ),
        high=_upper(share, e.look.samples),
        where=tuple(map(_place, lines[:_LINES])),
        remedies=(Remedy("count_on_device"), Remedy("whole_tensors"), Remedy("log_outside")),
        own_code=True,
    )


def python_loop(e: Evidence) -> Cause | None:
    """Return the cause: lines of a loop that run often, for little work each time."""
    if e.look is None:
        return None
    asking = {(line.file, line.function) for line in e.own_lines if (line.waits_per_step or 0.0) > 0.0}
    lines = [line for line in e.own_lines if _loops(line) and (line.file, line.function) not in asking]
    lines = [line for line in lines if _each_s(e.look, line) <= _SMALL_S]
    own = sum(line.share for line in lines)
    share = _with_backward(e, lines, own)
    if share < _OWN_CODE:
        return None
    first = lines[0]
    at: dict[str, Scalar] = {"file": first.file.rpartition("/")[2], "line": first.line, "runs": first.runs_per_step}
    return Cause(
        "python_loop",
        CauseKind.OVERHEAD,
        Statement("python_loop", at),
        share,
        tuple(_loop_evidence(e.look, lines, own, share)),
        high=min(0.98, _upper(own, e.look.samples) / max(own, 1e-9) * share),
        where=tuple(map(_place, lines[:_LINES])),
        remedies=(Remedy("operators_for_loop"), Remedy("compile_loop", axis="compile")),
        own_code=True,
    )


def _loop_evidence(look: HostProfile, lines: Sequence[HostLine], own: float, share: float) -> Iterator[Statement]:
    first = lines[0]
    yield Statement(
        "line_runs",
        {
            "file": shown_path(first.file),
            "line": first.line,
            "runs": first.runs_per_step,
            "time_s": _each_s(look, first),
        },
    )
    yield Statement("loop_share", {"share": own, "samples": look.samples})
    if share > own * 1.01:
        yield Statement("loop_with_backward", {"share": share})
    if look.operators is not None:
        yield Statement("operators", {"calls": look.operators.calls})


def _loops(line: HostLine) -> bool:
    return (line.runs_per_step or 0.0) >= _LOOP


def _each_s(look: HostProfile, line: HostLine) -> float:
    return line.share * look.step_s / max(1.0, line.runs_per_step or 1.0)


def _with_backward(e: Evidence, lines: Sequence[HostLine], own: float) -> float:
    """Add the part of the backward pass that undoes the loop: as much of it as of the forward pass.

    A loop that calls no operators (fewer than it has runs) leaves nothing to undo.
    """
    if e.look is None or not e.trains:
        return own
    forward = e.look.phases.get(FORWARD, 0.0)
    inside = sum(line.share for line in lines if line.phase == FORWARD)
    runs = max((line.runs_per_step or 0.0 for line in lines), default=0.0)
    operators = e.look.operators.calls if e.look.operators is not None else 0.0
    if forward <= 0.0 or runs <= 0.0 or operators < runs:
        return own
    return min(0.98, own + e.look.phases.get(BACKWARD, 0.0) * min(1.0, inside / forward))


def _upper(share: float, samples: int) -> float:
    """Return the upper end of the 95 % confidence interval of a share of samples (Wilson, JASA 22, 1927)."""
    n = max(1, samples)
    centre = share + _SURE**2 / (2 * n)
    half = _SURE * math.sqrt(share * (1.0 - share) / n + _SURE**2 / (4 * n * n))
    return min(0.98, (centre + half) / (1.0 + _SURE**2 / n))


def outside_passes(e: Evidence, causes: Sequence[Cause]) -> Cause | None:
    """Return the cause in somebody's own program: its own lines between the passes, where no other cause names them.

    In torchstone's own loop there is nothing between them.
    """
    if e.look is None or not e.case.workload.is_program:
        return None
    named = {(place.file, place.line) for cause in causes for place in cause.where}
    lines = [
        line
        for line in e.own_lines
        if line.phase == REST and line.share >= _LINE and (shown_path(line.file), line.line) not in named
    ]
    known = sum(place.share for cause in causes for place in cause.where if cause.own_code)
    share = max(0.0, e.share(REST) - known)
    if share < _OWN_CODE or not lines:
        return None
    return Cause(
        "outside",
        CauseKind.OVERHEAD,
        Statement("outside", {"file": shown_path(lines[0].file), "line": lines[0].line}),
        share,
        (_phase(e, REST), Statement("lines_share", {"share": sum(x.share for x in lines), "samples": e.look.samples})),
        high=_upper(share, e.look.samples),
        where=tuple(map(_place, lines[:_LINES])),
        usual=(Statement("batches_by_hand"), Statement("python_between")),
        remedies=(Remedy("into_loader"), Remedy("less_often"), Remedy("log_outside")),
        own_code=True,
    )


# ── the update ──────────────────────────────────────────────────────────────────────────────────────────────

_MANY, _SMALL = 64, 1 << 14  # tensors, and numbers in one


def optimizer(e: Evidence) -> Cause | None:
    """Return the cause where the update is a large share, and not merely because the batch is small."""
    if not _many_tensors(e) and e.facts.fused_optimizer is not False:
        return None  # few tensors, or large ones: what takes long is what has to be done
    return _update(e)


def _update(e: Evidence) -> Cause | None:
    rule, known, share = rules.OPTIMIZER, e.circumstances, e.share(OPTIMIZER)
    if share < rule.least:
        return None
    many, unfused = _many_tensors(e), e.facts.fused_optimizer is False
    title = "update_of_many_tensors" if many else "update_not_fused" if unfused else "update_long"
    return Cause(
        "optimizer",
        CauseKind.OVERHEAD,
        Statement(title),
        share,
        tuple(_update_evidence(e)),
        usual=rule.causes(known),
        remedies=rule.remedies(known),
        what_ifs=tuple(_update_what_ifs(e)),
    )


def _many_tensors(e: Evidence) -> bool:
    look = e.look
    if look is None or look.tensors is None or look.elements is None:
        return False
    return look.tensors >= _MANY and look.elements <= _SMALL


def _update_evidence(e: Evidence) -> Iterator[Statement]:
    time_s = e.phase_s(OPTIMIZER)
    share: dict[str, Scalar] = {"share": e.share(OPTIMIZER), "time_s": time_s}
    yield _phase(e, OPTIMIZER) if time_s is None else Statement("optimizer_share", share)
    if e.look is not None and e.look.tensors is not None and e.look.elements is not None:
        yield Statement("updates_tensors", {"tensors": e.look.tensors, "elements": e.look.elements})
    if e.facts.fused_optimizer is False:
        yield Statement("not_fused")


def _update_what_ifs(e: Evidence) -> Iterator[WhatIf]:
    if e.facts.fused_optimizer is False and e.setting("fused") not in (None, "on"):
        yield WhatIf({"fused": "on"})
    accumulation = e.setting("grad_accumulation")
    if isinstance(accumulation, int):
        yield WhatIf({"grad_accumulation": 4 * accumulation})


# ── memory that is given back and fetched again in every step, or that is short ─────────────────────────────

_FAULTS = 100  # a step
_SWAPS = 0.5  # page faults a step that read a disk
_FLUSHING = 0.3  # of the step: what flushes are taken to cost until a smaller batch says more


def thrashing(e: Evidence) -> Cause | None:
    """Return the cause: page faults of a heap that is given back in every step, or swapping."""
    look = e.look
    if look is None or e.accelerator:
        return None
    cpu_s = look.user_s + look.system_s
    share = look.system_s / cpu_s if cpu_s > 0.0 else 0.0
    swaps = look.major_faults >= _SWAPS
    if swaps:
        share = max(share, 1.0 - look.main_busy)
    if share < rules.PRESSURE.least or (look.minor_faults < _FAULTS and not swaps):
        return None
    given_back = e.heap not in ("fixed", "huge")
    what = (WhatIf({}, heap="fixed"),) if given_back else ()
    kept = (Remedy("heap_fixed", axis="heap"),) if given_back else ()
    return Cause(
        "thrashing",
        CauseKind.MEMORY,
        Statement("host_swaps" if swaps else "page_faults"),
        share,
        tuple(_faults(look)),
        usual=rules.PRESSURE.causes(e.circumstances),
        remedies=(*kept, *rules.PRESSURE.remedies(e.circumstances)),
        what_ifs=(*what, *_smaller(e)) if swaps or not what else what,
    )


def _faults(look: HostProfile) -> Iterator[Statement]:
    yield Statement("faults", {"minor": look.minor_faults, "major": look.major_faults})
    cpu_s = look.user_s + look.system_s
    if cpu_s > 0.0:
        share = look.system_s / cpu_s
        yield Statement("kernel_time", {"share": share, "system_s": look.system_s, "cpu_s": cpu_s})
    if look.major_faults >= _SWAPS:
        yield Statement("main_thread_waits", {"share": 1.0 - look.main_busy})


def short_memory(e: Evidence) -> Cause | None:
    """Return the cause: a device whose allocator had to flush its cache and try again."""
    times = e.figures.get("allocator_retries") or 0.0
    if times <= 0.0:
        return None
    rule, known = rules.FULL_MEMORY, e.circumstances
    held = e.device.memory_bytes if e.device is not None else None
    peak = peak_memory(e.figures, e.case.placement.device)
    evidence = Statement("flushed", {"times": times})
    if held and peak:
        low, high = rules.MEMORY
        evidence = Statement(
            "flushed_full",
            {
                "times": times,
                "share": peak / held,
                "memory_bytes": held,
                "low": low,
                "high": high,
                "safe": rule.least,
            },
        )
    return Cause(
        "short_memory",
        CauseKind.MEMORY,
        Statement("memory_short"),
        _FLUSHING,
        (evidence,),
        usual=rule.causes(known),
        remedies=rule.remedies(known),
        what_ifs=tuple(_smaller(e)),
    )


def _smaller(e: Evidence) -> Iterator[WhatIf]:
    size, accumulation = e.batch_size, e.setting("grad_accumulation")
    if size > 1:
        settings: dict[str, Scalar] = {"batch_size": size // 2}
        if isinstance(accumulation, int):
            settings["grad_accumulation"] = 2 * accumulation
        yield WhatIf(settings)
    if e.setting("gradient_checkpointing") is False:
        yield WhatIf({"gradient_checkpointing": True})


# ── a batch that is too small: a step costs about the same whatever its size ─────────────────────────────────

_ENOUGH = 0.10  # of a step that its fixed cost may be: the batch from which on little is gained
_MOST_TIMES = 64  # the present batch
_FIXED = ("python_loop", "optimizer")  # causes whose cost does not grow with the batch


def small_batch(e: Evidence, causes: Sequence[Cause]) -> Cause | None:
    """Return the cause: what a step costs whatever its batch, other fixed causes left out."""
    rule, overhead_s, step_s = rules.FIXED_COST, e.overhead_s, e.step_s
    if overhead_s is None or not step_s or e.larger is None:
        return None
    whole = min(1.0, overhead_s / step_s)
    share = whole - sum(cause.share for cause in causes if cause.id in _FIXED)
    if share < rule.least:
        return None
    times, slower = e.larger[0] / e.batch_size, e.larger[1] / (e.small_s or step_s)
    return Cause(
        "small_batch",
        CauseKind.OVERHEAD,
        Statement("small_batch", {"fixed_s": overhead_s}),
        share,
        (
            Statement("larger_batch_takes", {"times": times, "slower": slower}),
            Statement("fixed_share", {"share": whole, "batch_size": e.batch_size}),
            *_operators(e),
        ),
        usual=rule.causes(e.circumstances),
        remedies=rule.remedies(e.circumstances),
        what_ifs=tuple(_larger_what_ifs(e, whole)),
    )


def _operators(e: Evidence) -> Iterator[Statement]:
    operators = e.look.operators if e.look is not None else None
    if operators is None or not operators.calls:
        return
    known: dict[str, Scalar] = {"calls": operators.calls, "each_s": (e.step_s or 0.0) / operators.calls}
    if operators.kernels:
        yield Statement("kernels_every", {**known, "kernels": operators.kernels})
    else:
        yield Statement("operators_every", known)


def _larger_what_ifs(e: Evidence, whole: float) -> Iterator[WhatIf]:
    size = e.batch_size
    items = e.facts.dataset_items
    wanted = size * min(_MOST_TIMES, 2 ** max(2, _doublings(whole)))
    while isinstance(items, int) and wanted > max(items, size):
        wanted //= 2
    for batch in dict.fromkeys((wanted, min(4 * size, wanted))):
        yield WhatIf({"batch_size": batch})
    if e.setting("compile") == "off":
        yield WhatIf({"compile": "reduce-overhead" if e.case.placement.device in ("cuda", "rocm") else "default"})


def _doublings(whole: float) -> int:
    """Return how often the batch doubles until its fixed cost is a tenth of the step."""
    doublings, share = 0, whole
    while share > _ENOUGH and doublings < 6:
        doublings += 1
        share = whole / (whole + 2**doublings * max(1e-6, 1.0 - whole))
    return doublings


# ── the device: its arithmetic, and whether it is filled ─────────────────────────────────────────────────────

_WORTH = 0.10
_SAVED = 0.5  # of computing, where a native format does products at twice the rate: the least that vendors state


def precision(e: Evidence, causes: Sequence[Cause]) -> Cause | None:
    """Return the cause: products in fp32 on a device that is made for bf16 or tf32."""
    native = e.device.precisions if e.device is not None else ()
    better = [word for word in ("bf16", "tf32") if word in native]
    share = _SAVED * _left(e, causes)
    if e.device is None or e.setting("precision") != "fp32" or not better or share < _WORTH:
        return None
    return Cause(
        "precision",
        CauseKind.COMPUTE,
        Statement("precision", {"device": e.device.name, "format": better[0]}),
        share,
        (
            Statement("passes_in_fp32", {"share": e.computing}),
            Statement("native_formats", {"device": e.device.name, "formats": tuple(native)}),
        ),
        remedies=tuple(rules.narrower(e.circumstances)),
        what_ifs=tuple(WhatIf({"precision": word}) for word in better),
    )


def computing(e: Evidence, causes: Sequence[Cause]) -> Cause | None:
    """Return what remains: the device computes, and nothing stands in its way."""
    share = _left(e, [cause for cause in causes if cause.id != "precision"])
    if share <= 0.0:
        return None
    cause, known = _computing(e, share), e.circumstances
    if not known.idles or _waits_for_loader(e):
        return cause
    filling = rules.NOT_FILLED.remedies(known)
    remedies = (*filling, *(one for one in cause.remedies if one not in filling))
    return msgspec.structs.replace(cause, evidence=(*cause.evidence, *known.idle), remedies=remedies)


def _computing(e: Evidence, share: float) -> Cause:
    rule, known = rules.COMPUTING, e.circumstances
    decodes, passes = e.share(DECODE) >= rule.least, (PREFILL, DECODE, FORWARD, BACKWARD)
    return Cause(
        "computing",
        CauseKind.COMPUTE,
        Statement("computing"),
        share,
        tuple(_phase(e, name) for name in passes if e.phase_s(name) is not None or e.share(name)),
        # Of the forward pass: that backward() is called in a line of the script says nothing.
        where=(_places_in(e.look, FORWARD) or _places(e.look, 1.0)) if e.case.workload.is_program else (),
        usual=rule.causes(known),
        remedies=(*((Remedy("larger_batch_to_decode", axis="batch_size"),) if decodes else ()), *rule.remedies(known)),
        what_ifs=tuple(_computing_what_ifs(e)),
        sound=True,
    )


def _computing_what_ifs(e: Evidence) -> Iterator[WhatIf]:
    layout = e.facts.settings.get("channels_last")
    is_open = layout is not None and layout.value == "off" and layout.reason in ("default", "device", "requested")
    if e.setting("channels_last") in ("auto", "off") and is_open:
        yield WhatIf({"channels_last": "on"})
    if e.setting("compile") == "off":
        yield WhatIf({"compile": "default"})


def _left(e: Evidence, found: Sequence[Cause]) -> float:
    """Return the share of the step in the passes of the model that no other cause explains."""
    explained = sum(cause.share for cause in found if cause.id != "optimizer")
    return max(0.0, e.computing * (1.0 - min(1.0, explained)))


def _not_filled(e: Evidence) -> Cause:
    """Return that a device is not in use, and the loader does not explain it. Without phases it may."""
    rule, known = rules.NOT_FILLED, e.circumstances
    evidence, usual, remedies = known.idle, rule.causes(known), rule.remedies(known)
    if e.phases_s:
        evidence = (*evidence, Statement("data_of_step", {"share": e.share(DATA)}))
    else:
        usual, remedies = (Statement("loader_waited_for"), *usual), (*remedies, *rules.more_workers(known))
    share = 1.0 - (known.utilization or 0.0)
    title = Statement("not_filled")
    return Cause("not_filled", CauseKind.OVERHEAD, title, share, evidence, usual=usual, remedies=remedies)


def _between(e: Evidence) -> Cause | None:
    rule, known, share = rules.BETWEEN_PHASES, e.circumstances, e.share(REST)
    if share < rule.least:
        return None
    return Cause(
        "between_phases",
        CauseKind.OVERHEAD,
        Statement("between_phases"),
        share,
        (_phase(e, REST),),
        usual=rule.causes(known),
        remedies=rule.remedies(known),
    )
