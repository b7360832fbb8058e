"""Records from standard input: read once, counted on by the next run, never used for a replay."""

import json
import os

import pytest

from streamboost.errors import GapError
from streamboost.pipelines.app.check import check_pipeline, delivery_guarantee
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load

PIPELINE = """
[pipeline]
name = "test"
batch_records = 10
[source]
connector = "files"
path = "-"
[committee]
n_estimators = 2
"""


@pytest.fixture
def piped(tmp_path, make_records):
    """Return a function that runs the pipeline with records on this process's standard input."""
    (tmp_path / "p.toml").write_text(PIPELINE)
    before = os.dup(0)

    def pipe(start, n):
        records, _ = make_records(n, start=start)
        end, entry = os.pipe()
        os.dup2(end, 0)
        os.close(end)
        os.write(entry, "".join(json.dumps(record) + "\n" for record in records).encode())
        os.close(entry)
        run(load(tmp_path / "p.toml"), until_idle=True)

    yield pipe
    os.dup2(before, 0)
    os.close(before)


def test_a_run_ends_with_its_input_and_the_next_counts_on(piped, tmp_path):
    piped(0, 25)
    piped(25, 20)
    found = describe_pipeline(tmp_path / "state")
    assert found["positions"]["records"] == {"0": 45}
    assert found["units"]["records"] == "lines"
    assert found["checkpoint"]["join"]["records"] == 45


def test_what_is_to_be_replayed_is_never_taken_from_new_input(piped, tmp_path):
    piped(0, 25)
    config = load(tmp_path / "p.toml")
    with pytest.raises(GapError, match="standard input cannot be read again"):
        verify_replay(config)
    for checkpoint in (tmp_path / "state" / "checkpoints").iterdir():
        checkpoint.unlink()
    with pytest.raises(GapError, match='on_data_loss = "continue"'):
        run(config, until_idle=True)


def test_check_reads_nothing_of_it_and_says_what_it_guarantees(tmp_path):
    (tmp_path / "p.toml").write_text(PIPELINE)
    config = load(tmp_path / "p.toml")
    found = {finding.part: finding for finding in check_pipeline(config)}
    assert found["source"].ok
    assert "not tried" in found["source"].text
    assert delivery_guarantee(config).startswith("at most once: source comes from standard input")
