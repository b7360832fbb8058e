import io
import json
import logging
import re
import runpy
from pathlib import Path

import pytest

from streamboost.pipelines.monitoring.log_format import (
    JsonFormatter,
    add_sequence_to_log,
    text_formatter,
)


@pytest.fixture
def root():
    root, handler = logging.getLogger(), logging.StreamHandler(io.StringIO())
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


def lines(handler):
    return handler.stream.getvalue().splitlines()


def test_every_line_has_the_sequence_of_the_batch_whoever_logs(root):
    root.setFormatter(JsonFormatter())
    log, batch = logging.getLogger("anything"), [7]
    log.warning("before")
    with add_sequence_to_log(lambda: batch[0]):
        log.warning("first %s", "one")
        batch[0] = 8
        logging.getLogger("else").error("second")
    found = [json.loads(line) for line in lines(root)]
    assert [(line["sequence"], line["level"], line["message"]) for line in found] == [
        (0, "warning", "before"),
        (7, "warning", "first one"),
        (8, "error", "second"),
    ]
    assert found[2]["logger"] == "else"


def test_each_json_line_has_an_event(root):
    root.setFormatter(JsonFormatter())
    log = logging.getLogger("anything")
    log.warning("no checkpoint", extra={"event": "checkpoint_failed"})
    log.warning("of another library")
    assert [json.loads(line)["event"] for line in lines(root)] == ["checkpoint_failed", "other"]


def test_each_message_of_the_product_has_an_event():
    reference = Path(__file__).parents[3] / "docs" / "reference.py"
    events = [event for event, *_ in runpy.run_path(str(reference))["logged_events"]()]
    assert len(events) > 80
    assert [one for one in events if not re.fullmatch(r"[a-z]+(_[a-z]+)*", one)] == []
    assert "other" not in events, "the name for other libraries"


def test_a_json_line_is_one_line_whatever_it_says(root):
    root.setFormatter(JsonFormatter())
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("x").exception('two\nlines "quoted"')
    (line,) = lines(root)
    assert json.loads(line)["message"] == 'two\nlines "quoted"'
    assert json.loads(line)["trace"].endswith("ValueError: a\nb")


def test_text_lines_have_the_sequence_too(root):
    root.setFormatter(text_formatter())
    with add_sequence_to_log(lambda: 12):
        logging.getLogger("x").warning("here")
    assert lines(root)[0].endswith("WARNING [12] here")


def test_each_line_of_one_of_several_says_whose_it_is(root):
    log = logging.getLogger("x")
    root.setFormatter(text_formatter("scorer 2"))
    log.warning("here\n\n  and there")
    log.warning("failed", exc_info=ValueError("a\nb"))
    root.setFormatter(JsonFormatter("scorer 2"))
    log.warning("here")
    text, failed, *trace, as_json = lines(root)
    assert text.startswith("scorer 2 | 20")
    assert text.endswith("here\\n\\n  and there")
    assert failed.endswith("failed")
    assert trace == ["scorer 2 |   ValueError: a", "scorer 2 |   b"]
    assert json.loads(as_json)["worker"] == "scorer 2"
    assert json.loads(as_json)["message"] == "here"


HOSTILE = "\x1b[31mred\x9b0m\u202e\n2026-01-01 00:00:00,000 ERROR [7] forged\r\x00\u2028x"


@pytest.mark.parametrize("form", [text_formatter, JsonFormatter], ids=["text", "json"])
def test_what_comes_from_outside_neither_steers_a_terminal_nor_forges_a_line(root, form):
    root.setFormatter(form())
    log = logging.getLogger("x")
    log.warning("the field %r, %s", HOSTILE, HOSTILE)
    log.warning(HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("failed of %s", HOSTILE)
    text = root.stream.getvalue()
    assert all(one.isprintable() or one == "\n" for one in text)
    assert not any(line.startswith("2026-01-01") for line in text.splitlines())
    assert text.count("\\u001b[31mred") >= 4
    if form is JsonFormatter:
        found = [json.loads(line) for line in text.splitlines()]
        assert [one["message"] for one in found[1:]] == [HOSTILE, f"failed of {HOSTILE}"]
        assert HOSTILE in found[2]["trace"]
    else:
        assert len(text.splitlines()[0]) > 100, "a message is one line"
