"""What changes a pipeline besides its data: commands, classes mended by them, and added fields."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamboost.errors import ConfigurationError, ModelFileError, StateError
from streamboost.features.fields import Field, as_field
from streamboost.pipelines.engine.classes import Classes
from streamboost.pipelines.engine.intake import refuse
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.naming import NEW, as_label, refuse_unknown_class
from streamboost.pipelines.state.versions import Versions
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.pipelines.engine.pipeline import Pipeline

__all__ = ["accepted", "decisions_of", "known_classes", "obey", "take_over"]

_log = logging.getLogger(__name__)


def accepted(
    pipeline: "Pipeline", commands: Sequence[Command], tell: Callable[[str], None]
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


def check(pipeline: "Pipeline", command: Command, classes: Classes) -> None:
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


def _check_classes(pipeline: "Pipeline", command: Command, classes: Classes) -> None:
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


def known_classes(pipeline: "Pipeline") -> list[Label]:
    """Return the classes that a command may name, each once.

    They are those of the labels learned or waiting, those that [schema] declares, and those that
    were merged or dropped; before the first label, those of the committee to begin with.
    """
    return _known(pipeline, pipeline.classes)


def _known(pipeline: "Pipeline", classes: Classes) -> list[Label]:
    learner, schema = pipeline.learner, pipeline.schema
    known: list[Label] = list(learner.classes)
    if not known and learner.committee is not None:
        known = learner.committee.classes.tolist()
    if schema.labels_are == "boolean":
        known += ["false", "true"]
    known += [*schema.classes, *pipeline.join.waiting_labels(), *classes.named]
    known += [one for one in map(classes.now, known) if one is not None]
    return list(dict.fromkeys(known))


def obey(pipeline: "Pipeline", commands: Sequence[Command]) -> list[Training]:
    """Have a pipeline obey `commands`; return the trainings they started."""
    started: list[Training] = []
    for command in commands:
        _log.info("batch %d obeys: %s", pipeline.sequence, command)
        if command.label is None:
            started += _obey(command, pipeline.learner, pipeline.versions)
        else:
            started += _mend(pipeline, command)
    return started


def _mend(pipeline: "Pipeline", command: Command) -> tuple[Training, ...]:
    """Merge or drop a class, or undo a merge; return the trainings that were started."""
    classes, join, learner = pipeline.classes, pipeline.join, pipeline.learner
    try:
        label, into = classes.check(command, pipeline.schema.labels_are)
    except StateError:  # another command of the batch, obeyed before it, has made it void
        return ()
    if command.command == "unmerge":
        restored = classes.undo(label)
        started = learner.restore_classes(restored, classes.now)
        join.restore_classes(restored, learner)
        n = sum(map(len, restored.values()))
        _log.info("batch %d: %d labels are of the class %r again", pipeline.sequence, n, label)
        return started
    if into is not None:
        votes = learner.votes_for(label)
        classes.note_all(label, [*votes, *join.labels_of(label, learner)])
    classes.obey(command, pipeline.schema.labels_are)
    join.rename(classes.now)
    return learner.rename(label, into)


def _obey(command: Command, learner: StreamLearner, versions: Versions) -> tuple[Training, ...]:
    trainer = learner.trainer
    if command.version is not None:
        return learner.swap(versions[command.version])
    if command.decision is not None:
        learner.decisions = decisions_of(command.decision)
        return ()
    if command.command == "promote":
        return trainer.promote()
    if command.command == "pause":
        trainer.pause()
        return ()
    return trainer.go_on() if command.command == "resume" else trainer.retrain()


def decisions_of(given: Mapping[str, Any]) -> Decisions | None:
    """Return the decisions that `given` asks for; None where it asks for none.

    ConfigurationError where they cannot be made.
    """
    if unknown := sorted(given.keys() - {"costs", "threshold"}):
        raise ConfigurationError(f"decisions go by costs or threshold, and {unknown[0]} is neither")
    return Decisions(**given) if given else None


def take_over(pipeline: "Pipeline") -> None:
    """Apply rules, decision and fields that the file changed, as the journal entry will say."""
    extras, learner = pipeline.journal_extras, pipeline.learner
    if extras.rules is not None:
        pipeline.schema = replace(pipeline.schema, **extras.rules)
    if extras.decision is not None:
        pipeline.decision = extras.decision
        learner.decisions = decisions_of(pipeline.decision)
    if extras.fields is not None:
        fields = _gain(extras.fields, learner)
        pipeline.schema = pipeline.schema.extended(fields)
        pipeline.fields.learn(fields)
        if pipeline.models is not None:
            pipeline.models.follow(pipeline.schema.features)
        names = ", ".join(fields)
        _log.info("batch %d: fields are learned from now on: %s", pipeline.sequence, names)


def _gain(given: dict[str, Any], learner: StreamLearner) -> dict[str, Field]:
    """Let the learner take on fields that were added to the file; records before miss them."""
    assert learner.features is not None
    fields = {name: as_field(name, field) for name, field in given.items()}
    for name, field in fields.items():
        learner.features.add(name, field)
    learner.follow_features()
    return fields
