"""Mini-batches of pandas, polars and pyarrow, sample weights, and words named like a field."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import compose, feature_extraction

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import DataError
from streamboost.learner import Schedule

RNG = np.random.default_rng(4)
LABELS = RNG.choice(["ham", "spam"], 120).tolist()
RECORDS = [
    {
        "amount": None if i % 11 == 3 else float(RNG.normal(y == "spam")),
        "count": int(RNG.integers(5)),
        "known": None if i % 7 == 1 else bool(RNG.random() < (0.9 if y == "spam" else 0.2)),
        "colour": None if i % 13 == 5 else str(RNG.choice(["red", "blue"])),
    }
    for i, y in enumerate(LABELS)
]
TYPES = {"amount": pl.Float64, "count": pl.Int64, "known": pl.Boolean, "colour": pl.String}


def in_pandas(records):
    return pd.DataFrame(records)


def in_nullable_pandas(records):
    frame = pd.DataFrame(records).convert_dtypes()
    return frame.astype({"colour": "category"})


def in_polars(records):
    return pl.DataFrame(records, schema=TYPES)


def in_polars_categories(records):
    return pl.DataFrame(records, schema=TYPES).with_columns(pl.col("colour").cast(pl.Categorical))


def in_arrow(records):
    return in_polars(records).to_arrow()


FRAMES = [in_pandas, in_nullable_pandas, in_polars, in_polars_categories, in_arrow]
SERIES = {
    "pandas": pd.Series,
    "polars": pl.Series,
    "pyarrow": lambda values: pa.chunked_array([values]),
}


def series_like(frame, values):
    return SERIES[type(frame).__module__.split(".")[0]](values)


def model(**settings):
    estimator = SketchLogitBoostClassifier(n_estimators=10)
    return StreamBoostClassifier(**{"estimator": estimator, "seed": 1, **settings})


def trained(**settings):
    learned = model(**settings)
    for x, y in zip(RECORDS[:80], LABELS, strict=False):
        learned.learn_one(x, y)
    return learned


@pytest.mark.parametrize("made", FRAMES)
def test_frames_of_every_library_teach_and_are_predicted_as_their_records(made):
    one, many = trained(), model()
    frame = made(RECORDS[:80])
    many.learn_many(frame, series_like(frame, LABELS[:80]))
    rest = made(RECORDS[80:])
    wanted = [one.predict_proba_one(x) for x in RECORDS[80:]]
    answers = many.predict_proba_many(rest)
    assert type(answers) is type(rest)
    got = [[row[label] for label in ("ham", "spam")] for row in rows_of(answers)]
    assert got == [[row[label] for label in ("ham", "spam")] for row in wanted]
    labels = many.predict_many(rest)
    assert type(labels) is type(series_like(rest, ["ham"]))
    assert list_of(labels) == [one.predict_one(x) for x in RECORDS[80:]]


def rows_of(frame):
    return (
        frame.to_dict("records") if isinstance(frame, pd.DataFrame) else as_polars(frame).to_dicts()
    )


def as_polars(frame):
    return pl.from_arrow(frame) if isinstance(frame, pa.Table) else frame


def list_of(series):
    return series.to_pylist() if isinstance(series, pa.ChunkedArray) else list(series)


def test_a_record_batch_is_predicted_as_its_table():
    (batch,) = in_arrow(RECORDS[:80]).combine_chunks().to_batches()
    many = model()
    many.learn_many(batch, pa.array(LABELS[:80]))
    assert many.predict_proba_many(batch) == trained().predict_proba_many(pa.table(batch))
    assert many.predict_many(batch) == trained().predict_many(pa.table(batch))


@pytest.mark.parametrize("made", FRAMES)
def test_nothing_is_predicted_of_a_frame_before_the_first_label(made):
    frame = made(RECORDS[:2])
    assert list_of(model().predict_many(frame)) == [None, None]
    assert type(model().predict_proba_many(frame)) is type(frame)


@pytest.mark.parametrize("labels", [[True, False], [3, 4], ["a", True]], ids=str)
def test_labels_of_every_kind_come_back_in_a_polars_series(labels):
    learned = model()
    for i in range(30):
        learned.learn_one({"a": i % 2}, labels[i % 2])
    frame = pl.DataFrame({"a": [0, 1]})
    assert learned.predict_many(frame).to_list() == labels
    assert learned.predict_proba_many(frame).columns == [str(label) for label in labels]


def test_labels_that_read_alike_cannot_name_the_columns_of_polars():
    learned = model()
    for i in range(30):
        learned.learn_one({"a": i % 2}, ["1", 1][i % 2])
    with pytest.raises(DataError, match=r"'1', 1\] would name columns alike.*pandas"):
        learned.predict_proba_many(pl.DataFrame({"a": [0, 1]}))


def test_a_pandas_frame_may_have_columns_named_by_numbers():
    learned = model()
    frame = pd.DataFrame({0: [0.0, 1.0] * 20, True: [1, 2] * 20})
    learned.learn_many(frame, pd.Series(["low", "high"] * 20))
    assert learned.predict_many(frame[:2]).tolist() == ["low", "high"]


@pytest.mark.parametrize("numpy_too", [bool, np.bool_])
def test_booleans_are_features(numpy_too):
    learned = model()
    for i in range(40):
        learned.learn_one({"flag": numpy_too(i % 2)}, "on" if i % 2 else "off")
    assert [learned.predict_one({"flag": numpy_too(b)}) for b in (0, 1)] == ["off", "on"]


# Weights


def chances(learned):
    return np.array([list(learned.predict_proba_one(x).values()) for x in RECORDS])


@pytest.mark.parametrize("schedule", [None, Schedule.per_label()], ids=["default", "per label"])
def test_heavier_records_pull_predictions_their_way(schedule):
    light, heavy = model(schedule=schedule), model(schedule=schedule)
    for x, y in zip(RECORDS, LABELS, strict=True):
        light.learn_one(x, y)
        heavy.learn_one(x, y, w=5.0 if y == "spam" else 1.0)
    spam = list(light.predict_proba_one(RECORDS[0])).index("spam")
    assert chances(heavy)[:, spam].mean() > chances(light)[:, spam].mean() + 0.1


def test_a_weight_of_zero_teaches_nothing():
    told, untold = (trained(label_lags=1, coverage=0.9) for _ in range(2))
    for one in (told, untold):
        one.predict_one({"amount": 9.0})
    told.learn_one({"new": 1.0, "amount": 9.0}, "unheard of", w=0)
    np.testing.assert_array_equal(chances(told), chances(untold))
    assert told.predict_set_one(RECORDS[0]) == untold.predict_set_one(RECORDS[0])
    told.learn_one({"new": 1.0}, "ham")


@pytest.mark.parametrize("made", FRAMES)
def test_weights_of_many_are_those_of_each(made):
    weights = RNG.random(80).round(2).tolist()
    one, many = model(), model()
    for x, y, w in zip(RECORDS, LABELS, weights, strict=False):
        one.learn_one(x, y, w)
    frame = made(RECORDS[:80])
    given = series_like(frame, weights)
    many.learn_many(frame, series_like(frame, LABELS[:80]), given)
    np.testing.assert_array_equal(chances(one), chances(many))


@pytest.mark.parametrize(
    "weights", [2.5, [2.5] * 80, np.full(80, 2.5)], ids=["one", "list", "array"]
)
def test_one_weight_may_count_for_all(weights):
    one, many = model(), model()
    for x, y in zip(RECORDS[:80], LABELS, strict=False):
        one.learn_one(x, y, w=2.5)
    many.learn_many(in_pandas(RECORDS[:80]), pd.Series(LABELS[:80]), w=weights)
    np.testing.assert_array_equal(chances(one), chances(many))


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "much", None])
def test_weights_that_cannot_be_are_refused_and_nothing_is_learned(wrong):
    learned = model()
    with pytest.raises(DataError, match="weight"):
        learned.learn_one({"a": 1.0}, "ham", w=wrong)
    with pytest.raises(DataError, match="weight"):
        learned.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(["ham"] * 2), w=[1, wrong])
    assert learned.predict_one({"a": 1.0}) is None


@pytest.mark.parametrize("labels", [("ham", "spam"), (False, True), (1, 0)], ids=str)
@pytest.mark.quick_once
def test_classes_weigh_by_their_labels(labels):
    rare, found = np.random.default_rng(5).random(200) < 0.1, []
    for weights in ({labels[1]: 20}, "balanced", None):
        estimator = SketchLogitBoostClassifier(n_estimators=5, class_weight=weights)
        learned = model(estimator=estimator)
        for i, is_rare in enumerate(rare):
            learned.learn_one({"a": np.sin(i) + is_rare}, labels[int(is_rare)])
        said = [learned.predict_proba_one({"a": a})[labels[1]] for a in np.arange(-1, 2, 0.1)]
        found.append(np.mean(said))
    assert min(found[:2]) > found[2] + 0.2
    assert estimator.class_weight is None


# Words that are called as fields are

MAILS = [
    ({"text": "pay the amount now", "amount": 12.5, "country": "DE"}, "spam"),
    ({"text": "hello friend", "amount": 3.0, "country": "FR"}, "ham"),
    ({"text": "which country is it", "amount": 99.0, "country": "DE"}, "ham"),
]


def test_a_word_that_is_called_as_a_field_stops_no_prediction():
    words = feature_extraction.BagOfWords(on="text")
    pipeline = (words + compose.Select("country")) | model()
    for x, y in MAILS[:2] * 10:
        pipeline.learn_one(x, y)
    assert pipeline.predict_one(MAILS[2][0]) in ("ham", "spam")
    assert sum(pipeline.predict_proba_one(MAILS[2][0]).values()) == pytest.approx(1)


@pytest.mark.parametrize("first", [0, 2], ids=["the field comes first", "the word comes first"])
def test_learning_a_word_that_is_called_as_a_field_raises_nothing(first):
    words = feature_extraction.BagOfWords(on="text")
    pipeline = (words + compose.Select("country")) | model()
    for x, y in [MAILS[first], MAILS[2 - first]] * 10:
        pipeline.learn_one(x, y)
    assert pipeline.predict_one(MAILS[0][0]) == "spam"


def test_words_behind_a_prefix_and_fields_stay_apart():
    words = feature_extraction.BagOfWords(on="text") | compose.Prefixer("word ")
    pipeline = (words + compose.Select("amount", "country")) | model()
    for x, y in MAILS * 10:
        pipeline.learn_one(x, y)
    assert [pipeline.predict_one(x) for x, _ in MAILS] == ["spam", "ham", "ham"]
