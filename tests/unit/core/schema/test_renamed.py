"""Keys of older schemas: read under their present names, wherever a head stands."""

import math

import msgspec
import pytest
from build import a_run, a_tune_spec

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.document import Document, document_bytes
from torchstone.core.schema.renamed import in_present_words
from torchstone.core.schema.run import Head, Line

HEAD = msgspec.structs.replace(a_run().head, tune=a_tune_spec(), ab=Rules(margin=0.03))


def in_former_words(data):
    for now, former in ((b'"tune":', b'"quest":'), (b'"final_trials":', b'"duel_trials":'), (b'"ab":', b'"contest":')):
        assert now in data
        data = data.replace(now, former)
    return data


def test_a_head_of_schema_4_is_read_whole():
    former = in_former_words(encode(HEAD))
    assert decode(former, Head) == decode(former, Line) == HEAD


def test_a_document_of_schema_4_is_read_whole():
    run = msgspec.structs.replace(a_run(), head=HEAD)
    assert decode(in_former_words(document_bytes(run)), Document).head == HEAD


def test_a_value_that_is_not_finite_is_found_under_its_present_key():
    head = msgspec.structs.replace(HEAD, ab=Rules(margin=math.inf))
    former = in_former_words(encode(head)).replace(b'["ab","margin"', b'["contest","margin"')
    assert b'["contest","margin","inf"]' in former
    assert decode(former, Head) == head


def test_words_of_a_message_are_left_alone():
    trial = a_run().trials[0]
    said = msgspec.structs.replace(trial, outcome=msgspec.structs.replace(trial.outcome, message='{"quest": 1}'))
    data = encode(said)
    assert in_present_words(data) is data
    assert decode(data, Line) == said


def test_where_both_names_stand_the_present_one_counts():
    both = encode(HEAD).replace(b'"ab":', b'"contest":{"margin":0.5},"ab":')
    assert decode(both, Head) == HEAD


@pytest.mark.parametrize(
    "data", [b'{"quest":', b'["quest":1]', b'{"record":"head","quest":1}', b'{"head":[],"quest":1}']
)
def test_what_is_no_record_is_refused(data):
    with pytest.raises(UsageError):
        decode(data, Head)
