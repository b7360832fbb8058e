"""Masking of secrets in logs and errors, including unexpected errors."""

import io
import json
import logging
import subprocess
import sys
import threading

import pytest

from streamboost.errors import DataError
from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log
from streamboost.pipelines.monitoring.log_format import JsonFormatter, text_formatter


def mask(text):
    return text.replace("hunter2", "***")


@pytest.fixture(params=[text_formatter, JsonFormatter], ids=["text", "json"])
def log(request):
    """What the root logger writes meanwhile."""
    written, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(written)
    handler.setFormatter(request.param())
    root.addHandler(handler)
    yield written
    root.removeHandler(handler)


def fail():
    try:
        raise OSError("no hunter2 at the door")
    except OSError as error:
        raise ValueError("hunter2 is wrong") from error


def test_a_traceback_in_the_log_has_no_secrets(log):
    with mask_secrets_in_errors_and_log(mask):
        try:
            fail()
        except ValueError:
            logging.getLogger("x").exception("hunter2 did not do")
    said = log.getvalue()
    assert "hunter2" not in said
    assert said.count("***") >= 3
    assert "Traceback" in said
    assert "in fail" in said
    if said.startswith("{"):
        assert "Traceback" in json.loads(said)["trace"]


def test_a_thread_that_fails_tells_no_secrets(capsys):
    with mask_secrets_in_errors_and_log(mask):
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    said = capsys.readouterr().err
    assert "hunter2" not in said
    assert "ValueError: *** is wrong" in said


def test_an_error_that_ends_the_process_tells_no_secrets():
    code = """
from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log
with mask_secrets_in_errors_and_log(lambda text: text.replace("hunt" "er2", "***")):
    raise ValueError("hunt" + "er2 is wrong")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "hunter2" not in ended.stderr
    assert "ValueError: *** is wrong" in ended.stderr


def test_an_error_of_ours_is_masked_and_changes_nothing_else():
    before = sys.excepthook, threading.excepthook
    with pytest.raises(DataError, match=r"\*\*\* is wrong"), mask_secrets_in_errors_and_log(mask):
        raise DataError("hunter2 is wrong")
    assert (sys.excepthook, threading.excepthook) == before
