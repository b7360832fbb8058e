"""The Label Studio client, against a server that implements the documented API."""

import pytest

from streamboost.connectors.label_studio.project import KEY, LabelStudioProject
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError
from tests.label_studio.front import EMAILS, LEGACY, OTHERS, PEOPLE, interface
from tests.label_studio.stand_in import StandIn


@pytest.fixture
def server(label_studio):
    label_studio.begin_anew()
    return label_studio


@pytest.fixture(scope="module")
def stand_in():
    """A stand-in server: what the real server stores of a malformed annotation varies."""
    server = StandIn()
    yield server
    server.close()


@pytest.fixture
def studio(server):
    return LabelStudioProject(server.url, server.project, LEGACY)


@pytest.fixture
def project(server):
    return f"/api/projects/{server.project}/"


def task(id):
    return {"data": {"id": id, "features": {}, KEY: f"p/1/{id}"}}


def test_tasks_are_made_and_found_again(studio):
    choices = studio.fetch_choices_tag()
    numbers = studio.create_tasks([task("a"), task("b")])
    found = studio.fetch_tasks(choices)
    assert sorted(found) == numbers
    assert [found[number].key for number in numbers] == ["p/1/a", "p/1/b"]
    assert list(studio.fetch_tasks(choices, numbers[1:])) == numbers[1:]
    studio.delete_task(numbers[0])
    studio.delete_task(numbers[0])
    assert list(studio.fetch_tasks(choices, numbers)) == numbers[1:]
    assert studio.fetch_tasks(choices, []) == {}


def test_a_suggested_answer_is_of_the_form_that_the_project_wants(studio, server):
    result = studio.fetch_choices_tag().annotation_result("left")
    prediction = {"model_version": "1", "score": 0.5, "result": result}
    (number,) = studio.create_tasks([task("a") | {"predictions": [prediction]}])
    (kept,) = server.tasks[number]["predictions"]
    assert {name: kept[name] for name in prediction} == prediction


def test_many_tasks_come_in_pages(studio, server):
    numbers = studio.create_tasks([task(str(i)) for i in range(250)])
    server.seen.clear()
    assert list(studio.fetch_tasks(studio.fetch_choices_tag())) == numbers
    assert list(studio.fetch_tasks(studio.fetch_choices_tag(), numbers[:230])) == numbers[:230]
    assert max(len(path) for _, path in server.seen) < 2_000, "servers refuse long addresses"


def test_a_page_that_comes_twice_is_no_end_of_the_list(studio, server):
    numbers = studio.create_tasks([task(str(i)) for i in range(250)])
    choices = studio.fetch_choices_tag()
    server.faults.extend([("GET", "/api/tasks/", None), ("GET", "/api/tasks/", "again")])
    with pytest.raises(UnavailableError, match="changed while they were listed"):
        studio.fetch_tasks(choices)
    assert list(studio.fetch_tasks(choices)) == numbers


def given(task):
    return [(one.label, one.annotator) for one in task.answers]


def test_each_annotator_gives_an_answer_once_the_task_is_finished(studio, server):
    choices = studio.fetch_choices_tag()
    server.want(3)
    (number,) = studio.create_tasks([task("a")])
    assert not studio.fetch_tasks(choices)[number].is_touched
    server.annotate(number, "left", cancelled=True)
    skipped = studio.fetch_tasks(choices)[number]
    assert (skipped.is_touched, skipped.is_begun) == (True, False)
    server.annotate(number, "left")
    server.annotate(number, "right", by=OTHERS[0])
    found = studio.fetch_tasks(choices)[number]
    assert found.is_touched
    assert found.is_begun
    assert given(found) == [], "the third is still to come"
    server.annotate(number, "right", by=OTHERS[1])
    found = studio.fetch_tasks(choices)[number]
    assert given(found) == list(zip(("left", "right", "right"), EMAILS, strict=True))
    made = {one["completed_by"]: one["created_at"] for one in server.tasks[number]["annotations"]}
    assert [one.time for one in found.answers] == list(made.values())


def test_the_newest_annotation_with_a_choice_is_the_annotators_answer(studio, server):
    (number,) = studio.create_tasks([task("a")])
    for label in ("left", "right", None):
        server.annotate(number, label)
    server.annotate(number, "left", by=OTHERS[0])
    found = studio.fetch_tasks(studio.fetch_choices_tag())[number]
    assert given(found) == [("right", EMAILS[0]), ("left", EMAILS[1])]


@pytest.mark.parametrize(
    ("name", "who", "annotator"),
    [
        ("Ann Lee ann@example.com, 4", 4, "ann@example.com"),
        ("Ann, Lee, 7 ann@example.com, 4", 4, "ann@example.com"),
        ("Deleted User Deleted, 4", 4, "label studio 4"),
        ('"a\\ b"@example.com, 4', 4, "label studio 4"),
        ("ann@ex\u200bample.com, 4", 4, "label studio 4"),
        (" , 4", 4, "label studio 4"),
        ("ann@example.com, 4", {"id": 4}, "ann@example.com"),
        (None, 4, "label studio 4"),
        ("", None, "label studio"),
        (7, "ann", "label studio"),
    ],
)
def test_annotators_are_named_by_email_or_number(stand_in, name, who, annotator, monkeypatch):
    studio = LabelStudioProject(stand_in.url, stand_in.project, LEGACY)
    (number,) = studio.create_tasks([task("a")])
    more = {"created_username": name, "completed_by": who, "was_cancelled": False}
    monkeypatch.setattr(stand_in, "_count", lambda task: task.update(is_labeled=True))
    path = f"/api/tasks/{number}/annotations/"
    stand_in.done("POST", path, {"result": [chosen({"choices": ["left"]})]} | more)
    (answer,) = studio.fetch_tasks(studio.fetch_choices_tag())[number].answers
    assert answer.annotator == annotator


