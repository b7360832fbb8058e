from dataclasses import replace

import numpy as np
import pytest

from streamboost.boosting.committee import Committee
from streamboost.boosting.reweighting.gamble import GambleClassifier
from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.state.checkpoints import KEPT
from streamboost.pipelines.state.versions import CommitteeStore

X = np.random.default_rng(0).random((40, 2), dtype=np.float32)


def committee(version):
    made = GambleClassifier(n_estimators=2).train(X, (X[:, 0] > 0.5).astype(int), seed=version)
    return replace(made, version=version)


def test_the_newest_are_kept_in_memory_and_the_oldest_leave():
    versions = CommitteeStore(None, 3)
    for n in range(1, 6):
        versions.add([committee(n), None])
    assert versions.version_numbers == [3, 4, 5]
    versions.load_into_memory(4)
    assert versions[4].version == 4
    with pytest.raises(StateError, match="version 2 is not kept: there are 3, 4, 5"):
        versions.load_into_memory(2)


def test_files_hold_what_the_newest_checkpoints_need_and_no_more(tmp_path):
    versions = CommitteeStore(tmp_path / "versions", 2)
    for n in range(1, 21):
        versions.add([committee(n)])
        versions.write()
    files = sorted(path.name for path in (tmp_path / "versions").iterdir())
    assert files == [f"{n:08}.safetensors" for n in range(21 - 2 * KEPT, 21)]
    assert Committee.load(tmp_path / "versions" / files[0]).version == 15


def test_what_was_written_is_there_for_the_next_process(tmp_path):
    versions = CommitteeStore(tmp_path / "versions", 3)
    versions.add([committee(7), committee(8)])
    versions.write()
    later = CommitteeStore(tmp_path / "versions", 3)
    later.add([committee(9)])
    assert later.version_numbers == [7, 8, 9]
    later.load_into_memory(7)
    np.testing.assert_array_equal(later[7].class_scores(X), committee(7).class_scores(X))


def test_a_damaged_file_is_refused(tmp_path):
    versions = CommitteeStore(tmp_path / "versions", 3)
    versions.add([committee(7)])
    versions.write()
    (path,) = (tmp_path / "versions").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match="truncated"):
        CommitteeStore(tmp_path / "versions", 3).load_into_memory(7)


def test_versions_whose_numbers_are_given_again_leave_no_file(tmp_path):
    versions = CommitteeStore(tmp_path / "versions", 5)
    versions.add([committee(n) for n in (1, 2, 3)])
    versions.write()
    later = CommitteeStore(tmp_path / "versions", 5)
    later.remove_after(1)
    assert later.version_numbers == [1]
    assert len(list((tmp_path / "versions").iterdir())) == 1
