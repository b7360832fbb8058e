"""What changes a pipeline besides its data: commands, and fields added to the file."""

from typing import Any

from streamboost.features.fields import Field, as_field
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.versions import Versions
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training

__all__ = ["gain", "obey"]


def obey(command: Command, learner: StreamLearner, versions: Versions) -> tuple[Training, ...]:
    """Obey a command that is not about classes; return the trainings it started."""
    trainer = learner.trainer
    if command.version is not None:
        return learner.swap(versions[command.version])
    if command.command == "promote":
        return trainer.promote()
    if command.command == "pause":
        trainer.pause()
        return ()
    return trainer.go_on() if command.command == "resume" else trainer.retrain()


def gain(given: dict[str, Any], learner: StreamLearner) -> dict[str, Field]:
    """Let the learner take on fields that were added to the file; records before miss them."""
    assert learner.features is not None
    fields = {name: as_field(name, field) for name, field in given.items()}
    for name, field in fields.items():
        learner.features.add(name, field)
    learner.follow_features()
    return fields
