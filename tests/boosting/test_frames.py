"""Frames of pandas, polars and pyarrow: columns matched by name, categories by value."""

import pickle
from functools import cache

import families
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

from streamboost import (
    Committee,
    GambleClassifier,
    RebelClassifier,
    SketchLogitBoostClassifier,
    StreamLearner,
)
from streamboost.errors import ConfigurationError, DataError, ModelFileError

COLOURS = np.array(["red", "amber", "green", "blue", "mauve"])
RNG = np.random.default_rng(0)
N = 300
OF = RNG.integers(0, 5, N)
GONE = RNG.random(N) < 0.1
COLUMNS = {
    "size": RNG.standard_normal(N).round(3).tolist(),
    "colour": [None if gone else str(c) for c, gone in zip(COLOURS[OF], GONE, strict=True)],
    "flag": [bool(b) for b in RNG.random(N) < 0.5],
    "count": RNG.integers(0, 9, N).tolist(),
}
Y = np.where(np.isin(OF, [0, 2, 4]) & ~GONE, "stop", "go")
CODES = {name: code for code, name in enumerate(sorted(COLOURS.tolist()))}
AS_NUMBERS = np.column_stack(
    [
        COLUMNS["size"],
        [np.nan if c is None else CODES[c] for c in COLUMNS["colour"]],
        COLUMNS["flag"],
        COLUMNS["count"],
    ]
).astype(float)


def in_pandas(columns=COLUMNS):
    return pd.DataFrame(columns).astype({"colour": "category"})


def in_nullable_pandas(columns=COLUMNS):
    return pd.DataFrame(columns).convert_dtypes().astype({"colour": "category"})


def in_categorical(columns=COLUMNS):
    return pl.DataFrame(columns).with_columns(pl.col("colour").cast(pl.Categorical))


def in_enum(columns=COLUMNS):
    return pl.DataFrame(columns).with_columns(pl.col("colour").cast(pl.Enum(COLOURS.tolist())))


def in_arrow(columns=COLUMNS):
    return in_categorical(columns).to_arrow()


def in_batch(columns=COLUMNS):
    (batch,) = in_arrow(columns).combine_chunks().to_batches()
    return batch


FRAMES = [in_pandas, in_nullable_pandas, in_categorical, in_enum, in_arrow, in_batch]


def model(**settings):
    return SketchLogitBoostClassifier(**{"n_estimators": 10, "random_state": 0, **settings})


def trees(**settings):
    return model(**settings, max_leaf_nodes=4)


@cache
def scores_by_codes():
    """What columns of codes score; nothing is trained while each worker collects the tests."""
    return trees(categorical_features=[1]).fit(AS_NUMBERS, Y).decision_function(AS_NUMBERS)


@pytest.mark.parametrize("fitted", FRAMES)
def test_a_frame_of_one_library_trains_and_of_each_scores(fitted):
    trained = trees().fit(fitted(), Y)
    assert trained.feature_names_in_.tolist() == list(COLUMNS)
    for scored in FRAMES:
        np.testing.assert_array_equal(trained.decision_function(scored()), scores_by_codes())


@pytest.mark.parametrize(
    "family", families.others_slow(families.ESTIMATORS), ids=lambda one: one.__name__
)
def test_every_family_reads_categories_from_types(family):
    estimator = family(n_estimators=3, random_state=0)
    assert estimator.categorical_features == "from_dtype"
    by_codes = clone(estimator).set_params(categorical_features=[1]).fit(AS_NUMBERS, Y)
    by_type = estimator.fit(in_enum(), Y)
    wanted = by_codes.decision_function(AS_NUMBERS)
    np.testing.assert_array_equal(by_type.decision_function(in_pandas()), wanted)


@pytest.mark.parametrize("chosen", ["from_dtype", None, []])
def test_an_array_has_no_categories_unless_they_are_chosen(chosen):
    plain = trees(categorical_features=chosen).fit(AS_NUMBERS, Y)
    assert not len(plain.committee_.learners.category_codes)


