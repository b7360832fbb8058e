"""River's transformers before the fields of records: output, learning, state and replay."""

import datetime as dt
import json
import pickle
import shutil

import numpy as np
import pytest
from river import compose, preprocessing, stats, utils
from river import feature_extraction as fx
from serving import put, read

from streamboost.connectors.base import Message
from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.app import factories
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.models.transformer import Transformer, decode_raw_record
from streamboost.pipelines.service.scoring import CheckpointScorer
from streamboost.pipelines.state.folder import State
from tests.pipelines.app.test_river_models import EXAMPLE, PIPELINE
from tests.pipelines.killing import kill

FACTORIES = """
import datetime as dt

from river import compose, naive_bayes, preprocessing, stats, utils
from river import feature_extraction as fx


def aggregates():
    hour = utils.TimeRolling(stats.Mean, period=dt.timedelta(hours=1))
    return (
        compose.Select("amount")
        + fx.Agg("amount", "shop", stats.Mean())
        + fx.Agg("amount", "card", hour)
        + fx.TargetAgg("shop", stats.BayesianMean(prior=0.5, prior_weight=2))
    )


def words():
    return fx.BagOfWords("note")


def scaled():
    return compose.SelectType(float) | preprocessing.StandardScaler()


def bayes():
    return naive_bayes.GaussianNB()


class BySet:
    def learn_one(self, x):
        pass

    def transform_one(self, x):
        return {"first": len(next(iter({str(v) + name for name, v in x.items()})))}


def by_set():
    return BySet()


class Picky:
    def learn_one(self, x):
        if x["amount"] > 90:
            raise ValueError("too large")

    def transform_one(self, x):
        return {"amount": x["amount"]}


def picky():
    return Picky()


def a_class():
    return Picky


class Greedy(Picky):
    def transform_one(self, x):
        return {"amount": x.pop("amount")}


def greedy():
    return Greedy()


def broken():
    return fx.Agg("nowhere", "shop", stats.Mean())
"""
FEATURES = '[features]\nriver = "features:{}"\n[schema]\nlabel = "boolean"\ntime = "time"\n'


def payments(n, start=0):
    """Return payments, of which those of every third shop are fraud, and whether they are."""
    records, truth = [], []
    for i in range(start, start + n):
        shop = f"shop {i * 7 % 9}"
        amount = float(10 + i * 13 % 89)
        records.append(
            {
                "id": f"p{i}",
                "time": (dt.datetime(2026, 1, 1) + dt.timedelta(minutes=i)).isoformat(),
                "shop": shop,
                "card": f"card {i % 5}",
                "amount": amount,
                "note": "free prize" if i % 3 else "weekly bread",
            }
        )
        truth.append((i * 7 % 9) % 3 == 0)
    return records, truth


@pytest.fixture
def make(tmp_path):
    def make(factory, more="", batch=20, budget=1.0):
        (tmp_path / "features.py").write_text(FACTORIES)
        file = tmp_path / "p.toml"
        more = (FEATURES.format(factory) if factory else "") + more
        file.write_text(PIPELINE.format(more=more, batch=batch, budget=budget))
        return file

    return make


def feed(config, n, start=0):
    records, truth = payments(n, start)
    put(config, "records", records)
    labels = [{"id": r["id"], "label": y} for r, y in zip(records, truth, strict=True)]
    put(config, "labels", labels)
    return records, truth


def made(config):
    """Return the fields that a run has settled on."""
    return list(State(config.state).schema().features)


@pytest.mark.parametrize(
    ("label", "record"),
    [
        ("o.0.label", {"o": [{"label": "x", "n": 1.5}]}),
        ("a.b.c", {"a.b": {"c": "x", "n": 1.5}}),
        ("a.b", {"a": {"n": 1.5}, "a.b": "x"}),
        ("o.1", {"o": [1.5, "x"]}),
    ],
)
@pytest.mark.parametrize("hidden", ["label", "exclude", "time"])
def test_a_transformer_sees_neither_the_label_nor_an_excluded_field(label, record, hidden):
    settings = {
        "label": {"label_fields": LabelFields(label=label)},
        "exclude": {"exclude": [label]},
        "time": {"time": label},
    }
    line = json.dumps({"id": "1", "label": "x"} | record).encode()
    message = Message(line, "0", 0, len(line))
    seen = repr(decode_raw_record(message, Schema(numeric="auto", **settings[hidden])))
    assert "'x'" not in seen
    assert "1.5" in seen


