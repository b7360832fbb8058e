"""What tests share."""

import os
import socket
from functools import cache
from pathlib import Path

# scikit-learn's array-API checks run only under this, and scipy reads it when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from hypothesis import settings

# Each run draws the same examples, so that it tells of the change and not of luck; `make soak`
# draws new ones. Neither is timed: what else works on the machine is no fault of a test.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile("repeatable")


SHARED = ("kafka", "browser")
"""The marks of what a session has one of."""


@cache
def part_of(path):
    """Return what the tests of a file share with other files', or else the file itself."""
    text = Path(path).read_text(encoding="utf-8")
    return next((part for part in SHARED if f"pytest.mark.{part}" in text), path)


def pytest_collection_modifyitems(items):
    """Let those that wait most, for the broker and the browser, begin first."""
    order = {part: n for n, part in enumerate(SHARED)}
    items.sort(key=lambda item: order.get(part_of(str(item.path)), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a worker whole files, and one worker all that use the broker, or the browser.

    So each is started once, and nobody freezes or kills the broker under another's test.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByPart(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return part_of(str(config.rootpath / nodeid.partition("::")[0]))

    config.option.loadscopereorder = False  # they begin in the order above
    return ByPart(config, log)


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


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A broker of our own, which may be killed, as long as it is started again."""
    from tests.broker import broker as broker_module

    if lacking := broker_module.missing():
        pytest.skip(lacking)
    broker = broker_module.Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def kafka_servers(request):
    """Where a broker is: the one that KAFKA_BOOTSTRAP_SERVERS names, or one of our own."""
    return os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or request.getfixturevalue("broker").servers