def test_frames_with_other_codes_for_the_categories_score_the_same():
    trained = trees().fit(in_pandas(), Y)
    turned = in_pandas()
    turned["colour"] = turned["colour"].cat.reorder_categories(COLOURS[::-1])
    np.testing.assert_array_equal(trained.decision_function(turned), scores_by_codes())
    few = turned[:20].assign(colour=lambda x: x["colour"].cat.remove_unused_categories())
    np.testing.assert_array_equal(trained.decision_function(few), scores_by_codes()[:20])


def test_a_category_that_no_training_met_is_missing():
    trained = trees().fit(in_pandas(), Y)
    new, none = (in_categorical(COLUMNS | {"colour": [c] * N}) for c in ("violet", None))
    np.testing.assert_array_equal(trained.predict_proba(new), trained.predict_proba(none))


@pytest.mark.parametrize("made", FRAMES)
def test_an_extension_meets_new_categories_by_their_values(made):
    later = COLUMNS | {"colour": [c and c.upper() for c in COLUMNS["colour"]]}
    numbers = AS_NUMBERS.copy()
    numbers[:, 1] += 5
    if made is in_enum:

        def made(columns):
            every = [*COLOURS, *(c.upper() for c in COLOURS)]
            return pl.DataFrame(columns).with_columns(pl.col("colour").cast(pl.Enum(every)))

    turned = np.where(Y == "go", "stop", "go")
    one = trees().fit(made(COLUMNS), Y).extend(made(later), turned, n_estimators=20)
    two = trees(categorical_features=[1]).fit(AS_NUMBERS, Y)
    two.extend(numbers, turned, n_estimators=20)
    for frame, rows in ((made(COLUMNS), AS_NUMBERS), (made(later), numbers)):
        np.testing.assert_array_equal(one.decision_function(frame), two.decision_function(rows))


@pytest.mark.parametrize("made", [in_pandas, in_categorical])
def test_names_are_checked_as_scikit_learn_does(made):
    trained = trees().fit(made(), Y)
    theirs = DecisionTreeClassifier().fit(pd.DataFrame(AS_NUMBERS, columns=list(COLUMNS)), Y)
    order = list(COLUMNS)[::-1]
    for wrong in (made()[order], made()[order[1:]], made(COLUMNS | {"more": COLUMNS["size"]})):
        with pytest.raises(ValueError, match="feature names should match") as ours:
            trained.predict(wrong)
        with pytest.raises(ValueError, match="feature names should match") as known:
            theirs.predict(wrong)
        assert str(ours.value) == str(known.value)


def test_an_array_cannot_stand_for_a_frame_with_categories():
    trained = trees().fit(in_pandas(), Y)
    for call in (trained.predict, lambda X: trained.extend(X, Y)):
        with pytest.raises(DataError, match=r"no frame.*\['colour'\]: give such a frame"):
            call(AS_NUMBERS)
    np.testing.assert_array_equal(trained.predict(in_pandas()), trained.predict(in_enum()))


def test_an_estimator_can_be_fitted_to_an_array_after_a_frame():
    again = trees().fit(in_pandas(), Y).fit(AS_NUMBERS, Y)
    plain = trees().fit(AS_NUMBERS, Y)
    np.testing.assert_array_equal(again.predict_proba(AS_NUMBERS), plain.predict_proba(AS_NUMBERS))
    assert again.committee_.columns is None


def test_a_frame_of_numbers_is_an_array_with_names():
    numbers = {name: values for name, values in COLUMNS.items() if name != "colour"}
    wanted = trees().fit(AS_NUMBERS[:, [0, 2, 3]], Y).decision_function(AS_NUMBERS[:, [0, 2, 3]])
    for frame in (pd.DataFrame(numbers), pl.DataFrame(numbers)):
        got = trees().fit(frame, Y).decision_function(frame)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("names", [[0, 1], [("a", 1), ("b", 2)]], ids=str)
def test_columns_without_names_of_their_own_go_by_their_place(names):
    frame = pd.DataFrame(AS_NUMBERS[:, [0, 3]])
    frame.columns = pd.Index(names, tupleize_cols=False)
    trained = trees().fit(frame, Y)
    wanted = trees().fit(AS_NUMBERS[:, [0, 3]], Y).predict_proba(AS_NUMBERS[:, [0, 3]])
    np.testing.assert_array_equal(trained.predict_proba(frame), wanted)


