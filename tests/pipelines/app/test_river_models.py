"""River's models in pipelines: an active model, shadow models, their states, kills and replays."""

import shutil
from pathlib import Path

import pytest
from serving import put, read
from slow import slow

from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline, format_description
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.models import models as held
from streamboost.pipelines.service.scoring import CheckpointScorer
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.folder import State
from tests.pipelines.killing import kill

EXAMPLE = Path(__file__).parents[3] / "examples" / "river"
FACTORIES = '''
from river import compose, linear_model, naive_bayes, preprocessing, tree


def logistic():
    softmax = linear_model.SoftmaxRegression()
    return compose.Pipeline(preprocessing.StandardScaler(), softmax)


def bayes():
    return naive_bayes.GaussianNB()


def hoeffding():
    return tree.HoeffdingTreeClassifier(grace_period=20)


class BySet:
    """Goes through a set of texts: what it says depends on the seed of their hashes."""

    def __init__(self):
        self.labels = set()

    def predict_proba_one(self, x):
        return {next(iter({str(v) + name for name, v in x.items()})): 1.0, "a": 0.5, "left": 0.4}

    def learn_one(self, x, y):
        self.labels.add(y)


class Picky:
    """Fails at every record whose number is large."""

    def predict_proba_one(self, x):
        if x["a"] > 0.8:
            raise ValueError("too large")
        return {"left": 0.9, "right": 0.1}

    def learn_one(self, x, y):
        self.predict_proba_one(x)


def picky():
    return Picky()


def by_set():
    return BySet()


def nothing():
    return object()
'''
PIPELINE = """
[pipeline]
name = "river"
batch_records = {batch}
batch_labels = {batch}
checkpoint_every = 4
[source]
connector = "sqlite"
stream = "records"
[query]
budget = {budget}
[committee]
n_estimators = 3
[schedule]
growth = 2.0
{more}
"""
MODEL = '[model]\nriver = "factories:hoeffding"\n'
SHADOW_MODELS = (
    '[shadow_models.nb]\nriver = "factories:bayes"\n'
    '[shadow_models.lr]\nriver = "factories:logistic"\n'
)


@pytest.fixture
def make(tmp_path):
    def make(more, batch=20, budget=0.5):
        (tmp_path / "factories.py").write_text(FACTORIES)
        file = tmp_path / "p.toml"
        file.write_text(PIPELINE.format(more=more, batch=batch, budget=budget))
        return file

    return make


def feed(config, make_records, n, start=0):
    records, truth = make_records(n, start)
    put(config, "records", records)
    labels = [{"id": r["id"], "label": y} for r, y in zip(records, truth, strict=True)]
    put(config, "labels", labels)
    return truth


@pytest.mark.parametrize("n", [300, *slow(1_000)])
def test_a_model_that_serves_predicts_as_river_would_record_for_record(make, n):
    from river import datasets, evaluate, metrics, tree

    config = load(make(MODEL, batch=1))
    items = list(datasets.ImageSegments().take(n))
    put(config, "records", [{"id": str(i), **x} for i, (x, _) in enumerate(items)])
    put(config, "labels", [{"id": str(i), "label": y} for i, (_, y) in enumerate(items)])
    run(config, until_idle=True)
    model, accuracy = tree.HoeffdingTreeClassifier(grace_period=20), metrics.Accuracy()
    expected = []
    for x, y in items:
        expected.append(model.predict_one(x))
        model.learn_one(x, y)
    found = [one["label"] for one in read(config, "predictions")]
    assert found == expected
    model = tree.HoeffdingTreeClassifier(grace_period=20)
    evaluate.progressive_val_score(items, model, accuracy)
    right = sum(y == said for (_, y), said in zip(items, found, strict=True))
    assert right / (n - found.count(None)) == pytest.approx(accuracy.get())


@pytest.mark.slow
def test_a_model_that_serves_is_asked_for_within_the_budget_and_judged(make, make_records):
    config = load(make(MODEL, budget=0.2))
    for start in range(0, 600, 100):
        feed(config, make_records, 100, start)
        run(config, until_idle=True)
    checkpoint = describe_pipeline(config.state)["checkpoint"]
    assert 60 < checkpoint["ledger"]["requests"] <= 120
    accuracy = checkpoint["evaluation"]["since_start"]["committee"]["accuracy"]
    assert 0.5 < accuracy["low"] < accuracy["high"]
    assert checkpoint["committee"]["version"] == 0, "no committee is trained"
    assert not checkpoint["committee"]["paused"], "nobody has paused it"
    assert "replayed: bit for bit" in verify_replay(config)


