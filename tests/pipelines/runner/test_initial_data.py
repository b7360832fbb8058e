"""Initial labelled data: learned first, outside the budget, and again in every replay."""

import csv
import json
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConfigurationError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline, format_description
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry


def config(folder, known="known.csv", **sections):
    tables = {
        "pipeline": {"name": "test", "batch_records": 10, "batch_labels": 20},
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "files", "path": "labels.jsonl", "follow": True},
        "initial_data": {"path": known},
        "committee": {"n_estimators": 2},
        "schedule": {"growth": 2.0},
        "query": {"budget": 0.5},
    }
    return parse(tables | sections, folder, environment={})


@pytest.fixture
def prepared(tmp_path, make_records):
    """Fifty known records with a damaged one among them, and sixty records to predict."""
    known, truth = make_records(50, seed=1)
    with (tmp_path / "known.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "label", "b", "a"])
        for record, label in zip(known, truth, strict=True):
            rows.writerow([f"k{record['id']}", label, record["b"], record["a"]])
        rows.writerow(["k50", "", 0.5, "wide"])
    records, _ = make_records(60)
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return tmp_path


def outcome(folder):
    run(config(folder), until_idle=True)
    return describe_pipeline(folder / "state")["checkpoint"]


def test_they_are_learned_before_the_first_record_and_cost_nothing(prepared):
    saved = outcome(prepared)
    with closing(SqliteTransaction(prepared / "state" / "log.db", "test")) as transaction:
        entries = [JournalEntry.decode(message) for _, message in transaction.read_journal()]
    assert [entry.read.get("initial_data", 0) for entry in entries] == [20, 20, 11, *[0] * 6]
    assert [entry.read["records"] for entry in entries] == [0, 0, 0, *[10] * 6]
    assert [len(entry.trainings) for entry in entries] == [1, 1, 1, *[0] * 6]
    assert saved["initial_labels"] == saved["committee"]["labels"] == 50
    assert saved["ledger"]["answered"] == saved["join"]["labels"] == 0
    assert 0 < saved["ledger"]["requests"] <= 30
    assert saved["dead_letters"] == 1
    assert "50  labels of the initial data" in format_description(
        describe_pipeline(prepared / "state")
    )


def test_a_replay_learns_them_again_in_the_same_bits(prepared):
    outcome(prepared)
    assert "batches 1 to 9 replayed: bit for bit" in verify_replay(config(prepared))


def test_the_next_run_does_not_learn_them_twice(prepared):
    outcome(prepared)
    assert outcome(prepared)["initial_labels"] == 50


def test_a_kill_amid_them_loses_and_repeats_nothing(prepared):
    uninterrupted = outcome(prepared)
    checkpoints = State(prepared / "state").checkpoints
    for sequence in checkpoints.sequences:
        (checkpoints.folder / f"{sequence:010}").unlink()
    assert outcome(prepared)["digest"] == uninterrupted["digest"]


def test_check_tries_them(prepared):
    (found,) = [
        finding for finding in check_pipeline(config(prepared)) if finding.part == "initial_data"
    ]
    assert (found.ok, found.text) == (
        True,
        "51 messages read, 50 to be learned. 1 of 51 would be dead letters: missing_label.",
    )


@pytest.mark.parametrize("known", ["-", "out.jsonl"])
def test_they_are_in_a_file_of_their_own(tmp_path, known):
    with pytest.raises(ConfigurationError, match="initial_data"):
        config(tmp_path, known, predictions={"connector": "files", "path": "out.jsonl"})