def test_categories_may_be_numbers_times_and_ranges():
    values = pd.Series(AS_NUMBERS[:, 0])
    frame = pd.DataFrame(
        {
            "number": pd.Categorical(AS_NUMBERS[:, 3] * 10 - 40),
            "range": pd.cut(values, 4),
            "day": pd.Categorical(pd.to_datetime("2026-01-01") + pd.to_timedelta(OF, unit="D")),
            "mixed": pd.Categorical([("a", 1, 2.5, True)[i % 4] for i in range(N)]),
        }
    )
    trained = trees(n_estimators=40).fit(frame, Y)
    assert trained.score(frame, Y) > 0.9
    assert sorted(trained.committee_.learners.category_codes.features) == [0, 1, 2, 3]
    again = Committee.from_arrays(trained.committee_.to_arrays())
    np.testing.assert_array_equal(again.class_scores(frame), trained.committee_.class_scores(frame))


def test_values_that_are_no_numbers_may_be_chosen_by_name_or_place():
    text = pd.DataFrame(COLUMNS)
    for chosen in (["colour"], [1], [False, True, False, False]):
        for frame in (text, pl.DataFrame(COLUMNS)):
            trained = trees(categorical_features=chosen).fit(frame, Y)
            np.testing.assert_array_equal(trained.decision_function(frame), scores_by_codes())


def test_numbers_that_are_chosen_are_codes_as_in_an_array():
    frame = pd.DataFrame(AS_NUMBERS, columns=list(COLUMNS))
    trained = trees(categorical_features=["colour"]).fit(frame, Y)
    np.testing.assert_array_equal(trained.decision_function(frame), scores_by_codes())
    np.testing.assert_array_equal(
        trained.committee_.class_scores(AS_NUMBERS)[:, 1], scores_by_codes() / 2
    )


# What cannot be read


TEXTS = [
    pd.DataFrame(COLUMNS),
    pd.DataFrame(COLUMNS).convert_dtypes(),
    pl.DataFrame(COLUMNS),
    pl.DataFrame(COLUMNS).to_arrow(),
]


@pytest.mark.parametrize("frame", TEXTS, ids=["object", "string", "String", "arrow"])
def test_text_is_refused_with_its_column_and_the_mend(frame):
    value = next(c for c in COLUMNS["colour"] if c)
    message = f"column 'colour' holds '{value}', which is no number: make it a category"
    with pytest.raises(DataError, match=message) as refused:
        trees().fit(frame, Y)
    assert "X.astype({'colour': 'category'})" in str(refused.value)
    assert "X.cast({'colour': pl.Categorical})" in str(refused.value)
    with pytest.raises(DataError, match=message):
        trees().fit(in_pandas(), Y).fit(frame, Y)


def test_the_mend_mends():
    for frame in (
        TEXTS[0].astype({"colour": "category"}),
        TEXTS[2].cast({"colour": pl.Categorical}),
    ):
        np.testing.assert_array_equal(
            trees().fit(frame, Y).decision_function(frame), scores_by_codes()
        )


def test_categories_that_are_not_wanted_are_refused_as_text():
    with pytest.raises(DataError, match=r"column 'colour' holds .*name it in categorical_features"):
        trees(categorical_features=None).fit(in_pandas(), Y)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pd.to_datetime(["2026-01-01"] * 4), "column 'x' holds times.*the hour"),
        (pl.datetime_range(pl.datetime(2026, 1, 1), pl.datetime(2026, 1, 4), eager=True), "times"),
        (pl.Series([[1], [2], [3], [4]]), r"column 'x' holds .*List\(Int64\)"),
        (pl.Series([[1, 2]] * 4, dtype=pl.Array(pl.Int64, 2)), r"column 'x' holds .*Array"),
        (pl.Series([{"a": 1}] * 4), r"column 'x' holds \{'a': 1\} \(Struct"),
        (pd.Series([{"a": 1}] * 4), r"column 'x' holds \{'a': 1\} \(Object\)"),
        (pd.Series([1, 2, 3j, 4]), r"column 'x' holds 1?.*which is no number|cannot be read"),
    ],
    ids=["pandas times", "polars times", "list", "array", "struct", "dict", "complex"],
)
def test_other_values_are_refused_with_their_column(values, words):
    maker = pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame
    with pytest.raises(DataError, match=words):
        trees().fit(maker({"n": [1.0, 2.0, 3.0, 4.0], "x": values}), Y[:4])


