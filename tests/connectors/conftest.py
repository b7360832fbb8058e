"""Fixtures that the connectors' tests share."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamboost.connectors.base import Message


def as_messages(payloads: Sequence[bytes]) -> list[Message]:
    return [Message(payload, "0", offset, len(payload)) for offset, payload in enumerate(payloads)]


@pytest.fixture
def open_folder():
    """A folder that other users may enter, unlike those of `tmp_path`."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def only_reading(folder):
    """Take the permission to write away, also from root, who would not notice otherwise."""
    user = os.geteuid()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@pytest.fixture(name="only_reading")
def _only_reading():
    return only_reading


@pytest.fixture(name="as_messages")
def _as_messages():
    return as_messages
