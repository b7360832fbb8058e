"""Messages that are decoded together give what each gives alone, whatever stands in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.connectors.base import Message
from streamboost.connectors.messages.schema import Schema

NUMBERS = Schema(time="at", label="string", numeric=["a", "b"], max_record_bytes=60)
FIELDS = Schema(time="at", fields={"a": "number", "b.c": "text"}, max_record_bytes=60)
READERS = [NUMBERS.decode, FIELDS.decode, NUMBERS.decode_labels]

GOOD = [
    b'{"id": 1, "a": 1.5, "at": 7, "label": "x"}',
    b'{"id": "2", "b": {"c": "d"}, "new": [1], "label": 3}',
    b'{"id":\n3,"label":"y\\n"}',
    '{"id": "ä", "label": "ö"}'.encode(),
    b'{"id":4,"b":null}',
]

# Together, two of these may look like as many values as there are payloads.
SPLIT = [
    b'{"id":1}{"id":2}',
    b'{"id":1}\n{"id":2}',
    b'{"id":1} {"id":2,"b":{"c":1}',
    b',"label":"x"}',
    b'"a":3}',
    b'{"id":5,"z":"}',
    b'{","label":"x","id":"6"}',
    b'{"id":7,"z":[{}',
    b'{}],"label":"x"}',
    b'{"id":7,"z":[{},',
    b'{"id":8,"z":',
    b'{"id":8,"z":{}',
    b"{}}",
    b"{",
    b"}",
    b"",
]
BAD = [
    b'{"id":"\xc3"}',
    b'{"id":"\xc3',
    b'\xa4"}',
    b'{"id":9,"z":"\xff"}',
    b'{"id":""}',
    b'{"id":null,"label":"x"}',
    b'{"id":true}',
    b'{"label":"x"}',
    b'{"id":1,"a":NaN}',
    b'{"id":1,"a":1e400}',
    b' {"id":1,"label":"x"} ',
    b"[]",
    b'{"id":"' + b"x" * 60 + b'"}',
]
PAYLOADS = st.sampled_from(GOOD) | st.sampled_from(SPLIT) | st.sampled_from(BAD) | st.binary()


def told(decoded):
    """Return all that decoding gave, as text that tells any difference."""
    found, dead = decoded
    columns = [found.ids, found.times, found.messages]
    if hasattr(found, "labels"):
        columns += [found.labels, found.sources]
    else:
        columns += [found.X.tolist(), found.values or [None] * len(found)]
    return [repr(row) for row in zip(*columns, strict=True)], [letter.encode() for letter in dead]


def messages_of(payloads):
    return [Message(payload, "0", i, len(payload)) for i, payload in enumerate(payloads)]


@pytest.mark.parametrize("read", READERS, ids=["numbers", "fields", "labels"])
@given(payloads=st.lists(PAYLOADS, max_size=6))
def test_a_batch_is_decoded_as_each_of_its_messages_is(read, payloads):
    messages = messages_of(payloads)
    rows, dead = told(read(messages))
    alone = [told(read([message])) for message in messages]
    assert rows == [row for found, _ in alone for row in found]
    assert dead == [letter for _, letters in alone for letter in letters]


@pytest.mark.parametrize("first", SPLIT)
@pytest.mark.parametrize("read", READERS, ids=["numbers", "fields", "labels"])
def test_no_two_payloads_make_up_for_each_other(read, first):
    for second in SPLIT:
        for payloads in ([first, second], [first, GOOD[0], second], [first, second, SPLIT[0]]):
            messages = messages_of(payloads)
            alone = [told(read([message]))[0] for message in messages]
            assert told(read(messages))[0] == [row for found in alone for row in found], payloads


def test_what_is_cut_or_damaged_is_looked_at_alone():
    whole, cut = (Message(GOOD[0], "0", i, len(GOOD[0]) + 9 * i) for i in range(2))
    damaged = Message(GOOD[0], "0", 2, len(GOOD[0]), damage="cannot be read")
    for odd, reason in [(cut, "too_large"), (damaged, "corrupt")]:
        records, dead = NUMBERS.decode([whole, odd])
        assert records.ids == ["1"]
        assert [letter.reason for letter in dead] == [reason]


@pytest.mark.parametrize("columns", [{"numeric": ["a"]}, {"fields": {"a": "number"}}])
def test_records_are_named_by_their_keys_where_these_name_them(columns):
    payload = b'{"id": "other", "a": 1}'
    messages = [
        Message(payload, "0", i, len(payload), key=key) for i, key in enumerate([b"k", b"l"])
    ]
    keyed = Schema(id_from="key", **columns)
    assert keyed.decode(messages).records.ids == ["k", "l"]
    records, dead = keyed.decode([*messages, Message(payload, "0", 2, 9, key=b"\xff")])
    assert records.ids == ["k", "l"]
    assert [letter.reason for letter in dead] == ["wrong_type"]
