import pickle
import shutil
import sys

import numpy as np
import pytest

from streamboost.encoders import SentenceEncoders
from streamboost.errors import ConfigurationError


def made(folder, name, body):
    (folder / f"{name}.py").write_text(body)
    return SentenceEncoders(folder).load(f"{name}:encode")


GOOD = """
import numpy as np
calls = []
def encode(texts):
    calls.append(list(texts))
    return np.array([[len(text), text.count("a")] for text in texts])
"""


def test_function_gets_distinct_texts(tmp_path):
    encoder = made(tmp_path, "own_encoder", GOOD)
    vectors = encoder.encode(["a", "bb", "a"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 1], [2, 0], [1, 1]]
    assert sys.modules["own_encoder"].calls[1:] == [["a", "bb"]]
    assert encoder.size == 2
    assert encoder.digest is None
    assert pickle.loads(pickle.dumps(encoder)).encode(["a"]).tolist() == [[1, 1]]
    assert encoder.encode([]).shape == (0, 2)


@pytest.mark.parametrize("file", ["twice.py", "twice/encoder.py", "twice/__init__.py"])
@pytest.mark.parametrize("has_init", [False, True])
def test_function_is_taken_from_its_own_folder(tmp_path, file, has_init):
    """Two pipelines of one process may each have a module of the same name."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for known in [name for name in sys.modules if name.partition(".")[0] == "twice"]:
        del sys.modules[known]  # of another case
    for size in (1, 2, 1, 2):
        place = tmp_path / str(size) / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if has_init and "/" in file:
            (place.parent / "__init__.py").touch()
        place.write_text(
            f"import numpy as np\ndef encode(texts): return np.full((1, {size}), {size})"
        )
        folder = tmp_path / str(size)
        assert SentenceEncoders(folder).load(f"{module}:encode").encode(["a"]).tolist() == [
            [size] * size
        ]
        loaded = sys.modules[module]
        assert SentenceEncoders(folder).load(f"{module}:encode").size == size
        assert sys.modules[module] is loaded  # the same file keeps its module


def test_function_of_a_later_import_is_taken_from_its_own_folder(tmp_path):
    for size in (1, 2):
        folder = tmp_path / str(size)
        folder.mkdir()
        for name in ("first_of_two", "second_of_two"):
            (folder / f"{name}.py").write_text(f"def encode(texts): return [[1.0] * {size}]")
        assert SentenceEncoders(folder).load("first_of_two:encode").size == size
    assert SentenceEncoders(tmp_path / "1").load("second_of_two:encode").size == 1
    shutil.rmtree(tmp_path / "1")
    assert SentenceEncoders(tmp_path / "2").load("second_of_two:encode").size == 2


def test_vector_that_is_not_finite_is_missing(tmp_path):
    body = "def encode(texts): return [[1e300 if 'x' in t else 1, 2] for t in texts]"
    vectors = made(tmp_path, "infinite_encoder", body).encode(["x", "y"])
    np.testing.assert_array_equal(vectors, [[np.nan, np.nan], [1, 2]])


LATER = "import numpy as np\ndef encode(texts):\n    if texts == ['text']: return [[1.0, 2.0]]\n"
FAULTS = {
    "a vector too few": ("return [[1.0, 2.0]] * (len(texts) - 1)", "shape (1, 2) for 2 texts"),
    "another width": ("return [[1.0]] * len(texts)", "shape (2, 1) for 2 texts: return (2, 2)"),
    "no matrix": ("return np.zeros(len(texts))", "shape (2,) for 2 texts"),
    "several widths": ("return [[1.0], [1.0, 2.0]]", "returned a list for 2 texts"),
    "nothing": ("return None", "encoder 'FAULTY:encode' returned"),
    "words": ("return ['a', 'b']", "returned a list for 2 texts"),
    "an exception": ("raise OSError('no network')", "OSError: no network; fix the function"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_result_is_refused_with_the_remedy(tmp_path, fault):
    name = f"faulty_{fault.replace(' ', '_')}"
    body, text = FAULTS[fault]
    encoder = made(tmp_path, name, f"{LATER}    {body}\n")
    with pytest.raises(ConfigurationError) as error:
        encoder.encode(["a", "b"])
    assert text.replace("FAULTY", name) in str(error.value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("other = 1", "cannot be imported: AttributeError"),
        ("def encode(texts): return [[]]", "shape (1, 0)"),
        ("encode = 1", "TypeError"),
    ],
)
def test_function_that_cannot_be_used_is_refused_at_once(tmp_path, body, text):
    with pytest.raises(ConfigurationError) as error:
        made(tmp_path, f"unusable_{len(body)}", body)
    assert text in str(error.value)