@pytest.mark.slow
def test_fields_are_what_the_transformer_makes_of_records(make):
    config = load(make("aggregates"))
    feed(config, 200)
    run(config, until_idle=True)
    assert set(made(config)) == {
        "amount",
        "amount_mean_by_shop",
        "amount_mean_by_card",
        "y_bayes_mean_by_shop",
    }
    assert describe_pipeline(config.state)["checkpoint"]["transformer"] == {"failures": 0}
    assert "replayed: bit for bit" in verify_replay(config)


@pytest.mark.slow
def test_what_goes_by_labels_learns_them_as_they_come_and_helps(make):
    config = load(make("aggregates"))
    feed(config, 300)
    run(config, until_idle=True)
    _, truth = payments(300)
    said = [one["label"] for one in read(config, "predictions")]
    right = sum(a == b for a, b in zip(said[100:], truth[100:], strict=True))
    assert right > 190, "only the shop tells, which no field but the labels' mean does"


@pytest.mark.slow
def test_the_values_are_those_of_river_itself_record_for_record(make):
    config = load(make("aggregates", '[shadow_models.nb]\nriver = "features:bayes"\n', batch=1))
    records, truth = feed(config, 60)
    seen = []
    arrive = Transformer.transform

    def told(self, x, time=None):
        values = arrive(self, x, time)
        seen.append(values)
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transformer, "transform", told)
        run(config, until_idle=True)
    mean, target = (
        fx.Agg("amount", "shop", stats.Mean()),
        fx.TargetAgg("shop", stats.BayesianMean(prior=0.5, prior_weight=2)),
    )
    for record, y, values in zip(records, truth, seen[-60:], strict=True):
        mean.learn_one(record)
        assert values["amount_mean_by_shop"] == mean.transform_one(record)["amount_mean_by_shop"]
        assert (
            values["y_bayes_mean_by_shop"] == target.transform_one(record)["y_bayes_mean_by_shop"]
        )
        target.learn_one(record, y)


def test_parts_that_take_time_are_given_it_and_others_are_not():
    day = dt.timedelta(days=1)
    transformer = Transformer(
        fx.Agg("a", None, utils.TimeRolling(stats.Sum, period=day))
        + fx.Agg("a", None, stats.Mean())
    )
    first = transformer.transform({"a": 1}, "2026-01-01T00:00:00+00:00")
    later = transformer.transform({"a": 3}, "2026-01-03T00:00:00")
    assert first == {"a_sum": 1, "a_mean": 1}
    assert later == {"a_sum": 3, "a_mean": 2}
    assert transformer.failures == 0


def test_a_part_within_a_pipeline_learns_of_what_the_part_before_makes():
    transformer = Transformer(
        compose.Pipeline(
            compose.FuncTransformer(lambda x: {"a": 10 * x["a"], "s": x["s"]}),
            compose.TransformerUnion(
                compose.Pipeline(compose.Select("a"), preprocessing.StandardScaler()),
                fx.TargetAgg("s", stats.Mean()),
            ),
        )
    )
    transformer.transform({"a": 1, "s": "x"})
    transformer.learn(b'[{"a": 1, "s": "x"}, null]', label=4)
    assert transformer.transform({"a": 3, "s": "x"})["y_mean_by_s"] == 4
    scaler = transformer._river_transformer["TransformerUnion"]["Pipeline"]["StandardScaler"]
    assert scaler.means["a"] == 20, "of two records, each learned once"


def test_words_are_the_fields_that_most_of_the_first_records_show(make, monkeypatch):
    monkeypatch.setattr(factories, "_MAX_FIELDS", 3)
    config = load(make("words"))
    feed(config, 60)
    run(config, until_idle=True)
    assert set(made(config)) == {"free", "prize", "weekly"}
    assert len(read(config, "predictions")) == 60


