"""D4: which share of the device's peak trainings reach, compiled, in BF16 (MFU: PaLM, arXiv 2204.02311, appendix B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from run_sheet import documents
from run_sheet.here import Here, Refused

_WHOLE: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "vit": ("hf:google/vit-base-patch16-224", {"batch_size": 128, "image_size": 224}),
    "bert": ("hf:bert-base-uncased", {"batch_size": 256, "sequence_length": 128}),
    "gpt2": ("hf:gpt2", {"batch_size": 16, "sequence_length": 1024}),
}
_TINY: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert_tiny": ("hf:bert-tiny", {"batch_size": 8, "sequence_length": 64})
}
# The peak that a step is held against, by its name in torchstone: what products keep up, else the best burst of them.
_SHARES = {"mfu_sustained": "kept up for seconds", "mfu_measured": "a burst"}


def compare(here: Here) -> None:
    """Note the share of each training, and the largest: more than all of a peak is a mistake in one of the two."""
    peaks = here.torchstone("machine", "peaks", limit_s=90)  # those of B1, where it ran in this folder
    here.note("peaks_exit_code", peaks.code)
    how = {"trials": 1, "budget": "1s" if here.on_cpu else "4s", "timeout": "80s"}
    found: list[float] = []
    for name, (model, sizes) in (_TINY if here.on_cpu else _WHOLE).items():
        more = {"precision": "fp32"} if here.on_cpu else {"precision": "bf16", "compile": "default"}
        work = {"task": "train", "model": model, "data": "synthetic:full", "axes": {**sizes, **more}}
        file = here.write(f"{name}.json", {"workloads": [work], "procedure": how})
        try:
            (case,) = documents.cases(here.torchstone("run", str(file), "--no-phases", limit_s=90).document())
        except Refused as why:  # the others are measured all the same; without its figure the step is not as expected
            here.note(f"why_{name}", str(why)[:200])
            continue
        here.note(f"status_{name}", documents.status(case))
        if said := documents.message(case):
            here.note(f"why_{name}", said[:200])
        here.note(f"throughput_{name}", documents.figure(case, "throughput"))
        share = next((one for one in _SHARES if documents.figure(case, one) is not None), None)
        if share is not None:
            here.note(f"mfu_{name}", documents.figure(case, share))
            here.note(f"mfu_of_{name}", _SHARES[share])
            found.append(documents.figure(case, share) or 0.0)
        here.note(f"mfu_datasheet_{name}", documents.figure(case, "mfu_datasheet"))
    here.note("told", len(found))
    if not found:
        raise Refused(f"no share of a peak was told: {peaks.last_line}")
    here.note("largest_mfu", max(found))