def test_a_lazy_frame_is_refused_with_the_mend():
    with pytest.raises(DataError, match=r"give X\.collect\(\)"):
        trees().fit(in_enum().lazy(), Y)
    with pytest.raises(DataError, match=r"give X\.collect\(\)"):
        trees().fit(in_enum(), Y).predict(in_enum().lazy())


def test_columns_of_a_record_batch_go_by_their_names():
    trained = trees().fit(in_batch(), Y)
    turned = in_batch().select(list(COLUMNS)[::-1])
    committee, wanted = trained.committee_, trained.committee_.class_scores(in_pandas())
    np.testing.assert_array_equal(committee.class_scores(turned), wanted)
    *_, last = committee.staged_scores(turned)
    np.testing.assert_array_equal(last, wanted)
    for method in (trained.predict, trained.predict_proba, trained.decision_function):
        with pytest.raises(ValueError, match="same order"):  # as scikit-learn has it of any frame
            method(turned)


def test_a_stream_of_record_batches_is_refused_with_the_remedy():
    batches = pa.RecordBatchReader.from_batches(in_batch().schema, [in_batch()])
    with pytest.raises(DataError, match=r"give X\.read_all\(\)"):
        trees().fit(batches, Y)
    with pytest.raises(DataError, match=r"give X\.read_all\(\)"):
        trees().fit(in_enum(), Y).committee_.class_scores(batches)


@pytest.mark.parametrize("made", [in_pandas, in_enum])
def test_labels_must_be_given(made):
    with pytest.raises(ValueError, match="requires y to be passed"):
        trees().fit(made(), None)


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame])
def test_infinities_are_refused_and_numbers_as_text_or_objects_are_numbers(made):
    y = ["a", "b"] * 20
    with pytest.raises(ValueError, match="infinity or a value too large"):
        trees().fit(made({"x": [1.0, float("inf")] * 20}), y)
    with pytest.raises(ValueError, match="infinity or a value too large"):
        trees().fit(made({"x": [1.0, 1e300] * 20}), y)
    assert trees().fit(made({"x": ["1.5", "2"] * 20}), y).score(made({"x": [1.5, 2.0]}), y[:2]) == 1


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame])
def test_booleans_are_numbers_and_may_be_missing(made):
    frame = made({"x": [True, False, None, True, False, None] * 10, "n": [0.0] * 60})
    y = np.array(["yes", "no", "unknown"] * 20)
    assert trees(min_child_weight=0.01).fit(frame, y).score(frame, y) == 1


@pytest.mark.parametrize(
    "labels", [pl.Series, pd.Series, lambda y: pd.Series(y).astype("category")]
)
def test_labels_and_weights_may_be_series(labels):
    weight = np.linspace(0, 2, N)
    one = trees().fit(in_enum(), Y, sample_weight=weight)
    given = pl.Series(weight) if labels is pl.Series else pd.Series(weight)
    two = trees().fit(in_enum(), labels(Y.tolist()), sample_weight=given)
    np.testing.assert_array_equal(one.predict_proba(in_enum()), two.predict_proba(in_enum()))


@pytest.mark.parametrize(
    "estimator",
    [
        GambleClassifier(weak_learner=Ridge()),
        RebelClassifier(weak_learner="localized_similarity"),
        GambleClassifier(pruning="quick"),
    ],
    ids=str,
)
def test_what_knows_no_categories_says_so_of_a_frames(estimator):
    with pytest.raises(ConfigurationError, match="categor"):
        estimator.fit(in_pandas(), Y)
    numbers = in_pandas().drop(columns="colour")
    assert estimator.set_params(n_estimators=3).fit(numbers, Y).score(numbers, Y) > 0.5


@pytest.mark.parametrize("made", [in_pandas, in_categorical])
def test_cross_validation_takes_frames(made):
    assert cross_val_score(trees(n_estimators=30), made(), Y, cv=3).mean() > 0.9


# Committees


