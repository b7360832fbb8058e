"""A stand-in for Label Studio's server, community edition 1.23: the API that the bridge uses.

`test_contract` compares its responses with the responses of the real server.
"""

import json
import re
from functools import reduce
from operator import getitem
from urllib.parse import parse_qs
from xml.etree import ElementTree

from tests.label_studio.front import EMAILS, PEOPLE, Front, interface

PERSONAL = "header.refresh.signature"
ACCESS = "header.access.signature"

TYPES = {
    "Text": (str, int, float, list),
    "Header": (str, int, float),
    "Image": (str, list),
    "Paragraphs": (list, str),
    "Table": (dict, list, str),
    "List": (list, str),
    "Choices": (str, list),
}
"""What tags take; others take text."""

MAKING = "2026-03-09T22:16:08.{:06}Z"


class RequestRefusedError(Exception):
    """Answered with this status, and what is wrong."""

    def __init__(self, status, detail, errors=None):
        super().__init__(status, detail, errors)
        self.status = status
        self.body = {"status_code": status, "version": "1.23.0", "detail": detail}
        if errors is not None:
            self.body["validation_errors"] = errors


def invalid(*errors):
    return RequestRefusedError(400, "Validation error", {"non_field_errors": list(errors)})


class StandIn(Front):
    """A server with project 7."""

    personal = PERSONAL
    project = 7

    def __init__(self):
        self.begin_anew()
        super().__init__()

    def begin_anew(self):
        if hasattr(self, "faults"):
            super().begin_anew()
        self._first = 101
        self._predictions = 0
        self._tasks = {}
        self._settings = {"api_tokens_enabled": True, "legacy_api_tokens_enabled": True}
        self._project = {"id": 7, "title": "streamboost", "maximum_annotations": 1}
        self._project |= {"label_config": interface(), "model_version": ""}

    def lose_data(self, first):
        self._first = first
        self._tasks = {}

    def answer(self, method, target, headers, body):
        path, _, query = target.partition("?")
        asked = {name: value for name, (value,) in parse_qs(query).items()}
        try:
            content = json.loads(body) if body else None
            status, found = self._answer(method, path, asked, headers, content)
        except RequestRefusedError as refused:
            status, found = refused.status, refused.body
        return status, b"" if found is None else json.dumps(found).encode()

    def _answer(self, method, path, asked, headers, body):
        if (method, path) == ("POST", "/api/token/refresh/"):
            if body != {"refresh": PERSONAL}:
                raise RequestRefusedError(401, "Token is invalid")
            return 200, {"access": ACCESS}
        person = self._let_in(headers.get("Authorization"))
        match method, path.strip("/").split("/"):
            case "POST", ["api", "jwt", "settings"]:
                self._settings |= body
                return 200, self._settings
            case "GET", ["api", "projects", number]:
                return 200, self._told(number)
            case "PATCH", ["api", "projects", "7"]:
                self._check_model_version(body.get("model_version"))
                self._project |= body
                for task in self._tasks.values():
                    self._count(task)
                return 200, self._told("7")
            case "POST", ["api", "projects", "7", "import"]:
                return self._import(body, asked)
            case "POST", ["api", "projects", "7", "import", "predictions"]:
                return self._predict(body)
            case "DELETE", ["api", "predictions", number]:
                self._remove_prediction(int(number))
                return 204, None
            case "GET", ["api", "tasks"]:
                return self._list(asked, person)
            case "PATCH", ["api", "tasks", number]:
                self._task(number)["data"] = body["data"]
                return 200, self._task(number)
            case "DELETE", ["api", "tasks", number]:
                self._task(number)
                del self._tasks[int(number)]
                return 204, None
            case "POST", ["api", "tasks", number, "annotations"]:
                return 201, self._annotate(self._task(number), body, person)
            case "POST", ["api", "tasks", number, "drafts"]:
                task = self._task(number)
                task["drafts"].append({"id": 1, "user": person, "result": body["result"]})
                task["draft_exists"] = True
                return 201, task["drafts"][-1]
        raise RequestRefusedError(404, "Not found.")

    def _let_in(self, given):
        """Return who asks."""
        people = {f"Token {token}": number for number, token in enumerate(PEOPLE, 1)}
        if given in people:
            if not self._settings["legacy_api_tokens_enabled"]:
                raise RequestRefusedError(
                    401,
                    "Authentication token no longer valid: legacy token authentication has been "
                    "disabled for this organization",
                )
        elif (given or "").startswith("Token "):
            raise RequestRefusedError(401, "Invalid token.")
        elif given != f"Bearer {ACCESS}" or not self._settings["api_tokens_enabled"]:
            raise RequestRefusedError(401, "Authentication credentials were not provided.")
        return people.get(given, 1)

    def _told(self, number):
        if number != "7":
            raise RequestRefusedError(404, "No Project matches the given query.")
        return self._project | {"parsed_label_config": _parsed(self._project["label_config"])}

    def _task(self, number):
        if int(number) not in self._tasks:
            raise RequestRefusedError(404, "No Task matches the given query.")
        return self._tasks[int(number)]

    def _annotate(self, task, body, person):
        made = MAKING.format(sum(len(t["annotations"]) for t in self._tasks.values()))
        annotation = {"id": 1, "completed_by": person, "was_cancelled": False, "created_at": made}
        annotation["created_username"] = f" {EMAILS[person - 1]}, {person}"
        task["annotations"].append(annotation | body)
        self._count(task)
        return task["annotations"][-1]

    def _count(self, task):
        done = {one["completed_by"] for one in task["annotations"] if not one["was_cancelled"]}
        task["is_labeled"] = len(done) >= self._project["maximum_annotations"]

    def _import(self, tasks, asked):
        tasks = tasks if isinstance(tasks, list) else [tasks]
        if not tasks:
            raise invalid("load_tasks: No tasks added")
        types = _data_types(self._project["label_config"])
        errors = [_refused(number, task, types) for number, task in enumerate(tasks)]
        if any(errors):
            raise invalid(*errors)
        numbers = [self._add(task) for task in tasks]
        n = sum(len(task.get("predictions", ())) for task in tasks)
        found = {"task_count": len(tasks), "annotation_count": 0, "prediction_count": n}
        return 201, found | (
            {"task_ids": numbers} if asked.get("return_task_ids") == "true" else {}
        )

    def _add(self, task):
        number = max(self._tasks, default=self._first - 1) + 1
        self._tasks[number] = {
            "id": number,
            "project": 7,
            "data": task["data"],
            "meta": task.get("meta", {}),
            "predictions": [],
            "annotations": [],
            "is_labeled": False,
            "drafts": [],
            "draft_exists": False,
        }
        for one in task.get("predictions", ()):
            self._add_prediction(number, one)
        return number

    def _add_prediction(self, number, prediction):
        self._predictions += 1
        kept = {"id": self._predictions, "task": number} | _predicted(prediction)
        self._tasks[number]["predictions"].append(kept)

    def _check_model_version(self, version):
        kept = [one for task in self._tasks.values() for one in task["predictions"]]
        if version and version not in {one["model_version"] for one in kept}:
            raise RequestRefusedError(400, "Validation error")

    def _predict(self, predictions):
        for one in predictions:
            if one["task"] not in self._tasks:
                raise RequestRefusedError(400, "Validation error")
        for one in predictions:
            self._add_prediction(one["task"], one)
        return 201, {"created": len(predictions)}

    def _remove_prediction(self, number):
        for task in self._tasks.values():
            for one in task["predictions"]:
                if one["id"] == number:
                    task["predictions"].remove(one)
                    return
        raise RequestRefusedError(404, "No Prediction matches the given query.")

    def _list(self, asked, person):
        if asked.get("project") != "7":
            raise RequestRefusedError(404, "No Project matches the given query.")
        chosen = json.loads(asked.get("query", "{}")).get("selectedItems", {})
        included = chosen.get("included") or self._tasks.keys()  # none chosen: all
        tasks = [self._tasks[number] for number in sorted(self._tasks) if number in included]
        size, page = int(asked["page_size"]), int(asked["page"])
        rows = tasks[(page - 1) * size : page * size]
        if page < 1 or (page > 1 and not rows):
            raise RequestRefusedError(404, "Invalid page.")
        if asked.get("fields") != "all":
            told = ("id", "data", "meta", "is_labeled", "project")
            rows = [{name: row[name] for name in told} | {"drafts": []} for row in rows]
        drafts = [[d for d in row["drafts"] if d["user"] == person] for row in rows]
        rows = [row | {"drafts": own} for row, own in zip(rows, drafts, strict=True)]
        n = sum(len(task["annotations"]) for task in tasks)
        predicted = sum(len(task["predictions"]) for task in tasks)
        counts = {"total": len(tasks), "total_annotations": n, "total_predictions": predicted}
        return 200, counts | {"tasks": rows}


