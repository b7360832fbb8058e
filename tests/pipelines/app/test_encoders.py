"""Pipelines whose texts have vectors of a sentence encoder."""

import json
import re
import shutil
import sys
from collections import Counter
from contextlib import closing
from threading import current_thread

import numpy as np
import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.encoders.onnx import OnnxEncoder, _text_cache_key
from streamboost.errors import ConfigurationError, StateError, UnavailableError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.export import export
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.service.scoring import CheckpointScorer
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.folder import State
from tests.encoders import minilm, tiny
from tests.pipelines.killing import kill, verified

PIPELINE = """
[pipeline]
name = "encoded"
batch_records = 20
batch_labels = 20
checkpoint_every = 4
encoder_threads = 2
[schema.fields]
amount = "number"
note = {{ type = "text", encoder = "{encoder}"{more} }}
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
[committee]
n_estimators = 3
[schedule]
growth = 1.5
[query]
budget = 0.3
"""
KINDS = {"fine": ["lunch", "rent", "books"], "fraud": ["gift", "voucher", "urgent"]}
KILLS = [("stepped", 4), ("replayed", 1), ("writing", 3), ("committed", 3), ("sealing", 2)]


def noted_records(n, start=0, seed=0):
    """Return records with a note, some missing or malformed, and their labels."""
    records, labels = [], []
    for i in range(start, start + n):
        rng = np.random.default_rng([seed, i])
        label = str(rng.choice(list(KINDS)))
        note = " ".join(rng.choice(KINDS[label], 3))
        odd = (None, "", 7, ["a"], "für \U0001f600 \0", "gift " * 20_000, " " * 10_000 + "gift")
        if rng.random() < 0.2:
            note = odd[rng.integers(len(odd))]
        memo = {"memo": note} if i >= 200 else {}
        records.append({"id": str(i), "amount": float(i % 7), "note": note} | memo)
        labels.append(label)
    return records, labels


