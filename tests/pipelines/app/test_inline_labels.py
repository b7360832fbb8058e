"""Inline labels belong to the record of their own message, and to no other record."""

import json
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.status.record_filter import RecordFilter

INLINE = {"connector": "inline"}
SEPARATE = {"connector": "files", "path": "labels.jsonl"}


class Made:
    """A pipeline over messages in a file, with labels by id as they were learned."""

    def __init__(
        self,
        folder,
        *,
        labels=INLINE,
        batch=10,
        source=None,
        features=None,
        predictions=None,
        **schema,
    ):
        tables = {
            "pipeline": {"name": "test", "batch_records": batch, "batch_labels": batch},
            "schema": {"numeric": ["a"]} | schema,
            "source": source or {"connector": "files", "path": "records.jsonl"},
            "labels": labels,
            "query": {"budget": 0.5},
            "committee": {"n_estimators": 2},
        }
        sections = {"predictions": predictions, "features": features}
        tables |= {name: section for name, section in sections.items() if section is not None}
        self.config = parse(tables, folder, environment={})

    def run(self, messages, labels=()):
        for name, given in (("records", messages), ("labels", labels)):
            lines = [(one if isinstance(one, str) else json.dumps(one)) + "\n" for one in given]
            (self.config.folder / f"{name}.jsonl").write_text("".join(lines))
        run(self.config, until_idle=True)
        with closing(StatusReader(self.config.state)) as reader:
            self.learned = {
                one["id"]: one["truth"] for one in reader.labelled_records(RecordFilter())
            }
            self.join = reader.document("join")
        assert "bit for bit" in verify_replay(self.config)
        return self.learned

    def written(self, stream):
        with closing(SqliteSource(self.config.state / "log.db", stream)) as source:
            return [json.loads(message.payload) for message in source.poll(1_000)]

    @property
    def reasons(self):
        return [letter["reason"] for letter in self.written("dead_letters")]

    @property
    def predicted(self):
        return [prediction["id"] for prediction in self.written("predictions")]


@pytest.fixture(params=[10, 1], ids=["one batch", "many batches"])
def make(request, tmp_path):
    """Return a function that makes a pipeline; its messages come in one batch or one by one."""
    return lambda **more: Made(tmp_path, batch=request.param, **more)


def record(id, **more):
    return {"id": id, "a": 1.0} | more


def test_label_belongs_to_the_id_of_the_record_and_not_to_another_field_named_id(make):
    made = make(id="pid")
    first = {"pid": "p0", "id": "other", "a": 1.0}
    second = {"pid": "p1", "id": "p0", "a": 1.0, "label": "left"}
    assert made.run([first, second]) == {"p1": "left"}
    assert made.predicted == ["p0", "p1"]
    assert made.join["waiting_labels"] == 0


def test_label_belongs_to_its_own_record_where_the_file_names_another_field_of_the_id(make):
    made = make(labels=INLINE | {"fields": {"id": "ref"}})
    messages = [
        record("1", ref="2"),
        record("2", ref="1", label="left"),
        {"ref": "1", "label": "b"},
    ]
    assert made.run(messages) == {"2": "left", "1": "b"}


def test_label_without_the_id_of_a_record_is_of_the_id_that_label_messages_have(make):
    made = make(id="pid")
    assert made.run([{"pid": "p0", "a": 1.0}, {"id": "p0", "label": "left"}]) == {"p0": "left"}


def test_label_of_a_dead_record_is_learned_for_no_other_record(make):
    made = make()
    assert made.run([record("2", label="left") | {"a": "?"}, record("2")]) == {}
    assert made.reasons == ["wrong_type"]
    assert made.predicted == ["2"]
    assert made.join["waiting_labels"] == made.join["labels"] == 0


def test_dead_message_with_an_inline_label_is_one_dead_letter(make):
    made = make(max_record_bytes=2_500)
    dead = [
        {"a": 1.0, "label": "left"},
        *(record(id, label="left") for id in ("", [1], "9" * 2_000)),
        record("3", label="left", pad="p" * 3_000),
    ]
    assert made.run([*dead, record("4", label="left")]) == {"4": "left"}
    assert made.reasons == ["missing_id", "missing_id", "wrong_type", "bad_id", "too_large"]
    assert made.join["dead_letters"] == 5


def test_dead_update_of_a_record_changes_no_label(make):
    made = make()
    messages = [record("1", label="left"), record("1", label="right") | {"a": "?"}]
    assert made.run(messages) == {"1": "left"}
    assert made.reasons == ["wrong_type"]


def test_same_id_with_another_label_is_one_record_with_a_correction(make):
    made = make()
    assert made.run([record("1", label="left"), record("1", label="right")]) == {"1": "right"}
    assert made.predicted == ["1"]
    assert made.reasons == []
    assert (made.join["unsolicited"] + made.join["answered"], made.join["corrected"]) == (1, 1)


@pytest.mark.parametrize("label", [None, ""])
def test_same_id_with_an_empty_label_is_a_duplicate_record(make, label):
    made = make()
    assert made.run([record("1", label="left"), record("1", label=label)]) == {"1": "left"}
    assert made.reasons == ["duplicate_id"]


