"""A file with damaged lines in a pipeline: no record is lost and no error is raised."""

import json
from collections import Counter

from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.messages.schema import Schema

DAMAGED = [
    (b'{"id": 1, "a": 0.5', "bad_json"),
    (b'{"a": 0.5}', "missing_id"),
    (b'{"id": "x", "a": "wide"}', "wrong_type"),
    (b'{"id": "x", "a": NaN}', "bad_json"),
    (b'{"id": "x", "a": 1, "z": "' + b"z" * 5_000_000 + b'"}', "too_large"),
    (b"", "empty"),
    (b'{"id": "\xff"}', "bad_json"),
]


def test_every_good_line_is_a_record_and_every_damaged_one_a_dead_letter(tmp_path):
    good = [b'{"id": %d, "a": %d}' % (number, number) for number in range(700)]
    lines = list(good)
    for place, (line, _) in enumerate(DAMAGED):
        lines.insert(100 * place + 50, line)
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"\n".join([*lines, b""]))
    schema = Schema(numeric=["a"], max_record_bytes=1_000_000)
    source = JsonLinesSource(path, schema.max_record_bytes)
    ids: list[str] = []
    reasons: list[str] = []
    while messages := source.poll(64):
        assert all(len(message.payload) <= schema.max_record_bytes + 1 for message in messages)
        records, dead = schema.decode(messages)
        ids += records.ids
        for letter in dead:
            reasons.append(json.loads(letter.encode())["reason"])
            source.seek(letter.position)
            assert source.poll(1)[0].offset == letter.position["0"]
        last = messages[-1]
        source.seek({"0": last.offset})
        source.poll(1)
    source.close()
    assert ids == [str(number) for number in range(700)]
    assert Counter(reasons) == Counter(reason for _, reason in DAMAGED)
