"""What changes a pipeline besides its data: commands, classes mended by them, and added fields."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamboost.connectors.messages.decoded import Labels
from streamboost.connectors.messages.labels import LabelKind, read_label
from streamboost.connectors.messages.written import DeadLetter
from streamboost.errors import ConfigurationError, ModelFileError, StateError
from streamboost.features.fields import Field, as_field
from streamboost.pipelines.engine.intake import refuse
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.versions import Versions
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.pipelines.engine.pipeline import Pipeline

__all__ = ["Classes", "accepted", "decisions_of", "obey", "take_over"]

_log = logging.getLogger(__name__)


def accepted(
    pipeline: "Pipeline", commands: Sequence[Command], tell: Callable[[str], None]
) -> list[Command]:
    """Return the commands that a pipeline can obey, with the versions they name at hand.

    Of what is refused, `tell` is told why.
    """
    found = []
    for command in commands:
        try:
            check(pipeline, command)
            found.append(command)
        except (ConfigurationError, ModelFileError, StateError) as error:
            refuse(str(command), error)
            tell(f"the command {command} is not obeyed: {error}")
    return found


def check(pipeline: "Pipeline", command: Command) -> None:
    """Raise StateError or ConfigurationError where a pipeline cannot obey a command as it is.

    A model of others can only be decided by.
    """
    is_served = pipeline.models is not None and pipeline.models.serving is not None
    if is_served and command.command != "decide":
        raise StateError(f"[model] serves, which knows no {command.command}")
    if command.version is not None:
        pipeline.versions.fetch(command.version)
    if command.label is not None:
        pipeline.classes.check(command, pipeline.schema.labels_are)
    if command.decision is not None:
        if not pipeline.decides:
            raise StateError("scorers decide nothing: go by `probabilities` of predictions")
        decisions, kind = decisions_of(command.decision), pipeline.schema.labels_are
        if decisions is not None and kind is not None:
            for name in decisions.classes:
                _as_label(name, kind)
    if command.command == "promote" and pipeline.learner.trainer.challenger is None:
        raise StateError("no challenger is being judged")


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
    """Merge or drop a class; return the trainings that were started."""
    try:
        label, into = pipeline.classes.obey(command, pipeline.schema.labels_are)
    except StateError:  # another command of the batch, obeyed before it, has made it void
        return ()
    pipeline.join.rename(pipeline.classes.now)
    return pipeline.learner.rename(label, into)


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
    """Have a pipeline go by what its notes say that the file says now: rules, decision, fields."""
    notes, learner = pipeline.notes, pipeline.learner
    if "rules" in notes:
        pipeline.schema = replace(pipeline.schema, **notes["rules"])
    if "decision" in notes:
        pipeline.decision = notes["decision"]
        learner.decisions = decisions_of(pipeline.decision)
    if "fields" in notes:
        fields = _gain(notes["fields"], learner)
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


class Classes:
    """Says which class a label is of by now.

    >>> classes = Classes()
    >>> classes.obey(Command("merge", label="hgih", into="high"), "string")
    ('hgih', 'high')
    >>> classes.obey(Command("drop", label="spam"), "string")
    ('spam', None)
    >>> classes.now("hgih"), classes.now("low"), classes.now("spam")
    ('high', 'low', None)
    """

    def __init__(self) -> None:
        self._merged: dict[Label, Label] = {}
        self._dropped: dict[Label, None] = {}

    def now(self, label: Label) -> Label | None:
        """Return the class that a label is of; None: it was dropped."""
        label = self._merged.get(label, label)
        return None if label in self._dropped else label

    def check(self, command: Command, kind: LabelKind | None) -> tuple[Label, Label | None]:
        """Return which class a command is about, and what becomes of it.

        `kind` is what labels are. StateError where the command cannot be obeyed.
        """
        label, into = (_as_label(text, kind) for text in (command.label, command.into))
        assert label is not None
        if into is not None:
            known = self.now(into)
            if known is None:
                raise StateError(f"the class {into!r} was dropped: merge into another")
            if known == label:
                raise StateError(f"{into!r} was merged into {label!r} before, and is it now")
            into = known
        return label, into

    def obey(self, command: Command, kind: LabelKind | None) -> tuple[Label, Label | None]:
        """Take a command in, also for labels to come; return what `check` does."""
        label, into = self.check(command, kind)
        self._dropped.pop(label, None)
        self._merged.pop(label, None)
        if into is None:
            self._dropped[label] = None
        else:
            self._merged = {a: into if b == label else b for a, b in self._merged.items()}
            self._merged[label] = into
        return label, into

    def sort(self, labels: Labels, source: str, time: int) -> tuple[Labels, list[DeadLetter]]:
        """Return labels as they are by now, and dead letters of those whose class was dropped."""
        if not (self._merged or self._dropped):
            return labels, []
        now = [None if label is None else self.now(label) for label in labels.labels]
        gone = [i for i, label in enumerate(labels.labels) if now[i] is None and label is not None]
        dead = []
        for i in gone:
            detail = f"the class {labels.labels[i]!r} was dropped: `streamboost tell` was told so"
            message = labels.messages[i]
            dead.append(DeadLetter.of(message, "dropped_class", detail, source=source, time=time))
        left = [i for i in range(len(labels)) if i not in set(gone)]
        sorted_ = Labels(
            [labels.ids[i] for i in left],
            [now[i] for i in left],
            [labels.times[i] for i in left],
            [labels.sources[i] for i in left],
            [labels.messages[i] for i in left],
            labels.kind,
        )
        return sorted_, dead

    def to_json(self) -> dict[str, Any]:
        """Return all there is, for `restore`."""
        return {"merged": list(self._merged.items()), "dropped": list(self._dropped)}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Classes":
        """Return what `to_json` told of; nothing of it: no class was merged or dropped."""
        classes = cls()
        classes._merged = dict(state.get("merged", []))
        classes._dropped = dict.fromkeys(state.get("dropped", []))
        return classes


def _as_label(text: str | None, kind: LabelKind | None) -> Label | None:
    if text is None:
        return None
    if kind is None:
        raise StateError("no label has come yet that would tell what labels are: wait for one")
    label, fault = read_label(text, kind)
    if label is None:
        raise StateError(f"the class named {fault}")
    return label
