"""`streamboost demo FILE`: the comparison of strategies on a file of labelled records."""

import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from streamboost.errors import ConfigurationError, ConnectorError, DataError, StateError
from streamboost.features import Features
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.demo import compare as demo
from streamboost.pipelines.demo import page as page_of_demo
from streamboost.pipelines.demo.own import RECORDS, split_labelled_file
from streamboost.pipelines.shutdown import StopToken
from tests.encoders import tiny
from tests.pipelines.demo.test_compare import FIELDS


def payments(n=400, **more):
    """Records whose label follows from two numbers."""
    draw = np.random.default_rng(5).normal(size=(n, 3)).round(3).tolist()
    return [
        {"payment": f"p{i}", "a": a, "b": b, "c": c, "is_fraud": a + b > 0.3} | more
        for i, (a, b, c) in enumerate(draw)
    ]


def written(path, records):
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def opened(path, folder, label="is_fraud", id=None):
    return split_labelled_file(path, label, id, folder)


def kept(folder):
    lines = (folder / RECORDS).read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_records_are_kept_without_their_label(tmp_path):
    records = payments(60)
    stream = opened(written(tmp_path / "r.jsonl", records), tmp_path / "demo")
    found = kept(tmp_path / "demo")
    assert [record.keys() for record in found] == [{"id", "payment", "a", "b", "c"}] * 60
    assert [record["id"] for record in found] == [str(n) for n in range(1, 61)], "the lines"
    assert stream.truth["1"] == str(records[0]["is_fraud"]).lower()
    assert stream.about.startswith("r.jsonl: 60 records of 2 labels: ")


def test_a_field_may_name_the_records(tmp_path):
    stream = opened(written(tmp_path / "r.jsonl", payments(60)), tmp_path / "demo", id="payment")
    assert list(stream.truth)[:2] == ["p0", "p1"]
    assert kept(tmp_path / "demo")[0].keys() == {"id", "a", "b", "c"}


def nested(record):
    return {
        "o": {"label": record["is_fraud"], "payment": record["payment"], "a": record["a"]},
        "b": [record["b"], record["c"]],
    }


def test_label_and_id_may_be_in_nested_records(tmp_path):
    plain = payments(60)
    path = written(tmp_path / "r.jsonl", [*map(nested, plain), {"o": {"label": None}, "b": 1}])
    stream = opened(path, tmp_path / "demo", label="o.label", id="o.payment")
    assert stream.truth == {one["payment"]: str(one["is_fraud"]).lower() for one in plain}
    assert kept(tmp_path / "demo")[0] == {
        "id": "p0",
        "o": {"a": plain[0]["a"]},
        "b": [plain[0]["b"], plain[0]["c"]],
    }
    assert stream.about.endswith("left out: 1 without a label")


def test_label_leaves_every_place_that_its_path_can_name(tmp_path):
    records = [
        {"id": i, "o": [{"label": "x"}, i], "o.0": {"label": "y"}, "o.0.label": "ab"[i % 2]}
        for i in range(10)
    ]
    path = written(tmp_path / "r.jsonl", records)
    stream = opened(path, tmp_path / "demo", label="o.0.label", id="id")
    assert list(stream.truth.values())[:2] == ["a", "b"]
    assert kept(tmp_path / "demo")[1] == {"id": "1", "o": [{}, 1]}


def test_records_that_have_only_a_nested_label_and_id_are_refused(tmp_path):
    records = [{"o": {"label": i % 2, "id": i}} for i in range(10)]
    with pytest.raises(DataError, match="no record has a named field"):
        opened(written(tmp_path / "r.jsonl", records), tmp_path / "d", label="o.label", id="o.id")


