"""Learner of a pipeline file: builds its parts from the learner's sections.

[committee], [working_set], [schedule] and [query] take the parameters of the classes that they
configure, which define names, defaults and limits. A "sketch" committee has the stream learner's
defaults, which suit few labels. [committee] label_lags, calibrate and experts are parameters of the
learner. TOML has no null, so the text "none" means None.

The learner's `coverage` has no key, as predictions have no label sets. The sliding window of the
recent metrics has no key either, so that the metrics of two pipelines are comparable.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from streamboost.connectors.messages.schema import Schema
from streamboost.encoders import SentenceEncoders
from streamboost.features import Features
from streamboost.learner.estimators import Trainable, default_estimator
from streamboost.learner.label_lags import LabelLags
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule
from streamboost.learner.working_set import WorkingSet
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.problems import Problem, renamed_value_hint, unknown_key_problem
from streamboost.query.config import QueryConfig
from streamboost.query.strategies import UTILITIES
from streamboost.stacking.experts import as_expert_names

if TYPE_CHECKING:
    from streamboost.boosting.committee_trainer import CommitteeTrainer

Part = TypeVar("Part")

_BEGUN = {"first": 1_000, "promotion": "better"}
"""Defaults of [schedule] with an initial committee. It stays active until a committee trained on at
least `first` labels makes no more errors on new labels."""


def _default_gamble_classifier() -> "CommitteeTrainer":
    """Return a GAMBLE committee with default parameters; imports its module only when called."""
    from streamboost.boosting.reweighting.gamble import GambleClassifier

    return GambleClassifier()


KINDS: dict[str, Callable[[], "CommitteeTrainer"]] = {
    "sketch": default_estimator,
    "gamble": _default_gamble_classifier,
}
STRATEGIES = (*UTILITIES, "all")
EVERY_LABEL = {"strategy": "random", "budget": 1.0, "audit": 0.0, "mode": "stream"}

CHOICES = {
    "committee": {"estimator", "label_lags", "calibrate", "experts"},
    "query": {"strategy"},
}
NONE = "none"
NOT_IN_A_FILE = {
    *("random_state", "n_jobs", "estimator", "categorical_features", "class_weight"),
    *("weight_floor", "early_stopping", "validation_fraction", "n_iter_no_change", "tol"),
}
"""Parameters without a key in a pipeline file, and the reasons:

- random_state: [pipeline] seed is used
- n_jobs: one thread scores a batch
- estimator: [committee] estimator selects the type of the committee
- categorical_features: the features of a record are numbers
- class_weight: keys of TOML are text, but labels may be numbers
- weight_floor: GAMBLE without a floor is only of interest for research
- early stopping: a stream has too few labels for a validation set
"""


@dataclass(frozen=True, slots=True)
class LearnerConfig:
    """Configuration of a learner; `settings` are the learner's sections, with defaults."""

    label_lags: int
    calibrate: bool
    experts: tuple[str, ...]
    estimator: Trainable
    working_set: WorkingSet
    schedule: Schedule
    query: QueryConfig
    settings: dict[str, dict[str, Any]]

    def build_learner(
        self,
        schema: Schema,
        seed: int,
        on_conflict: str = "last",
        encoders: SentenceEncoders | None = None,
    ) -> StreamLearner:
        """Return an untrained learner with this configuration; `seed` seeds its random numbers.

        `on_conflict` is the value of [labels] on_conflict. `encoders` loads the sentence encoders
        of fields.
        """
        fields = schema.fields
        mixed = None
        if not isinstance(fields, str) and schema.numeric == "auto":
            mixed = Features(fields, encoders=encoders)
        return StreamLearner(
            self.estimator,
            self.working_set,
            self.schedule,
            self.query,
            n_features=self.label_lags + len(schema.features),
            random_state=seed,
            calibrate=self.calibrate,
            label_lags=self.label_lags,
            features=mixed,
            experts=self.experts,
            on_conflict=on_conflict,
        )


