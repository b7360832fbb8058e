"""Contract of the stand-in and the real Label Studio: both pass the same tests."""

import json
from urllib.parse import urlencode

import pytest

from tests.label_studio.front import EMAILS, LEGACY, OTHERS, interface

CHOSEN = {"id": "label", "from_name": "side", "to_name": "shown", "type": "choices"}
LEFT = CHOSEN | {"value": {"choices": ["left"]}}
DATA = {"id": "1", "features": {"a": 1, "b": None}}


def task(*predictions, **data):
    made = {"data": DATA | data}
    return made | {"predictions": list(predictions)} if predictions else made


def predicted(**more):
    return {"model_version": "m", "score": 0.5, "result": [LEFT]} | more


def reason(answer):
    """Return what is said to be wrong, without the task that is repeated."""
    errors = answer["validation_errors"]["non_field_errors"]
    return [str(one).partition(" :: ")[0] for one in errors]


def listed(studio, included=None, **more):
    query = {"project": studio.project, "fields": "all", "page": 1, "page_size": 100} | more
    if included is not None:
        chosen = {"selectedItems": {"all": False, "included": included}}
        query["query"] = json.dumps(chosen)
    return studio.do("GET", f"/api/tasks/?{urlencode(query)}")


def test_a_project_tells_its_interface_and_what_it_is_parsed_to(studio):
    status, told = studio.do("GET", f"/api/projects/{studio.project}/")
    assert status == 200
    assert told["id"] == studio.project
    assert told["label_config"] == interface()
    parsed = told["parsed_label_config"]["side"]
    assert parsed["type"] == "Choices"
    assert parsed["to_name"] == ["shown"]
    assert parsed["labels"] == ["left", "right"]
    assert parsed["inputs"] == [{"type": "Table", "valueType": None, "value": "features"}]


def test_what_nobody_answers_is_no_input_and_yet_demanded(studio):
    shows = '<Header name="head" value="$head"/><Text name="shown" value="$id"/>'
    studio.show(interface(shows=shows))
    told = studio.done("GET", f"/api/projects/{studio.project}/")
    inputs = told["parsed_label_config"]["side"]["inputs"]
    assert [one["value"] for one in inputs] == ["id"]
    status, answer = studio.do("POST", studio.importing, [task()])
    assert status == 400
    assert '"head" key is expected in task data' in reason(answer)[0]


def test_an_import_counts_and_gives_numbers_where_asked(studio):
    status, answer = studio.do("POST", studio.importing, [task(predicted()), task()])
    assert status == 201
    assert (answer["task_count"], answer["prediction_count"]) == (2, 1)
    assert "task_ids" not in answer
    path = f"{studio.importing}?return_task_ids=true"
    first, second = studio.done("POST", path, [task(), task()])["task_ids"]
    assert first < second
    assert len(studio.done("POST", path, task())["task_ids"]) == 1
    assert len(studio.tasks) == 5


def test_an_import_of_nothing_is_refused(studio):
    status, answer = studio.do("POST", studio.importing, [])
    assert status == 400
    assert answer["detail"] == "Validation error"
    assert reason(answer) == ["load_tasks: No tasks added"]


def test_one_task_that_is_refused_keeps_all_out_and_is_named(studio):
    status, answer = studio.do("POST", studio.importing, [task(), {"data": {"id": "2"}}])
    assert status == 400
    assert answer["status_code"] == 400
    assert reason(answer) == [
        "{}",
        'Error at item 1: "features" key is expected in task data [assume: item["data"] = task '
        "root with values]",
    ]
    assert studio.tasks == {}


@pytest.mark.parametrize(
    "prediction",
    [
        predicted(),
        predicted(result=[CHOSEN | {"value": {"choices": ["up"]}}]),
        predicted(result=[LEFT | {"from_name": "other"}]),
        predicted(result=[]),
        predicted(score=None),
        predicted(score=2.0),
    ],
)
def test_predictions_are_kept_as_they_are_given(studio, prediction):
    assert studio.do("POST", studio.importing, [task(prediction)])[0] == 201
    ((kept,),) = (one["predictions"] for one in studio.tasks.values())
    assert {name: kept[name] for name in prediction} == prediction


def test_predictions_are_added_to_tasks_and_removed(studio):
    first, second = studio.add(task(predicted())), studio.add(task())
    path = f"{studio.importing}/predictions"
    added = [predicted(task=first, score=0.123456, result=[]), predicted(task=second)]
    assert studio.do("POST", path, added) == (201, {"created": 2})
    kept = {number: one["predictions"] for number, one in studio.tasks.items()}
    assert {one["score"] for one in kept[first]} == {0.5, 0.123456}
    (other,) = kept[second]
    assert {name: other[name] for name in added[1]} == added[1]
    for number in (one["id"] for one in kept[first]):
        assert studio.do("DELETE", f"/api/predictions/{number}/")[0] == 204
        assert studio.do("DELETE", f"/api/predictions/{number}/")[0] == 404
    assert [len(one["predictions"]) for one in studio.tasks.values()] == [0, 1]
    assert studio.do("POST", path, [predicted(task=10**6)])[0] == 400


