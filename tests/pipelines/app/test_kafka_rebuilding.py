"""Rebuild of a lost state folder from the journal in Kafka, with or without a checkpoint copy."""

import hashlib
import json
import shutil
import time
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource

from streamboost import SketchLogitBoostClassifier
from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.journal import KafkaJournal, journal_topic
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.errors import ConfigurationError, GapError, StateError, UnavailableError
from streamboost.pipelines.app import connect
from streamboost.pipelines.app.backup import back_up, restore_backup
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.retention import create_journal_retention
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.replay import snapshot_digest
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.copies import CopyStore, FolderTarget
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from tests.waiting import until

pytestmark = pytest.mark.kafka

PIPELINE = """
[pipeline]
name = "{name}"
batch_records = 20
batch_labels = 20
checkpoint_every = 3
{keys}
[kafka]
bootstrap_servers = "{servers}"
[source]
connector = "kafka"
[initial_data]
path = "${{KNOWN}}.jsonl"
[committee]
n_estimators = 3
[schedule]
training = "background"
[query]
budget = {budget}
"""


COPIES = 'checkpoint_copy = "copies"'


@pytest.fixture
def made(tmp_path, kafka_servers, make_records, monkeypatch):
    """Return a function that writes a pipeline file and creates its topics."""
    monkeypatch.setenv("KNOWN", "hunter2")
    known, truth = make_records(10, seed=9)
    lines = [json.dumps(r | {"label": t}) for r, t in zip(known, truth, strict=True)]
    (tmp_path / "hunter2.jsonl").write_text("\n".join(lines) + "\n")
    cluster, now, there = KafkaCluster(kafka_servers), time.time_ns(), set()

    def make(keys="", budget=0.3, name="rebuilt"):
        file, name = tmp_path / f"{name}.toml", f"{name}.{now}"
        keys += f'\nstate = "{name}"'
        text = PIPELINE.format(name=name, servers=kafka_servers, keys=keys, budget=budget)
        file.write_text(text)
        config = load(file)
        if name not in there:
            create_topics(cluster, {f"{name}.records": {"num_partitions": 2}})
            connect.create_topics(config)
            there.add(name)
        return SimpleNamespace(config=config, name=name, cluster=cluster, file=file)

    return make


def feed(made, records, truth):
    """Write records to two partitions, with all labels."""
    with closing(made.cluster.create_producer()) as producer:
        for n, (record, label) in enumerate(zip(records, truth, strict=True)):
            producer.send(f"{made.name}.records", json.dumps(record).encode(), partition=n % 2)
            answer = {"id": record["id"], "label": label}
            producer.send(f"{made.name}.labels", json.dumps(answer).encode())
        producer.flush()


def predicted(made):
    found = []
    with closing(KafkaSource(made.cluster, f"{made.name}.predictions")) as source:
        while batch := source.poll(10_000):
            found += [json.loads(message.payload)["id"] for message in batch]
    return found


def journal(made):
    with closing(connect.create_transaction(made.config)) as transaction:
        return [JournalEntry.decode(message) for _, message in transaction.read_journal()]


def state_of(made):
    return State(made.config.state)


def lose(made):
    """Take the state folder away; return what its newest checkpoint held."""
    newest = state_of(made).checkpoints.newest()
    shutil.rmtree(made.config.state)
    return snapshot_digest(*newest)


@pytest.mark.slow
def test_the_journals_first_entry_says_what_it_belongs_to_without_secrets(made, make_records):
    made = made()
    feed(made, *make_records(60))
    run(made.config, until_idle=True)
    first, *others = journal(made)
    assert first.origin["schema"] == state_of(made).schema().to_json()
    assert first.origin["fingerprint"] == state_of(made).fingerprint()
    assert 'path = "${KNOWN}.jsonl"' in first.origin["configuration"]
    assert b"hunter2" not in first.encode()
    assert [entry.origin for entry in others] == [None] * len(others)


@pytest.mark.slow
def test_a_lost_folder_is_refused_then_made_again_from_the_journal_alone(
    made, make_records, caplog
):
    made = made()
    records, truth = make_records(150)
    feed(made, records[:100], truth[:100])
    newest = run(made.config, until_idle=True)
    before = lose(made)
    with pytest.raises(
        StateError,
        match=r"is empty, although batches.*streamboost run --rebuild.*another \[pipeline\] name",
    ):
        run(made.config, until_idle=True)
    state = next(finding for finding in check_pipeline(made.config) if finding.part == "state")
    assert "--rebuild" in state.text
    assert not state_of(made).has_files

    assert run(made.config, rebuild=True, until_idle=True) == newest
    assert "is rebuilt from the journal. Lost: queued commands" in caplog.text
    assert snapshot_digest(*state_of(made).checkpoints.newest()) == before
    feed(made, records[100:], truth[100:])
    run(made.config, until_idle=True)
    assert sorted(predicted(made)) == sorted(record["id"] for record in records)
    assert "batches 1 to" in verify_replay(made.config)


