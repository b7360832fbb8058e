"""Base of oracles: sources of labels for the requests in a log."""

from abc import abstractmethod
from collections.abc import Sequence

from streamboost.connectors.base import Message, Position, Source


class RequestAnsweringSource(Source):
    """Source of label messages, in the order of a log of requests.

    Its position is the position in that log.

    Parameters
    ----------
    requests : the log of requests, for the exclusive use of this source
    """

    def __init__(self, requests: Source) -> None:
        self._requests = requests

    @abstractmethod
    def _append_due_answers(self, requests: Sequence[Message], answers: list[Message]) -> int:
        """Append answers to `answers`; stop at the first request whose answer is not due.

        Returns the number of processed requests, which includes requests without a known label.
        """

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` answers; stop at the first request whose answer is not due."""
        start = self._requests.position()
        answers: list[Message] = []
        try:
            while len(answers) < limit:
                before = self._requests.position()
                requests = self._requests.poll(limit - len(answers))
                passed = self._append_due_answers(requests, answers)
                if passed < len(requests):
                    # Offsets may have gaps, so only the log can return the next position.
                    self._requests.seek(before)
                    self._requests.poll(passed)
                    break
                if not requests:
                    break
        except BaseException:
            self._requests.seek(start)
            raise
        return answers

    def position(self) -> Position:
        """Return the position in the log of requests."""
        return self._requests.position()

    @property
    def content_fingerprint(self) -> str | None:
        """The fingerprint of the log of requests."""
        return self._requests.content_fingerprint

    def set_expected_content(self, fingerprint: str) -> None:
        """Read only the log that `fingerprint` identifies."""
        self._requests.set_expected_content(fingerprint)

    def seek(self, position: Position) -> None:
        """Continue at a position in the log of requests."""
        self._requests.seek(position)

    def release_resources(self) -> None:
        """Release the resources of the log; the next read acquires them again."""
        self._requests.release_resources()

    def close(self) -> None:
        """Close the log."""
        self._requests.close()
