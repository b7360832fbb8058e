"""Model snapshots in a topic: scorers load exactly the model that the learner published."""

import numpy as np
import pytest

from streamboost.connectors.messages.schema import Schema
from streamboost.errors import StateError
from streamboost.pipelines.distributed import model_log
from streamboost.pipelines.distributed.model_log import ModelLogReader, SnapshotEncoder
from tests.encoders import tiny
from tests.pipelines.distributed.sharing import (
    FIELDS,
    edition_of,
    make_learner,
    mixed,
    numbers,
    records,
    split,
    taught,
    teach,
)


def rows_of(learner, schema, messages):
    found, _ = schema.decode(messages)
    return found.X if found.values is None else learner.encode_records(found.values)


@pytest.mark.parametrize("make", [numbers, mixed])
def test_a_scorer_says_of_records_what_the_learner_says(make):
    schema = make()
    learner = taught(schema)
    edition = edition_of(learner, schema, 12)
    messages = records(40, seed=9)
    mine, other = (rows_of(one, schema, messages) for one in (learner, edition.learner))
    np.testing.assert_array_equal(other, mine)
    expected, found = learner.score(mine), edition.learner.score(other)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    assert found.labels.tolist() == expected.labels.tolist()
    assert (edition.number, edition.version) == (12, learner.committee.version)
    np.testing.assert_array_equal(edition.learner.utility(other, found), learner.utility(mine))


def test_before_the_first_label_a_scorer_knows_nothing_and_says_so():
    edition = edition_of(make_learner(numbers()), numbers())
    scored = edition.learner.score(np.zeros((2, 2), dtype=np.float32))
    assert edition.version == 0
    assert scored.labels.tolist() == [None, None]


def test_tables_that_have_not_changed_are_not_written_again():
    schema, publisher = mixed(), SnapshotEncoder()
    learner = taught(schema)
    whole = split(publisher.encode_snapshot(1, schema, learner))
    same = split(publisher.encode_snapshot(2, schema, learner))
    assert {key for key, _ in whole} > {b"manifest", b"committee/0", b"about/0"}
    assert [key for key, _ in same] == [b"manifest"]
    editions = ModelLogReader(make_learner, "topic")
    editions.read([*whole, *same])
    assert editions.newest.number == 2


def test_large_tables_are_cut_and_put_together_again(monkeypatch):
    monkeypatch.setattr(model_log, "CHUNK", 1_000)
    schema = numbers()
    messages = split(SnapshotEncoder().encode_snapshot(1, schema, taught(schema)))
    assert len(messages) > 5
    assert all(len(value) <= 1_000 for key, value in messages if key != b"manifest")
    editions = ModelLogReader(make_learner, "topic")
    editions.read(messages)
    assert editions.newest.version >= 1


def test_an_edition_whose_end_has_not_come_changes_nothing():
    schema, publisher = numbers(), SnapshotEncoder()
    learner = taught(schema)
    editions = ModelLogReader(make_learner, "topic")
    editions.read(split(publisher.encode_snapshot(1, schema, learner)))
    teach(learner, schema, records(60, seed=6))
    later = split(publisher.encode_snapshot(2, schema, learner))
    editions.read(later[:-1])
    assert editions.newest.number == 1
    editions.read(later[-1:])
    assert editions.newest.number == 2


def test_compaction_takes_nothing_that_the_newest_edition_needs():
    schema, publisher, kept = numbers(), SnapshotEncoder(), {}
    learner = taught(schema)
    for number in range(1, 5):
        for key, value in split(publisher.encode_snapshot(number, schema, learner)):
            kept.pop(key, None)
            kept[key] = value
        teach(learner, schema, records(30, seed=number))
    editions = ModelLogReader(make_learner, "topic")
    editions.read(kept.items())
    assert editions.newest.number == 4


def test_an_edition_that_lacks_a_part_is_refused():
    schema = numbers()
    messages = split(SnapshotEncoder().encode_snapshot(1, schema, taught(schema)))
    behind = ModelLogReader(make_learner, "topic")
    behind.read(messages[1:], is_complete=False)
    assert behind.newest is None, "a later one is on its way"
    with pytest.raises(StateError, match=r"table 'committee' .* is incomplete.*streamboost learn"):
        ModelLogReader(make_learner, "topic").read([m for m in messages if m[0] != b"committee/0"])
    with pytest.raises(StateError, match="invalid manifest"):
        ModelLogReader(make_learner, "topic").read([(b"manifest", b"{")])


@pytest.mark.parametrize(
    "value", [b"", b"3", b"{}", b'{"edition": 1, "schema": "{}", "tables": {"a": [1]}}', b"\xff"]
)
def test_what_is_no_manifest_is_refused_until_a_learner_writes_another(value):
    schema = numbers()
    messages = split(SnapshotEncoder().encode_snapshot(1, schema, taught(schema)))
    with pytest.raises(StateError, match=r"invalid manifest.*restart `streamboost learn`"):
        ModelLogReader(make_learner, "topic").read([*messages, (b"manifest", value)])
    editions = ModelLogReader(make_learner, "topic")
    editions.read([(b"manifest", value), (b"\xff", b""), (None, b"x"), *messages])
    assert editions.newest.number == 1


def test_scorer_has_the_sentence_encoder_of_the_learner(tmp_path):
    tiny.write_encoder(tmp_path)
    note = {"type": "text", "encoder": str(tmp_path)}
    schema = Schema(fields=FIELDS | {"note": note}, label="string")
    learner, messages = taught(schema), records(40, seed=9)
    edition = edition_of(learner, schema)
    mine, other = (rows_of(one, schema, messages) for one in (learner, edition.learner))
    np.testing.assert_array_equal(other, mine)
    tiny.write_encoder(tmp_path, seed=1)
    with pytest.raises(StateError, match=r"field 'note': the files of encoder .* put those"):
        edition_of(learner, schema)