@pytest.mark.parametrize("factory", ["scaled", "aggregates"])
def test_the_label_is_never_among_what_is_transformed(make, factory):
    config = load(make(factory, '[labels]\nconnector = "inline"\n'))
    records, truth = payments(80)
    put(config, "records", [{**r, "label": y} for r, y in zip(records, truth, strict=True)])
    run(config, until_idle=True)
    assert "label" not in made(config)
    assert len(read(config, "predictions")) == 80


def test_a_request_shows_the_record_as_it_came(make):
    config = load(make("aggregates"))
    records, _ = feed(config, 40)
    run(config, until_idle=True)
    first = read(config, "requests")[0]["features"]
    assert first == {k: v for k, v in records[0].items() if k not in ("id", "time")}


def test_a_record_that_cannot_be_transformed_is_predicted_and_counted(make, caplog):
    config = load(make("picky"))
    records, _ = feed(config, 100)
    large = sum(record["amount"] > 90 for record in records)
    run(config, until_idle=True)
    assert len(read(config, "predictions")) == 100
    assert describe_pipeline(config.state)["checkpoint"]["transformer"] == {"failures": large}
    assert "Picky cannot transform a record" in caplog.text


def test_a_record_that_comes_twice_teaches_once(make):
    config = load(make("aggregates"))
    records, _ = feed(config, 40)
    put(config, "records", records[:10])
    run(config, until_idle=True)
    (arrays, _) = State(config.state).checkpoints.newest()
    union = pickle.loads(arrays["models.models.[features].pickle"].tobytes())
    groups = union["Agg"]._groups.values()
    assert sum(stat.n for stat in groups) == 40


@pytest.mark.slow
def test_a_run_goes_on_with_what_the_transformer_had_learned(make):
    config = load(make("aggregates"))
    feed(config, 100)
    run(config, until_idle=True)
    feed(config, 100, 100)
    run(config, until_idle=True)
    (arrays, _) = State(config.state).checkpoints.newest()
    union = pickle.loads(arrays["models.models.[features].pickle"].tobytes())
    assert sum(stat.n for stat in union["Agg"]._groups.values()) == 200
    assert sum(stat._mean.n for stat in union["TargetAgg"]._groups.values()) == 200
    assert "bit for bit" in verify_replay(config)


@pytest.mark.slow
def test_kills_lose_nothing_of_a_transformer(make):
    more = '[shadow_models.nb]\nriver = "features:bayes"\n'
    file = make("aggregates", more)
    config = load(file)
    feed(config, 300)
    died, _ = kill(file, [("stepped", 3), ("committed", 3), ("checkpointed", 1)], 3)
    assert len(died) == 3
    run(config, until_idle=True)
    assert [one["id"] for one in read(config, "predictions")] == [f"p{i}" for i in range(300)]
    assert "bit for bit" in verify_replay(config)


@pytest.mark.slow
def test_with_another_river_a_transformer_begins_from_the_labelled_records(
    make, monkeypatch, caplog
):
    config = load(make("aggregates"))
    feed(config, 200)
    run(config, until_idle=True)
    monkeypatch.setattr(factories, "_river_version_text", lambda: "river 99")
    feed(config, 100, 200)
    run(config, until_idle=True)
    assert "is now river 99: River's models are rebuilt" in caplog.text
    _, truth = payments(100, 200)
    said = [one["label"] for one in read(config, "predictions")[200:]]
    right = sum(a == b for a, b in zip(said, truth, strict=True))
    assert right > 85, "it knows what was learned"


@pytest.mark.slow
def test_records_known_beforehand_are_transformed_and_teach_it(make, tmp_path):
    records, truth = payments(120)
    known = tmp_path / "known.jsonl"
    lines = [json.dumps({**r, "label": y}) for r, y in zip(records, truth, strict=True)]
    known.write_text("\n".join(lines))
    config = load(make("aggregates", f'[initial_data]\npath = "{known}"\n'))
    feed(config, 40, 120)
    run(config, until_idle=True)
    _, truth = payments(40, 120)
    said = [one["label"] for one in read(config, "predictions")]
    assert sum(a == b for a, b in zip(said, truth, strict=True)) > 30
    assert "bit for bit" in verify_replay(config)


