"""Files that an HTML page carries: a `<script>` of octets each, which no browser runs, with its name and SHA-256.

The content is compressed and in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from html.parser import HTMLParser

import msgspec

from torchstone.core.errors import UsageError
from torchstone.report.document import Attachment

OCTETS = "application/octet-stream"  # a script of this type is a file that the page carries: no browser runs it
MOST_PAGE_BYTES = 64 * 2**20
MOST_FILES = 64
MOST_BYTES = 512 * 2**20  # of all files of a page, unpacked
_MOST_NAME = 300
_ENDS = re.compile(rb"[<>]")
_MOST_DECLARATIONS = 64  # "<!": a page of ours has one
_MOST_TAGS = 2**21
_LEAST = 2**20


class Embedded(msgspec.Struct, frozen=True):
    """A file as a page has it, unpacked. `stated_sha256`: what the page says that it is."""

    attachment: Attachment
    stated_sha256: str

    @property
    def agrees(self) -> bool:
        """Whether the content is the one that the page states."""
        return hashlib.sha256(self.attachment.content).hexdigest() == self.stated_sha256


def attachment_tags(attachments: Sequence[Attachment]) -> str:
    """Return a `<script>` for each attachment, a line each, to stand in the body of a page."""
    return "".join(f"{_tag(one)}\n" for one in attachments)


def _tag(one: Attachment) -> str:
    octets = base64.b64encode(packed(one.content) if one.packed is None else one.packed).decode("ascii")
    name, kind = html.escape(one.name), html.escape(one.media_type)
    digest = hashlib.sha256(one.content).hexdigest()
    return (
        f'<script type="{OCTETS}" data-name="{name}" data-media-type="{kind}" data-sha256="{digest}">{octets}</script>'
    )


def attached(page: bytes) -> list[Attachment]:
    """Return the files that a page carries.

    Raises UsageError as `embedded`, and where a content is not the one that the page states.
    """
    found = embedded(page)
    for one in found:
        if not one.agrees:
            raise UsageError(f"attachment {one.attachment.name!r} has another SHA-256 than the page states")
    return [one.attachment for one in found]


def embedded(page: bytes) -> list[Embedded]:
    """Return the files that a page carries, whether or not they are the ones that it states.

    Raises UsageError for a page, or files, beyond the bounds above, for a name that comes twice, and for a content that
    is not gzip in base64.
    """
    if len(page) > MOST_PAGE_BYTES:
        raise UsageError(f"a page of {len(page)} bytes exceeds the limit ({MOST_PAGE_BYTES})")
    check_bounded(page)
    reader = _AttachmentReader()
    reader.feed(page.decode("utf-8", "replace"))
    reader.close()
    found: dict[str, Embedded] = {}
    left = MOST_BYTES
    for name, kind, digest, octets in reader.found:
        if name in found:
            raise UsageError(f"two attachments are called {name!r}")
        content = _unpacked(name, octets, left)
        left -= len(content)
        found[name] = Embedded(Attachment(name, kind, content), digest)
    return list(found.values())


class _AttachmentReader(HTMLParser):
    """Collects (name, media type, stated digest, packed content) of each attachment."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str, str, str]] = []
        self._about: tuple[str, str, str] | None = None
        self._data: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag != "script" or told.get("type") != OCTETS or "data-name" not in told:
            return
        if len(self.found) >= MOST_FILES:
            raise UsageError(f"the page carries more than {MOST_FILES} files")
        name = told["data-name"]
        if not name or len(name) > _MOST_NAME:
            raise UsageError(f"an attachment has no name of 1 to {_MOST_NAME} characters: {name[:80]!r}")
        self._about = name, told.get("data-media-type", OCTETS), told.get("data-sha256", "").lower()
        self._data = []

    def handle_data(self, data: str) -> None:
        if self._about is not None:
            self._data.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._about is not None:
            self.found.append((*self._about, "".join(self._data)))
            self._about = None


def _unpacked(name: str, packed: str, most: int) -> bytes:
    opener = zlib.decompressobj(GZIP)
    try:
        content = opener.decompress(base64.b64decode("".join(packed.split()), validate=True), most + 1)
    except (binascii.Error, ValueError, zlib.error) as fault:
        raise UsageError(f"attachment {name!r} is not gzip in base64 ({fault})") from None
    if len(content) > most:
        raise UsageError(f"attachment {name!r}: more than {MOST_BYTES} bytes are carried in all")
    if not opener.eof or opener.unused_data:
        raise UsageError(f"attachment {name!r} is not one whole gzip file")
    return content


def check_bounded(page: bytes) -> None:
    """Raise UsageError for a page of very many tags, and of many tags, or comments, that do not end.

    For each of the latter Python's parser reads all that follows: 100 kB of `<svg ` took it 50 s. Of a sound page the
    distances from each < to the next > are together no longer than the page.
    """
    if page.count(b"<!") > _MOST_DECLARATIONS:
        raise UsageError(f"more than {_MOST_DECLARATIONS} comments or declarations: no page of torchstone has them")
    if page.count(b"<") > _MOST_TAGS:
        raise UsageError(f"more than {_MOST_TAGS} tags: no page of torchstone has them")
    most = 4 * len(page) + _LEAST
    waiting = begins = read = 0  # tags that are open, the sum of their places, and what was read for those that ended
    for found in _ENDS.finditer(page):
        place = found.start()
        if found[0] == b"<":
            waiting, begins = waiting + 1, begins + place
        else:
            read, waiting, begins = read + waiting * place - begins, 0, 0
        if read + waiting * place - begins > most:
            break
    if read + waiting * len(page) - begins > most:
        raise UsageError("many of its tags do not end: no page of torchstone")


# ── packing ─────────────────────────────────────────────────────────────────────────────────────────────────


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
