"""`label-studio --import`: tasks as records, annotations as labels, and a ranking of the tasks."""

import json

import pytest

from streamboost.connectors.label_studio.project import KEY
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError
from streamboost.pipelines.app.run import run as run_pipeline
from streamboost.pipelines.label_studio import pool
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.folder import State
from tests.label_studio.front import EMAILS, LEGACY, OTHERS, interface
from tests.pipelines.label_studio.bridged import ask, labels, read, turn, write

NOTED = interface(shows='<Text name="shown" value="$note"/>')


@pytest.fixture
def config(make_config):
    return make_config(
        initial_data={"path": "labelled.jsonl"},
        query={"budget": 0.1},
        committee={"n_estimators": 20},
        monitor={"publish_every": 0.01},
    )


@pytest.fixture
def add(studio, make_records):
    """Add tasks with two numbers and a note to the project; return their right labels."""
    studio.show(NOTED)

    def add_tasks(n, **data):
        records, truth = make_records(n)
        path = f"{studio.importing}?return_task_ids=true"
        tasks = [{"data": {**record, "id": "own", "note": "odd"} | data} for record in records]
        return dict(zip(studio.done("POST", path, tasks)["task_ids"], truth, strict=True))

    return add_tasks


def bring(config):
    """Import the project, as a process of its own would; return the summary."""
    return label_studio.import_tasks(config, StopToken())


def records(config):
    return [record["id"] for record in read(config, "records")]


def initial(config):
    """Return the labels in the initial data, by record id."""
    lines = (config.folder / "labelled.jsonl").read_text().splitlines()
    return {one["id"]: one["label"] for one in map(json.loads, lines)}


def ranked(studio):
    """Return the predictions of the tasks without annotation, and of the others, by task."""
    groups = {}, {}
    for number, task in studio.tasks.items():
        for one in task["predictions"]:
            assert one["model_version"] == "streamboost asks"
            groups[bool(task["annotations"])][number] = one
    return groups


def test_tasks_become_records_and_annotated_ones_initial_data(config, studio, add):
    first, second, *others = add(250)
    studio.annotate(first, "left")
    for _ in range(2):
        summary = bring(config)
        assert records(config) == [str(number) for number in (second, *others)]
        assert initial(config) == {str(first): "left"}
    where = f"project {studio.project} at {studio.url}"
    assert summary == [
        f"{where}: 250 tasks; imported: 0 records, 0 labels, 1 record of the initial data",
        "next: run the pipeline asks, then repeat this command to rank the tasks",
    ]
    assert read(config, "records")[0] | {"a": 0, "b": 0} == {
        "id": str(second),
        "a": 0,
        "b": 0,
        "note": "odd",
    }
    assert labels(config) == []


def test_annotations_after_the_import_become_labels_once(config, studio, add):
    one, two, three = add(3)
    studio.annotate(one, "left")
    bring(config)
    studio.annotate(two, "left")
    studio.annotate(three, "left", cancelled=True)
    run_pipeline(config, until_idle=True)
    for _ in range(2):
        bring(config)
        assert [(label["id"], label["label"]) for label in labels(config)] == [(str(two), "left")]
    studio.annotate(one, "right")
    for _ in range(2):
        bring(config)
        assert [(label["id"], label["source"]) for label in labels(config)] == [
            (str(two), EMAILS[0]),
            (str(one), EMAILS[0]),
        ]
    assert records(config) == [str(two), str(three)]


def test_without_initial_data_annotated_tasks_are_the_first_records(make_config, studio, add):
    config = make_config()
    one, two, three = add(3)
    studio.annotate(three, "left")
    bring(config)
    bring(config)
    assert records(config) == [str(number) for number in (three, one, two)]
    assert [label["id"] for label in labels(config)] == [str(three)]


def test_names_of_the_pipeline_file_and_follow_files_are_used(make_config, studio, add):
    config = make_config(
        schema={"id": "ticket", "numeric": ["a", "b"]},
        source={"connector": "files", "path": "records.jsonl", "follow": True},
        labels={
            "connector": "files",
            "path": "labels.jsonl",
            "follow": True,
            "fields": {"id": "key", "label": "side"},
        },
        initial_data={"path": "labelled.jsonl"},
    )
    one, two = add(2)
    studio.annotate(one, "left")
    bring(config)
    run_pipeline(config, until_idle=True)
    studio.annotate(two, "left")
    for _ in range(2):
        bring(config)

    def lines(name):
        found = map(json.loads, (config.folder / name).read_text().splitlines())
        return [
            {field: record.get(field) for field in ("ticket", "key", "side")} for record in found
        ]

    assert lines("labelled.jsonl") == [{"ticket": str(one), "key": str(one), "side": "left"}]
    assert lines("records.jsonl") == [{"ticket": str(two), "key": None, "side": None}]
    assert lines("labels.jsonl") == [{"ticket": None, "key": str(two), "side": "left"}]
    assert State(config.state).checkpoints.newest()[1]["initial_labels"] == 1


