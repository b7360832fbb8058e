"""A learner as arrays, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.query import QueryStrategy
from streamboost.errors import ModelFileError
from streamboost.features import Features
from streamboost.storage import FORMAT, Arrays, pack_json, part, unpack_json
from streamboost.stream.estimators import describe, rebuild
from streamboost.stream.labelled_rows.working_set import WorkingSet
from streamboost.stream.training.schedule import Schedule

if TYPE_CHECKING:
    from streamboost.stream.learner import StreamLearner

__all__ = ["at_rest", "pack", "unpack"]


def pack(learner: "StreamLearner") -> Arrays:
    """Return all there is to the learner."""
    labelled, rows = learner._rows.state()
    asking, window = learner._asking.state()
    drift, signals = learner._drift.state()
    blend, said = learner._blend.state()
    trainer, committees = learner.trainer.state()
    about = {
        "format": FORMAT,
        "estimator": describe(learner.estimator),
        "working_set": asdict(learner.working_set),
        "schedule": asdict(learner.schedule),
        "query": asdict(learner.strategy),
        "n_features": learner.n_features,
        "calibrate": learner.judge.calibrate,
        "coverage": learner.judge.label_sets.coverage,
        "labelled": labelled,
        "trainer": trainer,
        "asking": asking,
        "drift": drift,
        "experts": learner.experts,
        "on_conflict": learner.on_conflict,
        "annotators": learner.annotators.state(),
        "doubts": learner._doubts.state(),
        "renamed": list(learner._renamed.items()),
        "blend": blend,
        "label_lags": learner._lags.n,
        "lags": learner._lags.state(),
    }
    mixed: Arrays = {}
    if learner.features is not None:
        about["features"], tables = learner.features.state()
        mixed = {f"features.{name}": array for name, array in tables.items()}
    return {
        **mixed,
        "about": pack_json(about),
        **{f"rows.{name}": array for name, array in rows.items()},
        **{f"window.{name}": array for name, array in window.items()},
        **{f"blend.{name}": array for name, array in said.items()},
        **{f"judge.{name}": array for name, array in learner.judge.state().items()},
        **{f"drift.{name}": array for name, array in signals.items()},
        **{f"trainer.{name}": array for name, array in committees.items()},
    }


def unpack(kind: type["StreamLearner"], arrays: Mapping[str, np.ndarray]) -> "StreamLearner":
    """Return the learner that `pack` took apart; ModelFileError if the arrays are not one."""
    try:
        about = unpack_json(arrays["about"])
        if about["format"] != FORMAT:
            raise ModelFileError(
                f"the learner's snapshot has format {about['format']!r}, and this release reads "
                f"{FORMAT!r}; train a new learner and take its snapshot"
            )
        return _from(kind, about, arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"these arrays are not a learner's snapshot: {error!r}; give what "
            "StreamLearner.snapshot returned"
        ) from error


def at_rest(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return a snapshot's arrays for one who only predicts: no training goes on in it.

    Raises ModelFileError where they are not a snapshot's.
    """
    try:
        about = unpack_json(arrays["about"])
        about["trainer"]["underway"] = None
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"these arrays are not a learner's snapshot: {error!r}") from error
    return {**arrays, "about": pack_json(about)}


def _from(
    kind: type["StreamLearner"], about: dict[str, Any], arrays: Mapping[str, np.ndarray]
) -> "StreamLearner":
    features = None
    if (fields := about.get("features")) is not None:
        features = Features.restore(fields, part(arrays, "features."))
    learner = kind(
        estimator=rebuild(about["estimator"]),
        working_set=WorkingSet(**about["working_set"]),
        schedule=Schedule(**about["schedule"]),
        query=QueryStrategy(**about["query"]),
        n_features=about["n_features"],
        calibrate=about["calibrate"],
        coverage=about["coverage"],
        label_lags=about["label_lags"],
        features=features,
        experts=about["experts"],
        on_conflict=about["on_conflict"],
    )
    learner.annotators.resume(about["annotators"])
    learner._doubts.resume(about["doubts"])
    learner._renamed = dict(about["renamed"])
    learner._blend.resume(about["blend"], part(arrays, "blend."))
    learner._rows.resume(about["labelled"], part(arrays, "rows."))
    learner._asking.resume(about["asking"], part(arrays, "window."))
    learner._lags.resume(about["lags"])
    learner.judge.resume(part(arrays, "judge."))
    learner._drift.resume(about["drift"], part(arrays, "drift."))
    learner.trainer.resume(about["trainer"], part(arrays, "trainer."))
    return learner
