"""What the connectors' tests share."""

from collections.abc import Sequence

import pytest

from streamboost.connectors.base import Message


def as_messages(payloads: Sequence[bytes]) -> list[Message]:
    return [Message(payload, "0", offset, len(payload)) for offset, payload in enumerate(payloads)]


@pytest.fixture(name="as_messages")
def _as_messages():
    return as_messages