def test_most_frequent_label_of_several_annotators_holds(config, studio, add):
    studio.want(3)
    one, two = add(2)
    for token, label in zip((LEGACY, *OTHERS), ("right", "left", "left"), strict=True):
        studio.annotate(one, label, by=token)
    studio.annotate(two, "left")
    bring(config)
    assert initial(config) == {str(one): "left"}
    assert records(config) == [str(two)], "this task still needs two annotations"
    run_pipeline(config, until_idle=True)
    studio.annotate(two, "right", by=OTHERS[0])
    studio.annotate(two, "left", by=OTHERS[1])
    bring(config)
    assert [label["label"] for label in labels(config)] == ["right", "left", "left"]


def test_interrupted_import_writes_nothing_twice(config, studio, add, monkeypatch):
    numbers = list(add(30))
    studio.annotate(numbers[0], "left")
    monkeypatch.setattr(pool, "_TOGETHER", 10)
    write_and_flush = pool.write_and_flush

    def stop_after_writing(sink, payloads):
        write_and_flush(sink, payloads)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "write_and_flush", stop_after_writing)
        for n in (10, 20):
            with pytest.raises(KeyboardInterrupt):
                bring(config)
            assert len(records(config)) == n
    bring(config)
    assert records(config) == [str(number) for number in numbers[1:]]


def test_interrupted_write_of_initial_data_imports_nothing_twice(config, studio, add, monkeypatch):
    one, two = add(2)
    studio.annotate(one, "left")
    write_bytes = pool.write_bytes

    def stop_after_writing(path, content):
        write_bytes(path, content)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "write_bytes", stop_after_writing)
        with pytest.raises(KeyboardInterrupt):
            bring(config)
    write(config, "records", [{"id": "elsewhere", "a": 1, "b": 2}])
    run_pipeline(config, until_idle=True)
    bring(config)
    assert records(config) == ["elsewhere", str(two)]
    assert labels(config) == []


def test_tasks_without_content_or_with_changed_data_are_left_out(config, studio, add):
    one, two = add(2)
    add(3, note=" ")
    assert bring(config)[1] == "left out: 3 tasks without content in the fields shown"
    assert records(config) == [str(one), str(two)]
    data = studio.tasks[one]["data"] | {"a": 7}
    studio.done("PATCH", f"/api/tasks/{one}/", {"data": data})
    studio.annotate(one, "left")
    assert bring(config)[2].startswith("left out: 1 task with other data than when imported")
    assert labels(config) == []


def test_tasks_of_other_pipelines_are_no_records(config, studio, add):
    (one,) = add(1)
    add(1, **{KEY: "other/1/2"})
    bring(config)
    assert records(config) == [str(one)]


def test_empty_project_is_refused(config, studio):
    with pytest.raises(ConnectorError, match="has no tasks: import data into the project"):
        bring(config)


def test_wrong_token_is_refused(config, studio, add):
    add(1)
    studio.faults.append(("GET", f"/api/projects/{studio.project}/", 401))
    with pytest.raises(ConnectorError, match=r"the token is refused \(401\)"):
        bring(config)
    assert records(config) == []


def test_tasks_that_change_while_they_are_listed_are_not_imported(config, studio, add):
    add(150)
    studio.faults.extend([("GET", "/api/tasks/", None), ("GET", "/api/tasks/", "again")])
    with pytest.raises(UnavailableError, match="its tasks changed while they were listed"):
        bring(config)
    assert records(config) == []


def test_unsuitable_configuration_is_refused_before_anything_is_imported(make_config, studio, add):
    studio.annotate(next(iter(add(3))), "left")
    for message, sections in {
        "join_window is 2, and .* has 3 tasks": {"pipeline": {"name": "asks", "join_window": 2}},
        r"\[source\] cannot be written to": {
            "source": {"connector": "river", "dataset": "Phishing"}
        },
        "name a file such as labelled.jsonl": {"initial_data": {"path": "labelled.csv"}},
        r"annotation of task \d+ cannot be a label \(unknown_class\)": {
            "schema": {"numeric": ["a", "b"], "classes": ["up"]}
        },
    }.items():
        config = make_config(**sections)
        with pytest.raises(ConfigurationError, match=message):
            bring(config)
        assert records(config) == labels(config) == []


def test_bridge_and_import_exclude_each_other(config, add):
    add(1)
    bring(config)
    with pytest.raises(ConfigurationError, match="use `streamboost label-studio --import`"):
        turn(config)
    (config.state / "label_studio.db").unlink()
    ask(config, "1")
    turn(config)
    with pytest.raises(ConfigurationError, match="import the project with another state folder"):
        bring(config)