@pytest.mark.parametrize("ending", ["jsonl.gz", "csv", "csv.gz", "parquet"])
def test_a_file_of_any_kind_is_played_the_same(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    records = payments(60)
    table = pandas.DataFrame(records)
    path = tmp_path / f"r.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    elif ending.startswith("csv"):
        table.to_csv(path, index=False)
    else:
        written(path, records)
    plain = opened(written(tmp_path / "r.jsonl", records), tmp_path / "plain")
    other = opened(path, tmp_path / "other")
    features = Features(dict.fromkeys("abc", "number"))
    rows = [
        features.encode_arrivals(
            [features.values(record) for record in kept(tmp_path / name)]
        ).tolist()
        for name in ("other", "plain")
    ]
    assert rows[0] == rows[1], "the cells of CSV are text"
    assert {id: label.lower() for id, label in other.truth.items()} == plain.truth


def test_what_cannot_be_used_is_left_out_and_counted(tmp_path):
    path = written(tmp_path / "r.jsonl", payments(60))
    more = [
        {"payment": "p1", "is_fraud": True},
        {"payment": "x", "is_fraud": None},
        {"payment": "y"},
        {"is_fraud": True},
        {"payment": "z", "is_fraud": [1]},
    ]
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in more)
        file.write("{broken\n")
    stream = opened(path, tmp_path / "demo", id="payment")
    assert len(stream.truth) == len(kept(tmp_path / "demo")) == 60
    for said in (
        "1 whose id came before",
        "2 without a label",
        "1 without an id",
        "1 with an object",
    ):
        assert said in stream.about
    assert "1 damaged" in stream.about


def test_a_blank_line_after_each_row_is_counted_as_empty(tmp_path):
    path = written(tmp_path / "r.jsonl", payments(60))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n"))
    stream = opened(path, tmp_path / "demo")
    assert len(stream.truth) == 60
    assert stream.about.endswith("; left out: 60 empty")


@pytest.mark.parametrize("field", ["is_fraud", "note"])
def test_text_that_is_not_utf8_is_counted_and_its_place_is_named(tmp_path, field):
    path = written(tmp_path / "r.jsonl", payments(60))
    with path.open("ab") as file:
        record = {"payment": "z", "a": 1, "is_fraud": "true"} | {field: "M?ller"}
        file.write(json.dumps(record).encode().replace(b"?", b"\xfc") + b"\n")
    about = opened(path, tmp_path / "demo").about
    assert re.search(r"left out: 1 damaged \(the first is message 61: not UTF-8: byte 0xfc", about)


def test_one_label_is_an_error_that_names_the_damage_of_the_others(tmp_path):
    path = tmp_path / "r.csv"
    rows = "".join(f"{i},{i % 7},{'Müll' if i % 2 else 'b'}\n" for i in range(40))
    path.write_bytes(f"id,a,kind\n{rows}".encode("latin-1"))
    with pytest.raises(DataError, match=r"at least; left out: 20 damaged .*message 2: not UTF-8"):
        opened(path, tmp_path / "demo", label="kind", id="id")


@pytest.mark.parametrize("header", ["id,,kind", "id,kind"])
def test_a_file_without_a_named_field_is_refused(tmp_path, header):
    path = tmp_path / "r.csv"
    cells = header.count(",") - 1
    rows = "".join(f"{i}{',1' * cells},{'ab'[i % 2]}\n" for i in range(40))
    path.write_text(f"{header}\n{rows}")
    with pytest.raises(DataError, match=r"no record has a named field .* name the columns"):
        opened(path, tmp_path / "demo", label="kind", id="id")


def test_a_label_that_a_run_would_refuse_is_left_out(tmp_path):
    large = [one | {"is_fraud": (-1) ** i * 10**30} for i, one in enumerate(payments(4))]
    path = written(tmp_path / "r.jsonl", payments(60) + large)
    about = opened(path, tmp_path / "demo").about
    assert about.endswith("left out: 4 with a label of more than 64 bits")


def same(n):
    return [record | {"is_fraud": "no"} for record in payments(n)]


def amounts(n):
    return [record | {"is_fraud": record["a"] * (1 + i)} for i, record in enumerate(payments(n))]