@pytest.mark.slow
def test_a_lost_folder_begins_again_with_the_committee_it_began_with_and_no_other(
    made, make_records
):
    made = made()
    known, truth = make_records(200, seed=1)
    X = np.array([[record["a"], record["b"]] for record in known], dtype=np.float32)
    model = made.file.parent / "model.safetensors"
    SketchLogitBoostClassifier(n_estimators=10).fit(X, truth).committee_.save(model)
    text = made.file.read_text().replace('path = "${KNOWN}.jsonl"', f'committee = "{model.name}"')
    made.file.write_text(text + '[schema]\nnumeric = ["a", "b"]\n')
    made.config = load(made.file)
    feed(made, *make_records(100))
    newest = run(made.config, until_idle=True)
    blob, before = model.read_bytes(), lose(made)
    assert journal(made)[0].origin["committee"] == hashlib.sha256(blob).hexdigest()

    SketchLogitBoostClassifier(n_estimators=9).fit(X, truth).committee_.save(model)
    with pytest.raises(StateError, match="but the pipeline began with"):
        run(made.config, rebuild=True, until_idle=True)
    shutil.rmtree(made.config.state)
    model.write_bytes(blob)
    assert run(made.config, rebuild=True, until_idle=True) == newest
    assert snapshot_digest(*state_of(made).checkpoints.newest()) == before
    assert "batches 1 to" in verify_replay(made.config)


@pytest.mark.slow
def test_with_a_copy_only_what_lies_after_it_is_replayed(made, make_records, caplog):
    caplog.set_level("INFO")
    made = made(COPIES)
    copies = CopyStore(FolderTarget(made.file.parent / "copies"), made.name)
    records, truth = make_records(160)
    feed(made, records[:80], truth[:80])
    first = run(made.config, until_idle=True)
    assert copies.sequences[0] == first
    saved = {path: path.read_bytes() for path in copies.target.path.iterdir()}
    feed(made, records[80:], truth[80:])
    newest = run(made.config, until_idle=True)
    shutil.rmtree(copies.target.path)
    copies.target.path.mkdir()
    for path, blob in saved.items():
        path.write_bytes(blob)
    before = lose(made)
    caplog.clear()
    assert run(made.config, rebuild=True, until_idle=True) == newest
    assert f"is rebuilt from the copy of batch {first}" in caplog.text
    assert f"replaying batches {first + 1} to {newest}" in caplog.text
    assert snapshot_digest(*state_of(made).checkpoints.newest()) == before
    assert sorted(predicted(made)) == sorted(record["id"] for record in records)
    assert copies.sequences[0] == newest


def journal_end(made):
    """Return the end offset of the journal."""
    partition = TopicPartition(journal_topic(made.name), 0)
    with closing(made.cluster.create_consumer()) as consumer:
        return consumer.end_offsets([partition])[partition]


def check_text(config, part):
    (found,) = [one for one in check_pipeline(config) if one.part == part]
    assert found.ok, found.text
    return found.text


@pytest.mark.slow
def test_expired_journal_entries_are_deleted_and_the_state_rebuilt_from_a_copy(made, make_records):
    made = made(f'{COPIES}\nretention = "1s"')
    records, truth = make_records(240)
    feed(made, records[:160], truth[:160])
    run(made.config, until_idle=True)
    time.sleep(1.2)
    feed(made, records[160:], truth[160:])
    newest = run(made.config, until_idle=True)
    copies = CopyStore(FolderTarget(made.file.parent / "copies"), made.name)
    kept = [entry.sequence for entry in journal(made)]
    assert 1 < kept[0] <= min(*copies.sequences, *state_of(made).checkpoints.sequences)
    assert kept == list(range(kept[0], newest + 1))
    assert "rebuilt from a checkpoint_copy; restart within" in check_text(made.config, "retention")
    assert "bit for bit" in verify_replay(made.config)
    before = lose(made)
    assert run(made.config, rebuild=True, until_idle=True) == newest
    assert snapshot_digest(*state_of(made).checkpoints.newest()) == before
    assert sorted(predicted(made)) == sorted(record["id"] for record in records)


