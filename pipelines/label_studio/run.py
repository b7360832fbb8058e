"""`streamboost label-studio`: people answer the requests of a pipeline in Label Studio.

The command is a separate process. It reads the requests that the pipeline has written, and writes
labels to the pipeline's labels source. Its failures do not affect the guarantees of the pipeline.

A request is stored in ``label_studio.db`` before its task is sent, and its task is identified by
the key in its data; other tasks are ignored. If a send has an unknown result, the project is
searched for the task before a retry. Written labels are read back from the labels source, so that
no label is written twice. A relabel request is answered only by annotators that it does not
exclude, as the labels source also holds the label in question. The task of a closed request is
deleted, unless an annotator has started it: the answer is then written, too, and the pipeline
counts it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.label_studio.project import ChoicesTag, LabelStudioProject
from streamboost.errors import ConfigurationError, UnavailableError
from streamboost.pipelines.config.connectors.registry import open_append_sink
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.config.sections import LabelStudioSection
from streamboost.pipelines.label_studio.answers import to_integer_label
from streamboost.pipelines.label_studio.bridge import Bridge
from streamboost.pipelines.label_studio.pool import ProjectImport
from streamboost.pipelines.label_studio.tasks import FILE, RECORDS, TaskStore
from streamboost.pipelines.shutdown import Interrupted, StopToken
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader

_log = logging.getLogger(__name__)

_LONGEST_REST = 60.0
"""Maximum backoff between failed attempts, in seconds."""


def open_project(config: Config) -> tuple[LabelStudioProject, ChoicesTag]:
    """Connect to the project of `config`; return the project, and its tag for answers.

    Raises ConfigurationError if the project does not match the pipeline.
    """
    section = config.sections.label_studio
    assert section is not None
    studio = LabelStudioProject(section.url, section.project, section.token)
    choices = studio.fetch_choices_tag(section.choices)
    if config.sections.schema_.label == "integer":
        for label in choices.labels:
            to_integer_label(label, studio.where)
    return studio, choices


def run(config: Config, stop: StopToken, *, once: bool = False) -> None:
    """Run the bridge until `stop` is requested; with `once`, process the pending messages only.

    Temporary errors are retried with exponential backoff, except with `once`; other errors are
    raised. A stop request interrupts a pending network call, with the same effect as a kill.
    """
    section = _label_studio_section(config)
    try:
        with stop.interruptible(), _bridge_factory(config) as create_bridge:
            if once:
                create_bridge().run_once()
            else:
                _run_repeatedly(create_bridge, stop, section.poll_interval)
    except Interrupted:
        _log_interruption()


def import_tasks(config: Config, stop: StopToken) -> list[str]:
    """Import the tasks of the project as records; return a summary as lines of text.

    Raises the errors of `ProjectImport.run`. After a stop request, the summary is empty.
    """
    _label_studio_section(config)
    task_store = TaskStore(State(config.state).path / FILE)
    try:
        with stop.interruptible(), task_store.hold_lock():
            if task_store.stored_position("requests"):
                raise ConfigurationError(
                    f"{config.state}: the requests of this pipeline are tasks of their own: import "
                    "the project with another state folder"
                )
            return ProjectImport(config, *open_project(config), task_store).run()
    except Interrupted:
        _log_interruption()
        return []


def _label_studio_section(config: Config) -> LabelStudioSection:
    section = config.sections.label_studio
    if section is None:
        raise ConfigurationError(
            "[label_studio]: this section is missing; add it with url, project and "
            'token = "${NAME}", and set the environment variable NAME to the token'
        )
    return section


def _log_interruption() -> None:
    _log.warning(
        "stopped while waiting: the next run continues from there",
        extra={"event": "stopped_while_waiting"},
    )


@contextmanager
def _bridge_factory(config: Config) -> Iterator[Callable[[], Bridge]]:
    state = State(config.state)
    task_store = TaskStore(state.path / FILE)
    sections, context = config.sections, config.connector_context
    with (
        closing(open_append_sink(sections.labels, "labels", context)) as answers,
        closing(sections.requests.create_tailing_source(context)) as requests,
        closing(sections.labels.create_tailing_source(context)) as labels,
        task_store.hold_lock(),
    ):
        if task_store.stored_position(RECORDS):
            raise ConfigurationError(
                f"{config.state}: the records of this pipeline are tasks of the project already: "
                "use `streamboost label-studio --import`"
            )
        yield lambda: _create_bridge(config, task_store, requests, labels, answers)


def _run_repeatedly(create_bridge: Callable[[], Bridge], stop: StopToken, interval: float) -> None:
    bridge, rest = None, 0.0
    while not stop.requested:
        try:
            bridge = bridge or create_bridge()
            bridge.run_once()
            rest = interval
        except UnavailableError as error:
            if rest <= interval:
                _log.warning(
                    "%s. It is tried again until it succeeds",
                    error,
                    extra={"event": "retry_started"},
                )
            rest = min(2 * max(rest, interval), max(_LONGEST_REST, 2 * interval))
        stop.wait(rest)


def _create_bridge(
    config: Config, task_store: TaskStore, requests: Source, labels: Source, answers: Sink
) -> Bridge:
    studio, _ = open_project(config)
    publishes = config.sections.monitor.publish_every > 0
    _log.info(
        "%s: people answer in %s; Ctrl-C stops",
        config.name,
        studio.where,
        extra={"event": "bridge_started"},
    )
    return Bridge(
        config.name,
        studio,
        lambda: open_project(config)[1],
        task_store,
        requests,
        labels,
        answers,
        StatusReader(config.state) if publishes else None,
        config.sections.build_schema(),
        config.sections.labels.on_conflict,
        blind=config.sections.serve.blind,
    )
