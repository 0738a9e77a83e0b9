"""Files in a page of HTML: what is written is read back, and a stranger's page is read within bounds."""

import base64
import gzip
import hashlib

import pytest
from reported import one_file

from torchstone.core.errors import UsageError
from torchstone.report import attached as module
from torchstone.report.attached import attached, attachment_tags, embedded
from torchstone.report.document import Attachment

FILES = (
    Attachment("records/a.jsonl", "application/jsonl", b'{"a":1}\n' * 100),
    Attachment("strange \"<&'> name", "text/plain", bytes(range(256))),
    Attachment("empty", "text/plain", b""),
)


def page(tags: str) -> bytes:
    return f"<!doctype html><body><script>let a = '<p>'</script>{tags}<p>after</p></body>".encode()


def tag(content: bytes, name: str = "a", digest: str | None = None) -> str:
    """A tag as a stranger may write it: `content` is what stands in it."""
    stated = digest if digest is not None else hashlib.sha256(content).hexdigest()
    return (
        f'<script type="application/octet-stream" data-name="{name}" data-sha256="{stated}">'
        f"{content.decode('latin-1')}</script>"
    )


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # the same bytes each time: xdist's workers have to collect the same tests


def packed(content: bytes) -> bytes:
    return base64.b64encode(_gzip(content))


def test_what_is_written_is_read_back():
    assert attached(page(attachment_tags(FILES))) == list(FILES)
    assert attached(page("")) == []


def test_the_same_files_give_the_same_tags():
    assert attachment_tags(FILES) == attachment_tags(FILES)
    assert attachment_tags(FILES).count("\n") == len(FILES)


def test_no_name_becomes_markup():
    tags = attachment_tags([one_file('"><script>alert(1)</script>', b"")])
    assert tags.count("<script") == 1
    assert attached(page(tags))[0].name == '"><script>alert(1)</script>'


def test_other_scripts_are_no_files():
    assert embedded(page("<script type='application/json' data-name='a'>e30=</script>")) == []


def test_another_hash_is_told():
    tags = tag(packed(b"content"), digest="0" * 64)
    (found,) = embedded(page(tags))
    assert not found.agrees
    with pytest.raises(UsageError, match="attachment 'a' has another SHA-256 than the page states"):
        attached(page(tags))


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (tag(b"!!!"), "attachment 'a' is not gzip in base64"),
        (tag(base64.b64encode(b"plain")), "attachment 'a' is not gzip in base64"),
        (tag(packed(b"content")[:-8]), "attachment 'a' is not"),
        (tag(base64.b64encode(_gzip(b"a") + _gzip(b"b"))), "is not one whole gzip file"),
        (tag(packed(b"1")) + tag(packed(b"2")), "two attachments are called 'a'"),
        (tag(packed(b"1"), name=""), "has no name of 1 to 300 characters"),
        (tag(packed(b"1"), name="n" * 301), "has no name of 1 to 300 characters"),
        ("".join(tag(packed(b"1"), name=str(n)) for n in range(65)), "carries more than 64 files"),
    ],
    ids=[
        "no base64", "no gzip", "cut", "two in one", "one name twice", "no name", "a long name", "too many",
    ],
)  # fmt: skip
def test_a_strangers_page(tags, said):
    with pytest.raises(UsageError, match=said):
        embedded(page(tags))


def test_what_grows_beyond_bounds_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    assert embedded(page(tag(packed(bytes(1000)))))
    with pytest.raises(UsageError, match="more than 1000 bytes are carried in all"):
        embedded(page(tag(packed(bytes(1001)))))
    with pytest.raises(UsageError, match="more than 1000 bytes are carried in all"):
        embedded(page(tag(packed(bytes(600))) + tag(packed(bytes(600)), name="b")))
    monkeypatch.setattr(module, "MOST_PAGE_BYTES", 10)
    with pytest.raises(UsageError, match="exceeds the limit"):
        embedded(page(""))
