"""Files as gzip, without a time, so that the same file gives the same bytes; many of them beside other work.

zlib holds no lock while it compresses: a thread that packs takes nothing from the one that computes a report.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

GZIP = 31  # what zlib calls the format
_LEVEL = 4  # 6 takes twice as long for 3 % less of a record, whose times hardly repeat
_PIECE = 4 * 2**20


def packed(content: bytes) -> bytes:
    """Return a file as gzip."""
    return b"".join(_pieces(content))


def _pieces(content: bytes) -> Iterator[bytes]:
    squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP)
    for start in range(0, len(content), _PIECE):
        yield squeezer.compress(content[start : start + _PIECE])
    yield squeezer.flush()


class Packing:
    """Files that are compressed in a thread from now on, until all together exceed `most_bytes`.

    Then none of them is kept. `sizes`: of each, unpacked, in bytes.
    """

    def __init__(self, files: Mapping[str, bytes], most_bytes: int) -> None:
        self.files = files
        self.sizes = {name: len(content) for name, content in files.items()}
        self._most_bytes = most_bytes
        pool = ThreadPoolExecutor(1)
        self._found: Future[Mapping[str, bytes] | None] = pool.submit(self._all)
        pool.shutdown(wait=False)

    def packed(self) -> Mapping[str, bytes] | None:
        """Return the files as gzip by their names, once all are; None where they are larger than was allowed."""
        return self._found.result()

    def _all(self) -> Mapping[str, bytes] | None:
        found: dict[str, bytes] = {}
        left = self._most_bytes
        for name, content in self.files.items():
            pieces = []
            for piece in _pieces(content):
                pieces.append(piece)
                left -= len(piece)
                if left < 0:
                    self.files = {}
                    return None
            found[name] = b"".join(pieces)
        return found
