import json
import os

import numpy as np
import pytest

from streamboost.errors import ModelFileError
from streamboost.storage import (
    encode_sealed_file,
    pack_json,
    read_arrays,
    unpack_json,
    write_arrays,
    write_bytes,
)


def test_arrays_and_manifest_come_back(tmp_path):
    arrays = {
        "counts": np.arange(5),
        "empty": np.zeros((0, 3), np.float32),
        "flags": np.array([True, False]),
        "scalar": np.array(2.5),
    }
    write_arrays(tmp_path / "file", arrays, kind="test", manifest={"zeros": "0" * 64})
    back, manifest = read_arrays(tmp_path / "file", kind="test")
    assert manifest == {"zeros": "0" * 64}
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


def test_a_file_that_begins_and_ends_like_a_pickle_is_read(tmp_path):
    path, arrays = tmp_path / "file", {"last": np.full(3, ord("."), np.uint8)}
    for n in range(300):  # until the header's length begins with the byte that a pickle begins with
        write_arrays(path, arrays, kind="test", manifest={"more": "x" * n})
        if path.read_bytes()[:1] == b"\x80":
            break
    assert path.read_bytes()[-1:] == b"."
    back, _ = read_arrays(path, kind="test")
    assert back["last"].tolist() == [46, 46, 46]


NOT_FINITE = [np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("other", [None, "null", 2**127, "\ud800", np.float64(0.1), {7: True}])
@pytest.mark.parametrize("number", [1.5, 1e16, 5e-324, -0.0, 0.1 + 0.2, 1.7976931348623157e308])
def test_json_keeps_its_values(number, other):
    value = {"seed": 2**63, "text": "ä", "list": [number, other, True]}
    assert repr(unpack_json(pack_json(value))) == repr(json.loads(json.dumps(value)))


@pytest.mark.parametrize("other", [None, 2**127])
@pytest.mark.parametrize("number", [*NOT_FINITE, -np.nan])
def test_json_keeps_numbers_that_are_not_finite(number, other):
    back, kept, more = unpack_json(pack_json([number, other, [7]]))
    assert np.array_equal(back, number, equal_nan=True)
    assert [kept, more] == [other, [7]]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_arrays(path, {"a": np.arange(3)}, kind="test")
    before = path.read_bytes()

    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="cannot be written: no space"):
        write_arrays(path, {"a": np.arange(4)}, kind="test")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_grew_is_refused(tmp_path):
    path = tmp_path / "file"
    write_arrays(path, {"a": np.arange(3)}, kind="test")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelFileError, match="too long"):
        read_arrays(path, kind="test")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ModelFileError, match="nowhere/file: cannot be written"):
        write_arrays(tmp_path / "nowhere" / "file", {"a": np.arange(3)}, kind="test")


@pytest.mark.parametrize("header", [b"5", b"[" * 100_000, b'{"__metadata__":{"streamboost":"7"}}'])
def test_headers_that_are_none_are_refused(tmp_path, header):
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelFileError, match="not a streamboost file"):
        read_arrays(tmp_path / "file", kind="test")


def test_a_file_is_written_as_it_is_sealed_and_may_be_read_by_others(tmp_path):
    arrays = {
        "every other": np.arange(30.0)[::2],
        "none": np.zeros((0, 3)),
        "columns": np.asfortranarray(np.arange(20, dtype=np.float32).reshape(4, 5)),
    }
    made, plain = tmp_path / "made", tmp_path / "plain"
    write_arrays(made, arrays, kind="test", manifest={"zeros": "0" * 64})
    assert made.read_bytes() == encode_sealed_file(
        arrays, kind="test", manifest={"zeros": "0" * 64}
    )
    plain.touch()
    assert made.stat().st_mode == plain.stat().st_mode
    assert sorted(tmp_path.iterdir()) == [made, plain]


def test_pipes_and_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="pipe: cannot be written: it is a device or pipe"):
        write_bytes(tmp_path / "pipe", b"content")
    assert (tmp_path / "pipe").is_fifo()
    for folder in (tmp_path, "", "..", "."):
        with pytest.raises(ModelFileError, match="cannot be written: it is a folder"):
            write_bytes(folder, b"content")
