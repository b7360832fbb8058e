"""Command `streamboost control`: queues an operator's command for a pipeline, such as pause."""

from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import PipelineFile, print_lines

if TYPE_CHECKING:
    from streamboost.pipelines.state.commands import Command


class ControlCommand(StrEnum):
    """Names of the commands that an operator can send to a pipeline."""

    promote = "promote"
    rollback = "rollback"
    pause = "pause"
    resume = "resume"
    retrain = "retrain"
    merge = "merge"
    unmerge = "unmerge"
    drop = "drop"
    retract = "retract"
    decide = "decide"


def control(
    path: PipelineFile,
    command: Annotated[ControlCommand, typer.Argument(help="The command to send.")],
    about: Annotated[
        list[str] | None,
        typer.Argument(
            help="The version, class or costs that the command needs.",
            show_default=False,
        ),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Allow merge or decide to name a new class.")
    ] = False,
    annotator: Annotated[
        str | None, typer.Option(help="Remove the labels of this annotator (with retract).")
    ] = None,
) -> None:
    """Send a command to a pipeline.

    The pipeline applies the command with its next batch.

    promote deploys the challenger at once, before its evaluation on labels ends. rollback VERSION
    deploys a kept version (inspect lists them), until a training replaces it: pause first to keep
    it. pause starts no training and keeps the committee; predictions, requests and labels continue.
    resume ends a pause. retrain trains a new committee now. merge CLASS OTHER merges a class into
    another, such as a misspelt one into the correct one. drop CLASS removes a class and its labels.
    Both apply to future labels, too. unmerge CLASS undoes a merge: labels that were given as CLASS
    get this class again, while their records are stored. retract --annotator NAME removes all
    labels of an annotator so far, and retrains; labels of others on the same records stay. decide
    costs.TRUE_CLASS.DECIDED_CLASS=10 ..., or threshold.CLASS=0.9 ..., replaces the section
    [decision], until a run starts with another [decision] in the pipeline file. decide without
    arguments switches decisions off.
    """
    from streamboost.pipelines.config.compatibility import pipeline_name, refuse_other_pipeline
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.state.commands import queue_command
    from streamboost.pipelines.state.folder import State
    from streamboost.pipelines.state.naming import refuse_unknown_names
    from streamboost.pipelines.status.reader import StatusReader

    config = load(path, learner=False)
    state = State(config.state)
    if pipeline_name(state) is None:
        raise ConfigurationError(f"{config.state} has no pipeline state: run the pipeline first")
    refuse_other_pipeline(config, state)
    order = _build_command(command, about or [], new=new, annotator=annotator)
    with closing(StatusReader(config.state)) as status:
        refuse_unknown_names(config.state, order, status.documents())
    queue_command(config.state, order)
    print_lines(f"{order}: queued; {config.name} applies the command with its next batch")


def _build_command(
    command: ControlCommand, arguments: list[str], *, new: bool, annotator: str | None
) -> "Command":
    from streamboost.pipelines.state.commands import KINDS, Command

    kind = next(kind for kind in KINDS if kind == command.value)
    if kind == "decide":
        return Command(kind, decision=_parse_decision_arguments(arguments), new=new)
    if kind in ("merge", "unmerge", "drop") and len(arguments) <= 2:
        label, into = [*arguments, None, None][:2]
        return Command(kind, label=label, into=into, new=new)
    if len(arguments) <= 1 and all(one.isdecimal() for one in arguments):
        version = int(arguments[0]) if arguments else None
        return Command(kind, version, new=new, annotator=annotator)
    raise ConfigurationError(
        f"{kind} {' '.join(arguments)}: wrong arguments: rollback needs a version number, merge "
        "two classes, unmerge and drop one class, retract --annotator NAME, and the other commands "
        "no argument"
    )


def _parse_decision_arguments(arguments: list[str]) -> dict[str, Any]:
    """Parse arguments such as costs.fraud.ok=10 into the keys and values of [decision]."""
    import tomllib

    from streamboost.pipelines.config.sections import DecisionSection

    try:
        given = tomllib.loads("\n".join(arguments))
        section = DecisionSection.model_validate(given)
        found = {name: table for name, table in section.model_dump().items() if table}
    except ValueError as error:
        raise ConfigurationError(
            f"decide {' '.join(arguments)}: give costs.TRUE_CLASS.DECIDED_CLASS=10 or "
            f"threshold.CLASS=0.9, "
            f"with quotes around names that contain other characters than letters and digits "
            f"({error})"
        ) from None
    if found:
        from streamboost.evaluation.decisions import Decisions

        Decisions(**found)
    return found
