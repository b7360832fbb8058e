"""Label Studio's API: tasks with a suggested answer go in, finished annotations come out.

The community edition's REST API as documented at api.labelstud.io: a project's labelling interface
must have a `Choices` tag, whose choices are the labels. Tasks are told apart by the text that their
data holds under `KEY`.
"""

import json
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamboost.connectors.label_studio.api import Api
from streamboost.connectors.label_studio.interface import Variable, variables_of
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

__all__ = ["KEY", "Choices", "LabelStudio", "Task"]

KEY = "streamboost"
"""The field of a task's data that says whose task it is."""

_PAGE = 100
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Choices:
    """The tag of a labelling interface that an answer is given in.

    Attributes
    ----------
    name, to_name
        The tag's, and that of what it is about.
    labels
        Its choices.
    variables
        What the interface shows, so that the data of each task must have it.
    """

    name: str
    to_name: str
    labels: tuple[str, ...]
    variables: tuple[Variable, ...]

    def result(self, label: str) -> list[dict[str, Any]]:
        """Return what an annotation of `label` holds."""
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
class Task:
    """A task as it stands.

    Attributes
    ----------
    id
        Label Studio's number for it.
    key
        What its data holds under `KEY`; None where it is not one of ours.
    is_touched
        Whether somebody has annotated or skipped it, or has a draft.
    label
        What its annotations say, once there are as many as the project wants: the choice that most
        of them made, of equals the first. None before, or where none made one.
    time
        When the newest of them was made, as Label Studio writes it.
    """

    id: int
    key: str | None
    is_touched: bool
    label: str | None
    time: str | None


class LabelStudio:
    """A project of a Label Studio server.

    Parameters
    ----------
    url : str
        Where the server is, such as "http://localhost:8080".
    project : int
        The project's number, which its address ends in.
    token : str
        Of a user who may change the project: a personal access token or a legacy one.
    timeout : float
        Seconds to wait for an answer.

    Attributes
    ----------
    where
        The project, for a person to read.

    Raises
    ------
    UnavailableError
        From every method, when the server cannot be reached, fails or is too busy. What was asked
        may have been done nevertheless.
    ConnectorError
        When it refuses: nothing was done.

    Examples
    --------
    >>> studio = LabelStudio("http://localhost:8080/", 7, "0123456789abcdef")
    >>> studio.where
    'project 7 at http://localhost:8080'
    """

    def __init__(self, url: str, project: int, token: str, timeout: float = _TIMEOUT) -> None:
        self._project = project
        self.where = f"project {project} at {url.rstrip('/')}"
        self._api = Api(url.rstrip("/"), token, self.where, timeout)

    def choices(self, name: str | None = None) -> Choices:
        """Return the project's `Choices` tag of that name, or the only one it has.

        Raises ConfigurationError where there is none, or several and no name.
        """
        project = self._api.get(f"/api/projects/{self._project}/", _Project)
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
            variables = variables_of(project.label_config)
        except ValueError as error:
            raise ConnectorError(f"{self.where}: {error}") from None
        return Choices(name, tag.to_name[0], tuple(tag.labels), variables)

    def create(self, tasks: Sequence[Mapping[str, Any]]) -> list[int]:
        """Import `tasks`, at least one, each with its data and predictions; return their numbers.

        An edition that imports in its own time returns none. Raises RefusedError where one of them
        cannot be shown, and imports none.
        """
        path = f"/api/projects/{self._project}/import?return_task_ids=true"
        return self._api.post(path, tasks, _Import).task_ids

    def tasks(self, choices: Choices, ids: Iterable[int] | None = None) -> dict[int, Task]:
        """Return the tasks numbered `ids`, as far as they are there, or all of the project."""
        if ids is None:
            return self._tasks(choices, None)
        found: dict[int, Task] = {}
        wanted = list(ids)
        for start in range(0, len(wanted), _PAGE):
            found |= self._tasks(choices, wanted[start : start + _PAGE])
        return found

    def delete(self, id: int) -> None:
        """Remove the task; it may be gone already."""
        self._api.delete(f"/api/tasks/{id}/")

    def _tasks(self, choices: Choices, ids: Sequence[int] | None) -> dict[int, Task]:
        found: dict[int, Task] = {}
        for page in self._pages(ids):
            known = len(found)
            found |= {row.id: row.read(choices) for row in page.tasks}
            if len(found) >= page.total:
                return found
            if len(found) == known:
                break
        else:
            if not found:
                return found
        raise UnavailableError(f"{self.where}: its tasks changed while they were listed")

    def _pages(self, ids: Sequence[int] | None) -> Iterator["_Page"]:
        query: dict[str, Any] = {"project": self._project, "fields": "all", "resolve_uri": "false"}
        if ids is not None:
            chosen = {"selectedItems": {"all": False, "included": list(ids)}}
            query["query"] = json.dumps(chosen, separators=(",", ":"))
        number = 1
        while True:
            query |= {"page": number, "page_size": _PAGE}
            path = f"/api/tasks/?{urllib.parse.urlencode(query)}"
            # Beyond the last page there is none.
            page = self._api.get(path, _Page) if number == 1 else self._api.find(path, _Page)
            if page is None or not page.tasks:
                return
            yield page
            number += 1


class _Tag(msgspec.Struct):
    type: str
    to_name: list[str] = []
    labels: list[str] = []


class _Project(msgspec.Struct):
    id: int
    label_config: str
    parsed_label_config: dict[str, _Tag] | None = None


class _Import(msgspec.Struct):
    task_ids: list[int] = []


class _Result(msgspec.Struct):
    from_name: str | None = None
    type: str | None = None
    value: dict[str, Any] = {}


class _Annotation(msgspec.Struct):
    result: list[_Result] | None = None
    was_cancelled: bool = False
    created_at: str | None = None

    def choice(self, name: str) -> str | None:
        """Return what was chosen in the tag `name`, None unless it is one thing."""
        chosen = [
            label
            for one in self.result or ()
            if one.from_name == name and one.type == "choices"
            for label in one.value.get("choices", ())
        ]
        return str(chosen[0]) if len(chosen) == 1 else None


class _Row(msgspec.Struct):
    id: int
    data: dict[str, Any] = {}
    annotations: list[_Annotation] = []
    is_labeled: bool = False
    draft_exists: bool = False  # `drafts` are those of the token's user alone

    def read(self, choices: Choices) -> Task:
        done = [one for one in self.annotations if not one.was_cancelled]
        votes = Counter(one.choice(choices.name) for one in done)
        del votes[None]
        best = votes.most_common(1)
        label = best[0][0] if best and self.is_labeled else None
        times = [one.created_at for one in done if one.created_at]
        key = self.data.get(KEY)
        return Task(
            id=self.id,
            key=key if isinstance(key, str) else None,
            is_touched=bool(self.annotations) or self.draft_exists,
            label=label,
            time=max(times, default=None),
        )


class _Page(msgspec.Struct):
    tasks: list[_Row]
    total: int