def _parsed(xml):
    """Return the tags that take answers, each with what it is about."""
    root = ElementTree.fromstring(xml)
    inputs, outputs = {}, {}
    for tag in root.iter():
        name, value = tag.get("name"), tag.get("value")
        if name and tag.get("toName"):
            labels = [one.get("alias") or one.get("value") for one in tag.iter("Choice")]
            outputs[name] = {
                "type": tag.tag,
                "to_name": tag.get("toName").split(","),
                "labels": labels,
            }
        elif name and value:
            shown = {"type": tag.tag, "valueType": tag.get("valueType")}
            inputs[name] = shown | {"value": value.lstrip("$")}
    for output in outputs.values():
        output["inputs"] = [inputs[name] for name in output["to_name"] if name in inputs]
    return outputs


def _data_types(xml):
    """Return the tag that shows it, of all that tasks must have."""
    found = {}
    for tag in ElementTree.fromstring(xml).findall(".//*[@value]"):
        value = tag.get("value")
        if not tag.get("name"):
            continue
        if len(value) > 1 and value[0] == "$":
            name = value[1:]
        else:
            names = re.findall(r"\$\w+", value)
            name = names[0][1:] if names else None
        if name and found.get(name) != "Video":
            found[name] = tag.tag
    return found


def _refused(number, task, types):
    """Return what is wrong with a task, {} if nothing is."""
    for key, tag in types.items():
        is_list, path = "[" in key, key.partition("[")[0]
        takes = (list,) if is_list else TYPES.get(tag, (str,))
        try:
            value = reduce(getitem, path.split("."), task["data"])
        except KeyError:
            reason = f'"{path}" key is expected in task data'
        except TypeError as error:
            raise RequestRefusedError(500, str(error)) from None
        else:
            if isinstance(value, takes):
                continue
            reason = (
                f"data['{path}']={value} is of type '{type(value).__name__}', but the object tag "
                f"{tag} expects the following types: {[one.__name__ for one in takes]}"
            )
        reason += ' [assume: item["data"] = task root with values]'
        return f"Error at item {number}: {reason} :: {task}"
    return {}


def _predicted(prediction):
    """Return a prediction as it is kept: nothing of it is compared with the interface."""
    try:
        score = float(prediction["score"])
    except (TypeError, ValueError):
        score = None
    kept = {"model_version": str(prediction["model_version"]), "score": score}
    return kept | {"result": prediction["result"]}