@pytest.mark.parametrize("made", FRAMES)
def test_a_saved_committee_reads_frames_as_the_estimator_does(made, tmp_path):
    trained = trees().fit(made(), Y)
    trained.committee_.save(tmp_path / "model")
    again = Committee.load(tmp_path / "model")
    wanted = trained.committee_.class_scores(made())
    np.testing.assert_array_equal(wanted[:, 1] - wanted[:, 0], scores_by_codes())
    for frame in (made(), in_enum(), in_pandas()):
        np.testing.assert_array_equal(again.class_scores(frame), wanted)
    *_, last = again.staged_scores(made())
    np.testing.assert_array_equal(last, wanted)
    twin = pickle.loads(pickle.dumps(trained))
    np.testing.assert_array_equal(twin.decision_function(in_pandas()), scores_by_codes())


def test_a_committee_finds_columns_by_name_and_names_those_that_it_lacks():
    committee = trees().fit(in_pandas(), Y).committee_
    wanted = committee.class_scores(in_pandas())
    turned = in_pandas(COLUMNS | {"more": COLUMNS["size"]}).iloc[:, ::-1]
    np.testing.assert_array_equal(committee.class_scores(turned), wanted)
    with pytest.raises(DataError, match=r"X lacks the columns \['colour', 'flag'\]"):
        committee.class_scores(in_pandas()[["size", "count"]])


def test_a_committee_reads_arrays_by_codes():
    committee = trees().fit(in_pandas(), Y).committee_
    np.testing.assert_array_equal(
        committee.class_scores(AS_NUMBERS), committee.class_scores(in_pandas())
    )


def test_a_committee_that_is_extended_keeps_its_columns():
    trained = trees().fit(in_pandas(), Y)
    longer = trained.train(
        AS_NUMBERS.astype(np.float32), Y, seed=1, committee=trained.committee_, n_estimators=3
    )
    assert longer.n_rounds == trained.committee_.n_rounds + 3
    np.testing.assert_array_equal(longer.class_scores(in_enum()), longer.class_scores(AS_NUMBERS))


def test_a_committee_that_is_extended_by_further_columns_goes_by_their_place():
    numbers = {name: values for name, values in COLUMNS.items() if name != "colour"}
    trained = trees().fit(pd.DataFrame(numbers), Y)
    wide = np.column_stack([AS_NUMBERS[:, [0, 2, 3]], AS_NUMBERS[:, 0]]).astype(np.float32)
    longer = trained.train(wide, Y, seed=1, committee=trained.committee_, n_estimators=3)
    again = Committee.from_arrays(longer.to_arrays())
    np.testing.assert_array_equal(again.class_scores(wide), longer.class_scores(wide))
    assert again.columns is None


def test_committee_of_arrays_has_no_columns_after_it_was_saved():
    arrays = trees().fit(AS_NUMBERS, Y).committee_.to_arrays()
    assert Committee.from_arrays(arrays).columns is None


@pytest.mark.parametrize(
    "damage",
    [(b'"size","colour"', b'"size","col,ur"'), (b'[[1,["amber"', b'[[3,["amber"')],
    ids=["a name", "a place"],
)
def test_tables_that_do_not_fit_are_refused_or_read_by_name(damage):
    arrays = trees().fit(in_pandas(), Y).committee_.to_arrays()
    about = arrays["about"].tobytes()
    assert damage[0] in about
    arrays["about"] = np.frombuffer(about.replace(*damage), dtype=np.uint8)
    with pytest.raises((ModelFileError, DataError), match=r"damaged|lacks the columns"):
        Committee.from_arrays(arrays).class_scores(in_pandas())


def test_a_learner_that_is_handed_a_committee_of_frames_serves_it():
    committee = trees().fit(in_pandas(), Y).committee_
    learner = StreamLearner()
    learner.deploy(committee)
    twin = StreamLearner.restore(learner.snapshot())
    assert twin.committee.columns.names == tuple(COLUMNS)
    np.testing.assert_array_equal(twin.predict(AS_NUMBERS), learner.predict(AS_NUMBERS))


def test_a_learner_trains_on_arrays_what_an_estimator_fitted_to_a_frame_describes():
    estimator = trees().fit(in_pandas(), Y)
    learner = StreamLearner(estimator)
    learner.learn([str(i) for i in range(N)], AS_NUMBERS, Y)
    assert not len(learner.committee.learners.category_codes)