def test_project_selects_a_model_version_that_a_prediction_has(studio):
    path = f"/api/projects/{studio.project}/"
    assert studio.done("GET", path)["model_version"] == ""
    assert studio.do("PATCH", path, {"model_version": "m"})[0] == 400
    studio.add(task(predicted()))
    assert studio.done("PATCH", path, {"model_version": "m"})["model_version"] == "m"


SHOWN = [
    ('<Text name="shown" value="$text"/>', {"text": ""}, None),
    ('<Text name="shown" value="$text"/>', {"text": True}, None),
    ('<Text name="shown" value="$text"/>', {"text": ["a"]}, None),
    ('<Text name="shown" value="$text"/>', {}, '"text" key is expected'),
    ('<Text name="shown" value="$text"/>', {"text": None}, "is of type 'NoneType'"),
    ('<Text name="shown" value="$features"/>', {}, "is of type 'dict'"),
    ('<Image name="shown" value="$text"/>', {"text": 1}, "is of type 'int'"),
    ('<HyperText name="shown" value="$text"/>', {"text": 1.5}, "is of type 'float'"),
    ('<Table name="shown" value="$text"/>', {"text": 1}, "is of type 'int'"),
    ('<Header value="$text"/><Text name="shown" value="$id"/>', {}, None),
    ('<Text name="shown" value="$features.a"/>', {}, None),
    ('<Text name="shown" value="$features.c"/>', {}, '"features.c" key is expected'),
    ('<Text name="shown" value="$features.b"/>', {}, "is of type 'NoneType'"),
    ('<Text name="shown" value="$nested.a.b"/>', {"nested": {"a": {"b": 1}}}, None),
    ('<Text name="shown" value="Ticket $id: $text"/>', {}, None),
    ('<Text name="shown" value="Ticket $id"/>', {"id": None}, "is of type 'NoneType'"),
    ('<Text name="shown" value="Ticket $features.a"/>', {}, "is of type 'dict'"),
    ('<Text name="shown" value="$id: $text"/>', {}, '"id: $text" key is expected'),
    ('<Text name="shown" value="$id: $text"/>', {"id: $text": ""}, None),
    ('<Text name="shown" value="nothing"/>', {}, None),
    ('<Text name="shown" value="$id"/><Image name="i" value="$all[0].url"/>', {"all": []}, None),
    (
        '<Text name="shown" value="$id"/><Image name="i" value="$all[0].url"/>',
        {"all": ""},
        "is of type 'str'",
    ),
]


@pytest.mark.parametrize(("shows", "data", "wrong"), SHOWN)
def test_an_import_is_checked_against_what_is_shown(studio, shows, data, wrong):
    studio.show(interface(shows=shows))
    status, answer = studio.do("POST", studio.importing, [task(**data)])
    if wrong is None:
        assert status == 201
    else:
        assert status == 400
        assert wrong in reason(answer)[0]


@pytest.mark.parametrize("features", [None, 3, "x", [1]])
def test_a_path_through_what_is_no_object_breaks_the_server(studio, features):
    studio.show(interface(shows='<Text name="shown" value="$features.a"/>'))
    status, answer = studio.do("POST", studio.importing, [task(features=features)])
    assert status == answer["status_code"] == 500


def test_a_list_gives_those_that_are_chosen_and_all_where_none_is(studio):
    path = f"{studio.importing}?return_task_ids=true"
    numbers = studio.done("POST", path, [task(), task(), task()])["task_ids"]
    for included, found in (
        (None, numbers),
        ([], numbers),
        ([numbers[1], 10**6], numbers[1:2]),
    ):
        status, answer = listed(studio, included)
        assert status == 200
        assert answer["total"] == len(found)
        assert [one["id"] for one in answer["tasks"]] == found
    assert [one["id"] for one in listed(studio, page=2, page_size=2)[1]["tasks"]] == numbers[2:]
    status, answer = listed(studio, page=3, page_size=2)
    assert (status, answer["detail"]) == (404, "Invalid page.")
    assert listed(studio, page=0)[0] == 404


