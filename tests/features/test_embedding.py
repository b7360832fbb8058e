import numpy as np
import pytest

from streamboost.encoders import SentenceEncoders
from streamboost.errors import ConfigurationError, StateError
from streamboost.features import Features
from tests.encoders import tiny
from tests.features.making import STRANGE, assert_same_state


@pytest.fixture
def folder(tmp_path):
    tiny.write_encoder(tmp_path / "model")
    return tmp_path


def made(folder, **options):
    field = {"type": "text", "encoder": "model", **options}
    return Features({"a": field}, encoders=SentenceEncoders(folder))


def test_text_has_a_vector_in_addition_to_its_words(folder):
    features = made(folder)
    features.learn(("gift",), "fraud")
    assert features.names == [f"a[{i}]" for i in range(tiny.SIZE)] + ["words for fraud"]
    assert features.static_columns == list(range(tiny.SIZE))
    row = features.encode([("gift",)])[0]
    np.testing.assert_allclose(np.linalg.norm(row[: tiny.SIZE]), 1, rtol=1e-6)


def test_words_are_not_learned_with_text_false(folder):
    features = made(folder, text=False)
    features.learn(("gift",), "fraud")
    assert features.names == [f"a[{i}]" for i in range(tiny.SIZE)]
    assert features.fixed


def test_fields_share_one_encoder(folder):
    field = {"type": "text", "encoder": "model", "text": False}
    features = Features({"a": field, "b": field}, encoders=SentenceEncoders(folder))
    row = features.encode_arrivals([("gift", "rent")])[0].reshape(2, tiny.SIZE)
    np.testing.assert_array_equal(row, features.encode([("gift", "rent")]).reshape(2, tiny.SIZE))
    one, other = (features._encoders[key].encoder for key in "01")
    assert one is other


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_missing_text_has_a_missing_vector(folder, text):
    features = made(folder, text=False)
    assert np.isnan(features.encode_arrivals([(text,), ()])).all()
    assert not features.unreadable


@pytest.mark.parametrize("words", [True, False])
def test_value_that_is_no_text_is_missing_and_counted_once(folder, words):
    features = made(folder, text=words)
    rows = features.encode_arrivals([(7,), ("gift",), ([1],)])
    assert np.isnan(rows[[0, 2]]).all()
    assert np.isfinite(rows[1]).all()
    assert features.unreadable == {"a": 2}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
def test_any_value_gives_a_row(folder, value):
    features = made(folder)
    rows = features.encode_arrivals([(value,), ("gift",)])
    assert np.isfinite(rows[1]).all()
    features.learn((value,), "fraud")
    np.testing.assert_array_equal(features.encode([(value,)])[0, : tiny.SIZE], rows[0, : tiny.SIZE])


def test_vector_does_not_depend_on_the_other_records(folder):
    features = made(folder, text=False)
    texts = [(text,) for text in tiny.WORDS]
    together = features.encode_arrivals(texts)
    np.testing.assert_array_equal(together[3], features.encode([texts[3]])[0])


def test_characters_after_the_stored_ones_are_not_read(folder):
    features = made(folder, text=False)
    long = " " * 9_996 + "gift rent"
    np.testing.assert_array_equal(*features.encode_arrivals([(long,), (long[:10_000],)]))


def test_restored_features_give_the_same_rows(folder):
    features = made(folder)
    features.learn(("gift",), "fraud")
    about, arrays = features.state()
    restored = Features.restore(about, arrays, SentenceEncoders(folder))
    assert_same_state(features, restored)
    restored.check_encoders_unchanged()
    np.testing.assert_array_equal(features.encode([("gift",)]), restored.encode([("gift",)]))


def test_features_are_restored_without_the_model(folder):
    about, arrays = made(folder).state()
    (folder / "model" / "model.onnx").unlink()
    restored = Features.restore(about, arrays, SentenceEncoders(folder))
    assert len(restored) == tiny.SIZE
    with pytest.raises(ConfigurationError, match="field 'a': encoder 'model'"):
        restored.encode([("gift",)])


def test_encoder_with_other_files_is_refused(folder):
    about, arrays = made(folder).state()
    tiny.write_encoder(folder / "model", seed=1)
    restored = Features.restore(about, arrays, SentenceEncoders(folder))
    with pytest.raises(StateError, match="put those files back"):
        restored.check_encoders_unchanged()


def test_size_of_the_encoder_must_be_that_of_the_field(folder):
    made(folder, size=tiny.SIZE).encode([("gift",)])
    with pytest.raises(ConfigurationError, match="gives vectors of 6 numbers, and 5 are expected"):
        made(folder, size=5).encode([("gift",)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"encoder": ""}, "encoder is ''"),
        ({"encoder": 7}, "encoder is 7"),
        ({"encoder": "model", "text": "no"}, "text is 'no'"),
        ({"encoder": "model", "size": 0}, "size is 0"),
        ({"text": False}, "text = false needs an encoder"),
        ({"size": 384}, "size needs an encoder"),
        ({"encoder": "nowhere"}, "does not exist"),
        ({"encoder": "nowhere:encode"}, "cannot be imported"),
    ],
)
def test_invalid_option_is_refused_with_the_name_of_the_field(folder, options, text):
    with pytest.raises(ConfigurationError, match="field 'a': ") as error:
        Features({"a": {"type": "text", **options}}, encoders=SentenceEncoders(folder))
    assert text in str(error.value)


def test_failing_function_names_the_field(tmp_path):
    body = "def encode(texts):\n    return [[1.0, 2.0][: 1 + ('?' not in t)] for t in texts]\n"
    (tmp_path / "some_encoder.py").write_text(body)
    features = Features(
        {"a": {"type": "text", "encoder": "some_encoder:encode"}},
        encoders=SentenceEncoders(tmp_path),
    )
    with pytest.raises(ConfigurationError, match="field 'a': encoder 'some_encoder:encode'"):
        features.encode_arrivals([("why?",)])


def test_vector_that_is_not_finite_is_missing_and_counted(tmp_path):
    body = "def encode(texts):\n    return [[float('nan') if 'x' in t else 1, 2] for t in texts]\n"
    (tmp_path / "nan_encoder.py").write_text(body)
    field = {"type": "text", "encoder": "nan_encoder:encode", "text": False}
    features = Features({"a": field}, encoders=SentenceEncoders(tmp_path))
    rows = features.encode_arrivals([("y",), ("x",)])
    np.testing.assert_array_equal(rows, [[1, 2], [np.nan, np.nan]])
    assert features.unreadable == {"a": 1}