@pytest.mark.slow
def test_check_says_what_the_transformer_makes_and_whether_the_seed_of_hashes_matters(make):
    models = "".join(
        f'[{place}]\nriver = "features:bayes"\n'
        for place in ("model", "shadow_models.nb", "shadow_models.other")
    )
    config = load(make("aggregates", models))
    feed(config, 50)
    found = {one.part: one for one in check_pipeline(config)}
    assert "amount_mean_by_card" in found["schema"].text
    assert found["models"].ok
    said = "4 created; independent of the seed of Python's hashes, tested on 50 records"
    assert said in found["models"].text


@pytest.mark.slow
def test_check_says_where_a_transformer_depends_on_the_seed_of_hashes(make):
    config = load(make("by_set"))
    feed(config, 60)
    found = {one.part: one for one in check_pipeline(config)}
    assert "not independent of the seed" in found["models"].text


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("nowhere", "AttributeError"),
        ("bayes", "has no transform_one"),
        ("a_class", "returns a class: return an object"),
        ("broken", "failed on all 30 of the first records"),
    ],
)
def test_what_is_no_transformer_is_refused(make, factory, said):
    config = load(make(factory))
    feed(config, 30)
    with pytest.raises(ConfigurationError, match=said):
        run(config, until_idle=True)
    assert any(not one.ok and said in one.text for one in check_pipeline(config))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("aggregates", None, r"\[features\] was set and is not"),
        (None, "aggregates", r"\[features\] river was not set"),
        ("aggregates", "scaled", r"\[features\] river was"),
    ],
)
def test_a_transformer_does_not_come_and_go_on_a_state(make, before, after, said):
    more = '[schema]\nlabel = "boolean"\ntime = "time"\n'
    config = load(make(before, "" if before else more))
    feed(config, 40)
    run(config, until_idle=True)
    with pytest.raises(StateError, match=said):
        run(load(make(after, "" if after else more)), until_idle=True)


def test_a_state_that_others_may_write_is_not_unpickled(make):
    config = load(make("scaled"))
    feed(config, 40)
    run(config, until_idle=True)
    config.state.chmod(0o777)
    with pytest.raises(StateError, match="chmod 700"):
        run(config, until_idle=True)


def test_nobody_else_predicts_by_a_river_transformer(make):
    config = load(make("scaled"))
    feed(config, 40)
    run(config, until_idle=True)
    with pytest.raises(StateError, match="only the pipeline reads its pickle"):
        CheckpointScorer(State(config.state)).predict([{"amount": 1.0}])


@pytest.mark.slow
def test_the_example_runs_with_its_transformer(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "river")
    config = load(tmp_path / "river" / "features.toml")
    run(config, until_idle=True)
    checkpoint = describe_pipeline(config.state)["checkpoint"]
    assert checkpoint["transformer"] == {"failures": 0}
    assert checkpoint["evaluation"]["since_start"]["committee"]["accuracy"]["value"] > 0.5


class Odd:
    """Makes what no JSON holds, and changes what it is given."""

    def __init__(self, made):
        self.made = made

    def learn_one(self, x):
        x.clear()

    def transform_one(self, x):
        return self.made


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"a": np.float32(1.5), "b": np.int64(3), "c": np.bool_(True)}, {"a": 1.5, "b": 3, "c": 1}),
        ({"a": float("nan"), "b": float("inf")}, {"a": None, "b": None}),
        ({("free", "prize"): 1, 7: 2}, {"free_prize": 1, "7": 2}),
        ({"a.b": {"c": [1, 2]}}, {"a.b": {"c": [1, 2]}}),
        ({"a": 10**30}, {"a": 10**30}),
        ({"a": dt.date(2026, 1, 2)}, {"a": "2026-01-02"}),
    ],
)
def test_what_is_made_becomes_what_json_would_have_held(given, made):
    transformer = Transformer(Odd(given))
    assert transformer.transform({"x": 1}) == made
    assert transformer.failures == 0


@pytest.mark.parametrize("given", [None, 3, {"a": "\ud800"}])
def test_what_cannot_be_a_record_is_a_failure_and_no_end(given):
    transformer = Transformer(Odd(given))
    assert transformer.transform({"x": 1}) == {}
    assert transformer.failures == 1


def test_a_transformer_that_changes_its_record_does_not_change_what_is_held(make):
    config = load(make("greedy"))
    feed(config, 20)
    run(config, until_idle=True)
    assert read(config, "requests")[0]["features"]["amount"] == 10.0
