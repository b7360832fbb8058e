"""Fixtures and settings that all tests share."""

import gc
import os
import socket
from collections import Counter, defaultdict
from functools import cache
from itertools import chain
from pathlib import Path

# scikit-learn's array-API checks run only under this, and scipy reads it when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from hypothesis import settings

# Each run draws the same examples, so that a failure is caused by the change and not by the draw.
# `make soak` draws new examples. Examples have no deadline, because the machine may be loaded.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile("repeatable")


PROCESSES = "starts processes"
ORDER = ("Label Studio", "Kafka", "browser", PROCESSES)
"""Who begins first: those that wait most, and then those that are long."""

LIMITED = {"Kafka", "browser"}
"""Parts whose tests go to at most two workers, or to one if all are quick: a start takes long."""


@cache
def part_of(path):
    """Return what the tests of a file share with others' - a server, the browser -, or None."""
    text = path.read_text(encoding="utf-8")
    if "pytest.mark.kafka" in text:
        return "Kafka"
    if "label_studio" in path.parts:
        return "Label Studio"
    return "browser" if "in_a_browser" in text else None


@cache
def turn_of(path):
    """Return the place of a file's tests in the order."""
    text = path.read_text(encoding="utf-8")
    starts_one = "streamboost_command" in text or "tests.spark.environment" in text
    kind = part_of(path) or (starts_one and PROCESSES)
    return ORDER.index(kind) if kind else len(ORDER)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect with the garbage collector off, and exempt what was collected from it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items):
    """Mark repetitions of quick tests as slow, and let those that take long begin first.

    So no worker has a long test alone at the end.
    """
    repeated = set()
    for item in items:
        if item.get_closest_marker("quick_once") and not item.get_closest_marker("slow"):
            name = item.nodeid.partition("[")[0]
            if name in repeated:
                item.add_marker(pytest.mark.slow)
            repeated.add(name)
    items.sort(key=lambda item: turn_of(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a worker whole files, those of a broker or of a browser to few workers.

    No test freezes or kills the broker of another worker. A worker that has one takes all files of
    the part that it can get, so that all end together.
    """
    from xdist.scheduler import LoadScopeScheduling

    most = 1 if "not slow" in config.option.markexpr else 2

    class ByPart(LoadScopeScheduling):
        def __init__(self, config, log):
            super().__init__(config, log)
            self._begun = defaultdict(set)  # the parts of each worker

        def _split_scope(self, nodeid):
            name = nodeid.partition("::")[0]
            return name if (part := self._part_of(name)) in LIMITED else part or name

        def _part_of(self, scope):
            path = config.rootpath / scope
            return part_of(path) if path.suffix == ".py" else None

        def _assign_work_unit(self, node):
            begun = self._begun[node]
            parts = {scope: self._part_of(scope) for scope in self.workqueue}
            open_to_it = (scope for scope, part in parts.items() if self._may_begin(part))
            next_one = (scope for scope, part in parts.items() if part in begun)
            if (scope := next(chain(next_one, open_to_it), None)) is None:
                node.shutdown()  # what is left is for those that have a broker or a browser
                return
            if parts[scope] in LIMITED:
                begun.add(parts[scope])
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

        def _may_begin(self, part):
            owners = [node for node in self.nodes if part in self._begun[node]]
            return part not in LIMITED or len(owners) < most

    config.option.loadscopereorder = False  # they begin in the order above
    return ByPart(config, log)


def pytest_terminal_summary(terminalreporter, config):
    """Print how long the tests of each part took, added up over the workers."""
    seconds = Counter()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            path = report.nodeid.partition("::")[0]
            kind = path.endswith(".py") and part_of(config.rootpath / path)
            seconds[kind or "/".join(path.split("/")[:2])] += report.duration
    if len(seconds) > 1:
        parts = ", ".join(f"{part} {taken:.0f} s" for part, taken in seconds.most_common(12))
        terminalreporter.write_line(f"time by part, all workers together: {parts}")


@pytest.fixture(scope="session", autouse=True)
def _each_kernel_is_compiled_once(request, tmp_path_factory):
    """Let one worker compile a kernel and the others wait for it, where there are several."""
    if not hasattr(request.config, "workerinput"):
        yield
        return
    from streamboost.kernels.binning import bin_values
    from tests.compiling import each_kernel_once

    assert not bin_values.signatures, "a module trains while every worker collects its tests"

    folder = tmp_path_factory.getbasetemp().parent / "compiling"
    folder.mkdir(exist_ok=True)
    with each_kernel_once(folder):
        yield


class KafkaSocket(socket.socket):
    """A socket of kafka-python, which drops those that do not connect: no fault of ours.

    pyproject.toml tells them by this name from sockets that we left open.
    """


@pytest.fixture(scope="session", autouse=True)
def _kafka_sockets():
    from kafka.net.inet import KafkaNetSocket

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaNetSocket, "socket", lambda _, *kind: KafkaSocket(*kind))
        yield


@pytest.fixture(scope="session")
def shared_data():
    """Load a data set by name, or skip with a word where the data folder is not here."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("STREAMBOOST_DATA", default))

    def load(name):
        path = folder / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"{path} is missing: set STREAMBOOST_DATA to the folder of data sets")
        return np.load(path)

    return load


def _running(kind, missing, tmp_path_factory):
    """Run a server in a folder of its own, or skip with what is missing for it."""
    if lacking := missing():
        pytest.skip(lacking)
    server = kind(tmp_path_factory.mktemp(kind.__name__))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A broker of our own, which may be killed, as long as it is started again."""
    from tests.broker.broker import Broker, missing

    yield from _running(Broker, missing, tmp_path_factory)


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    """A schema registry of our own, which may be killed, as long as it is started again."""
    from tests.broker.registry import SchemaRegistry, missing

    yield from _running(SchemaRegistry, missing, tmp_path_factory)


@pytest.fixture(scope="session")
def kafka_servers(request):
    """Where a broker is: the one that KAFKA_BOOTSTRAP_SERVERS names, or one of our own."""
    return os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or request.getfixturevalue("broker").servers


@pytest.fixture(scope="session", params=["stand-in", pytest.param("real", marks=pytest.mark.slow)])
def label_studio(request, tmp_path_factory):
    """Label Studio: a stand-in server, and the real server."""
    from tests.label_studio import real, stand_in

    if request.param == "real" and (lacking := real.missing()):
        pytest.skip(lacking)
    is_real = request.param == "real"
    server = real.Real(tmp_path_factory.mktemp("studio")) if is_real else stand_in.StandIn()
    yield server
    server.close()


@pytest.fixture
def studio(label_studio):
    """Label Studio with a project of its own."""
    label_studio.begin_anew()
    return label_studio