@pytest.mark.slow
def test_without_a_readable_copy_the_journal_is_deleted_only_where_the_file_says_so(
    made, make_records
):
    records, truth = make_records(240)

    def run_twice(config):
        feed(config, records[:160], truth[:160])
        run(config.config, until_idle=True)
        time.sleep(1.2)
        feed(config, records[160:], truth[160:])
        return run(config.config, until_idle=True)

    plain = made(name="plain")
    run_twice(plain)
    assert create_journal_retention(plain.config, state_of(plain).checkpoints) is None
    assert journal(plain)[0].sequence == 1
    assert "the journal grows with each batch, as" in check_text(plain.config, "retention")

    asked = made('retention = "1s"', name="asked")
    run_twice(asked)
    assert journal(asked)[0].sequence > 1
    assert "cannot be rebuilt" in check_text(asked.config, "retention")
    lose(asked)
    with pytest.raises(GapError, match="journal begins with batch"):
        run(asked.config, rebuild=True, until_idle=True)


@pytest.mark.slow
def test_nothing_is_deleted_before_a_copy_can_be_read(made, make_records, monkeypatch):
    keeping = made(f'{COPIES}\nretention = "none"')
    records, truth = make_records(240)
    feed(keeping, records[:160], truth[:160])
    run(keeping.config, until_idle=True)
    time.sleep(1.2)
    expiring = made(f'{COPIES}\nretention = "1s"')
    copies = CopyStore(FolderTarget(expiring.file.parent / "copies"), expiring.name)
    with monkeypatch.context() as patch:
        patch.setattr(CopyStore, "write", lambda self, copy: None)  # never confirmed
        for sequence in copies.sequences:
            copies.target.write(copies.file_name(sequence), b"torn")
        feed(expiring, records[160:], truth[160:])
        run(expiring.config, until_idle=True)
    assert journal(expiring)[0].sequence == 1
    feed(expiring, *make_records(60, seed=3))
    run(expiring.config, until_idle=True)
    assert journal(expiring)[0].sequence > 1, "a new copy was confirmed"


@pytest.mark.slow
def test_retention_longer_than_kafka_has_times_keeps_the_journal(made, make_records, caplog):
    made = made('retention = "36500d"')
    feed(made, *make_records(100))
    run(made.config, until_idle=True)
    assert "deleted from the journal" not in caplog.text
    assert journal(made)[0].sequence == 1


@pytest.mark.slow
def test_check_names_a_rebuild_that_deleted_entries_prevent(made, make_records):
    records, truth = make_records(240)
    for keys, part in (
        ('retention = "none"', slice(0, 160)),
        ('retention = "1s"', slice(160, 240)),
        ('retention = "none"', slice(240, 240)),
    ):
        aging = made(keys, name="aging")
        feed(aging, records[part], truth[part])
        run(aging.config, until_idle=True)
        time.sleep(1.2)
    first = journal(aging)[0].sequence
    assert first > 1
    lost = f"begins with batch {first}, so that a lost state folder cannot be rebuilt"
    for keys in ('retention = "none"', ""):
        text = check_text(made(keys, name="aging").config, "retention")
        assert text.startswith(("the journal grows", 'retention = "none": the journal grows'))
        assert lost in text
    assert lost not in check_text(made(COPIES, name="aging").config, "retention")


@pytest.mark.slow
def test_check_warns_of_topics_whose_messages_the_cluster_deletes(made):
    plain = made()

    def retention_text(made):
        return check_text(made.config, "retention")

    assert "retention.bytes" not in retention_text(plain)
    limits = {"retention.ms": "3600000", "retention.bytes": "5000000"}
    topics = journal_topic(plain.name), f"{plain.name}.labels"
    with closing(plain.cluster.create_admin_client()) as admin:
        admin.alter_configs([ConfigResource("TOPIC", topic, limits) for topic in topics])
    until(lambda: "retention.bytes" in retention_text(plain))
    text = retention_text(plain)
    assert f"within 1 hours of the newest checkpoint: topic {topics[1]} then" in text
    assert f"topic {topics[1]} keeps at most 5,000,000 bytes" in text
    warning = f"topic {topics[0]}: the cluster deletes entries that a restart needs, or refuses"
    assert warning in text
    kept = {"retention.ms": "-1", "retention.bytes": "-1"}
    for policy, is_warned in (("delete", False), ("compact", True)):
        settings = kept | {"cleanup.policy": policy}
        with closing(plain.cluster.create_admin_client()) as admin:
            admin.alter_configs([ConfigResource("TOPIC", topics[0], settings)])
        until(lambda expected=is_warned: (warning in retention_text(plain)) == expected)


