"""An operator downloads the committee of a pipeline from a real server."""

import lightgbm
import numpy as np
import onnxruntime
import pytest
from serving import make_file, site_of, some_records

from streamboost import Committee
from streamboost.export import RecordLayout
from streamboost.export.lightgbm_text import read_metadata

PREFIX = "/api/v1/pipelines/test"


@pytest.fixture(scope="module")
def site(file_of_module):
    with site_of(file_of_module) as site:
        yield site


def downloaded(site, **params):
    answer = site.program().get(f"{PREFIX}/export", params=params)
    assert answer.status_code == 200, answer.text
    return answer


def test_each_format_has_the_committee_that_serves(site, tmp_path):
    answer = downloaded(site, format="safetensors")
    (tmp_path / "committee").write_bytes(answer.content)
    committee = Committee.load(tmp_path / "committee")
    name = f"test-{committee.version}.safetensors"
    assert answer.headers["Content-Disposition"] == f"attachment; filename*=UTF-8''{name}"
    text = downloaded(site, format="lightgbm").text
    X = RecordLayout.from_metadata(read_metadata(text)).encode(some_records(50, start=5_000))
    scores = committee.class_scores(X)
    assert np.array_equal(lightgbm.Booster(model_str=text).predict(X, raw_score=True), scores)
    session = onnxruntime.InferenceSession(downloaded(site, format="onnx").content)
    (labels,) = session.run(["label"], {"X": X})
    assert labels.tolist() == committee.classes[scores.argmax(axis=1)].tolist()


def test_only_operators_export(site):
    for client in (site.browser("ann"), site.scorer()):
        assert client.get(f"{PREFIX}/export", params={"format": "onnx"}).status_code == 403
    operator = site.browser("olga", "operator")
    assert operator.get(f"{PREFIX}/export", params={"format": "lightgbm"}).status_code == 200


def test_unknown_formats_and_versions_are_refused(site):
    program = site.program()
    assert program.get(f"{PREFIX}/export", params={"format": "pickle"}).status_code == 422
    answer = program.get(f"{PREFIX}/export", params={"format": "onnx", "version": 999})
    assert answer.status_code == 409
    assert "version 999 is not kept: there are" in answer.json()["detail"]


def test_pipeline_without_a_checkpoint_is_refused(tmp_path):
    with site_of(make_file(tmp_path / "new")) as site:
        answer = site.program().get(f"{PREFIX}/export", params={"format": "onnx"})
    assert answer.status_code == 409
    assert "no checkpoint to export from" in answer.json()["detail"]
