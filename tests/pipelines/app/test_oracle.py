"""[labels] connector = "oracle": a file of labels answers with a delay, and replays bit for bit."""

import gzip
import json
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import ConfigurationError, DataError, StateError
from streamboost.pipelines.app.check import check_pipeline, delivery_guarantee
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.connectors.registry import open_append_sink
from streamboost.pipelines.config.file import load, parse
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import kill

PIPELINE = """
[pipeline]
name = "answered"
batch_records = 10
checkpoint_every = 4
[schema]
id = "payment"
time = "ts"
[source]
connector = "files"
path = "records.jsonl.gz"
[labels]
connector = "oracle"
path = "records.jsonl.gz"
{labels}
[committee]
n_estimators = 3
[query]
budget = 0.3
"""
WAYS = {
    "requests": "",
    "late requests": "delay = 25",
    "all": 'answer = "all"\ndelay = 40',
    "by time": 'answer = "all"\ndelay = "30s"',
}
KILLS = [("polled", 4), ("writing", 3), ("committed", 5), ("replayed", 2)]


@pytest.fixture
def records(tmp_path, make_records):
    """Labelled records in a file, one in seven without a label, one a second."""
    found, truth = make_records(400)
    lines = []
    for n, (record, label) in enumerate(zip(found, truth, strict=True)):
        given = {"payment": record.pop("id"), "ts": n} | record
        lines.append(given | {"label": label if n % 7 else None})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "records.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return lines


def write(folder, way):
    folder.mkdir(exist_ok=True)
    file = folder / "p.toml"
    text = PIPELINE.format(labels=WAYS[way])
    file.write_text(text.replace('"records.jsonl.gz"', '"../records.jsonl.gz"'))
    return file


def stream(folder, name):
    with closing(SqliteSource(folder / "state" / "log.db", name)) as source:
        return [message.payload for message in source.poll(1_000_000)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_a_run_that_was_killed_predicts_what_one_does_that_was_not(tmp_path, records, way):
    whole, died = tmp_path / "whole", tmp_path / "died"
    newest = run(load(write(whole, way)), until_idle=True)
    steps, file = kill(write(died, way), KILLS, len(KILLS))
    assert steps == [step for step, _ in KILLS]
    assert run(load(file), until_idle=True) == newest
    for name in ("predictions", "requests", "dead_letters"):
        assert stream(died, name) == stream(whole, name)
    one, other = (describe_pipeline(folder / "state")["checkpoint"] for folder in (whole, died))
    assert one["committee"] == other["committee"]
    assert f"batches 1 to {newest} replayed: bit for bit" in verify_replay(load(file))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.quick_once
def test_what_has_a_label_is_answered_and_nothing_else(tmp_path, records, way):
    file = write(tmp_path / "job", way)
    run(load(file), until_idle=True)
    known = {line["payment"] for line in records if line["label"] is not None}
    wanted = "requests" if "requests" in way else "predictions"
    asked = [json.loads(payload)["id"] for payload in stream(tmp_path / "job", wanted)]
    last = {"requests": 0, "late requests": 25, "all": 40, "by time": 30}[way]
    young = {line["payment"] for line in records[len(records) - last :]}
    due = [id for id in asked if id in known and id not in young]
    found = describe_pipeline(tmp_path / "job" / "state")["checkpoint"]
    assert found["committee"]["labels"] == len(due) > 50
    assert found["join"]["late"] == found["join"]["unknown"] == 0


@pytest.mark.slow
def test_the_label_of_the_records_is_no_feature_and_teaches(tmp_path, records):
    file = write(tmp_path / "job", "all")
    run(load(file), until_idle=True)
    request = json.loads(stream(tmp_path / "job", "requests")[-1])
    assert "label" not in request["features"]
    truth = {line["payment"]: line["label"] for line in records}
    said = [json.loads(payload) for payload in stream(tmp_path / "job", "predictions")[200:]]
    judged = [one["label"] == truth[one["id"]] for one in said if truth[one["id"]]]
    assert sum(judged) > 0.8 * len(judged)


@pytest.mark.parametrize("way", ["late requests", "by time"])
@pytest.mark.quick_once
def test_a_run_goes_on_where_it_ended_also_without_its_newest_checkpoint(tmp_path, records, way):
    text = (tmp_path / "records.jsonl.gz").read_bytes()
    lines = gzip.decompress(text).splitlines(keepends=True)
    file = write(tmp_path / "job", way)
    text_file = file.read_text()
    file.write_text(text_file.replace('path = "../records.jsonl.gz"', 'path = "r.jsonl"', 1))
    for n in (0, 55, 130, 400):
        (tmp_path / "job" / "r.jsonl").write_bytes(b"".join(lines[:n]))
        newest = run(load(file), until_idle=True)
        State(tmp_path / "job" / "state").checkpoints.remove_after(newest - 2)
    assert len(stream(tmp_path / "job", "predictions")) == 400
    assert "bit for bit" in verify_replay(load(file))


def tables(**labels):
    return {
        "pipeline": {"name": "test"},
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "oracle", "path": "answers.jsonl"} | labels,
    }