@pytest.fixture
def pipeline(tmp_path):
    """Return a function that writes records and the pipeline file, and returns the file."""

    def make(n=200, start=0, encoder="model", more=""):
        if encoder == "model" and not (tmp_path / "model").exists():
            tiny.write_encoder(tmp_path / "model")
        records, labels = noted_records(n, start)
        pairs = [{"id": r["id"], "label": label} for r, label in zip(records, labels, strict=True)]
        for name, messages in (("records", records), ("labels", pairs[: n // 2])):
            with (tmp_path / f"{name}.jsonl").open("a") as file:
                file.writelines(json.dumps(message) + "\n" for message in messages)
        (tmp_path / "p.toml").write_text(PIPELINE.format(encoder=encoder, more=more))
        return tmp_path / "p.toml"

    return make


def stream(file, name):
    with closing(SqliteSource(file.parent / "state" / "log.db", name)) as source:
        return [json.loads(message.payload) for message in source.poll(1_000_000)]


def forget_checkpoints(file, after):
    """Leave the state as a kill would: later batches have no checkpoint."""
    State(load(file).state).checkpoints.remove_after(after)


@pytest.mark.parametrize("more", ["", ", text = false"])
def test_each_record_is_predicted_by_the_vector_of_its_text(pipeline, more):
    file = pipeline(more=more)
    newest = run(load(file), until_idle=True)
    predicted = stream(file, "predictions")
    assert [p["id"] for p in predicted] == [str(i) for i in range(200)]
    truth = dict(zip(map(str, range(200)), noted_records(200)[1], strict=True))
    right = [p["label"] == truth[p["id"]] for p in predicted[100:]]
    assert np.mean(right) > 0.8
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


@pytest.mark.slow
def test_batches_after_a_checkpoint_are_encoded_again_with_equal_bits(pipeline):
    file = pipeline()
    run(load(file), until_idle=True)
    forget_checkpoints(file, 4)
    pipeline(40, start=200)
    newest = run(load(file), until_idle=True)
    assert len(stream(file, "predictions")) == 240
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


@pytest.mark.parametrize("checkpoint", [0, 4, 10])
@pytest.mark.quick_once
def test_encoder_with_other_files_is_refused_and_accepted_with_upgrade(pipeline, checkpoint):
    file = pipeline()
    assert run(load(file), until_idle=True) == 10
    forget_checkpoints(file, checkpoint)
    tiny.write_encoder(file.parent / "model", seed=1)
    pipeline(40, start=200)
    with pytest.raises(StateError, match=r"encoder 'model': .*--upgrade") as error:
        run(load(file), until_idle=True)
    (found,) = [part for part in check_pipeline(load(file)) if part.part == "state"]
    assert found.text == str(error.value)
    assert len(stream(file, "predictions")) == 200
    assert run(load(file), until_idle=True, upgrade=True) == 12
    pipeline(40, start=240)
    assert run(load(file), until_idle=True) == 14
    assert len(stream(file, "predictions")) == 280


@pytest.mark.slow
def test_export_with_other_files_of_an_encoder_is_refused(pipeline, tmp_path):
    file = pipeline()
    run(load(file), until_idle=True)
    tiny.write_encoder(tmp_path / "model", seed=1)
    with pytest.raises(StateError, match="SHA-256"):
        export(load(file), "safetensors", output=tmp_path / "committee")


def test_folder_of_the_pipeline_may_be_moved(pipeline, tmp_path):
    file = pipeline()
    run(load(file), until_idle=True)
    moved = tmp_path.rename(tmp_path.with_name("moved")) / "p.toml"
    assert "bit for bit" in verify_replay(load(moved))
    moved.parent.rename(tmp_path)


@pytest.mark.slow
def test_another_encoder_name_is_another_configuration(pipeline):
    file = pipeline()
    run(load(file), until_idle=True)
    tiny.write_encoder(file.parent / "other")
    pipeline(encoder="other")
    with pytest.raises(StateError, match=r"note was .*model.* and is .*other"):
        run(load(file), until_idle=True)


@pytest.mark.slow
def test_field_with_an_encoder_may_be_added(pipeline):
    file = pipeline()
    run(load(file), until_idle=True)
    pipeline(100, start=200, more=' }\nmemo = { type = "text", encoder = "model", text = false')
    newest = run(load(file), until_idle=True)
    forget_checkpoints(file, newest - 4)
    assert run(load(file), until_idle=True) == newest
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


@pytest.mark.slow
def test_failing_function_loses_no_record(pipeline):
    file = pipeline(encoder="sometimes_encoder:encode")
    body = "def encode(texts):\n    return [[float(len(t)), 1.0] for t in texts]\n"
    (file.parent / "sometimes_encoder.py").write_text(body)
    assert run(load(file), until_idle=True) == 10
    pipeline(40, start=200, encoder="sometimes_encoder:encode")
    original = sys.modules["sometimes_encoder"].encode

    def fail(texts):
        if texts != ["text"]:
            raise OSError("no network")
        return original(texts)

    sys.modules["sometimes_encoder"].encode = fail
    with pytest.raises(
        ConfigurationError, match="field 'note': encoder 'sometimes_encoder:encode'"
    ):
        run(load(file), until_idle=True)
    sys.modules["sometimes_encoder"].encode = original
    run(load(file), until_idle=True)
    assert [p["id"] for p in stream(file, "predictions")] == [str(i) for i in range(240)]


@pytest.mark.slow
def test_function_with_other_vectors_is_found_by_the_replay(pipeline):
    file = pipeline(encoder="moody_encoder:encode")
    body = "mood = 0.0\ndef encode(texts):\n    return [[len(t) + mood, 1.0] for t in texts]\n"
    (file.parent / "moody_encoder.py").write_text(body)
    newest = run(load(file), until_idle=True)
    forget_checkpoints(file, 4)
    sys.modules["moody_encoder"].mood = 1e-3
    with pytest.raises(StateError, match=r"batch 5 .*moody_encoder:encode.*--upgrade"):
        run(load(file), until_idle=True)
    assert run(load(file), until_idle=True, upgrade=True) == newest


@pytest.mark.slow
def test_other_processes_predict_by_the_checkpoint(pipeline):
    file = pipeline()
    run(load(file), until_idle=True)
    scorer = CheckpointScorer(State(load(file).state), load(file).encoders)
    found = scorer.predict([{"amount": 1.0, "note": "gift voucher urgent"}])
    assert found["predictions"][0]["label"] == "fraud"
    tiny.write_encoder(file.parent / "model", seed=1)
    scorer = CheckpointScorer(State(load(file).state), load(file).encoders)
    with pytest.raises(StateError, match=r"have the SHA-256 .* put those files"):
        scorer.predict([{"amount": 1.0, "note": "gift"}])


def test_check_measures_the_encoder(pipeline):
    file = pipeline()
    (found,) = [part for part in check_pipeline(load(file)) if part.part == "encoders"]
    assert re.fullmatch(
        r"model for note: 6 numbers, [\d,]+ records a second, SHA-256 [0-9a-f]{64}", found.text
    )
    (file.parent / "model" / "model.onnx").unlink()
    (found,) = [part for part in check_pipeline(load(file)) if part.part == "encoders"]
    assert not found.ok
    assert "has no model.onnx: name the file of the model" in found.text


def test_texts_are_encoded_before_the_step_of_their_batch(pipeline, monkeypatch):
    encode, by_thread = OnnxEncoder.encode, Counter()

    def count(self, texts):
        missing = sum(_text_cache_key(text) not in self._cache for text in texts)
        by_thread[current_thread().name] += missing
        return encode(self, texts)

    monkeypatch.setattr(OnnxEncoder, "encode", count)
    file = pipeline()
    newest = run(load(file), until_idle=True)
    # The first batch, and each after a checkpoint, are encoded by the step.
    assert by_thread["encode"] > by_thread["MainThread"] > 0
    monkeypatch.setattr(Pipeline, "can_encode_ahead", False)
    other = shutil.copytree(file.parent, file.parent / "other") / "p.toml"
    shutil.rmtree(other.parent / "state")
    assert run(load(other), until_idle=True) == newest
    assert stream(other, "predictions") == stream(file, "predictions")


@pytest.mark.parametrize("place", [(Pipeline, "step"), (Runner, "_run_observers_between_batches")])
def test_error_with_a_batch_polled_ahead_loses_no_record(pipeline, monkeypatch, place):
    file, calls = pipeline(), []
    with monkeypatch.context() as patch:
        original = getattr(*place)

        def fail(self, *args):
            calls.append(self)
            if len(calls) == 7:
                raise RuntimeError("fails")
            return original(self, *args)

        patch.setattr(*place, fail)
        with pytest.raises(RuntimeError, match="fails"):
            run(load(file), until_idle=True)
    newest = run(load(file), until_idle=True)
    assert [p["id"] for p in stream(file, "predictions")] == [str(i) for i in range(200)]
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


def test_failed_poll_of_the_batch_ahead_is_repeated(pipeline, monkeypatch):
    file, calls, poll = pipeline(), [], BatchReader.poll

    def fail_twice(self, **options):
        calls.append(self)
        if len(calls) in (3, 6):
            raise UnavailableError("away")
        return poll(self, **options)

    monkeypatch.setattr(BatchReader, "poll", fail_twice)
    newest = run(load(file), until_idle=True)
    assert [p["id"] for p in stream(file, "predictions")] == [str(i) for i in range(200)]
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


class StopAfter(Observer):
    """Requests a stop after a number of commits."""

    def __init__(self, stop, n):
        self.stop, self.n = stop, n

    def on_commit(self, effects):
        if effects.sequence == self.n:
            self.stop.request_stop()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_stop_with_a_batch_polled_ahead_loses_no_record(pipeline, n):
    file, stop = pipeline(), StopToken()
    assert n <= run(load(file), stop=stop, observers=[StopAfter(stop, n)]) <= n + 2
    newest = run(load(file), until_idle=True)
    assert [p["id"] for p in stream(file, "predictions")] == [str(i) for i in range(200)]
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


@pytest.mark.slow
def test_predictions_after_kills_are_those_of_an_uninterrupted_run(pipeline, tmp_path):
    if (lack := minilm.missing()) is not None:
        pytest.skip(lack)
    file = pipeline(500, encoder=str(minilm.FOLDER))
    whole = shutil.copytree(tmp_path, tmp_path / "whole") / "p.toml"
    died, _ = kill(file, KILLS, len(KILLS))
    assert len(died) == len(KILLS), died
    newest = run(load(file), until_idle=True)
    assert run(load(whole), until_idle=True) == newest
    assert stream(file, "predictions") == stream(whole, "predictions")
    assert stream(file, "requests") == stream(whole, "requests")
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)
