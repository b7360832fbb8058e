"""Label Studio projects: imports tasks and predictions, and reads finished annotations.

Uses the community edition's REST API as documented at api.labelstud.io. A project's labelling
interface must have a `Choices` tag, whose choices are the labels. Tasks are identified by the text
in the field `KEY` of their data.
"""

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamboost.connectors.label_studio.api import ApiClient
from streamboost.connectors.label_studio.interface import TaskVariable, required_variables
from streamboost.connectors.messages.labels import unprintable_character_fault
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

KEY = "streamboost"
"""Field of a task's data that identifies the task."""

_PAGE = 100
_TIMEOUT = 30.0

_UNKNOWN_ANNOTATOR = "label studio"

_EMAIL = re.compile(r'([^\s"]+@[^\s"]+), \d+$')
"""E-mail address in an annotation's `created_username`, which is "Ann Lee ann@example.com, 4"."""


@dataclass(frozen=True, slots=True)
class ChoicesTag:
    """`Choices` tag of a labelling interface, with which annotators select the label.

    Attributes
    ----------
    name, to_name : name of this tag, and name of the tag with the content that is labelled
    labels : labels that annotators can select
    variables : fields that the interface shows, and that the data of each task must have
    """

    name: str
    to_name: str
    labels: tuple[str, ...]
    variables: tuple[TaskVariable, ...]

    def annotation_result(self, label: str) -> list[dict[str, Any]]:
        """Return `label` as the `result` list of an annotation in Label Studio's format."""
        value = {"choices": [label]}
        return [
            {
                "id": "label",
                "from_name": self.name,
                "to_name": self.to_name,
                "type": "choices",
                "value": value,
            }
        ]


@dataclass(frozen=True, slots=True)
class LabelStudioAnswer:
    """Newest choice of an annotator in a task.

    Attributes
    ----------
    label : the choice
    annotator : e-mail address of the annotator, which is unique on a server. Without a usable
        address, "label studio" and the annotator's number; without a number, "label studio".
    time : creation time of the annotation, in Label Studio's format
    """

    label: str
    annotator: str
    time: str | None


class LabelStudioPrediction(msgspec.Struct, frozen=True):
    """Prediction of a task, as the API reads and writes it.

    Attributes
    ----------
    task : number of the task
    model_version : text by which the Data Manager filters predictions
    score : number by which the Data Manager sorts tasks
    result : the predicted annotation in Label Studio's format; empty if no label is predicted
    id : number of the prediction; None for a new one
    """

    task: int
    model_version: str | None
    score: float | None
    result: Any
    id: int | None = None


@dataclass(frozen=True, slots=True)
class LabelStudioTask:
    """Current state of a task.

    Attributes
    ----------
    id : number of the task in Label Studio
    key : text in the field `KEY` of the task's data; None without such a text
    data : data of the task
    predictions : predictions of the task
    is_touched : whether an annotator has annotated or skipped the task, or has a draft
    is_begun : whether an annotator has annotated the task, or has a draft
    answers : the newest answer of each annotator, in the order of their first answers. Empty until
        the task has the number of annotations that the project requires.
    """

    id: int
    key: str | None
    data: Mapping[str, Any]
    predictions: tuple[LabelStudioPrediction, ...]
    is_touched: bool
    is_begun: bool
    answers: tuple[LabelStudioAnswer, ...]


