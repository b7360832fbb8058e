"""What `serve` allows."""

from dataclasses import dataclass, field

__all__ = ["LOOPBACK", "Settings"]

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""What this machine alone can reach."""


@dataclass(frozen=True)
class Settings:
    """What `serve` allows.

    Parameters
    ----------
    token : the secret of programs, which also signs the cookies
    hosts : what a request's Host may be, without the port
    port : where it listens, so that two on one machine have cookies of their own
    is_secure : whether browsers come by https
    max_body : bytes of a request's body, and of a message on a websocket
    reads, writes, strangers : how often a second, and how often at once, a caller may send GET and
        HEAD, all else, and anything without being known
    messages : the same of a person's messages on websockets, which wait instead of being refused
    """

    token: str = field(repr=False)
    hosts: frozenset[str] = LOOPBACK
    port: int = 8765
    is_secure: bool = False
    max_body: int = 4_000_000
    reads: tuple[float, float] = (100, 500)
    writes: tuple[float, float] = (20, 100)
    strangers: tuple[float, float] = (2, 30)
    messages: tuple[float, float] = (50, 500)

    @property
    def cookie(self) -> str:
        """The name of the cookie; with this prefix a browser takes it from https alone."""
        return f"{'__Host-' if self.is_secure else ''}streamboost-{self.port}"
