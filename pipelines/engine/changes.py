"""What changes a pipeline besides its data: commands, classes mended by them, and added fields."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

__all__ = ["Classes", "accepted", "decisions_of", "gain", "obey"]


def accepted(
    commands: Sequence[Command],
    learner: StreamLearner,
    versions: Versions,
    check: Callable[[Command], None],
    tell: Callable[[str], None],
) -> list[Command]:
    """Return the commands that can be obeyed, with the versions they name at hand.

    `check` raises where one cannot be obeyed for what it is about. Of what is refused, `tell` is
    told why.
    """
    found = []
    for command in commands:
        try:
            if command.version is not None:
                versions.fetch(command.version)
            check(command)
            if command.command == "promote" and learner.trainer.challenger is None:
                raise StateError("no challenger is being judged")
            found.append(command)
        except (ConfigurationError, ModelFileError, StateError) as error:
            refuse(str(command), error)
            tell(f"the command {command} is not obeyed: {error}")
    return found


def obey(command: Command, learner: StreamLearner, versions: Versions) -> tuple[Training, ...]:
    """Obey a command that is not about classes; return the trainings it started."""
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


def gain(given: dict[str, Any], learner: StreamLearner) -> dict[str, Field]:
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
        raise StateError(f"the class {text!r} {fault}")
    return label
