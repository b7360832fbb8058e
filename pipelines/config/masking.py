"""Masking of secrets in errors, log lines and tracebacks."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from streamboost.errors import StreamBoostError
from streamboost.escaping import escaped_block

__all__ = ["Mask", "mask_errors", "mask_secrets"]

Mask = Callable[[str], str]
"""Function that replaces secrets in a text."""


@contextmanager
def mask_errors(mask: Mask) -> Iterator[None]:
    """Mask secrets in StreamBoostErrors that are raised in this context."""
    try:
        yield
    except StreamBoostError as error:
        raise type(error)(mask(str(error))) from None


@contextmanager
def mask_secrets(mask: Mask) -> Iterator[None]:
    """Mask secrets in errors of this context, and in the log of the process during the context.

    Tracebacks are masked too: in the log, of failed threads, and of an unexpected error that
    ends the process.
    """

    def mask_log_record(record: logging.LogRecord) -> bool:
        record.msg, record.args = mask(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = mask(_traceback_text(record.exc_info[1]))
        return True

    def print_thread_traceback(arguments: threading.ExceptHookArgs) -> None:
        _print_traceback(mask, BaseException, arguments.exc_value, None)

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(mask_log_record)
    before, threading.excepthook = threading.excepthook, print_thread_traceback
    try:
        with mask_errors(mask):
            yield
    except StreamBoostError:
        raise
    except Exception:
        # The error is raised unmasked, so the hook that prints its traceback masks secrets.
        sys.excepthook = partial(_print_traceback, mask)
        raise
    finally:
        threading.excepthook = before
        for handler in handlers:
            handler.removeFilter(mask_log_record)


def _print_traceback(mask: Mask, kind: object, error: BaseException | None, trace: object) -> None:
    sys.stderr.write(escaped_block(mask(_traceback_text(error))) + "\n")


def _traceback_text(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error)).rstrip()