@pytest.mark.parametrize(
    ("records", "arguments", "error", "told"),
    [
        (None, {}, ConnectorError, "there is no file"),
        ([], {}, DataError, "is empty: give a file with labelled records"),
        (payments(9), {"label": "is_frod"}, ConfigurationError, "did you mean is_fraud"),
        (payments(9), {"label": "kind"}, ConfigurationError, "--label kind: none of 9 records"),
        (payments(9), {"id": "paymnt"}, ConfigurationError, "--id paymnt: .* mean payment"),
        (payments(9), {"id": "is_fraud"}, ConfigurationError, "--id is_fraud: .* label's field"),
        (payments(9), {"label": 'a"'}, ConfigurationError, "--label .*invalid field name"),
        (same(9), {}, DataError, "label 'is_fraud' of all 9 records is 'no'"),
        (amounts(5_000), {}, ConfigurationError, "4,9[0-9]+ different values in this field"),
        (
            amounts(200),
            {},
            ConfigurationError,
            "different values in this field .*give the field with",
        ),
        ([1, 2], {}, DataError, "none of 2 records can be used .2 damaged.*JSON object"),
    ],
)
def test_what_cannot_be_learned_from_is_an_error_with_its_mend(
    tmp_path, records, arguments, error, told
):
    path = tmp_path / "r.jsonl"
    if records is not None:
        written(path, records)
    for _ in range(2):  # and leaves nothing behind that would be taken for a demo
        with pytest.raises(error, match=told) as caught:
            opened(path, tmp_path / "demo", **arguments)
    said = str(caught.value)
    assert any(place in said for place in (str(path), "--label", "--id"))


def test_many_classes_are_no_mistake_where_each_comes_often(tmp_path):
    records = [record | {"is_fraud": i % 300} for i, record in enumerate(payments(900))]
    assert len(set(opened(written(tmp_path / "r.jsonl", records), tmp_path).truth.values())) == 300


def test_an_earlier_demo_is_left_as_it_is(tmp_path):
    path = written(tmp_path / "r.jsonl", payments(60))
    opened(path, tmp_path / "demo")
    before = (tmp_path / "demo" / RECORDS).read_bytes()
    written(path, payments(30))
    with pytest.raises(StateError, match="has an earlier demo"):
        opened(path, tmp_path / "demo")
    assert (tmp_path / "demo" / RECORDS).read_bytes() == before


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    stream = opened(written(folder / "r.jsonl", payments()), folder / "demo")
    seen = []
    rows = demo.run_demo(
        demo.STRATEGIES,
        folder / "demo",
        stream,
        seed=0,
        budget=0.1,
        stop=StopToken(),
        show=seen.append,
    )
    return folder / "demo", list(rows), seen


def test_all_four_rows_are_over_all_records(played):
    _, rows, _ = played
    assert [row.strategy for row in rows] == list(demo.STRATEGIES)
    assert {row.records for row in rows} == {400}
    labels = [row.labels for row in rows]
    assert max(labels[:3]) <= 40 < 400 == labels[3]
    later = {row.strategy: row.accuracy_second_half for row in rows}
    assert later["all"] > 0.9 > 0.65 > later["repeat_last"]


def test_what_is_kept_is_a_pipeline_that_can_be_run(played):
    folder, _, _ = played
    assert run(load(folder / "margin" / "pipeline.toml"), until_idle=True) > 0


def test_the_accuracy_is_told_over_the_newest_records(played):
    _, _, seen = played
    margin = [progress for progress in seen if progress.strategy == "margin"]
    assert margin[-1].recent > margin[-1].accuracy, "it learns"
    assert margin[-1].repeated < margin[-1].recent


@pytest.mark.slow
def test_the_command_prints_table_and_curves_and_writes_a_page(streamboost_command, tmp_path: Path):
    written(tmp_path / "<b>r.jsonl", payments(200))
    words = (
        "demo",
        "<b>r.jsonl",
        "--label",
        "is_fraud",
        "--budget",
        "0.1",
        "--html",
        "new/out.html",
    )
    out, err = streamboost_command(*words)
    assert "<b>r.jsonl: 200 records of 2 labels" in err
    assert "<b>r.jsonl, every record predicted on arrival" in out
    assert "accuracy on the newest records, by labels bought" in out
    for legend in ("* margin", "o random", ". repeat last", "+ all"):
        assert legend in out
    assert max(len(line) for line in out.splitlines()) <= 80

    page = (tmp_path / "new" / "out.html").read_text()
    assert "<b>" not in page, "a name is text"
    assert page.count("<polyline") == 4
    tags = Tags(page)
    assert not tags.open
    assert not tags.names & {"script", "link", "img", "iframe", "object"}
    assert not tags.attributes & {"src", "href"}
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    for line in out.splitlines()[3:7]:
        cells = line.split()
        assert all(cell in page for cell in cells[-6:-2]), "the same figures in both"


