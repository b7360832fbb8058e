"""Where labelling is blind, nobody finds the guess before they have answered, but for operators."""

from contextlib import closing

import pytest
from serving import put, read, site_of

from streamboost.pipelines.config.file import load
from streamboost.pipelines.job.run import run
from streamboost.pipelines.status.reader import StatusReader

PREFIX = "/api/v1/pipelines/test"
GUESSES = {
    "label",
    "probabilities",
    "probability",
    "margin",
    "utility",
    "propensity",
    "version",
    "why",
}


@pytest.fixture
def blind(file):
    """A server; of some open requests, and some labelled ones, there is a guess."""
    file.write_text(file.read_text() + "[serve]\nblind = true\n")
    config = load(file)
    put(config, "labels", [{"id": id, "label": "left"} for id in guessed(config)[::2]])
    run(config, until_idle=True)
    with site_of(file) as found:
        yield found


def guessed(config):
    with closing(StatusReader(config.state)) as reader:
        return [one["id"] for one in reader.requests() if one["label"] is not None]


def asked_by(who, path, **more):
    answer = who.get(f"{PREFIX}/{path}", params=more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def next_for(who):
    return who.post(f"{PREFIX}/labelling/next").json()["request"]


def test_a_request_has_no_guess_for_a_labeller_until_they_have_answered(blind):
    ann, eve = blind.browser("ann"), blind.browser("eve")
    before = next_for(ann)
    assert not GUESSES & before.keys()
    assert before["hidden"] is True
    assert set(before["features"]) == {"a", "b"}
    id = guessed(blind.served.config)[0]
    of_it = asked_by(ann, "record", id=id)
    assert not GUESSES & of_it.keys()
    for one in asked_by(ann, "requests"):
        assert not GUESSES & one.keys()
    given = ann.post(f"{PREFIX}/labelling/answer", json={"id": id, "label": "left"})
    assert given.status_code == 200
    assert asked_by(ann, "record", id=id)["label"] in ("left", "right")
    assert not GUESSES & asked_by(eve, "record", id=id).keys(), "eve has not answered"
    ann.post(f"{PREFIX}/labelling/undo")
    assert not GUESSES & asked_by(ann, "record", id=id).keys(), "nor has ann any more"


def test_what_was_predicted_is_no_way_round(blind):
    ann = blind.browser("ann")
    assert asked_by(ann, "predictions") == []
    labelled = asked_by(ann, "judged")
    assert len(labelled) > len(guessed(blind.served.config))
    assert all(one["truth"] in ("left", "right") for one in labelled)
    assert not any(GUESSES & one.keys() for one in labelled)
    for label in ("left", "right"):
        assert asked_by(ann, "judged", predicted=label) == []
        assert asked_by(ann, "judged", true=label)


def test_operators_and_programs_see_all(blind):
    for who in (blind.browser("olga", "operator"), blind.program()):
        request = next_for(who)
        assert "utility" in request
        assert "hidden" not in request
        assert asked_by(who, "record", id=request["id"])["label"] == request["label"]
        assert asked_by(who, "requests")[0]["utility"] is not None
        assert asked_by(who, "predictions")
        assert {one["label"] for one in asked_by(who, "judged")} & {"left", "right"}


def test_where_it_is_not_blind_a_labeller_sees_the_guess(site):
    ann = site.browser("ann")
    assert "utility" in next_for(ann)
    assert asked_by(ann, "predictions")
    assert read(site.served.config, "requests")
