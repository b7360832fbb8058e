"""Websockets, which stay open for long, against logins, which may end before."""

from collections.abc import Callable

from starlette.types import Message, Receive, Send

__all__ = ["Watched"]


class Watched:
    """A websocket that ends with the login of whoever opened it.

    Parameters
    ----------
    send : sends to the browser
    is_in : tells whether the login is still good
    """

    def __init__(self, send: Send, is_in: Callable[[], bool]) -> None:
        self._send = send
        self._is_in = is_in
        self._is_over = False

    def receiving(self, receive: Receive) -> Receive:
        """Return `receive` that says it has ended when the login has."""

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not await self._goes_on():
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        return watched

    async def __call__(self, message: Message) -> None:
        """Send `message`, unless the login has ended."""
        if await self._goes_on():
            await self._send(message)

    async def _goes_on(self) -> bool:
        if not self._is_over and not self._is_in():
            self._is_over = True
            await self._send({"type": "websocket.close", "code": 1008})
        return not self._is_over
