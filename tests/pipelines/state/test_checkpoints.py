import numpy as np
import pytest

from streamboost.errors import ModelFileError
from streamboost.pipelines.state.checkpoints import Checkpoints


@pytest.fixture
def checkpoints(tmp_path):
    made = Checkpoints(tmp_path / "checkpoints")
    for sequence in (1, 5, 12, 40):
        made.save({"x": np.full(1000, sequence)}, {"sequence": sequence})
    return made


def test_the_newest_three_are_kept(checkpoints):
    assert checkpoints.sequences == [40, 12, 5]
    arrays, manifest = checkpoints.newest()
    assert manifest == {"sequence": 40}
    assert (arrays["x"] == 40).all()


def test_the_newest_at_or_before_a_batch_is_found(checkpoints):
    assert checkpoints.newest(39)[1]["sequence"] == 12
    assert checkpoints.newest(12)[1]["sequence"] == 12
    assert checkpoints.newest(4) is None


def flip(blob):
    blob[len(blob) // 2] ^= 1


def cut(blob):
    del blob[-100:]


def empty(blob):
    blob.clear()


@pytest.mark.parametrize("damage", [flip, cut, empty])
def test_a_damaged_one_is_passed_over_with_a_warning(checkpoints, damage, caplog):
    path = checkpoints.folder / f"{40:010}"
    blob = bytearray(path.read_bytes())
    damage(blob)
    path.write_bytes(blob)
    assert checkpoints.newest()[1]["sequence"] == 12
    assert "a damaged checkpoint is skipped" in caplog.text
    assert str(path) in caplog.text


def test_one_that_cannot_be_written_leaves_those_there_are(checkpoints, monkeypatch):
    def full(blob, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("streamboost.storage.os.fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        checkpoints.save({"x": np.zeros(3)}, {"sequence": 50})
    assert checkpoints.sequences == [40, 12, 5]
    assert len(list(checkpoints.folder.iterdir())) == 3


def test_what_a_killed_process_had_begun_to_write_goes_with_the_next(checkpoints):
    (checkpoints.folder / ".0000000050.1234").write_bytes(b"half")
    checkpoints.save({"x": np.zeros(3)}, {"sequence": 50})
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [
        f"{sequence:010}" for sequence in (12, 40, 50)
    ]


def test_those_after_a_batch_can_be_dropped(checkpoints):
    checkpoints.remove_after(12)
    assert checkpoints.sequences == [12, 5]
