"""Keeping secrets out of what is said."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamboost.errors import StreamBoostError

__all__ = ["Mask", "masked", "masking"]

Mask = Callable[[str], str]
"""Takes secrets out of a text."""


@contextmanager
def masked(mask: Mask) -> Iterator[None]:
    """Take secrets out of the errors that are raised within."""
    try:
        yield
    except StreamBoostError as error:
        raise type(error)(mask(str(error))) from None


@contextmanager
def masking(mask: Mask) -> Iterator[None]:
    """Take secrets out of the errors, and meanwhile out of the log of the whole process."""

    def take_out(record: logging.LogRecord) -> bool:
        record.msg, record.args = mask(record.getMessage()), ()
        return True

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(take_out)
    try:
        with masked(mask):
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(take_out)