def test_check_does_not_propose_copies_that_a_rebuild_cannot_read(made):
    river = made(COPIES)
    (river.file.parent / "factories.py").write_text(
        "from river.naive_bayes import GaussianNB\n\ndef bayes():\n    return GaussianNB()\n"
    )
    text = river.file.read_text() + '[model]\nriver = "factories:bayes"\n'
    for keys, told in (("", "rebuilt from it: copies of"), ('retention = "1s"\n', "as copies of")):
        river.file.write_text(text.replace("[kafka]", f"{keys}[kafka]"))
        found = check_text(load(river.file), "retention")
        assert f"{told} River's models are pickles" in found
        assert "set checkpoint_copy" not in found


@pytest.mark.slow
@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_backup_older_than_the_retention_is_refused_by_check_and_run_alike(
    made, make_records, on_data_loss
):
    records, truth = make_records(300)
    aging = made(COPIES)
    backup, newest = aging.file.parent / "backup", 0
    for start in range(0, 300, 100):
        feed(aging, records[start : start + 100], truth[start : start + 100])
        newest = run(aging.config, until_idle=True)
        if not start:
            kept = back_up(aging.config, backup).checkpoint
        time.sleep(1.2)
        aging = made(f'{COPIES}\nretention = "1s"\non_data_loss = "{on_data_loss}"')
    first = journal(aging)[0].sequence
    assert first > kept + 1
    shutil.rmtree(aging.config.state)
    restore_backup(aging.config, backup)
    found = next(finding for finding in check_pipeline(aging.config) if finding.part == "state")
    lost = f"the journal lacks batches {kept + 1} to {first - 1}"
    assert lost in found.text
    assert found.ok == (on_data_loss == "continue")
    if on_data_loss == "fail":
        with pytest.raises(GapError, match=lost):
            run(aging.config, until_idle=True)
        # The copies are newer than the backup.
        shutil.rmtree(aging.config.state)
        assert run(aging.config, rebuild=True, until_idle=True) == newest
    else:
        assert run(aging.config, until_idle=True) == newest
        feed(aging, *make_records(20, seed=5))
        assert run(aging.config, until_idle=True) > newest
    assert sorted(set(predicted(aging)), key=int) == [record["id"] for record in records]


@pytest.mark.slow
def test_entries_deleted_during_a_read_are_named(made, make_records, monkeypatch):
    plain = made()
    feed(plain, *make_records(60))
    run(plain.config, until_idle=True)
    read, end = KafkaJournal(plain.cluster, plain.name), journal_end(plain)
    with closing(plain.cluster.create_admin_client()) as admin:
        admin.delete_records({read.partition: end - 3})
    monkeypatch.setattr(read, "_retained_offset_range", lambda _: (0, end))
    with pytest.raises(UnavailableError, match="entries were deleted while they were read: try"):
        list(read.entries_after(0))


@pytest.mark.slow
def test_copy_of_a_state_that_gave_up_batches_is_rebuilt(made, make_records):
    records, truth = make_records(200)
    aging = made(f'{COPIES}\nretention = "none"\non_data_loss = "continue"')
    feed(aging, records[:100], truth[:100])
    run(aging.config, until_idle=True)
    backup = aging.file.parent / "backup"
    back_up(aging.config, backup)
    feed(aging, records[100:], truth[100:])
    newest = run(aging.config, until_idle=True)
    with closing(aging.cluster.create_admin_client()) as admin:
        end = journal_end(aging)
        admin.delete_records({TopicPartition(journal_topic(aging.name), 0): end - 3})
    shutil.rmtree(aging.config.state)
    restore_backup(aging.config, backup)
    copies = CopyStore(FolderTarget(aging.file.parent / "copies"), aging.name)
    copies.rename_newer_copies(0)
    assert run(aging.config, until_idle=True) == newest  # gives up batches, and copies the state
    assert copies.sequences[0] == newest
    before = lose(aging)
    assert run(aging.config, rebuild=True, until_idle=True) == newest
    assert snapshot_digest(*state_of(aging).checkpoints.newest()) == before


