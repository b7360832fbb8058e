"""Keeping secrets out of what is said."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from streamboost.errors import StreamBoostError
from streamboost.escaping import escaped_block

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
    """Take secrets out of the errors, and meanwhile out of the log of the whole process.

    Also out of tracebacks: of those in the log, of threads that fail, and of an error that nobody
    expected and that ends the process.
    """

    def take_out(record: logging.LogRecord) -> bool:
        record.msg, record.args = mask(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = mask(_trace(record.exc_info[1]))
        return True

    def report(failed: threading.ExceptHookArgs) -> None:
        _report(mask, BaseException, failed.exc_value, None)

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(take_out)
    before, threading.excepthook = threading.excepthook, report
    try:
        with masked(mask):
            yield
    except StreamBoostError:
        raise
    except Exception:
        # It leaves here with what it says: whoever prints it at the end has to take it out.
        sys.excepthook = partial(_report, mask)
        raise
    finally:
        threading.excepthook = before
        for handler in handlers:
            handler.removeFilter(take_out)


def _report(mask: Mask, kind: object, error: BaseException | None, trace: object) -> None:
    sys.stderr.write(escaped_block(mask(_trace(error))) + "\n")


def _trace(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error)).rstrip()