def test_estimates_of_shadow_models_leave_out_annotators_who_err(make, make_records):
    config = load(make('[shadow_models.nb]\nriver = "factories:bayes"\n'))
    records, truth = make_records(600)
    put(config, "records", records)
    labels = [
        {"id": r["id"], "label": y if i % 4 else "neither", "source": "a" if i % 4 else "e"}
        for i, (r, y) in enumerate(zip(records, truth, strict=True))
    ]
    put(config, "labels", labels)
    run(config, until_idle=True)
    found = describe_pipeline(config.state)["checkpoint"]["shadow_models"]["nb"]["since_start"]
    assert found["left_out"] == ["e"]
    before = found["accuracy_with_left_out"]["value"]
    assert found["committee"]["accuracy"]["value"] > before


@pytest.mark.slow
def test_rivals_are_compared_on_the_same_records_and_never_serve(make, make_records):
    config = load(make(SHADOW_MODELS))
    feed(config, make_records, 300)
    run(config, until_idle=True)
    found = describe_pipeline(config.state)
    shadow_models = found["checkpoint"]["shadow_models"]
    assert set(shadow_models) == {"nb", "lr"}
    assert "shadow models, share of correct predictions on arrival" in format_description(found)
    for figures in shadow_models.values():
        assert figures["since_start"]["records"] == 300
        assert figures["since_start"]["committee"]["accuracy"]["value"] > 0.5
    assert "replayed: bit for bit" in verify_replay(config)


@pytest.mark.slow
def test_predictions_are_the_same_with_rivals_and_without(tmp_path, make_records):
    said = []
    for n, more in enumerate((SHADOW_MODELS, "")):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "factories.py").write_text(FACTORIES)
        (folder / "p.toml").write_text(PIPELINE.format(more=more, batch=20, budget=0.5))
        config = load(folder / "p.toml")
        feed(config, make_records, 200)
        run(config, until_idle=True)
        said.append([read(config, "predictions"), read(config, "requests")])
    assert said[0] == said[1]


@pytest.mark.slow
def test_kills_lose_nothing_of_a_model_and_its_rival(make, make_records):
    file = make(MODEL + SHADOW_MODELS)
    config = load(file)
    feed(config, make_records, 300)
    died, _ = kill(file, [("stepped", 3), ("committed", 3), ("checkpointed", 1)], 3)
    assert len(died) == 3
    run(config, until_idle=True)
    predicted = read(config, "predictions")
    assert [one["id"] for one in predicted] == [str(i) for i in range(300)]
    assert (
        describe_pipeline(config.state)["checkpoint"]["shadow_models"]["nb"]["since_start"][
            "records"
        ]
        == 300
    )
    assert "bit for bit" in verify_replay(config)


def test_with_another_river_a_model_begins_from_the_labelled_records(
    make, make_records, monkeypatch, caplog
):
    config = load(make(MODEL))
    feed(config, make_records, 200)
    run(config, until_idle=True)
    from streamboost.pipelines.app import factories

    monkeypatch.setattr(factories, "_river_version_text", lambda: "river 99")
    feed(config, make_records, 100, 200)
    run(config, until_idle=True)
    assert "is now river 99: River's models are rebuilt" in caplog.text
    truth = make_records(100, 200)[1]
    said = [one["label"] for one in read(config, "predictions")[200:]]
    right = sum(a == b for a, b in zip(said, truth, strict=True))
    assert right > 70, "it knows what was learned"


def test_a_state_that_others_may_write_is_not_unpickled(make, make_records):
    config = load(make(MODEL))
    feed(config, make_records, 100)
    run(config, until_idle=True)
    config.state.chmod(0o777)
    with pytest.raises(StateError, match="chmod 700"):
        run(config, until_idle=True)


def test_a_folder_with_pickles_is_its_owners_alone(make, make_records):
    config = load(make(MODEL))
    feed(config, make_records, 40)
    config.state.chmod(0o755)
    run(config, until_idle=True)
    assert config.state.stat().st_mode & 0o777 == 0o700


def test_a_pickle_that_is_not_the_manifests_is_not_read(make, make_records, monkeypatch):
    config = load(make(MODEL))
    feed(config, make_records, 100)
    run(config, until_idle=True)
    monkeypatch.setattr(held, "_sha256", lambda array: "another")
    with pytest.raises(StateError, match="lacks the River model"):
        run(config, until_idle=True)


def test_a_copy_with_pickles_is_not_gone_on_from_and_it_is_said_why(make, make_records):
    file = make(MODEL)
    copied = 'checkpoint_every = 4\ncheckpoint_copy = "copies"'
    file.write_text(file.read_text().replace("checkpoint_every = 4", copied))
    config = load(file)
    feed(config, make_records, 40)
    run(config, until_idle=True)
    config.state.rename(config.state.with_name("lost"))
    with pytest.raises(StateError, match="checkpoint_copy contain River models as pickles"):
        run(config, rebuild=True, until_idle=True)


