import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from streamboost.encoders import SentenceEncoders
from streamboost.errors import ConfigurationError
from tests.encoders import minilm, tiny


def loaded(folder, name=".", threads=1):
    return SentenceEncoders(folder, threads).load(name)


def expected_vector(text, seed=0):
    words = [tiny.WORDS.index(word) if word in tiny.WORDS else 0 for word in text.split()]
    vector = tiny.word_vectors(seed)[words].mean(axis=0)
    return vector / np.linalg.norm(vector)


def test_vector_is_the_normalized_mean_of_the_token_vectors(tmp_path):
    encoder = loaded(tiny.write_encoder(tmp_path))
    texts = ["lunch rent", "gift", "voucher urgent gift elsewhere"]
    np.testing.assert_allclose(
        encoder.encode(texts), [expected_vector(text) for text in texts], atol=1e-6
    )
    assert encoder.encode(texts).dtype == np.float32
    assert encoder.size == tiny.SIZE


def test_output_sentence_embedding_is_preferred(tmp_path):
    encoder = loaded(tiny.write_encoder(tmp_path, pooled=True))
    best = tiny.word_vectors()[[1, 2]].max(axis=0)
    np.testing.assert_allclose(
        encoder.encode(["lunch rent"])[0], best / np.linalg.norm(best), atol=1e-6
    )


@pytest.mark.parametrize(
    "inputs", [("input_ids",), ("input_ids", "attention_mask", "token_type_ids")]
)
def test_model_gets_the_inputs_that_it_names(tmp_path, inputs):
    encoder = loaded(tiny.write_encoder(tmp_path, inputs=inputs))
    np.testing.assert_allclose(encoder.encode(["gift"])[0], expected_vector("gift"), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_equal_texts_are_encoded_once(tmp_path, monkeypatch, threads):
    encoder = loaded(tiny.write_encoder(tmp_path / str(threads)), threads=threads)
    seen, original = [], encoder._encode_text
    monkeypatch.setattr(encoder, "_encode_text", lambda text: seen.append(text) or original(text))
    first = encoder.encode(["gift", "rent", "gift"])
    second = encoder.encode(["rent", "books"])
    assert sorted(seen) == ["books", "gift", "rent"]
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[1], second[0])


def test_cache_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["streamboost.encoders.onnx"], "CACHED", 3)
    encoder = loaded(tiny.write_encoder(tmp_path))
    texts = ["lunch", "rent", "books", "gift", "voucher"]
    np.testing.assert_allclose(encoder.encode(texts), [*map(expected_vector, texts)], atol=1e-6)
    assert len(encoder._cache) == 3
    np.testing.assert_allclose(encoder.encode(texts), [*map(expected_vector, texts)], atol=1e-6)


def test_vectors_are_equal_from_several_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["streamboost.encoders.onnx"], "CACHED", 2)
    encoder = loaded(tiny.write_encoder(tmp_path), threads=2)
    texts = tiny.WORDS[1:]
    expected = np.array([expected_vector(text) for text in texts])
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: encoder.encode(texts), range(50)):
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_text_longer_than_the_limit_is_truncated(tmp_path):
    encoder = loaded(tiny.write_encoder(tmp_path))
    vectors = encoder.encode(["gift " * 256 + "rent", "gift " * 256])
    np.testing.assert_array_equal(*vectors)


def test_text_without_tokens_has_nan(tmp_path):
    encoder = loaded(tiny.write_encoder(tmp_path))
    vectors = encoder.encode(["\u200b \n", "gift"])
    assert np.isnan(vectors[0]).all() or np.isfinite(vectors[0]).all()
    assert np.isnan(encoder.encode([" "])[0]).all()
    np.testing.assert_allclose(vectors[1], expected_vector("gift"), atol=1e-6)


def test_model_is_loaded_once(tmp_path):
    tiny.write_encoder(tmp_path / "model")
    encoder = loaded(tmp_path, "model")
    assert loaded(tmp_path, "model") is encoder
    assert copy.deepcopy(encoder) is encoder
    assert pickle.loads(pickle.dumps(encoder)) is encoder


def test_replaced_file_has_another_digest(tmp_path):
    before = loaded(tiny.write_encoder(tmp_path))
    after = loaded(tiny.write_encoder(tmp_path, seed=1))
    assert len(before.digest) == 64
    assert before.digest != after.digest
    np.testing.assert_allclose(after.encode(["gift"])[0], expected_vector("gift", 1), atol=1e-6)


@pytest.mark.parametrize("place", ["onnx/model.onnx", "other.onnx"])
def test_model_is_found_in_a_folder(tmp_path, place):
    tiny.write_encoder(tmp_path)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / "model.onnx").rename(tmp_path / place)
    assert loaded(tmp_path).size == tiny.SIZE
    assert loaded(tmp_path, place).size == tiny.SIZE


def _without(name):
    return lambda folder: (folder / name).unlink()


def _with(name, content):
    return lambda folder: (folder / name).write_bytes(content)


DAMAGES = {
    "no model": (_without("model.onnx"), "has no model.onnx"),
    "no tokenizer": (_without("tokenizer.json"), "tokenizer.json is missing"),
    "a damaged model": (_with("model.onnx", b"no model"), "give a valid ONNX model"),
    "a damaged tokenizer": (_with("tokenizer.json", b"{}"), "tokenizer.json cannot be read"),
    "another input": (
        lambda folder: tiny.write_encoder(folder, inputs=("input_ids", "position_ids")),
        "needs the input 'position_ids'",
    ),
    "two models": (
        lambda folder: (
            [
                (folder / f"{name}.onnx").write_bytes((folder / "model.onnx").read_bytes())
                for name in "ab"
            ]
            + [(folder / "model.onnx").unlink()]
        ),
        "has 2 files that end with .onnx",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_invalid_files_are_refused_with_the_remedy(tmp_path, damage):
    change, text = DAMAGES[damage]
    change(tiny.write_encoder(tmp_path / "model"))
    with pytest.raises(ConfigurationError, match=r"encoder 'model'") as error:
        loaded(tmp_path, "model")
    assert text in str(error.value)


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="does not exist: name a folder"):
        loaded(tmp_path, "nowhere")


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_missing_package_gives_the_command_that_installs_it(tmp_path, monkeypatch, package):
    tiny.write_encoder(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError) as error:
        loaded(tmp_path)
    assert str(error.value) == (
        f"encoder '.' needs the package {package}: install it with "
        "`pip install 'streamboost[encoders]'`"
    )


@pytest.fixture(scope="module")
def real():
    if (lack := minilm.missing()) is not None:
        pytest.skip(lack)
    return loaded(minilm.FOLDER.parent, minilm.FOLDER.name, threads=2)


def test_minilm_places_texts_of_one_meaning_together(real):
    money, bank, cat = real.encode(
        ["Where is my money?", "I cannot find my funds.", "The cat sleeps on the sofa."]
    )
    assert real.size == 384
    assert money @ bank > 0.5 > 0.2 > money @ cat


def test_minilm_vector_depends_on_its_text_alone(real):
    texts = [f"the parcel number {n} " + "has not arrived yet " * (n % 7) for n in range(20)]
    together = real.encode(texts)
    real._cache.clear()
    np.testing.assert_array_equal([real.encode([text])[0] for text in texts], together)


def test_minilm_reads_any_text(real):
    strange = ["\0", "a" * 10_000, "für \U0001f600 東京", "\n\t x", "[CLS] [PAD]", "\u202e abc"]
    assert np.isfinite(real.encode(strange)).all()
