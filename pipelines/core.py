"""The learner that a pipeline file describes.

[committee], [working_set], [schedule] and [query] take the parameters of the classes they
configure; names, defaults and limits stand there and nowhere else. A "sketch" committee has the
stream learner's own defaults, which suit few labels.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from streamboost.active.query import QueryStrategy
from streamboost.boosting.estimator import BoostingClassifier
from streamboost.boosting.gamble import GambleClassifier
from streamboost.errors import ConfigurationError
from streamboost.pipelines.problems import Problem, unknown_key
from streamboost.stream.estimators import Trainable, default_estimator
from streamboost.stream.learner import StreamLearner
from streamboost.stream.schedule import Schedule
from streamboost.stream.working_set import WorkingSet

__all__ = ["Core", "build_core"]

Part = TypeVar("Part")

ESTIMATORS: dict[str, Callable[[], Trainable]] = {
    "sketch": default_estimator,
    "gamble": GambleClassifier,
}
STRATEGIES = ("margin", "random", "all")
EVERY_LABEL = {"utility": "random", "budget": 1.0, "audit": 0.0}

CHOICES = {"committee": {"estimator"}, "query": {"strategy"}}
NOT_IN_A_FILE = {"random_state", "n_jobs", "estimator", "utility"}
"""Parameters a file has no key for: the seed is [pipeline] seed, a batch is scored by one thread,
`estimator` names the committee's kind, and the utility follows from [query] strategy."""


@dataclass(frozen=True, slots=True)
class Core:
    """The parts of a learner, and the settings they came to, defaults included."""

    estimator: Trainable
    working_set: WorkingSet
    schedule: Schedule
    query: QueryStrategy
    settings: dict[str, dict[str, Any]]

    def learner(self, n_features: int, seed: int) -> StreamLearner:
        """Return a learner of these parts that knows nothing yet."""
        return StreamLearner(
            self.estimator,
            self.working_set,
            self.schedule,
            self.query,
            n_features=n_features,
            random_state=seed,
        )


def build_core(sections: Mapping[str, Mapping[str, Any]]) -> Core | list[Problem]:
    """Build the parts from their sections; return everything that is wrong if anything is."""
    problems: list[Problem] = []
    committee, query = dict(sections["committee"]), dict(sections["query"])
    kind = _choose(committee, "committee", "estimator", tuple(ESTIMATORS), problems)
    strategy = _choose(query, "query", "strategy", STRATEGIES, problems)
    fixed: dict[str, Any] = {"utility": strategy}
    if strategy == "all":
        fixed = EVERY_LABEL
        problems += [
            Problem("query", key, 'strategy "all" buys every label: leave this key out')
            for key in sorted(fixed.keys() & query.keys())
        ]
    estimator = _estimator(ESTIMATORS[kind](), committee, problems)
    working_set = _build("working_set", WorkingSet, sections["working_set"], {}, problems)
    schedule = _build("schedule", Schedule, sections["schedule"], {}, problems)
    asked = _build("query", QueryStrategy, query, fixed, problems)
    if estimator is None or working_set is None or schedule is None or asked is None or problems:
        return problems
    settings = {
        "committee": {"estimator": kind} | _in_a_file(estimator.get_params()),
        "working_set": asdict(working_set),
        "schedule": asdict(schedule),
        "query": {"strategy": strategy} | _in_a_file(asdict(asked)),
    }
    return Core(estimator, working_set, schedule, asked, settings)


def _choose(
    values: dict[str, Any],
    section: str,
    key: str,
    choices: tuple[str, ...],
    problems: list[Problem],
) -> str:
    """Take `key` out of `values`: one of `choices`, the first if it is not there."""
    value = values.pop(key, choices[0])
    if value in choices:
        return str(value)
    words = ", ".join(f'"{choice}"' for choice in choices)
    problems.append(Problem(section, key, f"must be one of {words}, and is {value!r}"))
    return choices[0]


def _estimator(
    estimator: Trainable, values: Mapping[str, Any], problems: list[Problem]
) -> Trainable | None:
    """Set the parameters that [committee] names."""
    if not _are_known("committee", values, estimator.get_params(), problems):
        return None
    assert isinstance(estimator, BoostingClassifier)
    try:
        estimator.set_params(**values)
        estimator._validate_params()
    except ValueError as error:
        problems.append(Problem("committee", None, str(error)))
        return None
    return estimator


def _build(
    section: str,
    kind: Callable[..., Part],
    values: Mapping[str, Any],
    fixed: Mapping[str, Any],
    problems: list[Problem],
) -> Part | None:
    """Make a part from its section's `values` and what is `fixed` beside them."""
    if not _are_known(section, values, inspect.signature(kind).parameters, problems):
        return None
    try:
        return kind(**{**values, **fixed})
    except ConfigurationError as error:
        problems.append(Problem(section, None, str(error)))
        return None


def _are_known(
    section: str, values: Iterable[str], parameters: Iterable[str], problems: list[Problem]
) -> bool:
    known = set(parameters) - NOT_IN_A_FILE
    unknown = sorted(set(values) - known)
    offered = known | CHOICES.get(section, set())
    problems += [unknown_key(section, key, offered) for key in unknown]
    return not unknown


def _in_a_file(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in NOT_IN_A_FILE}
