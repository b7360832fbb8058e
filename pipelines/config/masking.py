"""Masking of secrets in errors, log lines and tracebacks."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from streamboost.errors import StreamBoostError
from streamboost.escaping import escape_block

Mask = Callable[[str], str]
"""Function that replaces secrets in a text."""


@contextmanager
def mask_secrets_in_errors(mask: Mask) -> Iterator[None]:
    """Context manager that masks secrets in StreamBoostErrors from its body with `mask`."""
    try:
        yield
    except StreamBoostError as error:
        error.args = (mask(str(error)),)
        raise error from None


@contextmanager
def mask_secrets_in_errors_and_log(mask: Mask) -> Iterator[None]:
    """Context manager that masks secrets in errors from its body, and in the log meanwhile.

    Tracebacks are masked too: those in the log, those of failed threads, and that of an unexpected
    error that ends the process.
    """

    def mask_log_record(record: logging.LogRecord) -> bool:
        record.msg, record.args = mask(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = mask(_format_traceback(record.exc_info[1]))
        return True

    def print_masked_thread_traceback(arguments: threading.ExceptHookArgs) -> None:
        _print_masked_traceback(mask, BaseException, arguments.exc_value, None)

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(mask_log_record)
    before, threading.excepthook = threading.excepthook, print_masked_thread_traceback
    try:
        with mask_secrets_in_errors(mask):
            yield
    except StreamBoostError:
        raise
    except Exception:
        # The error is raised unmasked, so the hook that prints its traceback masks secrets.
        sys.excepthook = partial(_print_masked_traceback, mask)
        raise
    finally:
        threading.excepthook = before
        for handler in handlers:
            handler.removeFilter(mask_log_record)


def _print_masked_traceback(
    mask: Mask, kind: object, error: BaseException | None, trace: object
) -> None:
    sys.stderr.write(escape_block(mask(_format_traceback(error))) + "\n")


def _format_traceback(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error)).rstrip()