def test_ranking_marks_tasks_to_label_and_labels_to_check(config, studio, add):
    truth = add(200)
    numbers = list(truth)
    gap = {number: abs(one["data"]["a"] - one["data"]["b"]) for number, one in studio.tasks.items()}
    wrong = sorted(numbers[:60], key=gap.get)[-3:]
    for number in numbers[:60]:
        other = {"left": "right", "right": "left"}[truth[number]]
        studio.annotate(number, other if number in wrong else truth[number])
    studio.annotate(numbers[60], None, cancelled=True)
    bring(config)
    run_pipeline(config, until_idle=True)
    accuracy, to_label, to_check, _ = bring(config)[1:]
    assert accuracy == "accuracy: not known yet; label the requested tasks"
    asked = {int(request["id"]) for request in read(config, "requests")}
    best, doubtful = ranked(studio)
    assert len(best) == 50
    project = studio.done("GET", f"/api/projects/{studio.project}/")
    assert project["model_version"] == "streamboost asks"
    assert asked - {numbers[60]} <= best.keys() <= set(numbers[61:])
    assert f"50 tasks, {len(asked - {numbers[60]})} of them requested" in to_label
    others = best.keys() - asked
    rest = set(numbers[61:]) - best.keys()
    assert max(map(gap.get, others)) < 2 * sum(map(gap.get, rest)) / len(rest), "the closest ones"
    assert set(wrong) <= doubtful.keys() <= set(numbers[:60])
    assert to_check == f"labels that look wrong: {len(doubtful)}"
    for number in wrong:
        assert doubtful[number]["score"] < 0.5
        assert doubtful[number]["result"][0]["value"] == {"choices": [truth[number]]}

    for number in asked | set(wrong):
        studio.annotate(number, truth[number])
    bring(config)
    best, doubtful = ranked(studio)
    assert not best.keys() & asked
    assert not doubtful.keys() & (asked | set(wrong)), "the labels were corrected"
    run_pipeline(config, until_idle=True)
    assert bring(config)[1].startswith("accuracy: ")
    assert len(ranked(studio)[0]) == 50
    join = State(config.state).checkpoints.newest()[1]["join"]
    assert (join["answered"], join["corrected"], join["late"]) == (len(asked), 3, 0)


def test_ranking_leaves_no_prediction_at_a_task_whose_data_changed(config, studio, add):
    truth = add(30)
    for number in list(truth)[:10]:
        studio.annotate(number, truth[number])
    bring(config)
    run_pipeline(config, until_idle=True)
    bring(config)
    number = min(ranked(studio)[0])
    data = studio.tasks[number]["data"] | {"a": 7}
    studio.done("PATCH", f"/api/tasks/{number}/", {"data": data})
    bring(config)
    assert ranked(studio)[0].keys() == set(list(truth)[10:]) - {number}


def test_blind_ranking_has_no_labels(make_config, studio, add):
    config = make_config(serve={"blind": True})
    truth = add(60)
    for number in list(truth)[:20]:
        studio.annotate(number, truth[number])
    bring(config)
    run_pipeline(config, until_idle=True)
    bring(config)
    assert {json.dumps(one["result"]) for one in ranked(studio)[0].values()} == {"[]"}


def test_project_without_annotations_starts_with_random_requests(config, studio, add):
    numbers = list(add(40))
    bring(config)
    run_pipeline(config, until_idle=True)
    assert "40 tasks" in bring(config)[2]
    for number in numbers:
        studio.annotate(number, "left")
    bring(config)
    assert ranked(studio)[0] == {}


@pytest.mark.slow
def test_command_prints_the_summary(studio, add, tmp_path, streamboost_command):
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "asks"\n[source]\nconnector = "sqlite"\nstream = "records"\n'
        f'[label_studio]\nurl = "{studio.url}"\nproject = {studio.project}\ntoken = "${{TOKEN}}"\n'
    )
    add(3)
    streamboost_command.environment["TOKEN"] = LEGACY
    process = streamboost_command.start("label-studio", "--import", "p.toml")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "3 tasks; imported: 3 records, 0 labels" in out
    streamboost_command.environment["TOKEN"] = "0" * 40
    process = streamboost_command.start("label-studio", "--import", "p.toml")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the token is refused (401)" in err
    assert "Traceback" not in err
    assert "0" * 40 not in err


def test_selected_model_version_and_other_predictions_stay(config, studio, add):
    add(3)
    prediction = {"model_version": "other", "score": 0.5, "result": []}
    number = studio.add({"data": {"a": 1, "b": 2, "note": "odd"}, "predictions": [prediction]})
    path = f"/api/projects/{studio.project}/"
    studio.done("PATCH", path, {"model_version": "other"})
    bring(config)
    run_pipeline(config, until_idle=True)
    bring(config)
    bring(config)
    versions = {one["model_version"] for one in studio.tasks[number]["predictions"]}
    assert versions == {"other", "streamboost asks"}
    assert sum(len(task["predictions"]) for task in studio.tasks.values()) == 5
    assert studio.done("GET", path)["model_version"] == "other"