def problems(folder, sections):
    with pytest.raises(ConfigurationError) as caught:
        parse(sections, folder, environment={})
    return str(caught.value)


def findings(config):
    return {part: (ok, text) for part, ok, text in check_pipeline(config)}


def test_check_says_what_will_answer_and_the_guarantee(tmp_path):
    (tmp_path / "records.jsonl").write_text('{"id": 1, "a": 2}\n')
    path = tmp_path / "answers.jsonl"
    path.write_text('{"id": 1, "label": "sky"}\n{"id": 2}\n')
    config = parse(tables(answer="all"), tmp_path, environment={})
    ok, text = findings(config)["labels"]
    assert ok
    assert text == (
        f"1 answers, 1 labels, in {path}; left out: 1 without a label, given for predictions"
    )
    assert delivery_guarantee(config).startswith("exactly once: all outputs are streams of the log")
    path.write_text('{"id": 1, "is_fraud": "sky"}\n')
    ok, text = findings(config)["labels"]
    assert not ok
    assert "none of 1 records has the field 'label'; fields seen: id, is_fraud" in text
    with pytest.raises(DataError, match="holds no answer"):
        run(config, until_idle=True)


@pytest.mark.parametrize(
    ("labels", "more", "told"),
    [
        ({"answer": "some"}, {}, "[labels] answer: must be"),
        ({"path": "-"}, {}, "[labels] path: must be a file, not standard input"),
        ({"path": "a.parquet.gz"}, {}, "a Parquet file is compressed within"),
        ({"delay": -1}, {}, "[labels] delay: must be a number of records such as 500, or a time"),
        ({"delay": True}, {}, "[labels] delay: must be a number of records"),
        ({"delay": "2h"}, {}, "delay: is the duration '2h', which needs the time of each record"),
        ({"delay": 100_000}, {}, "delay: is 100000 records, so every label arrives after"),
        ({"delay": 500, "answer": "all"}, {"join_window": 500}, "set [pipeline] join_window"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_mend(tmp_path, labels, more, told):
    sections = tables(**labels)
    sections["pipeline"] |= more
    assert told in problems(tmp_path, sections)


def test_it_reads_what_it_answers_from_a_log(tmp_path):
    elsewhere = {"connector": "files", "path": "out.jsonl"}
    needs = {(): {"requests"}, (("delay", 5),): {"requests", "predictions"}}
    needs[("answer", "all"),] = {"predictions"}
    for labels, names in needs.items():
        for name in ("predictions", "requests", "dead_letters"):
            sections = tables(**dict(labels)) | {name: elsewhere}
            if name not in names:
                parse(sections, tmp_path, environment={})
                continue
            told = f'[{name}] connector: must be "sqlite": [labels] "oracle" reads the {name} from'
            assert told in problems(tmp_path, sections)


def test_nothing_is_written_to_the_file_that_answers(tmp_path):
    sections = tables() | {"dead_letters": {"connector": "files", "path": "./answers.jsonl"}}
    assert "[dead_letters]: has the same location as [labels]" in problems(tmp_path, sections)
    parse(tables(path="records.jsonl"), tmp_path, environment={})


@pytest.mark.slow
def test_where_that_is_written_what_is_answered_stays(tmp_path, records):
    file = write(tmp_path / "job", "late requests")
    run(load(file), until_idle=True)
    for name in ("predictions", "requests"):
        moved = f'[{name}]\nconnector = "sqlite"\nstream = "others"\n'
        other = tmp_path / "job" / "q.toml"
        other.write_text(file.read_text() + moved)
        with pytest.raises(StateError, match=rf"\[{name}\] stream was"):
            run(load(other), until_idle=True)


def test_who_would_write_labels_is_told_that_a_file_answers(tmp_path):
    config = parse(tables(), tmp_path, environment={})
    with pytest.raises(ConfigurationError, match="its labels come from a file of labelled records"):
        open_append_sink(config.sections.labels, "labels", config.connector_context)