def test_the_pages_colours_are_those_of_the_service():
    colours = set(re.findall(r"--[\w-]+: #\w+", page_of_demo._STYLE))
    assert len(colours) > 10
    css = Path(page_of_demo.__file__).parents[1] / "dashboard" / "static" / "pages.css"
    assert colours <= set(re.findall(r"--[\w-]+: #\w+", css.read_text()))


class Tags(HTMLParser):
    """The elements of a page: which there are, with what, and which are not closed."""

    def __init__(self, page):
        super().__init__()
        self.names, self.attributes, self.open = set(), set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_one_object_a_row_has_the_fields_it_always_had(streamboost_command, tmp_path):
    written(tmp_path / "r.jsonl", payments(100))
    words = ("demo", "r.jsonl", "--label", "is_fraud", "--json", "--strategy", "margin")
    out, _ = streamboost_command(*words)
    (line,) = out.splitlines()
    assert json.loads(line).keys() == FIELDS


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["r.jsonl"], 2, "the label field is missing: give it as --label FIELD"),
        (["--label", "x"], 2, "give the file first, as in `streamboost demo records.jsonl --label"),
        (["r.jsonl", "--label", "x", "--serve"], 2, "leave out the file"),
        (["none.jsonl", "--label", "x"], 1, "there is no file none.jsonl: create it, or correct"),
        (["r.jsonl", "--label", "x"], 2, "--label x: none of 30 records has the field 'x'"),
        (["r.jsonl", "--label", "is_fraud", "--budget", "7"], 2, "budget"),
        (["r.jsonl", "--label", "is_fraud", "--html", "r.jsonl/x.html"], 1, "is not a folder"),
    ],
)
def test_the_command_ends_with_what_is_wrong(streamboost_command, tmp_path, words, code, told):
    written(tmp_path / "r.jsonl", payments(30))
    out, err = streamboost_command("demo", *words, code=code)
    assert out == ""
    assert told in err
    assert "Traceback" not in err


def test_a_setting_that_is_wrong_leaves_the_folder_to_the_next_run(streamboost_command, tmp_path):
    written(tmp_path / "r.jsonl", payments(60))
    words = ("demo", "r.jsonl", "--label", "is_fraud", "--state", "kept", "--strategy", "random")
    streamboost_command(*words, "--budget", "7", code=2)
    streamboost_command(*words, "--label", "is_frod", code=2)
    streamboost_command(*words, "--json")
    assert (tmp_path / "kept" / "random" / "state").is_dir()


@pytest.mark.slow
def test_a_value_that_no_feature_can_have_costs_no_record(streamboost_command, tmp_path):
    records = payments(300)
    records[250]["a"] = 1e300  # beyond what a feature can be
    written(tmp_path / "r.jsonl", records)
    out, err = streamboost_command(
        "demo", "r.jsonl", "--label", "is_fraud", "--strategy", "random", "--json"
    )
    assert "could not be used" not in err
    assert json.loads(out)["records"] == 300


@pytest.mark.slow
def test_texts_get_the_encoder(tmp_path, monkeypatch):
    tiny.write_encoder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    notes = ["gift voucher urgent now", "lunch and rent today"]
    records = [
        {
            "note": f"{notes[n % 2]} {n}",
            "deep": {"b": f"{notes[n % 2]} {3 * n}"},
            "a": n,
            "y": n % 2,
        }
        for n in range(80)
    ]
    path = written(tmp_path / "r.jsonl", records)
    stream = split_labelled_file(path, "y", None, tmp_path / "demo", "model")
    field = {"type": "text", "encoder": str(tmp_path / "model")}
    assert stream.sections["schema"] == {"fields": {"note": field, "deep.b": field}}
    played = demo.run_demo(
        ["margin"], tmp_path / "demo", stream, seed=0, budget=0.5, stop=StopToken(), show=print
    )
    assert next(played).records == 80
    payments_path = written(tmp_path / "p.jsonl", payments(60))
    with pytest.raises(ConfigurationError, match=r"no field of .* has texts of several words"):
        split_labelled_file(payments_path, "is_fraud", "payment", tmp_path / "other", "model")
    assert not list((tmp_path / "other").iterdir())