def test_a_file_that_asks_for_no_river_model_unpickles_none(make, make_records, monkeypatch):
    config = load(make(""))
    feed(config, make_records, 100)
    run(config, until_idle=True)
    monkeypatch.setattr("pickle.loads", lambda *_: pytest.fail("something was unpickled"))
    feed(config, make_records, 100, 100)
    assert run(config, until_idle=True) > 5


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("factories:nowhere", "AttributeError"),
        ("nowhere:bayes", "ModuleNotFoundError"),
        ("bayes", 'write "module:function"'),
        ("factories:nothing", "has no predict_proba_one"),
    ],
)
def test_a_factory_that_makes_no_classifier_is_refused(make, make_records, factory, said):
    config = load(make(f'[model]\nriver = "{factory}"\n'))
    feed(config, make_records, 30)
    with pytest.raises(ConfigurationError, match=said):
        run(config, until_idle=True)
    (finding,) = [one for one in check_pipeline(config) if one.part == "models"]
    assert not finding.ok
    assert said in finding.text


@pytest.mark.slow
def test_what_depends_on_the_seed_of_hashes_is_not_compared(make, make_records):
    config = load(make('[model]\nriver = "factories:by_set"\n'))
    feed(config, make_records, 60)
    (finding,) = [one for one in check_pipeline(config) if one.part == "models"]
    assert "not independent of the seed" in finding.text


@pytest.mark.parametrize("where", ["model", "shadow_models.one"])
def test_a_model_that_fails_ends_nothing_and_is_counted(make, make_records, where, caplog):
    config = load(make(f'[{where}]\nriver = "factories:picky"\n'))
    feed(config, make_records, 100)
    run(config, until_idle=True)
    checkpoint = describe_pipeline(config.state)["checkpoint"]
    failures = checkpoint["model" if where == "model" else "shadow_models"]
    failures = failures if where == "model" else failures["one"]
    large = sum(record["a"] > 0.8 for record in make_records(100)[0])
    assert failures["failures"] == 2 * large
    assert "Picky cannot predict a record" in caplog.text
    assert caplog.text.count("too large") == 1
    if where == "model":
        said = [one["label"] for one in read(config, "predictions")]
        assert said.count(None) >= large


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (MODEL, "", r"\[model\] was set and is not"),
        ("", SHADOW_MODELS, r"\[shadow_models\] nb was not set"),
    ],
)
def test_models_do_not_come_and_go_on_a_state(make, make_records, before, after, said):
    config = load(make(before))
    feed(config, make_records, 40)
    run(config, until_idle=True)
    with pytest.raises(StateError, match=said):
        run(load(make(after)), until_idle=True)


def test_nobody_else_predicts_by_a_river_model(make, make_records):
    config = load(make(MODEL))
    feed(config, make_records, 40)
    run(config, until_idle=True)
    with pytest.raises(StateError, match="only the pipeline reads its pickle"):
        CheckpointScorer(State(config.state)).predict([{"a": 1, "b": 2}])


def test_a_command_for_committees_is_refused_where_a_model_serves(make, make_records):
    config = load(make(MODEL))
    feed(config, make_records, 60)
    run(config, until_idle=True)
    queue_command(config.state, Command("resume"))
    feed(config, make_records, 60, 60)
    run(config, until_idle=True)
    checkpoint = describe_pipeline(config.state)["checkpoint"]
    assert checkpoint["committee"]["version"] == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[schema]\nnumeric = ["a"]\n' + MODEL, "reads all fields: delete"),
        ('[schema]\nnumeric = ["a"]\n[features]\nriver = "x:y"\n', "reads all fields: delete"),
        (MODEL.replace("river =", "creek ="), "creek"),
        ('[shadow_models."a.b"]\nriver = "x:y"\n', "letters, digits"),
    ],
)
def test_what_no_model_can_be_given_is_refused(make, more, said):
    with pytest.raises(ConfigurationError, match=said):
        load(make(more))


@pytest.mark.slow
def test_the_example_runs_and_compares_its_models(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "river")
    config = load(tmp_path / "river" / "pipeline.toml")
    run(config, until_idle=True)
    checkpoint = describe_pipeline(config.state)["checkpoint"]
    figures = [checkpoint["evaluation"], *checkpoint["shadow_models"].values()]
    values = [one["since_start"]["committee"]["accuracy"]["value"] for one in figures]
    assert len(values) == 3
    assert min(values) > 0.5
