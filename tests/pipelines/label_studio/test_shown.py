"""Task data in Label Studio: missing fields are empty, and refused tasks are skipped."""

import json
import logging

import pytest

from streamboost.connectors.messages.outgoing import Request
from streamboost.pipelines.app import check as checking
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.shutdown import StopToken
from tests.label_studio.front import OTHERS, interface
from tests.pipelines.label_studio.bridged import ask, labels, turn, write


def put(config, id, features, label="left"):
    message = Request(
        id=id,
        time=None,
        features=features,
        label=label,
        probabilities={"left": 0.75, "right": 0.25} if label else {},
        utility=0.5,
        propensity=1.0,
        expires=None,
        sequence=1,
    )
    write(config, "requests", [json.loads(message.encode())])


def text(value):
    return interface(shows=f'<Text name="shown" value="{value}"/>')


def data(studio):
    return {id: studio.tasks[number]["data"] for id, (number,) in studio.by_record().items()}


@pytest.mark.parametrize("value", ["$probability", "$features.b", "$features.c.d", "$note"])
def test_what_is_null_or_missing_is_empty(config, studio, value):
    studio.show(text(value))
    ask(config, "1", label=None)
    turn(config)
    found = data(studio)["1"]
    for name in value[1:].split("."):
        found = found[name]
    assert found == ""


def test_what_nobody_answers_is_shown_as_well(config, studio):
    shows = '<Header name="head" value="$head"/><Text name="shown" value="$id"/>'
    studio.show(interface(shows=shows))
    ask(config, "1")
    turn(config)
    assert data(studio)["1"]["head"] == ""


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("Ticket $id: $note", {}), ("$id: $note", {"id: $note": ""}), ("of $other", {"other": ""})],
)
def test_templates_have_what_an_import_demands(config, studio, value, wanted):
    studio.show(text(value))
    ask(config, "1")
    turn(config)
    assert wanted.items() <= data(studio)["1"].items()


def test_a_path_leads_into_objects_and_to_names_that_hold_dots(config, studio):
    shows = ("$features.place.city", "$features.place.zip", "$features.size")
    tags = [f'<Text name="t{n}" value="{value}"/>' for n, value in enumerate(shows)]
    studio.show(interface(shows=f'{"".join(tags)}<Text name="shown" value="$id"/>'))
    put(config, "1", {"place.city": "Aachen", "size": 1.5})
    put(config, "2", {"place": {"city": "Bonn", "zip": None}, "size": None})
    put(config, "3", {"place": "nowhere"})
    turn(config)
    found = {id: one["features"] for id, one in data(studio).items()}
    assert found["1"]["place"] == {"city": "Aachen", "zip": ""}
    assert found["2"] == {"place": {"city": "Bonn", "zip": ""}, "size": ""}
    assert found["3"] == {"place": {"city": "", "zip": ""}, "size": ""}


def test_what_no_record_has_had_is_said_once(config, studio, caplog):
    studio.show(text("$nothing"))
    with caplog.at_level(logging.WARNING):
        for id in "123":
            ask(config, id)
        turn(config)
    told = [one.getMessage() for one in caplog.records]
    assert [one for one in told if "shows $nothing, which no record has" in one] == told


@pytest.fixture
def refusing(config, studio):
    """Three requests, of which the second cannot be shown."""
    studio.show(text("$features.a"))
    for id, value in (("1", 1.5), ("2", {"b": 1}), ("3", "x")):
        put(config, id, {"a": value})
    return config


def test_one_that_is_refused_is_set_aside_and_the_others_go_in(refusing, studio, caplog):
    with caplog.at_level(logging.WARNING):
        turn(refusing)
    assert studio.by_record().keys() == {"1", "3"}
    (told,) = [one.getMessage() for one in caplog.records if "is refused" in one.getMessage()]
    assert "the request for record '2'" in told
    assert "is of type 'dict', but the object tag Text expects" in told
    (found,) = [one for one in checking.check_pipeline(refusing) if one.part == "label_studio"]
    assert "; 1 requests were refused, the last: project" in found.text
    studio.annotate(studio.by_record()["3"][0], "left")
    turn(refusing)
    assert [label["id"] for label in labels(refusing)] == ["3"]


def test_what_was_set_aside_goes_in_under_another_interface(refusing, studio):
    turn(refusing)
    studio.show(text("$features.a.b"))
    turn(refusing)
    assert studio.by_record().keys() == {"1", "2", "3"}


def test_what_was_set_aside_is_let_go_once_it_is_answered(refusing, studio):
    turn(refusing)
    write(refusing, "labels", [{"id": "2", "label": "left"}])
    turn(refusing)
    studio.show(text("$features.a.b"))
    turn(refusing)
    assert studio.by_record().keys() == {"1", "3"}


def test_an_interface_that_somebody_works_on_ends_nothing(config, studio, caplog):
    class Working(StopToken):
        """Changes the interface between turns, and looks at what came of it."""

        def wait(self, seconds):
            if studio.by_record().keys() == {"1"}:
                studio.show('<View><Text name="shown" value="$id"/></View>')
                ask(config, "2")
            else:
                self.requested = True

    ask(config, "1")
    label_studio.run(config, Working())
    assert studio.by_record().keys() == {"1", "2"}
    (told,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "there is none" in told


def test_a_draft_counts_as_begun(config, studio):
    ask(config, "1", "2", "3")
    turn(config)
    numbers = studio.by_record()
    studio.begin(numbers["1"][0])
    studio.begin(numbers["2"][0], by=OTHERS[0])
    write(config, "labels", [{"id": id, "label": "left"} for id in "123"])
    turn(config)
    assert studio.by_record().keys() == {"1", "2"}