@pytest.mark.slow
def test_copy_that_the_journal_does_not_reach_back_to_fills_no_state_folder(made, make_records):
    records, truth = make_records(200)
    aging = made(COPIES)
    feed(aging, records[:60], truth[:60])
    first = run(aging.config, until_idle=True)
    copies = CopyStore(FolderTarget(aging.file.parent / "copies"), aging.name)
    saved = copies.target.read(copies.file_name(first))
    feed(aging, records[60:], truth[60:])
    newest = run(aging.config, until_idle=True)
    with closing(aging.cluster.create_admin_client()) as admin:
        admin.delete_records({TopicPartition(journal_topic(aging.name), 0): journal_end(aging) - 3})
    good = {n: copies.target.read(copies.file_name(n)) for n in copies.sequences}
    for n in good:
        copies.target.remove(copies.file_name(n))
    copies.target.write(copies.file_name(first), saved)
    lose(aging)
    with pytest.raises(GapError, match=f"of batch {first}, and the journal lacks batches"):
        run(aging.config, rebuild=True, until_idle=True)
    assert not state_of(aging).has_files
    copies.target.write(copies.file_name(first), b"torn")
    with pytest.raises(GapError, match="has no readable copy"):
        run(aging.config, rebuild=True, until_idle=True)
    for n, blob in good.items():
        copies.target.write(copies.file_name(n), blob)
    assert run(aging.config, rebuild=True, until_idle=True) == newest


def test_a_number_of_records_is_no_retention_of_a_journal_in_kafka(made):
    with pytest.raises(ConfigurationError, match=r'retention.*must be a time.*"30d"'):
        made("retention = 5000")


@pytest.mark.slow
def test_a_copy_takes_the_place_of_a_journal_whose_beginning_is_gone(made, make_records):
    plain, copying = made(), made(COPIES)
    feed(plain, *make_records(100))
    newest = run(copying.config, until_idle=True)
    with closing(plain.cluster.create_admin_client()) as admin:
        admin.delete_records({TopicPartition(journal_topic(plain.name), 0): 3})
    lose(plain)
    with pytest.raises(GapError, match=r"the journal begins with batch \d+.*checkpoint_copy"):
        run(made().config, rebuild=True, until_idle=True)
    assert not state_of(plain).has_files
    copying = made(COPIES)
    assert run(copying.config, rebuild=True, until_idle=True) == newest


def test_another_configuration_is_refused_and_nothing_written(made, make_records):
    plain = made()
    feed(plain, *make_records(60))
    run(plain.config, until_idle=True)
    lose(plain)
    with pytest.raises(StateError, match=r"\[query\] budget was 0.3 and is 0.2"):
        run(made(budget=0.2).config, rebuild=True, until_idle=True)
    assert not state_of(plain).has_files


@pytest.mark.slow
def test_a_copy_that_another_journal_led_to_is_refused(made, make_records):
    copying = made(COPIES)
    feed(copying, *make_records(60))
    newest = run(copying.config, until_idle=True)
    lose(copying)
    copies = CopyStore(FolderTarget(copying.file.parent / "copies"), copying.name)
    for n in (60, 120):  # as many batches, and more
        other = made(COPIES, name=f"other{n}")
        feed(other, *make_records(n, seed=1))
        assert run(other.config, until_idle=True) >= newest
        foreign = CopyStore(copies.target, other.name).newest()
        copies.rename_newer_copies(0)
        copies.target.write(copies.file_name(foreign.sequence), foreign.encode())
        with pytest.raises(StateError, match=f"does not belong.*ends with batch {newest}:"):
            run(made(COPIES).config, rebuild=True, until_idle=True)
    assert not state_of(copying).has_files


@pytest.mark.slow
def test_commands_after_the_loss_are_obeyed_and_earlier_ones_replayed(made, make_records):
    made = made()
    records, truth = make_records(120)
    feed(made, records[:60], truth[:60])
    run(made.config, until_idle=True)
    queue_command(made.config.state, Command("pause"))
    run(made.config, until_idle=True)
    lose(made)
    run(made.config, rebuild=True, until_idle=True)
    run(made.config, until_idle=True)
    assert state_of(made).checkpoints.newest()[1]["committee"]["paused"] == 1
    queue_command(made.config.state, Command("resume"))
    run(made.config, until_idle=True)
    assert state_of(made).checkpoints.newest()[1]["committee"]["paused"] == 0


@pytest.mark.slow
def test_an_empty_journal_holds_nothing_to_make_again(made):
    with pytest.raises(StateError, match="is empty, so the state cannot be rebuilt"):
        run(made().config, rebuild=True, until_idle=True)
    copying = made(COPIES)
    FolderTarget(copying.file.parent / "copies").write(f"{copying.name}.0000000007.copy", b"")
    with pytest.raises(
        StateError, match=r"copy of .* batch 7 of .*If the journal's topic was deleted"
    ):
        run(copying.config, until_idle=True)