class LabelStudioProject:
    """A project of a Label Studio server.

    Parameters
    ----------
    url : str
        Address of the server, such as "http://localhost:8080".
    project : int
        Number of the project, the last part of its address.
    token : str
        Token of a user who may change the project: a personal access token or a legacy one.
    timeout : float
        Timeout of a request in seconds.

    Attributes
    ----------
    where : description of the project for messages

    Raises
    ------
    UnavailableError
        By every method, when the server cannot be reached, fails or is too busy. The request may
        have had an effect.
    ConnectorError
        By every method, when the server refuses the request, which has no effect then.

    Examples
    --------
    >>> studio = LabelStudioProject("http://localhost:8080/", 7, "0123456789abcdef")
    >>> studio.where
    'project 7 at http://localhost:8080'
    """

    def __init__(self, url: str, project: int, token: str, timeout: float = _TIMEOUT) -> None:
        self._project = project
        self.where = f"project {project} at {url.rstrip('/')}"
        self._api = ApiClient(url.rstrip("/"), token, self.where, timeout)

    def fetch_choices_tag(self, name: str | None = None) -> ChoicesTag:
        """Return the project's `Choices` tag with this name, or its only one if `name` is None.

        Raises ConfigurationError if there is no such tag, or several tags and no `name`.
        """
        project = self._api.get(f"/api/projects/{self._project}/", _ProjectResponse)
        tags = project.parsed_label_config or {}
        found = [each for each, tag in tags.items() if tag.type == "Choices"]
        if name is None and len(found) == 1:
            name = found[0]
        if name is None or name not in found:
            asked = "which Choices tag is meant" if name is None else f"the Choices tag {name!r}"
            raise ConfigurationError(
                f"{self.where}: {asked} is not clear: there is {', '.join(found) or 'none'}; give "
                "the labelling interface one Choices tag with the labels, or name one of several"
            )
        tag = tags[name]
        try:
            variables = required_variables(project.label_config)
        except ValueError as error:
            raise ConnectorError(f"{self.where}: {error}") from None
        return ChoicesTag(name, tag.to_name[0], tuple(tag.labels), variables)

    def create_tasks(self, tasks: Sequence[Mapping[str, Any]]) -> list[int]:
        """Import at least one task, each with its data and predictions; return their ids.

        The list is empty if the server imports asynchronously, as some editions do. If a task lacks
        a field that the interface shows, RequestRefusedError is raised, and no task is imported.
        """
        path = f"/api/projects/{self._project}/import?return_task_ids=true"
        return self._api.post(path, tasks, _ImportResponse).task_ids

    def fetch_tasks(
        self, choices: ChoicesTag, ids: Iterable[int] | None = None
    ) -> dict[int, LabelStudioTask]:
        """Return existing tasks, keyed by id: those in `ids`; None: all tasks of the project."""
        if ids is None:
            return self._fetch_task_batch(choices, None)
        found: dict[int, LabelStudioTask] = {}
        wanted = list(ids)
        for start in range(0, len(wanted), _PAGE):
            found |= self._fetch_task_batch(choices, wanted[start : start + _PAGE])
        return found

    def delete_task(self, id: int) -> None:
        """Delete the task with this id, if it exists."""
        self._api.delete(f"/api/tasks/{id}/")

    def create_predictions(self, predictions: Sequence[LabelStudioPrediction]) -> None:
        """Add predictions to existing tasks of the project."""
        path = f"/api/projects/{self._project}/import/predictions"
        for start in range(0, len(predictions), _PAGE):
            self._api.post(path, predictions[start : start + _PAGE], dict[str, Any])

    def select_model_version(self, model_version: str) -> None:
        """Let the project sort tasks by the predictions of a model version, if none is selected.

        A prediction of `model_version` must exist.
        """
        path = f"/api/projects/{self._project}/"
        if not self._api.get(path, _ProjectResponse).model_version:
            self._api.patch(path, {"model_version": model_version}, _ProjectResponse)

    def delete_prediction(self, id: int) -> None:
        """Delete the prediction with this id, if it exists."""
        self._api.delete(f"/api/predictions/{id}/")

    def _fetch_task_batch(
        self, choices: ChoicesTag, ids: Sequence[int] | None
    ) -> dict[int, LabelStudioTask]:
        found: dict[int, LabelStudioTask] = {}
        for page in self._fetch_task_pages(ids):
            known = len(found)
            found |= {row.id: row.to_label_studio_task(choices) for row in page.tasks}
            if len(found) >= page.total:
                return found
            if len(found) == known:
                break
        else:
            if not found:
                return found
        raise UnavailableError(f"{self.where}: its tasks changed while they were listed")

    def _fetch_task_pages(self, ids: Sequence[int] | None) -> Iterator["_TaskPage"]:
        query: dict[str, Any] = {"project": self._project, "fields": "all", "resolve_uri": "false"}
        if ids is not None:
            chosen = {"selectedItems": {"all": False, "included": list(ids)}}
            query["query"] = json.dumps(chosen, separators=(",", ":"))
        number = 1
        while True:
            query |= {"page": number, "page_size": _PAGE}
            path = f"/api/tasks/?{urllib.parse.urlencode(query)}"
            # The request for a page after the last one fails with 404.
            page = (
                self._api.get(path, _TaskPage)
                if number == 1
                else self._api.get_or_none(path, _TaskPage)
            )
            if page is None or not page.tasks:
                return
            yield page
            number += 1


class _ParsedTag(msgspec.Struct):
    type: str
    to_name: list[str] = []
    labels: list[str] = []


class _ProjectResponse(msgspec.Struct):
    id: int
    label_config: str
    parsed_label_config: dict[str, _ParsedTag] | None = None
    model_version: str | None = None


class _ImportResponse(msgspec.Struct):
    task_ids: list[int] = []


class _Annotation(msgspec.Struct):
    result: Any = None  # the server stores any JSON that a program sends
    was_cancelled: bool = False
    created_at: str | None = None
    completed_by: Any = None
    created_username: Any = None

    def annotator(self) -> str:
        found = _EMAIL.search(str(self.created_username))
        if found and not unprintable_character_fault(found[1]):
            return found[1]
        is_number = isinstance(self.completed_by, int)
        return f"{_UNKNOWN_ANNOTATOR} {self.completed_by}" if is_number else _UNKNOWN_ANNOTATOR

    def chosen_label(self, tag_name: str) -> str | None:
        results = [one for one in _list_or_empty(self.result) if isinstance(one, dict)]
        values = [
            one.get("value")
            for one in results
            if one.get("from_name") == tag_name and one.get("type") == "choices"
        ]
        chosen = [
            label
            for value in values
            if isinstance(value, dict)
            for label in _list_or_empty(value.get("choices"))
        ]
        return chosen[0] if len(chosen) == 1 and isinstance(chosen[0], str) and chosen[0] else None


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _TaskResponse(msgspec.Struct):
    id: int
    data: dict[str, Any] = {}
    annotations: list[_Annotation] = []
    predictions: list[LabelStudioPrediction] = []
    is_labeled: bool = False
    draft_exists: bool = False  # `drafts` lists only drafts of the token's user

    def to_label_studio_task(self, choices: ChoicesTag) -> LabelStudioTask:
        answers: dict[str, LabelStudioAnswer] = {}
        for one in sorted(self.annotations, key=lambda each: each.created_at or ""):
            label = one.chosen_label(choices.name)
            if self.is_labeled and not one.was_cancelled and label is not None:
                annotator = one.annotator()
                answers[annotator] = LabelStudioAnswer(label, annotator, one.created_at)
        key = self.data.get(KEY)
        is_annotated = any(not one.was_cancelled for one in self.annotations)
        return LabelStudioTask(
            id=self.id,
            key=key if isinstance(key, str) else None,
            data=self.data,
            predictions=tuple(self.predictions),
            is_touched=bool(self.annotations) or self.draft_exists,
            is_begun=is_annotated or self.draft_exists,
            answers=tuple(answers.values()),
        )


class _TaskPage(msgspec.Struct):
    tasks: list[_TaskResponse]
    total: int
