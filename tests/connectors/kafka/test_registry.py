"""A schema registry client against the responses that the API documents.

`tests/pipelines/app/test_kafka_formats.py` uses a real registry.
"""

import base64
import json
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streamboost.connectors.kafka.formats.avro import AvroCodec
from streamboost.connectors.kafka.formats.decoding import describe_newest_schema
from streamboost.connectors.kafka.formats.registry import RegisteredSchema, Registry
from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka")

RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "a", "type": ["null", "double"]}],
}
ANSWERS = {
    "/schemas/ids/1": (200, {"schema": json.dumps(RECORD)}),
    "/schemas/ids/2": (404, {"error_code": 40403, "message": "Schema 2 not found"}),
    "/schemas/ids/3": (404, "no page of that name"),
    "/schemas/ids/4": (401, {"error_code": 401, "message": "Unauthorized"}),
    "/schemas/ids/5": (500, {"error_code": 50001, "message": "Error in the backend"}),
    "/schemas/ids/6": (200, "<html>"),
    "/schemas/ids/7": (
        200,
        {
            "schema": json.dumps({"type": "array", "items": "R"}),
            "references": [{"name": "R", "subject": "r", "version": 1}],
        },
    ),
    "/subjects/r/versions/1": (
        200,
        {"subject": "r", "id": 1, "version": 1, "schema": json.dumps(RECORD)},
    ),
    "/subjects/t-value/versions/latest": (
        200,
        {"subject": "t-value", "id": 1, "version": 3, "schema": json.dumps(RECORD)},
    ),
    "/subjects/u-value/versions/latest": (
        404,
        {"error_code": 40401, "message": "Subject not found"},
    ),
    "/schemas/ids/8": (
        200,
        {
            "schema": json.dumps(RECORD),
            "references": [{"name": "R", "subject": "round", "version": 1}],
        },
    ),
    "/subjects/round/versions/1": (
        200,
        {
            "subject": "round",
            "id": 9,
            "version": 1,
            "schema": json.dumps(RECORD),
            "references": [{"name": "R", "subject": "round", "version": 1}],
        },
    ),
}


@pytest.fixture
def answering():
    """A registry that gives the answers of the API's documentation, and who asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers.get("Authorization"))
            status, body = ANSWERS[self.path.partition("?")[0]]
            text = body if isinstance(body, str) else json.dumps(body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    registry = Registry(f"http://127.0.0.1:{server.server_port}", "me", "hunter2:x")
    yield registry, asked
    registry.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_a_registry_answers_is_a_schema_none_or_an_error_that_says_what_to_do(answering):
    registry, asked = answering
    assert registry.get_schema(1) == RegisteredSchema("AVRO", json.dumps(RECORD))
    assert asked == ["Basic " + base64.b64encode(b"me:hunter2:x").decode()]
    assert registry.get_schema(2) is None
    whole = registry.get_schema(7)
    assert (
        AvroCodec(whole.text, whole.named).decode(b"\x02\x02a\x00\x00") == b'[{"id":"a","a":null}]'
    )
    for id, kind, said in [
        (3, ConnectorError, "where Confluent's API begins"),
        (4, ConnectorError, "correct `username` and `password`"),
        (5, UnavailableError, "cannot be used now: 500"),
        (6, ConnectorError, "does not answer as Confluent's API does"),
        (8, ConnectorError, "refers to itself"),
    ]:
        with pytest.raises(ConnectorError, match=said) as caught:
            registry.get_schema(id)
        assert type(caught.value) is kind
        assert "hunter2" not in str(caught.value)


def test_a_registry_that_does_not_answer_may_do_so_later(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        registry = Registry(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(UnavailableError, match="cannot be reached"), closing(registry):
            registry.get_schema(1)
    with pytest.raises(ConfigurationError, match="in the PEM format"):
        Registry("https://a:1", ca=str(tmp_path / "none.pem")).get_schema(1)


def test_what_is_registered_of_a_topic_that_is_read_is_said(answering):
    registry, _ = answering
    assert describe_newest_schema(registry, "avro", "t") == "t-value has version 3: id, a"
    assert describe_newest_schema(registry, "avro", "u") == "u-value is not registered yet"
    with pytest.raises(ConnectorError, match=r"t-value version 3 is of AVRO, and the format is"):
        describe_newest_schema(registry, "json-schema", "t")
