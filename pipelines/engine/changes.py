"""Validates commands against what a pipeline has: versions, classes, decisions."""

import logging
from collections.abc import Callable, Sequence

from streamboost.errors import ConfigurationError, ModelFileError, StateError
from streamboost.pipelines.engine.classes import Classes
from streamboost.pipelines.engine.intake import refuse
from streamboost.pipelines.engine.pipeline import Pipeline, decisions_of
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.naming import NEW, as_label, refuse_unknown_class
from streamboost.stream.checks import Label

__all__ = ["accepted", "known_classes"]

_log = logging.getLogger(__name__)


def accepted(
    pipeline: Pipeline, commands: Sequence[Command], tell: Callable[[str], None]
) -> list[Command]:
    """Return the commands that a pipeline can obey, with the versions they name at hand.

    Each is checked against the classes there are after those before it. Of what is refused, `tell`
    is told why.
    """
    found = []
    classes = pipeline.classes.copy()
    for command in commands:
        try:
            check(pipeline, command, classes)
            found.append(command)
        except (ConfigurationError, ModelFileError, StateError) as error:
            refuse(str(command), error)
            tell(f"the command {command} is not obeyed: {error}")
    return found


def check(pipeline: Pipeline, command: Command, classes: Classes) -> None:
    """Raise StateError or ConfigurationError where a pipeline cannot obey a command.

    It is tried on `classes`. A model of others can only be decided by.
    """
    is_served = pipeline.models is not None and pipeline.models.serving is not None
    if is_served and command.command != "decide":
        raise StateError(f"[model] serves, which knows no {command.command}")
    if command.version is not None:
        pipeline.versions.fetch(command.version)
    if command.label is not None:
        _check_classes(pipeline, command, classes)
    if command.decision is not None:
        if not pipeline.decides:
            raise StateError("scorers decide nothing: go by `probabilities` of predictions")
        decisions, kind = decisions_of(command.decision), pipeline.schema.labels_are
        if decisions is not None and kind is not None:
            known = _known(pipeline, classes)
            for name in decisions.classes:
                label = as_label(name, kind)
                if not command.new:
                    refuse_unknown_class(label, known, NEW)
    if command.command == "promote" and pipeline.learner.trainer.challenger is None:
        raise StateError("no challenger is being judged")


def _check_classes(pipeline: Pipeline, command: Command, classes: Classes) -> None:
    """Try a command on `classes`; StateError where it names a class that there is not."""
    kind, known = pipeline.schema.labels_are, _known(pipeline, classes)
    assert command.label is not None
    label = as_label(command.label, kind)
    if command.command == "unmerge":
        classes.check(command, kind)
        classes.undo(label)
        return
    refuse_unknown_class(label, known)
    if command.into is not None and not command.new:
        refuse_unknown_class(as_label(command.into, kind), known, NEW)
    classes.obey(command, kind)


def known_classes(pipeline: Pipeline) -> list[Label]:
    """Return the classes that a command may name, each once.

    They are those of the labels learned or waiting, those that [schema] declares, and those that
    were merged or dropped; before the first label, those of the committee to begin with.
    """
    return _known(pipeline, pipeline.classes)


def _known(pipeline: Pipeline, classes: Classes) -> list[Label]:
    learner, schema = pipeline.learner, pipeline.schema
    known: list[Label] = list(learner.classes)
    if not known and learner.committee is not None:
        known = learner.committee.classes.tolist()
    if schema.labels_are == "boolean":
        known += ["false", "true"]
    known += [*schema.classes, *pipeline.join.waiting_labels(), *classes.named]
    known += [one for one in map(classes.now, known) if one is not None]
    return list(dict.fromkeys(known))