@pytest.mark.parametrize("who", PEOPLE[:2])
def test_a_draft_is_a_beginning(studio, server, who):
    (number,) = studio.create_tasks([task("a")])
    server.begin(number, by=who)
    assert studio.fetch_tasks(studio.fetch_choices_tag())[number].is_begun


@pytest.mark.parametrize("choice", [{"label": None}, {"label": "left", "name": "other"}])
def test_an_annotation_without_a_choice_says_nothing(studio, server, choice):
    (number,) = studio.create_tasks([task("a")])
    server.annotate(number, **choice)
    assert given(studio.fetch_tasks(studio.fetch_choices_tag())[number]) == []


def chosen(value, **more):
    return {"from_name": "side", "to_name": "shown", "type": "choices", "value": value} | more


@pytest.mark.parametrize(
    "result",
    [
        [chosen({"choices": [None]})],
        [chosen({"choices": [["left"]]})],
        [chosen({"choices": {"left": 1}})],
        [chosen({"choices": [""]})],
        [chosen({"choices": 7})],
        [chosen(None)],
        [chosen(["left"])],
        [chosen({"choices": ["left"]}, from_name=3)],
        ["left", None],
        {"choices": ["left"]},
        "left",
    ],
)
def test_a_malformed_annotation_says_nothing_and_disturbs_no_other(stand_in, result):
    studio = LabelStudioProject(stand_in.url, stand_in.project, LEGACY)
    bad, good = studio.create_tasks([task("a"), task("b")])
    path = f"/api/tasks/{bad}/annotations/"
    stand_in.done("POST", path, {"result": result, "was_cancelled": False}, LEGACY)
    stand_in.annotate(good, "left")
    found = studio.fetch_tasks(studio.fetch_choices_tag())
    assert (given(found[bad]), given(found[good])) == ([], [("left", EMAILS[0])])
    assert found[bad].is_touched


def test_the_tag_must_be_clear(studio, server):
    assert studio.fetch_choices_tag("side").labels == ("left", "right")
    with pytest.raises(ConfigurationError, match="the Choices tag 'colour' is not clear"):
        studio.fetch_choices_tag("colour")
    other = '<Choices name="other" toName="shown"><Choice value="up"/></Choices></View>'
    server.show(interface().replace("</View>", other))
    with pytest.raises(ConfigurationError, match=r"which Choices tag is meant .* side, other"):
        studio.fetch_choices_tag()
    assert studio.fetch_choices_tag("other").name == "other"
    server.show('<View><Text name="shown" value="$id"/></View>')
    with pytest.raises(ConfigurationError, match="there is none"):
        studio.fetch_choices_tag()


def test_a_personal_token_buys_access_anew_when_it_runs_out(studio, server):
    personal = LabelStudioProject(server.url, server.project, server.personal)
    choices = personal.fetch_choices_tag()
    server.faults.append(("GET", "/api/tasks/", 401))
    assert personal.fetch_tasks(choices) == {}
    server.faults.append(("POST", server.importing, 401))
    assert len(personal.create_tasks([task("a")])) == 1


@pytest.mark.parametrize("token", ["wrong", "an.other.token"])
def test_a_wrong_token_is_said_to_be_one_and_not_shown(studio, server, token):
    with pytest.raises(ConnectorError, match=r"the token is refused \(401\)") as caught:
        LabelStudioProject(server.url, server.project, token).fetch_choices_tag()
    assert not caught.value.retriable
    assert token not in str(caught.value)


def test_a_wrong_project_is_named(studio, server):
    with pytest.raises(ConnectorError, match=r"project 99999 at http.*: it is not there"):
        LabelStudioProject(server.url, 99999, LEGACY).fetch_choices_tag()


def test_tasks_that_the_interface_cannot_show_are_refused_with_the_reason(studio):
    with pytest.raises(ConnectorError, match=r"\(400\).*features.* key is expected"):
        studio.create_tasks([{"data": {"id": "a"}}])


@pytest.mark.parametrize("status", [403, 302])
def test_what_does_not_pass_is_not_tried_again(studio, server, project, status):
    server.faults.append(("GET", project, status))
    with pytest.raises(ConnectorError, match=str(status)) as caught:
        studio.fetch_choices_tag()
    assert not caught.value.retriable


def test_the_token_follows_nobody_elsewhere(studio, server, project):
    server.faults.append(("GET", project, 302))
    with pytest.raises(ConnectorError, match=r"leads elsewhere .* 'https://elsewhere\.example/'"):
        studio.fetch_choices_tag()


@pytest.mark.parametrize("fault", [500, 502, 429, "lost"])
def test_what_may_pass_is_said_to(studio, server, project, fault):
    server.faults.append(("GET", project, fault))
    with pytest.raises(UnavailableError, match="project "):
        studio.fetch_choices_tag()
    assert studio.fetch_choices_tag().name == "side"


def test_a_server_that_is_away_or_slow_may_come_back(studio, server):
    with pytest.raises(UnavailableError, match="cannot be reached"):
        LabelStudioProject("http://127.0.0.1:9", 7, LEGACY).fetch_choices_tag()
    with server.lock, pytest.raises(UnavailableError, match="timed out"):
        LabelStudioProject(server.url, server.project, LEGACY, timeout=0.05).fetch_choices_tag()


def test_another_program_at_the_address_is_noticed(studio, server, project):
    server.faults.append(("GET", project, 200))
    with pytest.raises(ConnectorError, match="did not answer as Label Studio does"):
        studio.fetch_choices_tag()
