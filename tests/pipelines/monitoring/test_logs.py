import io
import json
import logging

import pytest

from streamboost.pipelines.monitoring.logs import AsJson, as_text, stamped


@pytest.fixture
def root():
    root, handler = logging.getLogger(), logging.StreamHandler(io.StringIO())
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


def lines(handler):
    return handler.stream.getvalue().splitlines()


def test_every_line_has_the_sequence_of_the_batch_whoever_logs(root):
    root.setFormatter(AsJson())
    log, batch = logging.getLogger("anything"), [7]
    log.warning("before")
    with stamped(lambda: batch[0]):
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


def test_a_json_line_is_one_line_whatever_it_says(root):
    root.setFormatter(AsJson())
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("x").exception('two\nlines "quoted"')
    (line,) = lines(root)
    assert json.loads(line)["message"] == 'two\nlines "quoted"'
    assert json.loads(line)["trace"].endswith("ValueError: a\nb")


def test_text_lines_have_the_sequence_too(root):
    root.setFormatter(as_text())
    with stamped(lambda: 12):
        logging.getLogger("x").warning("here")
    assert lines(root)[0].endswith("WARNING [12] here")


def test_each_line_of_one_of_several_says_whose_it_is(root):
    log = logging.getLogger("x")
    root.setFormatter(as_text("scorer 2"))
    log.warning("here\n\n  and there")
    root.setFormatter(AsJson("scorer 2"))
    log.warning("here")
    text, *more, as_json = lines(root)
    assert text.startswith("scorer 2 | 20")
    assert more == ["scorer 2 | ", "scorer 2 |   and there"]
    assert json.loads(as_json)["worker"] == "scorer 2"
    assert json.loads(as_json)["message"] == "here"