def build_learner_config(
    sections: Mapping[str, Mapping[str, Any]], *, has_initial_committee: bool = False
) -> LearnerConfig | list[Problem]:
    """Build the learner configuration from its sections of the pipeline file.

    If a section is invalid, all problems are returned instead. `has_initial_committee` is whether
    [initial_data] names a committee, which changes the defaults of [schedule].
    """
    problems: list[Problem] = []
    committee, query = dict(sections["committee"]), dict(sections["query"])
    kind = _pop_choice_or_default(committee, "committee", "estimator", tuple(KINDS), problems)
    lags = committee.pop("label_lags", 0)
    if _build_learner_part("committee", LabelLags, {"label_lags": lags}, problems) is None:
        lags = 0
    calibrate = committee.pop("calibrate", True)
    if not isinstance(calibrate, bool):
        text = f"must be true or false, and is {calibrate!r}"
        problems.append(Problem("committee", "calibrate", text))
    experts = committee.pop("experts", "all")
    known_experts = _build_learner_part(
        "committee", as_expert_names, {"experts": experts}, problems
    )
    strategy = _pop_choice_or_default(query, "query", "strategy", STRATEGIES, problems)
    fixed: dict[str, Any] = {"strategy": strategy}
    if strategy == "all":
        fixed = EVERY_LABEL
        problems += [
            Problem(
                "query",
                key,
                'does not apply to strategy "all", which requests every label: delete this key',
            )
            for key in sorted(fixed.keys() & query.keys())
        ]
    known = KINDS[kind]().get_params()
    estimator = _build_learner_part(
        "committee", partial(_build_estimator, kind, lags), committee, problems, known
    )
    working_set = _build_learner_part("working_set", WorkingSet, sections["working_set"], problems)
    given = {**(_BEGUN if has_initial_committee else {}), **sections["schedule"]}
    schedule = _build_learner_part("schedule", Schedule, given, problems)
    asked = _build_learner_part("query", partial(QueryConfig, **fixed), query, problems)
    if (
        estimator is None
        or working_set is None
        or schedule is None
        or asked is None
        or known_experts is None
        or problems
    ):
        return problems
    settings = {
        "committee": {
            "estimator": kind,
            "label_lags": lags,
            "calibrate": calibrate,
            "experts": experts if isinstance(experts, str) else list(experts),
        }
        | _to_toml_values(estimator.get_params()),
        "working_set": _to_toml_values(asdict(working_set)),
        "schedule": _to_toml_values(asdict(schedule)),
        "query": {"strategy": strategy} | _to_toml_values(_without_keys(asdict(asked), fixed)),
    }
    return LearnerConfig(
        lags, calibrate, known_experts, estimator, working_set, schedule, asked, settings
    )


def check_pool_window(query: QueryConfig, join_window: WindowSize) -> list[Problem]:
    """Return a problem if the join window may evict records that are still in the query pool."""
    held = join_window.records
    if query.mode != "pool" or (held is not None and held >= query.window):
        return []
    return [
        Problem(
            "query",
            "mode",
            f'"pool" may request any of the newest {query.window} records, but [pipeline] '
            f"join_window ({join_window}) may be shorter: set join_window to a number of records, "
            "at least [query] window",
        )
    ]


def _build_estimator(kind: str, label_lags: int, **params: Any) -> Trainable:
    estimator = KINDS[kind]()
    estimator.set_params(**params)
    estimator.check_parameters()
    if label_lags:  # lagged labels are categories, in the columns before the record's features
        estimator.set_params(categorical_features=list(range(label_lags)))
    return estimator


def _pop_choice_or_default(
    values: dict[str, Any],
    section: str,
    key: str,
    choices: tuple[str, ...],
    problems: list[Problem],
) -> str:
    """Remove `key` from `values` and return its value; by default, the first of `choices`.

    If the value is no choice, a problem is appended to `problems`.
    """
    value = values.pop(key, choices[0])
    if value in choices:
        return str(value)
    words = ", ".join(f'"{choice}"' for choice in choices)
    problems.append(Problem(section, key, f"must be one of {words}, and is {value!r}"))
    return choices[0]


def _build_learner_part(
    section: str,
    factory: Callable[..., Part],
    values: Mapping[str, Any],
    problems: list[Problem],
    known: Iterable[str] | None = None,
) -> Part | None:
    """Return `factory(**values)`; if values are invalid, return None and append to `problems`."""
    before = len(problems)
    values = _select_known_parameters(
        section, values, known or inspect.signature(factory).parameters, problems
    )
    while (error := _construction_error(factory, values)) is not None:
        # An error concerns the keys whose removal changes the error. Remove these keys, and repeat.
        about = [
            k for k in values if _construction_error(factory, _without_keys(values, [k])) != error
        ]
        key = about[0] if len(about) == 1 else None
        error += renamed_value_hint(section, key, values.get(key or ""))
        problems.append(Problem(section, key, error))
        values = _without_keys(values, about)
        if not about:
            break
    return factory(**values) if len(problems) == before else None


def _construction_error(factory: Callable[..., object], values: Mapping[str, Any]) -> str | None:
    try:
        factory(**values)
    except ValueError as error:
        return str(error)
    return None


def _without_keys(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _select_known_parameters(
    section: str, values: Mapping[str, Any], parameters: Iterable[str], problems: list[Problem]
) -> dict[str, Any]:
    """Return the values whose key is in `parameters`; append a problem for each other key."""
    known = set(parameters) - NOT_IN_A_FILE
    offered = known | CHOICES.get(section, set())
    problems += [
        unknown_key_problem(section, key, offered) for key in sorted(values.keys() - known)
    ]
    return {key: None if value == NONE else value for key, value in values.items() if key in known}


def _to_toml_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: NONE if value is None else value
        for key, value in values.items()
        if key not in NOT_IN_A_FILE
    }
