"""Processes killed with SIGKILL while they learn records of mixed kinds: see `test_kills.py`."""

from collections import Counter

import pytest

from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from tests.pipelines.app.test_kills import PIPELINE, SHORTEST, stream
from tests.pipelines.killing import Feed, kill, verified
from tests.pipelines.mixed_records import mixed_records


@pytest.mark.slow
def test_after_kills_records_of_every_kind_are_replayed_bit_for_bit(tmp_path):
    def send(records, labels):
        for name, messages in (("records", records), ("labels", labels)):
            with (tmp_path / f"{name}.jsonl").open("ab") as file:
                file.writelines(message + b"\n" for message in messages)

    (tmp_path / "p.toml").write_text(PIPELINE)
    feed = Feed(*mixed_records(450), 3 * len(SHORTEST), send)
    died, file = kill(tmp_path / "p.toml", SHORTEST, len(SHORTEST), feed)
    assert len(died) == len(SHORTEST), died
    newest = run(load(file), until_idle=True)
    assert [p["id"] for p in stream(file, "predictions")] == feed.sound
    assert Counter(letter["reason"] for letter in stream(file, "dead_letters")) == {
        "bad_json": len(feed.damaged)
    }
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)
