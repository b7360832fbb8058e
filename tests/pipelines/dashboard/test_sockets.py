"""Pages and their websockets, without a browser."""

import asyncio

import pytest
from nicegui import Client, ui

from streamboost.pipelines.dashboard.sockets import MOST_UNCONNECTED, delete_unconnected_pages


@pytest.fixture
def opened():
    """Pages that were opened by programs, which never connect."""
    made = [Client(ui.page(f"/{number}")) for number in range(MOST_UNCONNECTED + 10)]
    yield made
    for client in made:
        if client.id in Client.instances:
            client.delete()


def test_the_oldest_pages_that_nobody_connects_to_are_let_go(opened):
    asyncio.run(delete_unconnected_pages())
    left = [client for client in opened if client.id in Client.instances]
    assert left == opened[-MOST_UNCONNECTED:]
