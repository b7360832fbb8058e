"""Validation of commands against the versions, classes and decisions of a pipeline."""

import logging
from collections.abc import Callable, Sequence

from streamboost.checks import Label
from streamboost.errors import ConfigurationError, ModelFileError, StateError
from streamboost.pipelines.runner.batch_reader import log_rejected_command
from streamboost.pipelines.runner.label_mapping import LabelMapping
from streamboost.pipelines.runner.pipeline import Pipeline, build_decisions
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.naming import (
    refuse_unconfirmed_class,
    refuse_unknown_annotator,
    refuse_unknown_class,
    to_label,
)

_log = logging.getLogger(__name__)


def validate_commands(
    pipeline: Pipeline, commands: Sequence[Command], notify_error: Callable[[str], None]
) -> list[Command]:
    """Return the valid commands of a batch, and load the committee versions that they name.

    Each command is validated after the class changes of the commands before it. If a command is
    rejected, `notify_error` is called with the reason.
    """
    found = []
    classes = pipeline.classes.copy()
    for command in commands:
        try:
            validate_command(pipeline, command, classes)
            found.append(command)
        except (ConfigurationError, ModelFileError, StateError) as error:
            log_rejected_command(str(command), error)
            notify_error(f"the command {command} is rejected: {error}")
    return found


def validate_command(pipeline: Pipeline, command: Command, classes: LabelMapping) -> None:
    """Validate a command, and apply its class changes to `classes`, a copy of the label mapping.

    If an external model is active, only ``decide`` is valid.

    Raises
    ------
    StateError, ConfigurationError
        If the pipeline cannot apply the command.
    """
    is_served = pipeline.models is not None and pipeline.models.serving is not None
    if is_served and command.command != "decide":
        raise StateError(
            f"{command.command} is not available with [model], which replaces the committee"
        )
    if command.version is not None:
        pipeline.versions.load_into_memory(command.version)
    if command.annotator is not None:
        refuse_unknown_annotator(command.annotator, pipeline.learner.annotators.to_json())
    if command.label is not None:
        _validate_class_command(pipeline, command, classes)
    if command.decision is not None:
        if not pipeline.decides:
            raise StateError(
                "scorers make no decisions: decide by the `probabilities` in the predictions"
            )
        decisions, kind = build_decisions(command.decision), pipeline.schema.label_kind
        if decisions is not None and kind is not None:
            known = _classes_known_after_mapping(pipeline, classes)
            for name in decisions.classes:
                refuse_unconfirmed_class(command, to_label(name, kind), known)
    if command.command == "promote" and pipeline.learner.trainer.challenger is None:
        raise StateError("there is no challenger to promote")


def _validate_class_command(pipeline: Pipeline, command: Command, classes: LabelMapping) -> None:
    """Apply a merge, unmerge or drop to `classes`; raise StateError if its class is unknown."""
    kind, known = pipeline.schema.label_kind, _classes_known_after_mapping(pipeline, classes)
    assert command.label is not None
    label = to_label(command.label, kind)
    if command.command == "unmerge":
        classes.resolve_command_classes(command, kind)
        classes.unmerge(label)
        return
    refuse_unknown_class(label, known)
    if command.into is not None:
        refuse_unconfirmed_class(command, to_label(command.into, kind), known)
    classes.apply_class_command(command, kind)


def known_classes(pipeline: Pipeline) -> list[Label]:
    """Return the classes that a command may name, each once.

    These are the classes of learned and pending labels, classes declared in [schema], and merged or
    dropped classes. Before the first label, the classes of the initial committee replace those of
    learned labels.
    """
    return _classes_known_after_mapping(pipeline, pipeline.classes)


def _classes_known_after_mapping(pipeline: Pipeline, classes: LabelMapping) -> list[Label]:
    learner, schema = pipeline.learner, pipeline.schema
    known: list[Label] = list(learner.classes)
    if not known and learner.committee is not None:
        known = learner.committee.classes.tolist()
    if schema.label_kind == "boolean":
        known += ["false", "true"]
    known += [*schema.classes, *pipeline.join.distinct_pending_labels(), *classes.removed_classes]
    known += [one for one in map(classes.current_class, known) if one is not None]
    return list(dict.fromkeys(known))