def test_label_without_features_is_of_the_record_of_its_id_alone(make):
    made = make()
    messages = [record("1"), {"id": "1", "label": "left"}, {"id": "2", "a": None, "label": "left"}]
    assert made.run(messages) == {"1": "left"}
    assert made.predicted == ["1"]
    assert made.join["waiting_labels"] == 1


@pytest.mark.parametrize("label", [["left"], {"x": 1}, 1.5, " ", "le\u200bft"])
def test_label_of_a_wrong_type_leaves_the_record_without_a_label(make, label):
    made = make()
    assert made.run([record("1", label=label), record("2", label="left")]) == {"2": "left"}
    assert made.predicted == ["1", "2"]
    assert len(made.reasons) == 1


def test_records_yield_no_label_where_labels_are_separate(make):
    made = make(labels=SEPARATE)
    messages = [record("1", label="left"), record("1", label="left"), record("2", label="left")]
    labels = [{"id": "1", "label": "right"}]
    assert made.run([*messages, {"id": "3", "label": "left"}], labels) == {"1": "right"}
    assert made.predicted == ["1", "2", "3"]
    assert made.reasons == ["duplicate_id"]
    assert made.join["labels"] == 1


def test_separate_file_of_labels_is_not_read_where_labels_are_inline(make):
    made = make()
    assert made.run([record("1", label="left")], [{"id": "1", "label": "right"}]) == {"1": "left"}
    assert made.join["labels"] == 1


BEYOND = [("1e400", None), ("9" * 5_000, None), ('{"v": [-1e999]}', {})]


@pytest.mark.parametrize(("number", "left"), BEYOND, ids=["exponent", "digits", "nested"])
def test_number_out_of_range_in_an_unused_field_loses_neither_label_nor_included_fields(
    make, number, left
):
    include = ["note", "at.place", "at.height", "unused", "no"]
    made = make(predictions={"connector": "sqlite", "stream": "predictions", "include": include})
    line = '{"id": "1", "a": 1, "note": "x", "at": {"place": 7, "height": %s}, "unused": %s%s}'
    assert made.run([line % (number, number, ', "label": "left"')]) == {"1": "left"}
    fields = {"note": "x", "at.place": 7, "at.height": left, "unused": left, "no": None}
    assert made.written("predictions")[0]["fields"] == fields
    assert made.reasons == []


def test_a_null_label_without_features_retracts_a_label_and_is_no_record(make):
    made = make()
    messages = [record(f"k{i}") for i in range(8)]
    messages += [{"id": "k7", "label": "x"}, {"id": "k6", "label": "y"}, record("k8")]
    messages += [{"id": "k7", "label": None}]
    assert made.run(messages) == {"k6": "y"}
    assert made.predicted == [f"k{i}" for i in range(9)]
    assert made.reasons == []


def test_label_messages_with_a_source_and_a_time_are_no_records(make):
    made = make(numeric="auto")
    messages = [record("1"), *({"id": f"{i}", "a": i / 2} for i in range(2, 9))]
    given = {"time": "2026-03-01", "source": "ann"}
    messages += [{"id": "1", "label": "left"} | given, {"id": "12", "label": "right"} | given]
    messages += [{"id": "2", "label": None} | given, {"id": "12", "a": 0.5}]
    assert made.run(messages) == {"1": "left", "12": "right"}
    assert made.predicted == [*"12345678", "12"]
    assert made.reasons == []


def test_a_row_of_a_table_with_a_label_and_its_source_is_no_record(make):
    made = make(numeric="auto")
    row = {"id": "1", "a": None, "label": "left", "source": "ann", "time": "2026-03-01"}
    assert made.run([record("1"), {"id": "2", "a": 0.5}, row]) == {"1": "left"}
    assert made.predicted == ["1", "2"]
    assert "source" not in (made.config.state / "schema.json").read_text()


def test_records_that_a_transformer_changes_are_records(make, tmp_path):
    module = "class Renamed:\n    def learn_one(self, x): pass\n"
    module += "    def transform_one(self, x): return {'twice': 2 * x['a']}\n"
    (tmp_path / "renamed.py").write_text(module)
    made = make(numeric="auto", features={"river": "renamed:Renamed"})
    messages = [record("1", label="left"), record("2"), {"id": "2", "label": "right"}]
    assert made.run(messages) == {"1": "left", "2": "right"}
    assert made.predicted == ["1", "2"]


def test_a_null_label_beside_features_that_are_null_is_a_record(make):
    made = make()
    made.run([{"id": "k0", "a": None, "label": None}, {"id": "k1", "a": 2.0, "label": None}])
    assert made.predicted == ["k0", "k1"]


@pytest.mark.parametrize("label", ["auto", "string"])
def test_a_label_among_records_whose_source_is_a_number_is_learned(make, label):
    made = make(numeric="auto", label=label)
    assert made.run([record(f"{i}", source=i, label="left") for i in range(3)]).keys() == {*"012"}
    assert made.reasons == []


def test_a_change_of_the_file_that_is_undone_before_a_batch_has_no_effect(make):
    messages = [record("1", label="left")]
    for classes in (["left"], ["left", "up"], ["left"]):
        assert make(classes=classes).run(messages) == {"1": "left"}
    made = make(classes=["left"])
    assert made.run([*messages, record("2", label="up")]) == {"1": "left"}
    assert made.reasons == ["unknown_class"]
