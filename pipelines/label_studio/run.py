"""Label Studio as the place where people answer: requests become tasks, annotations labels.

A process of its own beside the pipeline: it reads the requests that the pipeline has written, and
writes labels where the pipeline reads them. Nothing it does, and no way it ends, touches what the
pipeline promises.

A request is noted in ``label_studio.db`` before its task is sent, and its task is found again by
the text in its data; tasks without it are nobody's concern here. Where a sending is in doubt, the
project is searched before anything is sent once more. What is written as a label is read back from
the labels themselves, so that none is written twice. A request that is no longer open loses its
task, unless somebody has begun it: what is answered then is written too, for the pipeline to count.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.label_studio.project import Choices, LabelStudio
from streamboost.errors import ConfigurationError, UnavailableError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.endpoints.registry import feeder
from streamboost.pipelines.label_studio.bridge import Bridge, whole_number
from streamboost.pipelines.label_studio.tasks import FILE, Book
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.stop import Interrupted, Stop

__all__ = ["project_of", "run"]

_log = logging.getLogger(__name__)

_LONGEST_REST = 60.0
"""Seconds from one attempt to the next while they fail."""


def project_of(config: Config) -> tuple[LabelStudio, Choices]:
    """Return the project of `config`, and the tag that takes the answers.

    Raises ConfigurationError where the project does not suit the pipeline.
    """
    section = config.sections.label_studio
    assert section is not None
    studio = LabelStudio(section.url, section.project, section.token)
    choices = studio.choices(section.choices)
    if config.sections.schema_.label == "integer":
        for label in choices.labels:
            whole_number(label, studio.where)
    return studio, choices


def run(config: Config, stop: Stop, *, once: bool = False) -> None:
    """Carry requests and answers until asked to stop; with `once`, what there is now.

    What fails and may pass is tried again, ever more seldom, but for `once`; other errors end it.
    A wait under way when it is asked to stop may be given up, as a killed process gives it up.
    """
    section = config.sections.label_studio
    if section is None:
        raise ConfigurationError(
            "[label_studio]: this section is missing; give it url, project and "
            'token = "${NAME}", with the token in the environment variable NAME'
        )
    try:
        with stop.interruptible(), _opened(config) as open_bridge:
            if once:
                open_bridge().turn()
            else:
                _turn_on(open_bridge, stop, section.poll_interval)
    except Interrupted:
        _log.warning("stopped while it waited: the next one goes on from there")


@contextmanager
def _opened(config: Config) -> Iterator[Callable[[], Bridge]]:
    """Hold what a bridge reads and writes meanwhile; give what makes it, asking the project."""
    state = State(config.state)
    book = Book(state.path / FILE)
    sections, around = config.sections, config.surroundings
    with (
        closing(feeder(sections.labels, "labels", around)) as answers,
        closing(sections.requests.follower(around)) as requests,
        closing(sections.labels.follower(around)) as labels,
        book.held(),
    ):
        yield lambda: _bridge(config, book, requests, labels, answers)


def _turn_on(open_bridge: Callable[[], Bridge], stop: Stop, interval: float) -> None:
    """Let the bridge take its turns until asked to stop, ever more seldom while they fail."""
    bridge, rest = None, 0.0
    while not stop.requested:
        try:
            bridge = bridge or open_bridge()
            bridge.turn()
            rest = interval
        except UnavailableError as error:
            if rest <= interval:
                _log.warning("%s. It is tried again until it succeeds", error)
            rest = min(2 * max(rest, interval), max(_LONGEST_REST, 2 * interval))
        stop.rest(rest)


def _bridge(config: Config, book: Book, requests: Source, labels: Source, answers: Sink) -> Bridge:
    studio, _ = project_of(config)
    publishes = config.sections.monitor.publish_every > 0
    _log.info("%s: people answer in %s; Ctrl-C stops", config.name, studio.where)
    return Bridge(
        config.name,
        studio,
        lambda: project_of(config)[1],
        book,
        requests,
        labels,
        answers,
        StatusReader(config.state) if publishes else None,
        config.sections.build_schema(),
    )
