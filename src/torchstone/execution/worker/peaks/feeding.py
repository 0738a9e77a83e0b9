"""Rates of the input pipeline: reading a file from disk, and decoding images in one process."""

from __future__ import annotations

import contextlib
import io
import os
import random
import tempfile
from pathlib import Path
from typing import Any

from torchstone.core.schema.peaks import DECODE, DISK, Rate
from torchstone.core.schema.quantity import Unit
from torchstone.core.units import quantity
from torchstone.execution.timing.clock import Clock

_FILE_BYTES, _CHUNK_BYTES = 256 << 20, 4 << 20
_READ_BYTES = 1 << 20
_CACHED = 0.7  # of the rate of a second reading: then the first came from memory, too
_PICTURE = (500, 375)  # a common size of ImageNet's photographs


def disk(folder: Path, budget_s: float, clock: Clock) -> Rate:
    """Return how fast a file in that folder is read, after the system was asked to forget it; bytes/s.

    The file is gone when this returns. Where the system still had it in memory, `how` says so.
    """
    unit = f"{Unit.BYTE}/s"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".torchstone_peaks_") as file:
            written = _fill(file.fileno(), budget_s / 2.0, clock)
            forgotten = _forget(file.fileno())
            first_s = _read(file.fileno(), clock)
            again_s = _read(file.fileno(), clock)
    except OSError as fault:
        return Rate(DISK, None, unit, f"no file could be created in {folder}: {fault.strerror}")
    how = f"{quantity(float(written), 'bytes')} in {folder}, {quantity(float(_READ_BYTES), 'bytes')} at a time"
    if not forgotten:
        how += "; from the page cache: this system cannot drop a file from it"
    elif again_s > _CACHED * first_s:
        how += "; as fast as memory: still in a page cache"
    else:
        how += "; the page cache was dropped (posix_fadvise)"
    return Rate(DISK, written / first_s, unit, how, 1)


def _fill(descriptor: int, budget_s: float, clock: Clock) -> int:
    """Write numbers that no file system can compress; less than all of them where the disk is slow."""
    chunk, written, ends_s = random.Random(0).randbytes(_CHUNK_BYTES), 0, clock() + budget_s
    while written < _FILE_BYTES and (written == 0 or clock() < ends_s):
        written += os.write(descriptor, chunk)
        os.fsync(descriptor)  # of each: the page cache takes all of them at once, and a slow disk would then go on
    return written


def _forget(descriptor: int) -> bool:
    if not hasattr(os, "posix_fadvise"):  # macOS and Windows
        return False
    with contextlib.suppress(OSError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return True
    return False


def _read(descriptor: int, clock: Clock) -> float:
    os.lseek(descriptor, 0, os.SEEK_SET)
    begin_s = clock()
    while os.read(descriptor, _READ_BYTES):
        pass
    return max(clock() - begin_s, 1e-9)


def decode(budget_s: float, clock: Clock) -> Rate:
    """Return how many pictures a second one process decodes to pixels: what a loader's worker can do at most."""
    unit = str(Unit.ITEM_RATE)
    try:
        from PIL import Image
    except ImportError:
        return Rate(DECODE, None, unit, "Pillow is not installed: pip install 'torchstone[models]'")
    picture = _picture(Image)
    best_s, passes, ends_s = float("inf"), 0, clock() + budget_s
    while passes == 0 or clock() < ends_s:
        begin_s = clock()
        Image.open(io.BytesIO(picture)).convert("RGB").load()
        best_s, passes = min(best_s, clock() - begin_s), passes + 1
    size = "{} × {}".format(*_PICTURE)
    how = f"a JPEG of {size} pixels, {quantity(float(len(picture)), 'bytes')}, Pillow, one process"
    return Rate(DECODE, 1.0 / max(best_s, 1e-9), unit, how, passes)


def _picture(image: Any) -> bytes:
    """Return a JPEG with some structure: smooth areas and fine grain, so that it packs as a photograph does."""
    dice, (width, height) = random.Random(0), _PICTURE
    coarse = image.frombytes("RGB", (width // 16, height // 16), dice.randbytes(3 * (width // 16) * (height // 16)))
    fine = image.frombytes("RGB", (width // 2, height // 2), dice.randbytes(3 * (width // 2) * (height // 2)))
    whole = image.blend(coarse.resize(_PICTURE, 3), fine.resize(_PICTURE, 2), 0.12)
    packed = io.BytesIO()
    whole.save(packed, "JPEG", quality=90)
    return packed.getvalue()
