"""Processes killed with SIGKILL during label corrections, relabel requests, merges and drops."""

import json
from collections import Counter, deque

import numpy as np
import pytest

from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.commands import Command, queue_command
from tests.pipelines.app.test_kills import PIPELINE, SHORTEST, stream
from tests.pipelines.killing import Feed, kill, verified

PEOPLE = ("ann", "bob", "cid", "dan", "eve")
N = 900


class ChangingFeed(Feed):
    """Labels by five people, two of whom err; a third come again, some are misspelt or taken back.

    Halfway a misspelt class is merged into the right one, and later another is dropped.
    """

    def __init__(self, records, truth, pieces, send, tell):
        super().__init__(records, truth, pieces, send)
        self._pieces, self._tell = 0, tell
        rng, labels = np.random.default_rng(8), []
        for n, message in enumerate(self._labels):
            given = json.loads(message)
            labels.append(self._said(rng, given))
            if n >= 100 and n % 3 == 0:
                labels.append(self._said(rng, json.loads(self._labels[n - 100])))
            if n >= 100 and n % 37 == 0:
                labels.append({"id": json.loads(self._labels[n - 90])["id"], "label": None})
        self._labels = deque(json.dumps(label).encode() for label in labels)

    @staticmethod
    def _said(rng, given):
        who, label = str(rng.choice(PEOPLE)), given["label"]
        if who in ("dan", "eve") and rng.random() < 0.5:
            label = "left" if label == "right" else "right"
        if rng.random() < 0.1:
            label = str(rng.choice(["laft", "spam"]))
        return given | {"label": label, "source": who}

    def write(self, everything=False):
        """Write the next piece, and tell the pipeline what is due by then."""
        super().write(everything)
        self._pieces += 1
        if self._pieces == 4:
            self._tell(Command("merge", None, "laft", "left"))
        if self._pieces == 6:
            self._tell(Command("drop", None, "spam"))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["last", "vote"])
def test_after_kills_labels_that_changed_are_replayed_bit_for_bit_and_the_ledger_is_right(
    tmp_path, make_records, rule
):
    def send(records, labels):
        for name, messages in (("records", records), ("labels", labels)):
            with (tmp_path / f"{name}.jsonl").open("ab") as file:
                file.writelines(message + b"\n" for message in messages)

    text = PIPELINE.replace("budget = 0.3", "budget = 0.3\nrelabel = 0.3")
    text = text.replace('"labels.jsonl"', f'"labels.jsonl"\non_conflict = "{rule}"')
    (tmp_path / "p.toml").write_text(text.replace("n_estimators = 3", "n_estimators = 20"))
    tell = lambda command: queue_command(tmp_path / "state", command)  # noqa: E731
    feed = ChangingFeed(*make_records(N), 3 * len(SHORTEST), send, tell)
    died, file = kill(tmp_path / "p.toml", SHORTEST, len(SHORTEST), feed)
    assert len(died) == len(SHORTEST), died
    newest = run(load(file), until_idle=True)

    predicted, requests = stream(file, "predictions"), stream(file, "requests")
    assert [p["id"] for p in predicted] == feed.sound
    known = describe_pipeline(file.parent / "state")["checkpoint"]
    ledger, join = known["ledger"], known["join"]
    again = [request for request in requests if "excluded_annotators" in request]
    asked = [p["id"] for p in predicted if p["asked"]]
    assert asked == [request["id"] for request in requests if "excluded_annotators" not in request]
    assert ledger["again"] == len(again) > 0
    assert ledger["requests"] == len(requests)
    assert ledger["answered"] + ledger["expired"] + join["open_requests"] == len(requests)
    seen, spent = (Counter(one["sequence"] for one in all_) for all_ in (predicted, requests))
    records = bought = 0
    for sequence in range(1, newest + 1):
        records, bought = records + seen[sequence], bought + spent[sequence]
        assert bought <= 0.3 * records, "never more than the share, whatever was asked again"
    assert min(join["corrected"], join["retracted"], join["duplicate"]) > 0
    reasons = Counter(letter["reason"] for letter in stream(file, "dead_letters"))
    assert reasons["dropped_class"] > 0
    found = {name: known["classes"][name] for name in ("merged", "dropped")}
    assert found == {"merged": [["laft", "left"]], "dropped": ["spam"]}
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)