def test_a_task_is_listed_with_all_that_is_known_of_it(studio):
    number = studio.add(task(predicted()) | {"meta": {"ours": True}})
    found = studio.tasks[number]
    assert found["data"] == DATA
    assert found["meta"] == {"ours": True}
    assert found["project"] == studio.project
    assert (found["annotations"], found["drafts"]) == ([], [])
    assert (found["is_labeled"], found["draft_exists"]) == (False, False)
    brief = listed(studio, fields="")[1]["tasks"][0]
    assert brief["data"] == DATA
    assert "annotations" not in brief
    assert brief["drafts"] == []


def test_annotations_finish_a_task_once_so_many_people_have_made_one(studio):
    number = studio.add(task())
    studio.annotate(number, "left", cancelled=True)
    (skipped,) = studio.tasks[number]["annotations"]
    assert (skipped["was_cancelled"], skipped["result"]) == (True, [])
    assert not studio.tasks[number]["is_labeled"]
    studio.annotate(number, "left")
    found = studio.tasks[number]
    assert found["is_labeled"]
    assert found["annotations"][1]["result"][0]["value"] == {"choices": ["left"]}
    assert found["annotations"][1]["created_at"].endswith("Z")
    studio.want(2)
    studio.annotate(number, "right")
    assert not studio.tasks[number]["is_labeled"], "it was the same person"
    studio.annotate(number, "right", by=OTHERS[0])
    assert studio.tasks[number]["is_labeled"]


def test_an_annotation_has_the_number_and_the_email_of_its_annotator(studio):
    number = studio.add(task())
    studio.annotate(number, "left")
    studio.annotate(number, "left", by=OTHERS[0])
    found = studio.tasks[number]["annotations"]
    assert [one["created_username"] for one in found] == [
        f" {email}, {one['completed_by']}" for email, one in zip(EMAILS, found, strict=False)
    ]
    assert found[0]["completed_by"] != found[1]["completed_by"]


def test_drafts_are_told_to_whose_they_are_and_that_there_are_any_to_all(studio):
    number = studio.add(task())
    studio.begin(number, by=OTHERS[0])
    assert studio.tasks[number]["drafts"] == []
    assert studio.tasks[number]["draft_exists"]
    studio.begin(number)
    assert len(studio.tasks[number]["drafts"]) == 1
    assert not studio.tasks[number]["is_labeled"]


def test_what_is_not_there_is_said_so(studio):
    number = studio.add(task())
    assert studio.do("DELETE", f"/api/tasks/{number}/") == (204, None)
    status, answer = studio.do("DELETE", f"/api/tasks/{number}/")
    assert (status, answer["detail"]) == (404, "No Task matches the given query.")
    for path in ("/api/projects/99999/", "/api/tasks/?project=99999&page=1&page_size=1"):
        status, answer = studio.do("GET", path)
        assert (status, answer["detail"]) == (404, "No Project matches the given query.")
    assert studio.do("POST", "/api/projects/99999/import", [task()])[0] == 404


def access_of(studio):
    return studio.do("POST", "/api/token/refresh/", {"refresh": studio.personal}, None)


def test_wrong_tokens_are_refused_each_in_its_words(studio):
    path = f"/api/projects/{studio.project}/"
    for token, words in (
        ("wrong", "Invalid token."),
        ("a.b.c", "Authentication credentials were not provided."),
        (None, "Authentication credentials were not provided."),
    ):
        status, answer = studio.do("GET", path, None, token)
        assert (status, answer["detail"]) == (401, words)
    status, answer = studio.do("POST", "/api/token/refresh/", {"refresh": "a.b.c"}, None)
    assert (status, answer["detail"]) == (401, "Token is invalid")


def test_tokens_of_each_kind_can_be_off(studio):
    path, settings = f"/api/projects/{studio.project}/", "/api/jwt/settings"
    both = {"api_tokens_enabled": True, "legacy_api_tokens_enabled": True}
    access = access_of(studio)[1]["access"]
    assert studio.do("GET", path, None, access)[0] == 200
    try:
        studio.done("POST", settings, both | {"legacy_api_tokens_enabled": False})
        status, answer = studio.do("GET", path)
        assert status == 401
        assert "legacy token authentication has been disabled" in answer["detail"]
        studio.done("POST", settings, both, access)
        studio.done("POST", settings, both | {"api_tokens_enabled": False})
        assert studio.do("GET", path, None, access)[0] == 401
        assert access_of(studio)[0] == 200, "which buys nothing"
    finally:
        for token in (LEGACY, access):
            studio.do("POST", settings, both, token)


def test_the_number_of_the_newest_task_is_given_again_once_that_is_removed(studio):
    number = studio.add(task())
    studio.remove(number)
    assert studio.add(task(id="other")) == number


def test_numbers_begin_again_on_empty_data(studio):
    number = studio.add(task())
    before = studio.project
    studio.lose_data(number)
    assert studio.project == before
    assert studio.tasks == {}
    assert studio.add(task(id="other")) == number
